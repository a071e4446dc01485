//! Whether there is room for new agents.

use crate::agents::ctx::Ctx;
use crate::agents::{disk, limits};
use crate::domain::limits::{Limit, Limits};
use crate::error::{Code, Error, Remedy, Result};
use crate::ops::spawn::SpawnPlan;
use crate::store::{fsx, layout};
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
    require_agents(ctx, &limits, wanted, under_way)?;
    require_space(ctx, &limits, plans, wanted)
}

/// Compares what the new worktrees take with what is free, and with what those that are there leave of what agents may take.
fn require_space(ctx: &Ctx, limits: &Limits, plans: &[&SpawnPlan], wanted: usize) -> Result<()> {
    let [free, most] = [Limit::DiskFree, Limit::Disk].map(|limit| limits.get(limit));
    let place = { plans.iter() }.find_map(|plan| Some((plan.base.oid, plan.worktree.as_deref()?)));
    let (Some((base, place)), true) = (place, free.is_some() || most.is_some()) else {
        return Ok(());
    };
    // Where that is not known, as in a partial clone, one that begins below the limit may pass it.
    let each = ctx.repo.disk_use(ctx.repo.read_commit(base)?.tree)?;
    let each = each.unwrap_or(0).max(1);
    let require = |limit: Limit, value: u64, room: u64, now: String| {
        let fit = usize::try_from(room / each).unwrap_or(usize::MAX);
        if wanted <= fit {
            return Ok(());
        }
        let (each, value) = (limit.show(each), limit.show(value));
        let why = format!("{now}, a worktree takes {each}, and `{limit}` is {value}");
        Err(reached(wanted, fit, why))
    };
    if let Some(least) = free {
        let (there, limit) = (fsx::free_space(place)?, Limit::DiskFree);
        let now = format!("{} are free on the disk", limit.show(there));
        require(limit, least, there.saturating_sub(least), now)?;
    }
    if let Some(most) = most {
        let (taken, limit) = (disk::measured(ctx)?, Limit::Disk);
        let now = format!("agents take {}", limit.show(taken));
        require(limit, most, most.saturating_sub(taken), now)?;
    }
    Ok(())
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
