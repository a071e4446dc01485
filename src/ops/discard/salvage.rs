//! Takes everything of a site that no ref will name any more, and keeps it.

use crate::agents::context::untrusted::gitlinks;
use crate::agents::context::{scratch, untrusted};
use crate::agents::{Ctx, who::lookup, work, work::bundle};
use crate::domain::{Agent, AgentId, Event, Oid, What};
use crate::error::{Code, IoContext, Result};
use crate::git::files::admin_dir::MODULES;
use crate::git::history::ancestry::Keepable;
use crate::git::uncommitted::salvage::{
    AS_THEY_ARE, FilesAsTheyAre, TOO_DEEP, beside, write_admin, write_bundle,
    write_files_as_they_are, write_work,
};
use crate::git::uncommitted::{SeenWorktree, Trees};
use crate::git::{Commit, uncommitted};
use crate::ops::discard::gate::{OwnFiles, Place, Reading, Remains, bundle_dir, real_directory};
use crate::ops::discard::{DiscardOptions, NotKept, tip_of};
use crate::store::OwnBranch;
use crate::store::chain::keep::Keeping;
use crate::store::files::{fsx, large_files, layout};
use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

/// What was found, as commits.
#[derive(Debug, Default)]
pub(super) struct Salvage {
    /// What was staged, modified or untracked.
    pub work: Option<Oid>,
    /// All of it where HEAD is not on the branch, and it conflicts with what is there; one of the leftovers.
    apart: Option<Oid>,
    /// The bundle.
    pub bundle: Option<Oid>,
    /// Commits that only reflogs and the like still name.
    pub leftovers: Vec<Oid>,
    /// The files that are not in it.
    pub not_kept: NotKept,
    /// What is kept at another place than its own.
    pub warning: Option<String>,
    /// What the leftovers lack, in sentences.
    pub losses: Vec<String>,
    /// What the work was made of, where that can be told from what is there later.
    seen: Option<Seen>,
}

/// What was seen of a worktree.
#[derive(Debug)]
struct Seen {
    fingerprint: SeenWorktree,
    ignored: BTreeSet<Vec<u8>>,
}

impl Seen {
    /// Whether another look would find the same work.
    fn is_current(&self, place: &Place, bundle_dir: Option<&str>, all: bool) -> Result<bool> {
        let Some(files) = &place.files else {
            return Ok(false);
        };
        let ignored = &self.ignored;
        self.fingerprint.is_current(files, &place.admin_dir, bundle_dir, ignored, all)
    }
}

/// The files of a site that would not be kept; writes nothing that stays.
pub(super) fn not_kept(
    ctx: &Ctx,
    agent: &Agent,
    site: &Remains,
    options: DiscardOptions,
) -> Result<NotKept> {
    let Some(place) = site.place.as_ref().filter(|place| place.contents().is_some()) else {
        return Ok(NotKept::default());
    };
    let tip = tip_of(agent, site);
    match not_kept_by_git(ctx, agent, place, tip, options) {
        Err(error) if untrusted::is_of_an_agent(&error) => {
            let tip = ctx.repo.read_commit(tip)?;
            keep_broken(ctx, agent, place, options, &tip).map(|kept| kept.not_kept)
        }
        answer => answer,
    }
}

fn not_kept_by_git(
    ctx: &Ctx,
    agent: &Agent,
    place: &Place,
    tip: Oid,
    options: DiscardOptions,
) -> Result<NotKept> {
    let reading = Reading::begin(ctx, agent, place, options)?;
    let source = reading.source(place, tip);
    let mut setup = Vec::new();
    let mut seen = None;
    if agent.baseline.is_some() {
        let tip = ctx.repo.read_commit(source.tip)?;
        let (mut found, fingerprint) = uncommitted::write_trees(&source)?;
        setup = leave_out_setup(ctx, agent, options, &tip, &mut found);
        seen = fingerprint;
    } else {
        // Without a baseline no contents are compared, and the index is enough to tell what git
        // ignores.
        uncommitted::copy_index(&source)?;
    }
    let walked = seen.as_ref().and_then(SeenWorktree::walked);
    let mut beside = beside(&source, reading.bundle(&source), walked)?;
    if agent.baseline.is_none() {
        retain_in_repositories(&mut beside.missed, source.worktree);
    }
    beside.require_keepable(&source)?;
    Ok(NotKept::new(&beside.all_ignored(source.worktree), &setup, &[]))
}

/// Keeps of the files that are in no index those in a repository inside the worktree, which no tree can hold; the others are new.
fn retain_in_repositories(missed: &mut Vec<PathBuf>, top: &Path) {
    let inside = |path: &Path| {
        let above = path.ancestors().take_while(|above| above.starts_with(top));
        above.map(Path::to_owned).collect::<Vec<_>>()
    };
    let repository = |path: &PathBuf| {
        let git_dir = inside(path).into_iter().find(|above| above.ends_with(".git"))?;
        git_dir.parent().map(Path::to_owned)
    };
    let repositories: HashSet<PathBuf> = missed.iter().filter_map(repository).collect();
    missed.retain(|path| inside(path).iter().any(|above| repositories.contains(above)));
}

impl Salvage {
    /// Reads everything and writes objects; no ref yet. Of the worktree only what has changed since an `earlier` salvage
    /// is read again, as far as that can be told; with `true`, every file is looked at for that.
    pub(super) fn take(
        ctx: &Ctx,
        agent: &Agent,
        site: &Remains,
        options: DiscardOptions,
        earlier: Option<(&Salvage, bool)>,
    ) -> Result<Salvage> {
        let mut salvage = Salvage::default();
        if site.place.is_none() && !lookup::is_local(ctx, agent) {
            // Its files are in another clone, and what binds it may be there as well.
            salvage.take_leftovers(&of_branch(ctx, site)?);
            return Ok(salvage);
        }
        let bundle_dir = bundle_dir(ctx, agent)?;
        let tip = ctx.repo.read_commit(tip_of(agent, site))?;
        if let Some(place) = &site.place {
            let branch = site.branch.as_ref().map(OwnBranch::name);
            let leftovers = ctx.repo.leftover_commits(&place.admin_dir, branch, tip.oid)?;
            salvage.take_leftovers(&leftovers);
            let known = earlier.filter(|(salvage, all)| {
                let seen = salvage.seen.as_ref();
                let is = seen.map(|seen| seen.is_current(place, bundle_dir.as_deref(), *all));
                // A worktree that cannot be compared is read again.
                is.is_some_and(|is| is.unwrap_or(false))
            });
            let found = match known {
                Some((known, _)) => Ok(Some(UncommittedWork::of(known))),
                None => Reading::begin(ctx, agent, place, options)
                    .and_then(|reading| work(ctx, agent, place, options, &tip, &reading)),
            };
            let (found, cause) = match found {
                Err(error) if untrusted::is_of_an_agent(&error) => (None, Some(error)),
                found => (found?, None),
            };
            if let Some(found) = found {
                (salvage.work, salvage.apart) = (found.commit, found.apart);
                salvage.leftovers.extend(found.apart);
                salvage.warning = found.apart.map(|commit| {
                    format!(
                        "HEAD is not on the agent's branch, and what is not committed conflicts with that: all of it is kept as commit {}, and of the files that conflict rescue brings none",
                        commit.short()
                    )
                });
                salvage.not_kept = found.not_kept;
                salvage.seen = found.seen;
            } else {
                let kept = keep_broken(ctx, agent, place, options, &tip)?;
                salvage.leftovers.extend(kept.admin);
                (salvage.work, salvage.not_kept) = (kept.work, kept.not_kept);
                let cause = cause.filter(|error| error.code() == Code::LayerInvalid);
                salvage.warning = kept.warning.or(cause.map(|error| {
                    format!("{error}: of the base, only what is staged and the files of its commit are kept")
                }));
            }
        } else {
            salvage.take_leftovers(&of_branch(ctx, site)?);
        }
        salvage.bundle = keep_bundle(ctx, agent, site, &tip)?;
        Ok(salvage)
    }

    fn take_leftovers(&mut self, found: &Keepable) {
        (self.leftovers, self.losses) = (found.commits(), found.losses());
    }

    /// What it holds.
    pub(super) fn commits(&self) -> Vec<Oid> {
        let found = [self.work, self.bundle].into_iter().flatten();
        found.chain(self.leftovers.iter().copied()).collect()
    }

    /// Whether there is work in it, and not only a bundle.
    pub(super) fn holds_work(&self) -> bool {
        self.work.is_some() || !self.leftovers.is_empty()
    }

    /// The link that keeps the tip and everything found; `None` where there is nothing but what the agent began with.
    pub(super) fn keeping(&self, agent: &Agent, site: &Remains) -> Option<Keeping> {
        let mut commits: Vec<Oid> = site.tip.into_iter().chain(self.commits()).collect();
        // The keep chain has held the spawn commit since the spawn.
        commits.retain(|commit| *commit != agent.spawn_commit);
        (!commits.is_empty()).then(|| (commits, format!("discard {}", agent.id)))
    }

    /// The events that name what was found; none where they are the last that the agent's row says of that, as for a discard that goes
    /// on after a kill.
    pub(super) fn untold(&self, ctx: &Ctx, agent: &Agent) -> Result<Vec<What>> {
        let found = [self.bundle, self.work].into_iter().flatten();
        let found: Vec<What> = found.map(|commit| What::Salvaged { commit }).collect();
        if found.is_empty() {
            return Ok(found);
        }
        let events = ctx.ledger().own_events(agent.spawn_commit)?;
        // The newest counts for those who give work back, so what was kept before something else was is said anew.
        let told = since_here(&events).filter(|what| matches!(what, What::Salvaged { .. }));
        let is_told = told.take(found.len()).eq(found.iter().rev());
        Ok(if is_told { Vec::new() } else { found })
    }
}

/// Writes the bundle as objects, where there is one; no ref moves.
///
/// # Errors
/// `discard-refused` for what no tree can hold; `io`, `disk-full`.
pub(super) fn keep_bundle(
    ctx: &Ctx,
    agent: &Agent,
    site: &Remains,
    tip: &Commit,
) -> Result<Option<Oid>> {
    let files = site.place.as_ref().and_then(Place::contents);
    let inside = bundle_dir(ctx, agent)?.zip(files);
    let own = inside.and_then(|(inside, files)| real_directory(&files, &inside));
    match own.or(bundle::of_shared(ctx, agent)?) {
        Some(bundle) => write_bundle(&ctx.repo, tip, &bundle, &format!("Agent-Id: {}", agent.id)),
        None => Ok(None),
    }
}

/// What a row says since its agent was last at its places, the newest first: a discard that goes on after a kill finds there what it
/// said, and nothing that an earlier one did.
pub(super) fn since_here(events: &[Event]) -> impl Iterator<Item = &What> {
    let is_here = |what: &&What| {
        what.brings_back() || matches!(what, What::Undone { .. } | What::Merged { .. })
    };
    events.iter().rev().map(|event| &event.what).take_while(move |what| !is_here(what))
}

/// The commits that only the reflog of a branch without a worktree names.
fn of_branch(ctx: &Ctx, site: &Remains) -> Result<Keepable> {
    let (Some(branch), Some(tip)) = (&site.branch, site.tip) else {
        return Ok(Keepable::default());
    };
    // There is no admin directory; a path at which nothing is stands in for it.
    let nothing = layout::tmp_dir(ctx.repo.common_dir()).join("none");
    ctx.repo.leftover_commits(&nothing, Some(branch.name()), tip)
}

/// The uncommitted work.
struct UncommittedWork {
    /// Its commit; `None` where all is committed.
    commit: Option<Oid>,
    /// All of it where not all has a place on the branch.
    apart: Option<Oid>,
    /// The files that are not in it.
    not_kept: NotKept,
    seen: Option<Seen>,
}

impl UncommittedWork {
    fn new(commit: Option<Oid>, not_kept: NotKept) -> UncommittedWork {
        UncommittedWork { commit, apart: None, not_kept, seen: None }
    }

    /// What an earlier salvage holds of it.
    fn of(known: &Salvage) -> UncommittedWork {
        let not_kept = known.not_kept.clone();
        UncommittedWork { apart: known.apart, ..UncommittedWork::new(known.work, not_kept) }
    }
}

/// Makes a commit of the uncommitted work; `None` where the index has more of a path than one tree can hold, or names what is missing.
fn work(
    ctx: &Ctx,
    agent: &Agent,
    place: &Place,
    options: DiscardOptions,
    tip: &Commit,
    reading: &Reading,
) -> Result<Option<UncommittedWork>> {
    let source = reading.source(place, tip.oid);
    let (mut found, fingerprint) = uncommitted::write_trees(&source)?;
    // An index with conflicts makes no tree, so the files are kept as they are.
    if !found.unmerged.is_empty() {
        return Ok(None);
    }
    let head = head_of(ctx, agent, place, tip)?;
    if place.contents().is_none() {
        // The files were removed. What is staged is in the index, and nowhere else.
        let staged = found.staged.unwrap_or(head.tree);
        if let Some(known) = salvaged_as(ctx, agent, staged)? {
            return Ok(Some(UncommittedWork::new(Some(known), NotKept::default())));
        }
        found.tree = staged;
        return keep_found(ctx, agent, &found, (&head, tip));
    }
    let beside = beside(
        &source,
        reading.bundle(&source),
        fingerprint.as_ref().and_then(SeenWorktree::walked),
    )?;
    beside.require_keepable(&source)?;
    let setup = leave_out_setup(ctx, agent, options, &head, &mut found);
    let Some(work) = keep_found(ctx, agent, &found, (&head, tip))? else {
        return Ok(None);
    };
    let not_kept = NotKept::new(&beside.all_ignored(source.worktree), &setup, &[]);
    let ignored = beside.ignored;
    let seen = fingerprint.map(|fingerprint| Seen { fingerprint, ignored });
    Ok(Some(UncommittedWork { not_kept, seen, ..work }))
}

/// Writes what was found as a commit upon the branch's tip, and upon HEAD where not all of it has a place there; `None` where it is not whole.
fn keep_found(
    ctx: &Ctx,
    agent: &Agent,
    found: &Trees,
    (head, tip): (&Commit, &Commit),
) -> Result<Option<UncommittedWork>> {
    let whose = format!("Agent-Id: {}", agent.id);
    let (upon, is_all) = upon_branch(ctx, found, head, tip)?;
    let commit = write_work(&ctx.repo, tip, &upon, &whose)?;
    let apart = if is_all { None } else { write_work(&ctx.repo, head, found, &whose)? };
    let is_whole = is_whole(ctx, commit, tip)? && is_whole(ctx, apart, head)?;
    let work = UncommittedWork { apart, ..UncommittedWork::new(commit, NotKept::default()) };
    Ok(is_whole.then_some(work))
}

/// The commit that the files of a worktree are compared with: the branch's tip, but for a HEAD that a checkout or a rebase has left
/// elsewhere.
fn head_of(ctx: &Ctx, agent: &Agent, place: &Place, tip: &Commit) -> Result<Commit> {
    let text = untrusted::text(&place.admin_dir, "HEAD").unwrap_or_default();
    // Where the branch is not proved to be the agent's, something else stands for its tip.
    let is_on_branch = text.trim_end().strip_prefix("ref: ") == agent.branch.as_deref();
    let head = if is_on_branch { None } else { ctx.repo.commit_at(&place.admin_dir)? };
    match head.filter(|oid| *oid != tip.oid && ctx.repo.has_object(*oid)) {
        Some(head) => ctx.repo.read_commit(head),
        None => Ok(tip.clone()),
    }
}

/// What is not committed upon `head`, as changes of the branch's tip, and whether it is all of that: a worktree that comes back has the
/// branch checked out, and the files of another commit would look there like work that takes the branch's own commits back. Where it
/// conflicts with those, what they leave alone is taken.
fn upon_branch(ctx: &Ctx, found: &Trees, head: &Commit, tip: &Commit) -> Result<(Trees, bool)> {
    if head.oid == tip.oid {
        return Ok((found.clone(), true));
    }
    let repo = &ctx.repo;
    let mut is_all = true;
    let mut upon = |tree: Oid| -> Result<Oid> {
        if tree == head.tree {
            return Ok(tip.tree);
        }
        if let Some(merged) = work::merged_trees(repo, head.tree, [tip.tree, tree])? {
            return Ok(merged);
        }
        is_all = false;
        let of_branch: BTreeSet<_> = repo.changed_paths(head.tree, tip.tree)?;
        let mut changes = repo.differences(head.tree, tree)?;
        changes.retain(|change| !of_branch.contains(&change.path));
        Ok(repo.tree_after(tip.tree, &changes)?.unwrap_or(tip.tree))
    };
    let staged = found.staged.map(&mut upon).transpose()?;
    let tree = upon(found.tree)?;
    Ok((Trees { staged, tree, unmerged: Vec::new() }, is_all))
}

/// Whether all that a commit has more than the tip is here: git takes a file that has not changed for what the index names, whether
/// that is there or not.
fn is_whole(ctx: &Ctx, commit: Option<Oid>, tip: &Commit) -> Result<bool> {
    let Some(commit) = commit.filter(|_| !ctx.repo.is_partial()) else {
        return Ok(true);
    };
    // Only what changed is looked at; git would read every tree that the tip has as well.
    Ok(!ctx.repo.keepable([commit], &HashSet::from([tip.oid]))?.whole.is_empty())
}

/// Takes what is as setup left it out of the work, unless everything is wanted; gives the paths. Where that cannot be
/// told, all of it is kept.
fn leave_out_setup(
    ctx: &Ctx,
    agent: &Agent,
    options: DiscardOptions,
    tip: &Commit,
    found: &mut Trees,
) -> Vec<Vec<u8>> {
    // Who wants everything gets what set-up made, too.
    if options.with_ignored || agent.baseline.is_none() {
        return Vec::new();
    }
    let staged = found.staged.unwrap_or(tip.tree);
    let staged = ctx.repo.tree_changes(&[tip.tree], staged);
    // What an editor left is no work, and is kept all the same: it may hold what a person wrote last.
    let rest = staged
        .and_then(|staged| work::without(&ctx.repo, agent, tip.tree, found.tree, &staged, true));
    match rest {
        Ok(rest) => {
            found.tree = rest.tree;
            rest.from_setup.unwrap_or_default()
        }
        // What cannot be told apart is kept as work.
        Err(_) => Vec::new(),
    }
}

/// The salvage in the agent's row that holds this tree, as its worktree or as its index.
fn salvaged_as(ctx: &Ctx, agent: &Agent, tree: Oid) -> Result<Option<Oid>> {
    for event in ctx.ledger().own_events(agent.spawn_commit)? {
        let What::Salvaged { commit } = event.what else {
            continue;
        };
        // One that has expired holds nothing.
        let Ok(commit) = ctx.repo.read_commit(commit) else {
            continue;
        };
        // As in a stash of git's, the second parent holds what was staged.
        let index = match commit.parents.get(1) {
            Some(index) => Some(ctx.repo.tree_of(*index)?),
            None => None,
        };
        if commit.tree == tree || index == Some(tree) {
            return Ok(Some(commit.oid));
        }
    }
    Ok(None)
}

// What is kept of an agent whose worktree, admin directory or branch cannot be read: every file as it is, and what
// its admin directory holds.

/// What was kept of a worktree that git cannot read.
#[derive(Debug, Default)]
struct KeptAsItIs {
    /// Its files, where they differ from the tip.
    pub work: Option<Oid>,
    /// Its admin directory.
    pub admin: Option<Oid>,
    /// What is not kept.
    pub not_kept: NotKept,
    /// What is kept at another place than its own.
    pub warning: Option<String>,
}

/// Writes all of it as objects; no ref moves.
///
/// # Errors
/// `discard-refused` for files that no tree can hold; `io`, `disk-full`.
fn keep_broken(
    ctx: &Ctx,
    agent: &Agent,
    place: &Place,
    options: DiscardOptions,
    tip: &Commit,
) -> Result<KeptAsItIs> {
    let mut rules = ctx.ignore_rules()?.without(bundle_dir(ctx, agent)?.as_deref());
    if options.with_ignored {
        rules = rules.with_ignored();
    }
    let scratch = OwnFiles(fsx::unique_name(&scratch::directory(ctx).join("broken")));
    fs::create_dir_all(&scratch.0).at("could not make", &scratch.0)?;
    let index = scratch.0.join("index");
    let whose = format!("Agent-Id: {}", agent.id);
    let mut kept = KeptAsItIs {
        admin: write_admin(&ctx.repo, tip, &place.admin_dir, &index, &whose)?,
        ..KeptAsItIs::default()
    };
    if let Some(files) = &place.contents() {
        let raw = write_files_as_they_are(&ctx.repo, tip, files, &rules, &index)?;
        let FilesAsTheyAre { tree, ignored, special, too_deep } = raw;
        let mut found =
            Trees { staged: None, tree: tree.unwrap_or(Oid::EMPTY_TREE), unmerged: Vec::new() };
        // What is staged may be in the index alone.
        let index = place.admin_dir.join("index");
        found.staged = uncommitted::staged_tree(&ctx.repo, &index).unwrap_or_default();
        let whose = format!("{whose}\n{AS_THEY_ARE}");
        kept.work = write_work(&ctx.repo, tip, &found, &whose)?;
        if !is_whole(ctx, kept.work, tip)? {
            found.staged = None;
            kept.work = write_work(&ctx.repo, tip, &found, &whose)?;
        }
        kept.not_kept = NotKept::new(&ignored, &[], &special);
        kept.warning = (!too_deep.is_empty()).then(|| {
            let directories = too_deep.len();
            format!("paths are longer than git can write: what they lead to is kept in {TOO_DEEP} ({directories} of them), each beside a file with its path")
        });
    }
    Ok(kept)
}

/// Sets the repositories of its submodules aside where they have commits that are nowhere else; gives a sentence about it. `git_dir`
/// has them: the worktree's admin directory, or the repository that the worktree has of its own.
pub(super) fn keep_submodules(ctx: &Ctx, id: AgentId, git_dir: &Path) -> Result<Option<String>> {
    if !gitlinks::have_own_commits(&git_dir.join(MODULES), &ctx.temporary_place()) {
        return Ok(None);
    }
    let kept = large_files::set_modules_aside(ctx.repo.common_dir(), id, git_dir)?;
    let (kept, id) = (kept.display(), id.short());
    Ok(Some(format!(
        "submodules have commits that no remote of theirs has; their repositories are kept in {kept}, and git agent rescue {id} --reopen brings them back"
    )))
}
