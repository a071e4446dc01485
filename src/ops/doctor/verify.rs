//! Worktrees in which check commands ran, left by a `verify` that was killed. None is worked in: it is
//! ours by its name, its lock and its `.git` file, and goes unless its HEAD has moved since.

use crate::agents::check_worktree;
use crate::agents::ctx::Ctx;
use crate::domain::diagnosis::Sign;
use crate::domain::shell;
use crate::error::Result;
use crate::ops::doctor::Finding;
use crate::ops::doctor::survey::Survey;
use crate::store::layout;

pub(super) fn look(ctx: &Ctx, _: &Survey) -> Result<Vec<Finding>> {
    let mut found = Vec::new();
    for short in check_worktree::candidates(ctx)? {
        let Some(place) = check_worktree::left_behind(ctx, &short)? else {
            continue;
        };
        let path = place.path.display();
        let who = if layout::is_train_place(&short) {
            "train".to_owned()
        } else {
            format!("verify of agent {short}")
        };
        let what = format!("{path} is what a killed {who} left");
        found.push(if !place.has_moved() {
            Finding::curable(Sign::VerifyLeft, what, move |ctx| {
                let is_removed = check_worktree::clear(ctx, &short)?;
                let done = ["another process has removed it", "removed it"];
                Ok(done[usize::from(is_removed)].to_owned())
            })
        } else {
            Finding::report(
                Sign::VerifyLeft,
                format!("{what}, and its HEAD has moved since"),
                format!(
                    "git -C {} log --oneline -5",
                    shell::quoted(&path.to_string())
                ),
            )
        });
    }
    Ok(found)
}
