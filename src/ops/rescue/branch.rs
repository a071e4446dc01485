//! The branch, the directory of files, or the worktree, in which work comes back.

use crate::agents::context::real_path::real_path;
use crate::agents::context::untrusted::WorktreeView;
use crate::agents::{
    Ctx, place::worktree, stock::layered, upkeep::clone, who::lookup, work, work::bundle,
};
use crate::domain::{Agent, Isolation, Oid, State, branch_name, value::shell};
use crate::error::{Code, Error, IoContext, Remedy, Result};
use crate::git::files::admin_dir::belongs_to;
use crate::git::refs::full_name;
use crate::git::uncommitted::salvage::{TRAILER, WORK, staged_in};
use crate::git::{NewWorktree, Tip, core::command};
use crate::ops::rescue::{Kept, RescueDestination, RescuePlan};
use crate::store::files::{fsx, layout, lock};
use crate::store::{RecordedPlaces, landing::spawn_commit, ledger::agent_branch};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// How many numbered names a branch is tried under.
const BRANCH_VARIANTS: usize = 1000;

impl RescuePlan {
    /// Where the agent's branch was, or is.
    pub(super) fn tip(&self, ctx: &Ctx) -> Result<Option<Oid>> {
        if let Some(branch) = self.agent.branch.as_ref().filter(|_| self.branch_stayed)
            && let Tip::At(tip) = ctx.repo.tip(branch)?
        {
            return Ok(Some(tip));
        }
        let Some(commit) = self.commit else {
            return Ok(None);
        };
        let commit = ctx.repo.read_commit(commit)?;
        let is_work = commit.trailer(TRAILER) == Some(WORK);
        let below = commit.parents.first().filter(|_| is_work);
        Ok(Some(*below.unwrap_or(&commit.oid)))
    }

    /// Whether a branch is what would be made: a rescue before this one did it and may have been killed.
    pub(super) fn is_made(&self, ctx: &Ctx, branch: &str) -> Result<bool> {
        Ok(self.commit.is_some() && ctx.repo.tip(branch)?.oid() == self.commit)
    }

    /// Makes the branch and gives its full name.
    pub(super) fn make_branch(&self, ctx: &Ctx, commit: Oid) -> Result<String> {
        let reason = format!("agent: rescue {}", self.agent.id.short());
        let who = ctx.identities()?.committer;
        let make = |name: &str| ctx.repo.create_branch(name, commit, &who, &reason);
        if let RescueDestination::Branch(name) = &self.destination {
            let full = full_name(name)?;
            return if self.is_made(ctx, &full)? || make(&full)? {
                Ok(full)
            } else {
                Err(taken(&full))
            };
        }
        let own = self.agent.branch.as_deref().unwrap_or_default();
        let own = branch_name(own);
        let slug = own.strip_prefix("agent/").unwrap_or(own);
        let wanted = full_name(&format!("rescued/{slug}"))?;
        let numbered = (2..=BRANCH_VARIANTS).map(|number| format!("{wanted}-{number}"));
        for name in std::iter::once(wanted.clone()).chain(numbered) {
            if make(&name)? {
                return Ok(name);
            }
        }
        Err(taken(&wanted))
    }
}

fn taken(branch: &str) -> Error {
    Error::new(Code::BranchExists, format!("{branch} exists already"))
        .hint("to choose another name, pass --branch <name>")
}

// Kept work as files.

/// Where the bundle goes for an agent that had none in its worktree.
const BUNDLE_DIR: &str = ".agent";

/// The commit with the work, and the one with the bundle.
type KeptCommits = (Option<Oid>, Option<Oid>);

/// Fills a directory that is empty: the work, and beside it the bundle where the worktree had it; gives what
/// its owner should know. That happens elsewhere, where the file system allows it, and the directory gets everything by one rename, so
/// that no kill leaves a part that looks like the whole.
pub(super) fn write(
    ctx: &Ctx,
    agent: &Agent,
    kept: KeptCommits,
    directory: &Path,
) -> Result<Option<String>> {
    require_empty(ctx, directory)?;
    let above = directory.parent().unwrap_or(directory);
    fs::create_dir_all(above).at("could not make", above)?;
    // Filled beside and renamed: a look finds all of it or nothing.
    let half_made = half_made(ctx, directory, above)?;
    let filled = fill(ctx, agent, kept, &half_made);
    ctx.reached("filled");
    let moved = filled.map(|warning| fs::rename(&half_made, directory).map(|()| warning));
    if let Ok(Ok(warning)) = moved {
        return Ok(warning);
    }
    let _ = fs::remove_dir_all(&half_made);
    moved?.or_else(|_| {
        // What cannot be replaced, such as a mount point, is filled where it is.
        require_empty(ctx, directory)?;
        fill(ctx, agent, kept, directory)
    })
}

/// A place on the same file system, with our other half-made things if they are there.
fn half_made(ctx: &Ctx, directory: &Path, above: &Path) -> Result<PathBuf> {
    let scratch = layout::tmp_dir(ctx.repo.common_dir());
    fs::create_dir_all(&scratch).at("could not make", &scratch)?;
    let device = |path: &Path| fs::metadata(path).map(|metadata| metadata.dev()).ok();
    // Renaming does not cross file systems.
    Ok(fsx::unique_name(&if device(&scratch) == device(above) {
        scratch.join("rescued")
    } else {
        directory.to_owned()
    }))
}

/// Fills a directory with the work, and with the bundle where the worktree had it; gives what its owner should know.
///
/// # Errors
/// `git-failed`, `io`, `disk-full`.
pub(super) fn fill(
    ctx: &Ctx,
    agent: &Agent,
    (work, bundle): KeptCommits,
    directory: &Path,
) -> Result<Option<String>> {
    fs::create_dir_all(directory).at("could not make", directory)?;
    if let Some(commit) = work {
        checkout(ctx, commit, directory)?;
    }
    let Some(bundle) = bundle else {
        return Ok(None);
    };
    let policy = spawn_commit::if_here(&ctx.repo, agent)?;
    let wanted = policy.and_then(|policy| policy.bundle_dir);
    let wanted = wanted.as_deref().unwrap_or(BUNDLE_DIR);
    let inside = free_name(directory, wanted);
    let place = directory.join(&inside);
    fs::create_dir_all(&place).at("could not make", &place)?;
    checkout(ctx, bundle, &place)?;
    Ok((inside != wanted)
        .then(|| format!("the work has something at {wanted}, so the bundle is in {inside}")))
}

/// Where the bundle goes: its own place, or beside the work's files of that name.
fn free_name(directory: &Path, wanted: &str) -> String {
    // The work may also have a file or a symlink on the way there.
    let mut top = PathBuf::new();
    let blocked = Path::new(wanted).components().any(|part| {
        top.push(part);
        let found = fs::symlink_metadata(directory.join(&top));
        found.is_ok_and(|found| !found.is_dir() || top.as_os_str() == wanted)
    });
    if !blocked {
        return wanted.to_owned();
    }
    let name = wanted.replace('/', "-");
    let mut free = format!("{name}.rescued");
    while fs::symlink_metadata(directory.join(&free)).is_ok() {
        free.push_str(".rescued");
    }
    free
}

fn checkout(ctx: &Ctx, commit: Oid, directory: &Path) -> Result<()> {
    let scratch = layout::tmp_dir(ctx.repo.common_dir());
    fs::create_dir_all(&scratch).at("could not make", &scratch)?;
    let index = fsx::unique_name(&scratch.join("rescue"));
    let written = ctx.repo.write_files(commit, directory, &index);
    let _ = fs::remove_file(&index);
    written
}

/// Checks that it is empty, and no place that git keeps for itself.
pub(super) fn require_place(ctx: &Ctx, path: &Path) -> Result<()> {
    // By a link, too, it would be inside.
    let inside = |git_dir: &Path| real_path(path).is_some_and(|path| path.starts_with(git_dir));
    let git_dir = fs::canonicalize(ctx.repo.common_dir());
    if git_dir.is_ok_and(|git_dir| inside(&git_dir)) {
        let what = format!("{} is inside the repository's git dir", path.display());
        return Err(Error::new(Code::PathInvalid, what)
            .hint("to choose another place, pass --to <directory>"));
    }
    require_empty(ctx, path)
        .map_err(|error| error.hint("to choose another place, pass --to <directory>"))
}

/// Checks that nothing can be overwritten: a directory without entries, or nothing at all.
pub(super) fn require_empty(ctx: &Ctx, path: &Path) -> Result<()> {
    let there = fs::symlink_metadata(path);
    let empty = || fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
    match there {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error).at("could not look at", path),
        Ok(metadata) if metadata.is_dir() && empty() => Ok(()),
        Ok(_) => {
            let what = format!("{} is not an empty directory", path.display());
            let error = Error::new(Code::PathExists, what);
            // Not the directory that the caller stands in, which may be the repository.
            let is_above = |top: PathBuf| ctx.env.directory.starts_with(top);
            if fs::canonicalize(path).is_ok_and(is_above) {
                return Err(error);
            }
            Err(error.hint(format!("to make room, run mv {} <elsewhere>", shell::path(path))))
        }
    }
}

// The bundle of a shared agent, which has neither branch nor worktree.

/// Where it was.
///
/// # Errors
/// `agent-state` where that is not known in this clone or is reached through a link; those of finding the root.
pub(super) fn bundle_place(ctx: &Ctx, agent: &Agent) -> Result<PathBuf> {
    bundle::place_of_shared(ctx, agent)?.ok_or_else(|| no_place(agent, "bundle"))
}

/// Writes the bundle where it was, unless an interrupted call did: the one that was kept, else what is known of it.
///
/// # Errors
/// As [`bundle_place`]; `path-exists`; `git-failed`, `io`, `disk-full`.
pub(super) fn write_bundle(ctx: &Ctx, agent: &Agent, kept: Option<Oid>) -> Result<PathBuf> {
    let place = bundle_place(ctx, agent)?;
    if !place.is_dir() {
        let bundle = match kept {
            Some(kept) => Some(kept),
            None => bundle::known(ctx, agent)?,
        };
        write(ctx, agent, (bundle, None), &place)?;
    }
    Ok(place)
}

// The directory of a worktree whose admin directory is left.

/// Makes the directory of an agent's worktree again from its own index, so that what was staged comes back, with what is known of
/// its bundle; gives whether it was gone. The caller keeps other processes away from the agent.
///
/// # Errors
/// `git-failed`, `io`, `disk-full`.
pub(in crate::ops) fn from_index(
    ctx: &Ctx,
    agent: &Agent,
    path: &Path,
    admin: &Path,
) -> Result<bool> {
    let common = ctx.repo.common_dir();
    let _spawns = lock::hold(common, layout::SPAWN_LOCK)?;
    let aside = layout::aside(path, &layout::worktree_name(agent.id));
    let is_there = |path: &Path| path.symlink_metadata().is_ok();
    if is_there(path) || is_there(&aside) || !admin.join("index").is_file() {
        return Ok(false);
    }
    let half_made = fsx::unique_name(path);
    fsx::create_dir(&half_made)?;
    let layer = layered::of(&ctx.repo, agent.id);
    let filled = match &layer {
        // Its files are in its layer, and none may be at its place.
        Some(_) => Ok(()),
        None => checkout_index(ctx, agent, &half_made, admin)
            .and_then(|()| fill(ctx, agent, (None, bundle::known(ctx, agent)?), &half_made))
            .map(drop),
    };
    // A clone that was deleted comes back as a linked worktree, as after a discard.
    clone::forget(common, agent.id);
    let placed = filled
        .and_then(|()| ctx.repo.point_worktree(&half_made, admin))
        // A rename would replace an empty directory, which is not in the way.
        .and_then(|()| fs::rename(&half_made, path).at("could not restore", path));
    if let Err(error) = placed {
        fsx::remove_by_trash(common, &half_made)?;
        return Err(error);
    }
    if layer.is_some() {
        layered::close(path)?;
    }
    Ok(true)
}

fn checkout_index(ctx: &Ctx, agent: &Agent, directory: &Path, admin: &Path) -> Result<()> {
    // The admin directory was the agent's to write, so git works through a view of ours.
    let view = WorktreeView::make(&ctx.repo, admin, directory, &ctx.temporary_place())?;
    // Where the branch went on elsewhere meanwhile, what came with it would be staged as deleted.
    if let Some(last) = work::last_head(ctx, agent) {
        let mut git = view.git();
        git.args(["read-tree", "-i", "-m", &last.to_hex(), "HEAD"]);
        // It changes nothing where other work is staged on the same files, and that is what must not be lost.
        let _ = command::successful(git);
    }
    let mut git = view.git();
    git.args(["checkout-index", "--all", "--quiet"]);
    command::successful(git).map(drop)
}

// The branch of an agent that lost its worktree alone.

impl Kept {
    /// What there is of an agent that was not discarded, and whose worktree is gone: its branch.
    pub(super) fn on_branch(ctx: &Ctx, agent: &Agent) -> Result<Kept> {
        lookup::require_worktree_here(ctx, agent)?;
        worktree::require_linked(&ctx.repo, agent.id, Code::AgentState)?;
        let id = agent.id.short();
        let state = |what| Error::new(Code::AgentState, what);
        let (branch, path) = places(ctx, agent)?;
        let name = layout::worktree_name(agent.id);
        let known = ctx.repo.worktree(&name);
        let known = known.map_or(path.clone(), |worktree| worktree.path);
        if agent.state == State::Spawning || known != path || layout::aside(&path, &name).exists() {
            let what = format!("agent {id} is half made or half discarded, or was moved");
            return Err(state(what).remedy("to see and repair it", Remedy::Repair));
        }
        let admin = worktree::admin_dir(&ctx.repo, agent.id);
        if belongs_to(&path, &admin) {
            return Err(if admin.is_dir() && worktree::lacking(&path, &admin).is_empty() {
                let what = format!("the worktree of agent {id} is there: {}", path.display());
                state(what).hint(format!("to go on in it, run git agent enter {id}"))
            } else {
                worktree::unlinked(&path, &admin, Code::AgentState)
            });
        }
        if !admin.exists() {
            require_free(ctx, branch)?;
        }
        let tip = agent_branch::local(&ctx.repo, agent)?.oid().ok_or_else(|| {
            let what = format!("agent {id} has neither a worktree nor the branch {branch}");
            // What became of an agent whose work has landed is no damage.
            if agent.state == State::Merged {
                state(what).hint("to see what can be taken back, run git agent undo --list")
            } else {
                state(what).remedy("to see what is left of it", Remedy::Examine)
            }
        })?;
        Ok(Kept { commit: Some(tip), ..Kept::default() })
    }
}

/// The branch and the worktree that the agent had.
pub(super) fn places<'a>(ctx: &Ctx, agent: &'a Agent) -> Result<(&'a str, PathBuf)> {
    let path = RecordedPlaces::new(&ctx.repo)?.of(agent);
    // A row names the place: what is written there must not go through a link to somewhere else.
    let path = path.filter(|path| real_path(path).as_deref() == Some(path));
    let path = path.filter(|_| agent.isolation == Some(Isolation::Worktree));
    agent.branch.as_deref().zip(path).ok_or_else(|| no_place(agent, "worktree"))
}

fn no_place(agent: &Agent, what: &str) -> Error {
    let id = agent.id.short();
    Error::new(Code::AgentState, format!("agent {id} had no {what} in this clone"))
        .hint(format!("to have its files, run git agent rescue {id} --to <directory>"))
}

/// Refuses a branch that a worktree has checked out: two that have one branch would take back what the other commits.
///
/// # Errors
/// `agent-state`; `worktree-busy` where one is in the middle of a merge or a rebase of it; `io`.
pub(super) fn require_free(ctx: &Ctx, branch: &str) -> Result<()> {
    let Some(other) = ctx.repo.checkouts(branch)?.into_iter().next() else {
        return Ok(());
    };
    let what = format!("{branch} is checked out at {}", other.top.display());
    let top = shell::path(&other.top);
    Err(Error::new(Code::AgentState, what)
        .hint(format!("to free it, run git -C {top} switch --detach")))
}

/// Puts files and git's record of a worktree at the place of an agent. Gives what the user should know.
pub(super) fn place(
    ctx: &Ctx,
    plan: &RescuePlan,
    half_made: &Path,
    path: &Path,
    (branch, tip): (&str, Oid),
) -> Result<Option<String>> {
    let above = path.parent().unwrap_or(path);
    fs::create_dir_all(above).at("could not make", above)?;
    let agent = &plan.agent;
    let layer = layered::of(&ctx.repo, agent.id);
    let warning = if layer.is_some() {
        fsx::create_dir(half_made)?;
        None
    } else {
        let known = if plan.was_discarded { None } else { bundle::known(ctx, agent)? };
        fill(ctx, agent, (plan.commit, plan.bundle.or(known)), half_made)?
    };
    ctx.reached("filled");
    let common = ctx.repo.common_dir();
    let admin = worktree::admin_dir(&ctx.repo, plan.agent.id);
    let _spawns = lock::hold(common, layout::SPAWN_LOCK)?;
    // A call that was killed may have come this far, and its admin directory serves.
    if !admin.is_dir() {
        let work = ctx.repo.read_commit(plan.commit.unwrap_or(tip))?;
        let is_work = work.trailer(TRAILER) == Some(WORK);
        let listed = if is_work { staged_in(&ctx.repo, &work)? } else { work.tree };
        let new = NewWorktree {
            name: &layout::worktree_name(plan.agent.id),
            path,
            branch: Some(branch),
            commit: tip,
            scratch: &layout::tmp_dir(common),
            lock_reason: &layout::lock_reason(plan.agent.id),
            identity: &ctx.identities()?.committer,
        };
        let fill = |admin: &Path| ctx.repo.write_index(listed, &admin.join("index"));
        ctx.repo.add_admin_dir(&new, fill)?;
    } else if !admin.join("index").is_file() {
        // The agent could put a link there, which a rename replaces.
        let index = fsx::unique_name(&layout::tmp_dir(common).join("index"));
        ctx.repo.write_index(ctx.repo.tree_of(tip)?, &index)?;
        fs::rename(&index, admin.join("index")).at("could not make the index of", path)?;
    }
    ctx.reached("linked");
    // A clone that was deleted comes back as a linked worktree, as after a discard.
    clone::forget(common, agent.id);
    // The way to the admin directory before the name: what appears at the place is a whole worktree.
    ctx.repo.point_worktree(half_made, &admin)?;
    fs::rename(half_made, path).at("could not make", path)?;
    if layer.is_some() {
        layered::close(path)?;
    }
    Ok(warning)
}
