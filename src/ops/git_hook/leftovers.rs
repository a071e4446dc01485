//! What git cannot clear away behind a fence.
//!
//! `CHERRY_PICK_HEAD` and its like count as refs, and whatever deletes a ref locks the `packed-refs` of the
//! common dir first, which a fence refuses. Git goes on without deleting it, and the pick of a rebase
//! then looks unfinished: the next commit would take its author, and amending would be refused.

use crate::agents::ctx::Ctx;
use crate::domain::ref_update::RefUpdate;
use crate::error::{IoContext, Result};
use std::fs;

/// What a pick, a revert or a merge leaves beside `HEAD` until it is over.
const LEFTOVERS: [&str; 3] = ["CHERRY_PICK_HEAD", "REVERT_HEAD", "AUTO_MERGE"];

/// Deletes them when `HEAD` has moved: git does so when a commit concludes a pick and when a reset gives
/// it up, and in between `HEAD` stays. `input` is what git wrote to the hook.
///
/// # Errors
/// `io`.
pub(super) fn clear(ctx: &Ctx, input: &[u8]) -> Result<()> {
    let text = String::from_utf8_lossy(input);
    let mut updates = text.lines().filter_map(RefUpdate::parse);
    if !ctx.env.fenced || !updates.any(|update| update.name == "HEAD") {
        return Ok(());
    }
    for name in LEFTOVERS {
        let path = ctx.repo.git_dir().join(name);
        fs::remove_file(&path).at_if_there("could not remove", &path)?;
    }
    Ok(())
}
