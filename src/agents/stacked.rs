//! Work that was built upon another agent's, once that has landed in another form than its commits, as a squash is.
//!
//! ```text
//! main ── squash of A                     main ── squash of A ── b'   what is offered of B
//!    └─ spawn A ── a ── spawn B ── b
//! ```
//!
//! The commits below are A's then, and are on the branch in another form; what is B's is what came on top of them.

use crate::agents::ctx::Ctx;
use crate::agents::lookup;
use crate::agents::work::{simulated, tip_of};
use crate::domain::{Agent, Oid};
use crate::error::Result;
use crate::git::{MergeResult, Repo};
use crate::store::replay::Replay;
use crate::store::spawn_commit::AGENTS_BRANCHES;
use crate::store::{landed, replay};

/// The tip of the branch that an agent's was built upon, where `target` has its work and not its commits.
///
/// # Errors
/// Those of the ledger and of reading objects.
pub(crate) fn landed_below(ctx: &Ctx, agent: &Agent, target: Oid) -> Result<Option<Oid>> {
    let Some(base) = &agent.base else {
        return Ok(None);
    };
    let Some(name) = base
        .refname
        .as_ref()
        .filter(|name| name.starts_with(AGENTS_BRANCHES))
    else {
        return Ok(None);
    };
    let repo = &ctx.repo;
    // As it is mostly: the branch that it was built upon is the target, or has landed as it is.
    if repo.is_ancestor(base.oid, target)? {
        return Ok(None);
    }
    let agents = lookup::agents(ctx)?;
    let Some(below) = { agents.iter() }.find(|one| one.branch.as_ref() == Some(name)) else {
        return Ok(None);
    };
    // Its branch may be gone; what landed of it is kept.
    let landed = below.landed_tip.filter(|tip| repo.has_object(*tip));
    let Some(tip) = landed.or_else(|| tip_of(ctx, below).ok()) else {
        return Ok(None);
    };
    if !repo.is_ancestor(base.oid, tip)? {
        return Ok(None);
    }
    let answers = landed::landed_at(repo, vec![(below, tip, target)]);
    let is_there = answers
        .into_values()
        .any(|answer| matches!(answer, Ok(true)));
    Ok(is_there.then_some(tip))
}

/// The tree of `target` with what a branch has on top of `below`; `None` where these conflict.
///
/// # Errors
/// `repo-corrupt`, `git-failed`.
pub(crate) fn merged_onto(repo: &Repo, below: Oid, target: Oid, tip: Oid) -> Result<Option<Oid>> {
    let tree = |oid: Oid| repo.read_commit(oid).map(|commit| commit.tree);
    applied(repo, tree(below)?, tree(target)?, tree(tip)?)
}

/// What comes of a tree if it changes as another one did.
fn applied(repo: &Repo, before: Oid, onto: Oid, after: Oid) -> Result<Option<Oid>> {
    let root = simulated(repo, before, &[])?;
    let ours = simulated(repo, onto, &[root])?;
    let theirs = simulated(repo, after, &[root])?;
    Ok(match repo.merge(ours, theirs)?.result {
        MergeResult::Clean { tree } => Some(tree),
        MergeResult::Conflicts { .. } | MergeResult::Unrelated => None,
    })
}

/// What is pushed of such a branch onto `target`. A remote that has it on an earlier commit of the target keeps it there: a target that
/// moves is no reason to push again.
///
/// # Errors
/// Those of reading and writing objects.
pub(crate) fn offered(
    ctx: &Ctx,
    agent: &Agent,
    below: Oid,
    (there, target): (Option<Oid>, Oid),
    tip: Oid,
) -> Result<Replay> {
    let repo = &ctx.repo;
    if let Some(there) = there.filter(|there| repo.has_object(*there))
        && let Some(ground) = replay::ground(repo, agent, there)?
        && repo.is_ancestor(ground, target)?
        && landed_below(ctx, agent, ground)? == Some(below)
    {
        let earlier = rebased(repo, agent, below, ground, tip)?;
        if earlier.holds(there) {
            return Ok(earlier);
        }
    }
    rebased(repo, agent, below, target, tip)
}

/// The agent's own commits one after the other on top of `target`; where they do not apply so, one commit with all that they change.
fn rebased(repo: &Repo, agent: &Agent, below: Oid, target: Oid, tip: Oid) -> Result<Replay> {
    let own = replay::own_commits(repo, agent, &[below, target], tip)?;
    let mut line = replay::ReplayLine::on(repo, target, &own)?;
    for (oid, commit) in &own.commits {
        if commit.is_signed() {
            return Ok(Replay::signed(tip));
        }
        let [parent] = commit.parents()[..] else {
            continue;
        };
        let tree = |oid: Oid| repo.read_commit(oid).map(|commit| commit.tree);
        match applied(repo, tree(parent)?, line.tree, tree(*oid)?)? {
            Some(tree) => line.push(*oid, commit, tree)?,
            None => break,
        }
    }
    let whole = merged_onto(repo, below, target, tip)?;
    match (whole, own.commits.last()) {
        (Some(whole), Some((oid, last))) if line.tree != whole => {
            let mut line = replay::ReplayLine::on(repo, target, &own)?;
            line.push(*oid, last, whole)?;
            Ok(line.replay())
        }
        _ => Ok(line.replay()),
    }
}
