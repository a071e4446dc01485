//! `spawn --with-changes`: what is uncommitted in the caller's worktree, as the commit that an agent starts from.
//!
//! ```text
//! P ── changes ── spawn ── work      the agent's branch; P is HEAD at the spawn
//! └── … target                       which lacks the changes until their owner commits them
//! ```
//!
//! The changes are their owner's, who has not committed them, so nothing of the agent's may take them to the target. What lands is
//! what the agent did beyond them: a merge with the changes as its base, as one commit without that history. It makes no difference
//! whether the target has the changes by then.

use crate::agents::context::ctx::Ctx;
use crate::agents::context::histories;
use crate::agents::place::worktree::AgentWorktree;
use crate::agents::work::{Work, merge_of_trees, new_work, uncommitted};
use crate::domain::{Agent, Oid};
use crate::error::{Code, Error, Result};
use crate::git::Repo;
use crate::git::history::merge::Merge;
use crate::store::landing::landed;
use crate::store::landing::replay::goes_on_from;
use crate::store::landing::spawn_commit;
use crate::store::landing::taken_back::TargetMessages;

/// The trailer that tells such a commit from every other. It names the commit that the changes were made on.
const TRAILER: &str = "Agent-Changes-Of";

/// Writes what is uncommitted in the worktree that the caller stands in as a commit on top of `head`: all that `git add --all` would
/// take. Index and files stay as they are. `None` where nothing is uncommitted.
///
/// # Errors
/// `usage` in a bare repository; `worktree-busy` in the middle of a merge; those of reading the worktree.
pub(crate) fn commit(ctx: &Ctx, head: Oid, bundle_dir: &str) -> Result<Option<Oid>> {
    let Some(top) = ctx.repo.workdir() else {
        let what = "a bare repository has no changes that an agent could start from";
        return Err(Error::new(Code::Usage, what));
    };
    let place = AgentWorktree::new(top, ctx.repo.git_dir());
    let (_, found) =
        place.undisturbed(|| uncommitted::look(ctx, head, &place, Some(bundle_dir), false))?;
    // A commit made of these would lack a part of the changes without a word.
    let unusable = found.unmerged.first().map(|path| (path, "has conflicts"));
    let unreadable = found.unreadable.first();
    if let Some((path, why)) = unusable.or(unreadable.map(|path| (path, "cannot be read"))) {
        let path = String::from_utf8_lossy(path);
        let what = format!("no agent can start from the changes here: {path} {why}");
        return Err(Error::new(Code::WorktreeDirty, what).hint("to see them, run git status"));
    }
    let before = ctx.repo.tree_of(head)?;
    let Some(tree) = found.tree.filter(|tree| *tree != before) else {
        return Ok(None);
    };
    let who = ctx.identities()?;
    let message = format!("agent: uncommitted changes\n\n{TRAILER}: {head}\n");
    let commit = ctx.repo.write_commit(&who.commit(tree, &[head], &message))?;
    Ok(Some(commit))
}

/// The commit that an agent's uncommitted changes were made on; `None` for an agent that started from a commit of a branch.
pub(crate) fn below(repo: &Repo, agent: &Agent) -> Result<Option<Oid>> {
    let Some(base) = agent.base.as_ref().map(|base| base.oid) else {
        return Ok(None);
    };
    if !repo.has_object(base) {
        return Ok(None);
    }
    // The trailer has to name the only parent: a message that is copied onto other commits says
    // nothing.
    let commit = repo.read_raw_commit(base)?;
    Ok(match commit.parents()[..] {
        [parent] if commit.trailer(TRAILER) == Some(parent.to_hex()) => Some(parent),
        _ => None,
    })
}

/// The commit that an agent's work is compared with, as [`Work::fork`] gives it, and the tree that it is compared with, which has the
/// changes that the agent started from: they are their owner's. Of an agent that started from a commit of a branch it is that commit's. `tree`
/// is the work's.
///
/// # Errors
/// As [`Work::fork`] and [`Repo::merge`].
pub(crate) fn compared_with(repo: &Repo, work: &Work, tree: Oid) -> Result<(Oid, Oid)> {
    // Of what is not committed after a landing, the rest is no part.
    if let (Some(tip), Some(target)) = (work.tip, work.target_tip)
        && repo.tree_of(tip)? != tree
        && histories::landed_tip(repo, &work.agent, (target, tip))? == Some(tip)
        && TargetMessages::default().taken_back(repo, &work.agent, target, tip)?.is_none()
    {
        let new = new_work(repo, &work.agent, target, tip)?;
        return Ok((tip, new.map_or_else(|| repo.tree_of(tip), |new| Ok(new.before))?));
    }
    let fork = work.fork(repo)?;
    let base = work.agent.base.as_ref().map(|base| base.oid);
    let (mut commit, mut tree) = (fork, None);
    if let (Some(below), Some(base)) = (below(repo, &work.agent)?, base) {
        match updated(repo, base, below, Some(fork))? {
            BroughtAlong::AsStarted => commit = base,
            BroughtAlong::Updated(merged) => tree = Some(merged),
            // Where the changes conflict with what the update brought, the agent has settled that.
            BroughtAlong::Conflict => {}
        }
    }
    // What a run took away of its uncommitted work that had landed is named.
    if let (Some(tip), Some(target)) = (work.tip, work.target_tip)
        && tree.is_none()
    {
        let new = new_work(repo, &work.agent, target, tip)?;
        tree = new.filter(|new| new.is_apart).map(|new| new.before);
    }
    Ok((commit, tree.map_or_else(|| repo.tree_of(commit), Ok)?))
}

/// The tree of a commit to land on, with the uncommitted changes that an agent started from, if it did and they do not conflict.
///
/// # Errors
/// As [`Repo::merge`].
pub(crate) fn put_on(repo: &Repo, agent: &Agent, target: Oid) -> Result<Oid> {
    let (Some(below), Some(base)) = (below(repo, agent)?, &agent.base) else {
        return repo.tree_of(target);
    };
    match updated(repo, base.oid, below, Some(target))? {
        BroughtAlong::AsStarted => repo.tree_of(base.oid),
        BroughtAlong::Updated(merged) => Ok(merged),
        BroughtAlong::Conflict => repo.tree_of(target),
    }
}

/// What uncommitted changes are once an update has brought a newer commit of the target.
enum BroughtAlong {
    /// None was brought.
    AsStarted,
    /// Both together, as a tree.
    Updated(Oid),
    Conflict,
}

/// Puts the changes, which are in `start` and were made on `below`, together with the commit of the target that the work has.
fn updated(repo: &Repo, start: Oid, below: Oid, fork: Option<Oid>) -> Result<BroughtAlong> {
    let Some(fork) = fork else {
        return Ok(BroughtAlong::AsStarted);
    };
    if repo.is_ancestor(fork, below)? {
        return Ok(BroughtAlong::AsStarted);
    }
    Ok(repo
        .merge(start, fork)?
        .result
        .clean()
        .map_or(BroughtAlong::Conflict, BroughtAlong::Updated))
}

/// Refuses what would give an agent's branch, and with it uncommitted changes, to others.
///
/// # Errors
/// `agent-state`.
pub(crate) fn require_none(repo: &Repo, agent: &Agent, what: &str) -> Result<()> {
    if below(repo, agent)?.is_none() {
        return Ok(());
    }
    let id = agent.id.short();
    let message = format!(
        "agent {id} started from changes that are not committed, so its branch {what}; merge lands what it did beyond them"
    );
    Err(Error::new(Code::AgentState, message))
}

/// What git makes of landing the work alone on `target`; `None` for an agent that did not start from uncommitted changes.
///
/// # Errors
/// As [`Repo::merge`].
pub(crate) fn merged(repo: &Repo, agent: &Agent, target: Oid, work: Oid) -> Result<Option<Merge>> {
    let (Some(below), Some(base)) = (below(repo, agent)?, &agent.base) else {
        return Ok(None);
    };
    // What landed before is on both sides, and so is what an update brought: neither is a difference to the base.
    let mut start = base.oid;
    if let Some((_, tip)) = landed::last(repo, agent, (target, work), &TargetMessages::default())?
        && spawn_commit::is_held_by(repo, tip, agent)
        && let Some(from) = goes_on_from(repo, agent, tip, work)?
    {
        start = from;
    }
    // An update has merged a newer commit of the target in, which is then part of what both sides have.
    let ground = match updated(repo, start, below, repo.merge_base(target, work)?)? {
        BroughtAlong::Updated(tree) => tree,
        BroughtAlong::AsStarted | BroughtAlong::Conflict => repo.tree_of(start)?,
    };
    merge_of_trees(repo, ground, [repo.tree_of(target)?, repo.tree_of(work)?]).map(Some)
}
