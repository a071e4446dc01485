//! In which order agents land: the one that lets most of them land.

use crate::agents::check_memory::known_time;
use crate::agents::ctx::Ctx;
use crate::agents::work::Work;
use crate::error::Result;
use crate::ops::merge::MergePlan;
use crate::ops::overlap;
use crate::ops::train::Order;
use crate::ops::train::gather::Rider;
use crate::ops::train::track::commit_of;
use crate::store::spawn_commit;

/// Brings judged agents into the order in which they land. Only git objects of what was judged are compared. One that does
/// not land comes after the others.
///
/// # Errors
/// Those of finding the order.
pub(super) fn bring_into_order(ctx: &Ctx, order: Order, items: &mut Vec<Rider>) -> Result<()> {
    if order == Order::Spawned {
        return Ok(());
    }
    let (mut bound, mut works) = (Vec::new(), Vec::new());
    for (at, item) in items.iter().enumerate() {
        if let Some(plan) = &item.plan {
            bound.push(at);
            works.push(judged_work(ctx, plan)?);
        }
    }
    let mut places = vec![usize::MAX; items.len()];
    for (place, work) in overlap::order_of(ctx, works)?.into_iter().enumerate() {
        places[bound[work]] = place;
    }
    let mut placed: Vec<_> = places.into_iter().zip(items.drain(..)).collect();
    placed.sort_by_key(|(place, _)| *place);
    items.extend(placed.into_iter().map(|(_, item)| item));
    let lengths = lengths(ctx, items)?.into_iter();
    let mut lengthy: Vec<_> = lengths.zip(items.drain(..)).collect();
    // The sort is stable: agents of the same length stay in the order that was found above.
    lengthy.sort_by_key(|(length, _)| *length);
    items.extend(lengthy.into_iter().map(|(_, item)| item));
    Ok(())
}

/// How long the check commands take that not every agent has, in powers of two of a second, so that agents change places only where it
/// matters. Those whose checks take longer are stacked later: a search in the lower part of a red stack then does not run them. Uber's
/// SubmitQueue lets small changes overtake large ones for the same reason.
fn lengths(ctx: &Ctx, items: &[Rider]) -> Result<Vec<u32>> {
    let mut commands: Vec<Option<Vec<String>>> = Vec::new();
    for item in items {
        commands.push(match &item.plan {
            Some(plan) => {
                let policy = spawn_commit::if_here(&ctx.repo, &plan.agent)?;
                Some(policy.map(|policy| policy.checks).unwrap_or_default())
            }
            None => None,
        });
    }
    let all: Vec<&Vec<String>> = commands.iter().flatten().collect();
    // What all of them have runs once for the stack, and says nothing about one of them.
    let is_own = |command: &&String| !all.iter().all(|others| others.contains(command));
    let length = |commands: &Option<Vec<String>>| match commands {
        Some(commands) => {
            let time = known_time(ctx, commands.iter().filter(is_own));
            // Only how many binary digits the seconds have: times vary, and a small difference is
            // not to break the order.
            u64::BITS - time.as_secs().leading_zeros()
        }
        // One that does not land comes last.
        None => u32::MAX,
    };
    Ok(commands.iter().map(length).collect())
}

/// An agent's work as it was judged, whatever is in its worktree by now.
fn judged_work(ctx: &Ctx, plan: &MergePlan) -> Result<Work> {
    Ok(Work {
        policy: spawn_commit::if_here(&ctx.repo, &plan.agent)?,
        target: Some(plan.target.clone()),
        target_tip: Some(plan.base),
        tip: Some(commit_of(&ctx.repo, plan)?),
        place: None,
        agent: plan.agent.clone(),
    })
}
