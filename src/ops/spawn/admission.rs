//! Whether there is room for new agents.

use crate::agents::ctx::Ctx;
use crate::agents::limits;
use crate::domain::limits::{Limit, Limits};
use crate::error::{Code, Error, Remedy, Result};
use crate::ops::spawn::SpawnPlan;
use crate::store::layout;
use crate::wire::journal::SpawnJournal;
use std::collections::BTreeSet;

/// Refuses agents for which a limit leaves no room. `under_way` are the spawns that have begun, which the caller keeps from growing by
/// `spawn.lock`, or else asks again under it.
///
/// # Errors
/// `limit-reached`, with the number that would fit; those of the limits; `io`.
pub(super) fn require_room(
    ctx: &Ctx,
    plans: &[&SpawnPlan],
    under_way: &[SpawnJournal],
) -> Result<()> {
    let wanted = plans.iter().filter(|plan| plan.worktree.is_some()).count();
    if wanted == 0 {
        return Ok(());
    }
    let limits = limits::load(ctx)?;
    require_agents(ctx, &limits, wanted, under_way)
}

fn require_agents(
    ctx: &Ctx,
    limits: &Limits,
    wanted: usize,
    under_way: &[SpawnJournal],
) -> Result<()> {
    let Some(most) = limits.get(Limit::Agents) else {
        return Ok(());
    };
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    // A spawn is first in its journal and then has an admin directory, so an agent is in one of them at every moment.
    let worktrees = ctx.repo.worktrees()?;
    let there = { worktrees.iter() }.filter_map(|one| layout::agent_of_worktree(&one.name));
    let begun = { under_way.iter() }.filter(|one| one.worktree.is_some());
    let begun = begun.filter_map(|one| one.agent.get(..8));
    let there: BTreeSet<&str> = there.chain(begun).collect();
    let fit = most.saturating_sub(there.len());
    if wanted <= fit {
        return Ok(());
    }
    let has = there.len();
    Err(reached(
        wanted,
        fit,
        format!("{has} have a worktree, and `{}` is {most}", Limit::Agents),
    ))
}

/// What is said where fewer fit than are wanted.
fn reached(wanted: usize, fit: usize, why: String) -> Error {
    let what = match wanted {
        1 => "the agent does not fit".to_owned(),
        _ => format!("of {wanted} agents, {fit} would fit"),
    };
    Error::new(Code::LimitReached, format!("{what}: {why}"))
        .remedy("to remove those that are finished", Remedy::Collect)
        .remedy("to see all of them", Remedy::Agents)
}
