//! The branch of this clone that work lands on, and the worktrees that move along with it.

use crate::agents::branch_swap::move_with_worktrees;
use crate::agents::commands::in_one_line;
use crate::agents::ctx::Ctx;
use crate::domain::oid::Oid;
use crate::error::{Code, Error, Result};
use crate::ops::merge::MergePlan;

/// Brings this clone's branch to what has landed on the remote's, if that is a fast-forward. Gives a warning where it
/// stays behind.
pub(super) fn follow(ctx: &Ctx, plans: &[MergePlan], top: Option<Oid>) -> Result<Option<String>> {
    let repo = &ctx.repo;
    let Some((first, top)) = plans
        .first()
        .zip(top)
        .filter(|(plan, _)| plan.remote.is_some())
    else {
        return Ok(None);
    };
    let target = &first.target;
    let Some(is) = repo.tip(target)?.oid().filter(|is| *is != top) else {
        ctx.reached("landed");
        return Ok(None);
    };
    let followed = if repo.merge_base(is, top)? == Some(is) {
        move_target(ctx, plans, (is, top), &|| Ok(()))
    } else {
        Err(Error::new(
            Code::NotFastForward,
            "it has commits that the remote lacks",
        ))
    };
    ctx.reached("landed");
    Ok(followed.err().map(|error| {
        let error = in_one_line(&error);
        format!("{target} of this clone stays behind what has landed: {error}; to bring it along, run git pull")
    }))
}

/// Moves the branch that the plans are for, and with it the worktrees that have it checked out. `require` may object
/// under its lock.
pub(super) fn move_target(
    ctx: &Ctx,
    plans: &[MergePlan],
    way: (Oid, Oid),
    require: &dyn Fn() -> Result<()>,
) -> Result<()> {
    let Some(first) = plans.first() else {
        return Ok(());
    };
    let reason = match plans {
        [only] => format!("agent: merge {}", only.agent.id.short()),
        _ => format!("agent: merge {} agents", plans.len()),
    };
    let target = (first.target.as_str(), first.checkouts.as_slice());
    move_with_worktrees(ctx, target, way, &reason, require)
}
