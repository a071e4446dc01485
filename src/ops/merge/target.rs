//! The branch of this clone that work lands on, and the worktrees that move along with it.

use crate::agents::branch_swap::swap;
use crate::agents::commands::in_one_line;
use crate::agents::ctx::Ctx;
use crate::agents::untrusted;
use crate::domain::oid::Oid;
use crate::domain::shell;
use crate::error::{Code, Error, Result};
use crate::git::Repo;
use crate::git::landing::Checkout;
use crate::ops::merge::{MergePlan, scratch};

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
    (from, to): (Oid, Oid),
    require: &dyn Fn() -> Result<()>,
) -> Result<()> {
    let repo = &ctx.repo;
    let Some(first) = plans.first() else {
        return Ok(());
    };
    // Who checked the target out since the plan was made is asked again, under the ref's lock.
    let (mut carried, mut notes): (Vec<Checkout>, Vec<_>) = (Vec::new(), Vec::new());
    let mut carry = || {
        require()?;
        let reached = |step: &str| ctx.reached(step);
        for checkout in untrusted::checkouts(repo, &first.target, &ctx.temporary_place())? {
            notes.push(checkout.carry(repo, (from, to), &scratch(repo)?, &reached)?);
            carried.push(checkout);
        }
        ctx.reached("moved");
        Ok(())
    };
    // The target moves by compare-and-swap, the worktrees while its lock is held.
    let own = match first.checkouts.first() {
        // Its HEAD's reflog is written along with the branch's.
        Some(checkout) => Repo::open_git_dir(&checkout.git_dir)?,
        None => Repo::open_git_dir(repo.common_dir())?,
    };
    let reason = match plans {
        [only] => format!("agent: merge {}", only.agent.id.short()),
        _ => format!("agent: merge {} agents", plans.len()),
    };
    let who = ctx.identities()?;
    let swapped = swap(&own, &first.target, (from, to), &who, &reason, &mut carry);
    drop(notes);
    // It did not move: the worktrees go back.
    if let Err(mut error) = swapped {
        for checkout in carried.iter().rev() {
            let way = (to, from);
            let back = scratch(repo).and_then(|name| checkout.carry(repo, way, &name, &|_| {}));
            if back.is_err() {
                let top = shell::word(checkout.top.as_os_str().as_encoded_bytes());
                error = error.hint(format!(
                    "{top} could not be moved back; to see what is staged, run git -C {top} status"
                ));
            }
        }
        return Err(error);
    }
    Ok(())
}
