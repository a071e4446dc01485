//! In which order agents land: the one that lets most of them land.

use crate::agents::ctx::Ctx;
use crate::agents::work::Work;
use crate::error::Result;
use crate::ops::merge::MergePlan;
use crate::ops::overlap;
use crate::ops::train::Order;
use crate::ops::train::gather::Rider;
use crate::ops::train::track::commit_of;
use crate::store::policy;

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
    Ok(())
}

/// An agent's work as it was judged, whatever is in its worktree by now.
fn judged_work(ctx: &Ctx, plan: &MergePlan) -> Result<Work> {
    Ok(Work {
        policy: policy::if_here(&ctx.repo, &plan.agent)?,
        target: Some(plan.target.clone()),
        target_tip: Some(plan.base),
        tip: Some(commit_of(&ctx.repo, plan)?),
        place: None,
        agent: plan.agent.clone(),
    })
}
