//! What there is of an agent in this clone, the proof that it is the agent's, and what keeps it from going.

use crate::agents::context::untrusted::WorktreeView;
use crate::agents::context::{scratch, untrusted};
use crate::agents::work::recorded_tip;
use crate::agents::{Ctx, life::liveness, place::worktree, who::lookup};
use crate::domain::{Agent, Isolation, Oid, value::shell};
use crate::error::{Code, Error, IoContext, Remedy, Result};
use crate::git::changes::ignore::Rules;
use crate::git::files::admin_dir::belongs_to;
use crate::git::landing::unfinished;
use crate::git::uncommitted::WorktreeSource;
use crate::git::worktree::WorktreeCache;
use crate::git::worktree::own_repository::own_repository_in;
use crate::git::{Repo, Tip, WorktreeLayer};
use crate::ops::discard::DiscardOptions;
use crate::store::files::{fsx, layout};
use crate::store::{OwnBranch, RecordedPlaces, landing::spawn_commit};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// What an agent has left in this clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::ops) struct Remains {
    /// Its worktree or what is left of it.
    pub place: Option<Place>,
    /// Its branch.
    pub branch: Option<OwnBranch>,
    /// Where that is, or a copy of that commit without what is missing of it; `None` where no commit can be read there.
    pub tip: Option<Oid>,
    /// What the copy lacks, in sentences.
    pub losses: Vec<String>,
    /// The branch that its row names, where there is one and it is not proved to be the agent's. It stays.
    pub foreign_branch: Option<String>,
}

/// A worktree on its way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::ops) struct Place {
    /// Where it was made.
    pub path: PathBuf,
    /// Where its files are now: there, or where an interrupted discard put them; `None` when they are
    /// gone.
    pub files: Option<PathBuf>,
    /// Its admin directory.
    pub admin_dir: PathBuf,
}

impl Place {
    /// Where what the agent wrote is, if it is anywhere: of a layered worktree, not where its files seem to be.
    pub(in crate::ops) fn contents(&self) -> Option<PathBuf> {
        // The place of a layered worktree is a mount, below which nothing lies while no run is at
        // work.
        let layer = WorktreeLayer::of(&self.admin_dir).map(|layer| layer.upper);
        layer.or_else(|| self.files.clone())
    }

    /// The directory of its layer, or of what a killed command left of one.
    pub(in crate::ops) fn layer_dir(&self) -> Option<PathBuf> {
        WorktreeLayer::directory(&self.admin_dir).filter(|directory| directory.is_dir())
    }

    /// Refuses what has appeared where a layered worktree is, which no mount wrote and no look at the agent's work sees.
    fn require_bare(&self) -> Result<()> {
        let (Some(_), Some(files)) = (WorktreeLayer::of(&self.admin_dir), &self.files) else {
            return Ok(());
        };
        let mut names = untrusted::names(files);
        names.retain(|name| name != ".git");
        let Some(first) = names.first().map(|first| files.join(first)) else {
            return Ok(());
        };
        let shown = first.display();
        let (what, to_keep) = match names.len() {
            1 => (format!("{shown} was"), format!("mv {} <elsewhere>", shell::path(&first))),
            // A checkout by git outside of the mount leaves a whole tree, whose names no command line holds.
            count => (
                format!("{shown} and {} others beside it were", count - 1),
                format!(
                    "find {} -mindepth 1 -maxdepth 1 ! -name .git -exec mv -t <elsewhere> {{}} +",
                    shell::path(files)
                ),
            ),
        };
        Err(refused(format!("{what} written outside of the agent's mount"))
            .hint(format!("to keep it, run {to_keep}")))
    }

    /// The hidden name that the worktree bears on its way out.
    pub(in crate::ops) fn aside(&self) -> PathBuf {
        let name = self.admin_dir.file_name().unwrap_or_default();
        layout::aside(&self.path, &name.to_string_lossy())
    }
}

/// Every worktree of the repository, read once for many agents.
#[derive(Default)]
pub(in crate::ops) struct WorktreeSnapshot {
    linked: WorktreeCache,
    /// Where the main worktree is, and the branch that it is on or rebases.
    main: (PathBuf, Option<String>),
}

impl WorktreeSnapshot {
    /// Reads them.
    ///
    /// # Errors
    /// `io`.
    pub(in crate::ops) fn read(ctx: &Ctx) -> Result<WorktreeSnapshot> {
        let mut around = WorktreeSnapshot::default();
        around.refresh(ctx)?;
        Ok(around)
    }

    /// Reads what has changed.
    pub(super) fn refresh(&mut self, ctx: &Ctx) -> Result<()> {
        self.linked.refresh(&ctx.repo)?;
        self.main = (ctx.repo.root()?, ctx.repo.branch_of_main());
        Ok(())
    }
}

impl Remains {
    pub(super) fn look(ctx: &Ctx, agent: &Agent, around: &WorktreeSnapshot) -> Result<Remains> {
        if agent.isolation == Some(Isolation::Shared) {
            return Ok(Remains::default());
        }
        let branch = OwnBranch::of(&ctx.repo, agent)?;
        // A branch of that name that is not the agent's own is told of and left.
        let mut named = agent
            .branch
            .iter()
            .filter(|_| branch.is_none())
            .filter(|name| ctx.repo.tip(name).is_ok_and(|tip| tip != Tip::Absent));
        let (tip, losses) = tip_of(ctx, agent, branch.as_ref())?;
        let foreign_branch = named.next().cloned();
        let mut site = Remains { place: None, tip, losses, foreign_branch, branch };
        site.require_branch_free(agent, around)?;
        site.place = place_of(ctx, agent, &around.linked)?;
        if site.is_empty() && agent.state.is_open() && lookup::is_local(ctx, agent) {
            site.go_by_row(ctx, agent)?;
        }
        Ok(site)
    }

    /// Takes the last commit that the row names for the tip, where no ref and no reflog leads to the work any more.
    fn go_by_row(&mut self, ctx: &Ctx, agent: &Agent) -> Result<()> {
        self.tip = recorded_tip(ctx, agent)?;
        let id = agent.id.short();
        self.losses.push(match self.tip {
            Some(tip) => format!(
                "branch and worktree of agent {id} are gone; kept is {tip}, the last commit that its row names"
            ),
            None => format!(
                "branch and worktree of agent {id} are gone, and its row names no commit of its work; git fsck --lost-found may find some"
            ),
        });
        Ok(())
    }

    /// Makes sure that its branch is checked out nowhere else.
    pub(super) fn require_branch_free(
        &self,
        agent: &Agent,
        around: &WorktreeSnapshot,
    ) -> Result<()> {
        let name = self.branch.as_ref().map(OwnBranch::name);
        name.map_or(Ok(()), |name| require_not_elsewhere(agent, name, around))
    }

    /// Whether there is nothing left.
    pub(super) fn is_empty(&self) -> bool {
        self.branch.is_none() && self.place.is_none()
    }
}

/// The commit that a branch names, where that can be read, or what can be kept of it; and what that lacks, in sentences.
fn tip_of(
    ctx: &Ctx,
    agent: &Agent,
    branch: Option<&OwnBranch>,
) -> Result<(Option<Oid>, Vec<String>)> {
    let Some(oid) = branch.and_then(|own| own.tip().oid()) else {
        return Ok(Default::default());
    };
    // A clone that lacks objects may get them.
    if ctx.repo.read_commit(oid).is_err() && (ctx.repo.is_shallow() || ctx.repo.is_partial()) {
        ctx.repo.require_commit(oid)?;
    }
    // A tip that cannot be read cannot be kept, and must not be in the way of removing the rest.
    if ctx.repo.read_commit(oid).is_err() {
        return Ok(Default::default());
    }
    let base = agent.base.as_ref();
    let target = base.and_then(|base| ctx.repo.tip(base.refname.as_ref()?).ok()?.oid());
    let known = [Some(agent.spawn_commit), base.map(|base| base.oid), target];
    let kept = ctx.repo.keepable([oid], &known.into_iter().flatten().collect())?;
    Ok((kept.commits().first().copied(), kept.losses()))
}

/// The sentence for agents that landed on this one's branch, whose work no other branch has; their rows go on to say `merged`.
pub(super) fn goes_along(ctx: &Ctx, agent: &Agent, tip: Oid) -> Option<String> {
    if !agent.state.is_open() {
        return None;
    }
    let base = agent.base.as_ref()?;
    let target = base.refname.as_ref().and_then(|name| ctx.repo.tip(name).ok()?.oid());
    let hidden: Vec<Oid> = [agent.spawn_commit, base.oid].into_iter().chain(target).collect();
    let branch = agent.branch.as_deref()?;
    // What cannot be walked is kept all the same.
    let landed = ctx.ledger().landed_between(&hidden, tip, branch).ok()?;
    let ids: Vec<String> = landed.iter().map(|agent| agent.id.short()).collect();
    let ids = ids.join(", ");
    let id = agent.id.short();
    (!ids.is_empty()).then(|| {
        format!("what landed on its branch goes with it and is kept as its work: {ids}; to land that elsewhere, run git agent rescue {id} --reopen first")
    })
}

/// Deleting a branch that another worktree has checked out would leave that one unborn.
fn require_not_elsewhere(agent: &Agent, branch: &str, around: &WorktreeSnapshot) -> Result<()> {
    let own = layout::worktree_name(agent.id);
    let (root, on) = &around.main;
    let main = (on.as_deref() == Some(branch)).then_some(root);
    let linked = around.linked.of_branch(branch).filter(|worktree| worktree.name != own);
    let mut elsewhere = main.into_iter().chain(linked.map(|worktree| &worktree.path));
    match elsewhere.next() {
        None => Ok(()),
        Some(path) => {
            let word = shell::path(path);
            let path = path.display();
            Err(refused(format!("{branch} is checked out at {path}"))
                .hint(format!("to leave it, run git -C {word} switch --detach"))
                .hint(format!(
                    "to see how to end a rebase or a bisection there, run git -C {word} status"
                )))
        }
    }
}

fn place_of(ctx: &Ctx, agent: &Agent, worktrees: &WorktreeCache) -> Result<Option<Place>> {
    worktree::require_linked(&ctx.repo, agent.id, Code::DiscardRefused)?;
    let name = layout::worktree_name(agent.id);
    let recorded = RecordedPlaces::new(&ctx.repo)?.of(agent);
    let linked = || ctx.repo.worktree(&name).map(|worktree| worktree.path);
    // The recorded place comes first: where git says another one, a person has moved the worktree,
    // and `require_unprotected` has to see both.
    let Some(path) = recorded.or_else(linked) else {
        return Ok(None);
    };
    let mut place = Place { path, files: None, admin_dir: ctx.repo.admin_dir(&name) };
    let files = files_of(&place, linked().as_deref());
    place.files = match files {
        // While it is made an ordinary worktree it is there twice for a moment.
        Err(error) if error.code() == Code::DiscardRefused => {
            let _alone = liveness::lock_at_once(ctx, agent)?;
            files_of(&place, linked().as_deref())?
        }
        files => files?,
    };
    if place.files.is_none() && fs::symlink_metadata(&place.admin_dir).is_err() {
        return Ok(None);
    }
    place.require_bare()?;
    require_unprotected(ctx, agent, &place, worktrees)?;
    Ok(Some(place))
}

/// Whether a directory's `.git` file leads nowhere at all, because it is gone or garbled, while the admin directory
/// still says that this is its worktree.
fn is_unclaimed(files: &Path, place: &Place, linked: Option<&Path>) -> bool {
    let is_directory =
        fs::symlink_metadata(files.join(".git")).is_ok_and(|metadata| metadata.is_dir());
    let pointer = untrusted::text(files, ".git");
    let leads = pointer.is_some_and(|text| text.starts_with("gitdir: "));
    // git says that the worktree is here, and what should lead back was overwritten.
    !is_directory && !leads && linked == Some(&place.path)
}

/// Finds the files under one of the two names, and proves that they are the agent's.
///
/// # Errors
/// `discard-refused`, `worktree-foreign`.
fn files_of(place: &Place, linked: Option<&Path>) -> Result<Option<PathBuf>> {
    let mut found = None;
    // A discard that was killed left it under the hidden name.
    for path in [place.aside(), place.path.clone()] {
        let Ok(metadata) = fs::symlink_metadata(&path) else {
            continue;
        };
        let (shown, word) = (path.display(), shell::path(&path));
        // A row names this path. Through a symlink on the way another directory would be removed.
        if let Some(link) = path.ancestors().find(|place| place.is_symlink()) {
            let error =
                refused(format!("{shown} is reached through a symlink, {}", link.display()));
            if link == path {
                return Err(error.remedy("to see what can be done", Remedy::Examine));
            }
            let target = fs::canonicalize(link).at("could not resolve", link)?;
            let (word, target) = (shell::path(link), shell::path(&target));
            return Err(error.hint(format!(
                "to move back what it leads to, run rm {word} && mv {target} {word}"
            )));
        }
        if !metadata.is_dir() {
            return Err(refused(format!("{shown} is not the directory that was made there"))
                .hint(format!("to see what it is, run ls -ld {word}")));
        }
        if !belongs_to(&path, &place.admin_dir) && !is_unclaimed(&path, place, linked) {
            let what = format!("{shown} does not say that it is this agent's worktree");
            return Err(Error::new(Code::WorktreeForeign, what)
                .hint(format!("to see whose it is, run cat {word}/.git"))
                .remedy("to find out what became of the agent's", Remedy::Examine));
        }
        if let Some(other) = found.replace(path.clone()) {
            return Err(refused(format!(
                "the worktree is there twice: {shown} and {}",
                other.display()
            ))
            .hint(format!("to keep one of them, run mv {word} <elsewhere>")));
        }
    }
    Ok(found)
}

// Every reason not to remove a worktree that is the agent's.

/// Checks that the worktree is not locked, in use or protected.
fn require_unprotected(
    ctx: &Ctx,
    agent: &Agent,
    place: &Place,
    worktrees: &WorktreeCache,
) -> Result<()> {
    let path = &place.path;
    let (shown, word) = (path.display(), shell::path(path));
    let root = ctx.repo.root()?;
    if root.starts_with(path) || ctx.repo.common_dir().starts_with(path) {
        return Err(refused(format!("{shown} holds the main worktree"))
            .hint("to see the worktrees, run git worktree list"));
    }
    // The caller's shell would stand in a directory that is gone.
    if ctx.env.directory.starts_with(path) {
        return Err(refused(format!("this command was started inside {shown}"))
            .hint(format!("to leave it, run cd {}", shell::path(&root))));
    }
    let own_name = layout::worktree_name(agent.id);
    for worktree in worktrees.worktrees() {
        let own = worktree.name == own_name;
        // An admin directory that names a place where no worktree of its own is says nothing.
        if own && worktree.path != *path && belongs_to(&worktree.path, &place.admin_dir) {
            let now = worktree.path.display();
            let error = refused(format!("the worktree was moved from {shown} to {now}"));
            let now = shell::path(&worktree.path);
            // Git would move it into a directory that is there.
            let error = match fs::symlink_metadata(path) {
                Ok(_) => error.hint(format!(
                    "to make room for it where something else is now, run mv {word} <elsewhere>"
                )),
                Err(_) => error,
            };
            // Git makes no directory above it.
            let above = path.parent().filter(|above| !above.exists());
            let make = above.map(|above| format!("mkdir -p {} && ", shell::path(above)));
            let make = make.unwrap_or_default();
            return Err(error
                .hint(format!("to move it back, run {make}git worktree move -f -f {now} {word}")));
        }
        // What is inside would go with it without having been looked at.
        if !own && worktree.path.starts_with(path) {
            let inner = shell::path(&worktree.path);
            let remove = match layout::agent_of_worktree(&worktree.name) {
                Some(other) => format!("git agent discard {other}"),
                None => format!("{}git worktree remove {inner}", keep_head(ctx, &worktree.name)?),
            };
            return Err(refused(format!("{shown} has another worktree in it, {inner}"))
                .hint(format!("to remove that one, run {remove}")));
        }
        let ours = layout::lock_reason(agent.id);
        if let (true, Some(reason)) = (own, &worktree.lock_reason)
            // A person has locked it, and has a reason.
            && *reason != ours
        {
            return Err(refused(format!("{shown} is locked: {reason}"))
                .hint(format!("to take the lock away, run git worktree unlock {word}")));
        }
    }
    if let Some(files) = &place.files {
        require_no_linked(files)?;
        fsx::require_unmounted(files, Code::DiscardRefused)?;
    }
    require_finished(place)
}

/// What gives a branch to the commit that HEAD of a worktree is at, if none has it: git removes such a worktree without a word, and
/// nothing leads to that commit any more.
fn keep_head(ctx: &Ctx, worktree: &str) -> Result<String> {
    let head = untrusted::text(&ctx.repo.admin_dir(worktree), "HEAD").unwrap_or_default();
    Ok(match Oid::from_hex(head.trim_end()) {
        Some(oid) if ctx.repo.has_object(oid) && ctx.repo.refs_holding(oid)?.is_empty() => {
            format!("git branch kept-{} {oid} && ", oid.short())
        }
        _ => String::new(),
    })
}

/// Refuses a worktree whose own repository has worktrees elsewhere: they would lose it, and with it what is staged in them.
fn require_no_linked(files: &Path) -> Result<()> {
    let Some(own) = own_repository_in(files) else {
        return Ok(());
    };
    let linked = own.join("worktrees");
    let is_there = |name: &OsString| {
        let pointer = untrusted::text(&linked.join(name), "gitdir");
        pointer.is_some_and(|pointer| Path::new(pointer.trim_end()).exists())
    };
    let Some(name) = untrusted::names(&linked).into_iter().find(is_there) else {
        return Ok(());
    };
    let (shown, word, name) = (files.display(), shell::path(files), name.to_string_lossy());
    Err(refused(format!("the repository in {shown} has a worktree of its own, {name}"))
        .hint(format!("to see where it is, run git -C {word} worktree list"))
        .hint("to take it away, run git worktree remove there"))
}

fn require_finished(place: &Place) -> Result<()> {
    let found = unfinished(&place.admin_dir);
    let Some(unfinished) = found.first() else {
        return Ok(());
    };
    let git = |words: String| {
        let place = WorktreeLayer::git_place(&place.path, &place.admin_dir);
        Remedy::GitIn(place, vec![words])
    };
    let what = unfinished.what;
    let (shown, named) = (place.path.display(), unfinished.named());
    let mut error = refused(format!("{shown} is in the middle of {named}"));
    if !unfinished.is_broken {
        error = error.remedy("to finish it", git(format!("{what} --continue")));
    }
    Err(error.remedy("to give it up", git(unfinished.give_up())))
}

pub(super) fn refused(message: String) -> Error {
    Error::new(Code::DiscardRefused, message)
}

// What it takes to read the worktree of an agent that is to go.

/// What it takes to read a worktree: the rules that bind, and room for a copy of its index.
pub(super) struct Reading {
    settings: Repo,
    view: WorktreeView,
    rules: Rules,
    bundle_dir: Option<String>,
    sparse: bool,
    index: PathBuf,
    /// Where the files are; an empty directory stands in for those that are gone.
    contents: PathBuf,
    _scratch: OwnFiles,
}

impl Reading {
    pub(super) fn begin(
        ctx: &Ctx,
        agent: &Agent,
        place: &Place,
        options: DiscardOptions,
    ) -> Result<Reading> {
        let bundle_dir = bundle_dir(ctx, agent)?;
        let mut rules = ctx.ignore_rules()?.without(bundle_dir.as_deref());
        if options.with_ignored {
            rules = rules.with_ignored();
        }
        // With the settings of that worktree, which say what git would have made of its files.
        let settings = Repo::open_git_dir(&place.admin_dir)?;
        // Beside others of its kind: two discards may be at work.
        let scratch = OwnFiles(fsx::unique_name(&scratch::directory(ctx).join("salvage")));
        let empty = scratch.0.join("empty");
        fs::create_dir_all(&empty).at("could not make", &empty)?;
        let contents = place.contents().unwrap_or_else(|| empty.clone());
        let view = WorktreeView::make(&settings, &place.admin_dir, &contents, &scratch.0)?;
        Ok(Reading {
            view,
            sparse: settings.config_bool("core.sparseCheckout")? == Some(true),
            index: scratch.0.join("index"),
            settings,
            rules,
            bundle_dir,
            contents,
            _scratch: scratch,
        })
    }

    pub(super) fn source<'a>(&'a self, place: &'a Place, tip: Oid) -> WorktreeSource<'a> {
        WorktreeSource {
            repo: &self.settings,
            worktree: &self.contents,
            admin_dir: &place.admin_dir,
            view: &self.view,
            tip,
            // What was only staged is nowhere on disk, and is kept as well.
            staged: true,
            sparse: self.sparse,
            rules: &self.rules,
            names_ignored: false,
            index: &self.index,
        }
    }

    /// The bundle's directory in the worktree, where it is one.
    pub(super) fn bundle(&self, source: &WorktreeSource<'_>) -> Option<&Path> {
        let inside = self.bundle_dir.as_deref()?;
        real_directory(source.worktree, inside).map(|_| Path::new(inside))
    }
}

/// Where the agent's bundle is in its worktree, if anywhere.
pub(super) fn bundle_dir(ctx: &Ctx, agent: &Agent) -> Result<Option<String>> {
    // No amendment moves it, and one that is not here must not be in the way.
    Ok(spawn_commit::at_spawn(&ctx.repo, agent)?.and_then(|policy| policy.bundle_dir))
}

/// The bundle's directory, unless a symlink stands in for a part of the way.
pub(super) fn real_directory(top: &Path, inside: &str) -> Option<PathBuf> {
    let mut path = top.to_owned();
    for part in inside.split('/') {
        path.push(part);
        // By a link on the way another directory would be taken for the bundle.
        if !fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_dir()) {
            return None;
        }
    }
    Some(path)
}

/// A directory of files that go when it does.
pub(super) struct OwnFiles(pub(super) PathBuf);

impl Drop for OwnFiles {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
