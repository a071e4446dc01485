//! Whether finished work still merges with what it would land on.
//!
//! Everyone who lands something may take that away from others, who learn of it when they land. It costs a merge in the
//! object database, so no listing asks: the board and the report do, for finished work whose target has moved on.

use super::{Fact, WorkStatus};
use crate::agents::ctx::Ctx;
use crate::agents::scratch::Scratch;
use crate::agents::work::{Work, simulated, to_merge};
use crate::domain::agent::{Agent, State};
use crate::error::Result;
use crate::git::merge::MergeResult;

/// What the answer depends on besides the agent's row; `None` where the work cannot conflict with what has landed.
pub(in crate::ops) type MergeKey = (Fact<String>, Option<String>, Fact<usize>, Fact<String>);

pub(in crate::ops) fn merge_key(agent: &Agent, status: &WorkStatus) -> Option<MergeKey> {
    let is_asked = agent.state == State::Done
        && !agent.deferred
        && status.verdict_word.known() != Some(&"landed")
        && status.behind.known().is_some_and(|behind| *behind > 0);
    let target = status.target.known().and_then(|target| target.oid.clone());
    let (tip, active_at) = (status.tip.clone(), status.active_at.clone());
    is_asked.then_some((tip, target, status.uncommitted, active_at))
}

/// Merges the work, committed or not, with its target. Everything that this writes goes away with a directory of its own.
///
/// # Errors
/// Those of reading the worktree and of git.
pub(in crate::ops) fn conflicts(ctx: &Ctx, agent: &Agent, status: &WorkStatus) -> Result<bool> {
    let work = Work::look_up(ctx, agent.clone())?;
    let (Some(tip), Some(target)) = (work.tip, work.target_tip) else {
        return Ok(false);
    };
    let scratch = Scratch::make(ctx, "conflict")?;
    let ctx = ctx.with_scratch_objects(scratch.path())?;
    let commit = match status.uncommitted.known() {
        None | Some(0) => tip,
        Some(_) => simulated(&ctx.repo, work.tree(&ctx)?, &[tip])?,
    };
    let ours = to_merge(&ctx.repo, agent, target, commit)?;
    let merge = ctx.repo.merge(ours, target)?;
    Ok(matches!(merge.result, MergeResult::Conflicts { .. }))
}
