//! Landing one agent, as often as other processes get in the way.

use crate::agents::ctx::Ctx;
use crate::error::{Code, Error, Exit, Result};
use crate::ops::merge::{LandingReport, MergeOptions, execute, judged_plan};
use crate::store::{layout, lock};

/// How often an agent is tried when another process moves a branch meanwhile.
const ATTEMPTS: usize = 10;

/// Lands one agent, and judges it anew where another process moved a branch after it was judged.
///
/// # Errors
/// As [`plan`](super::plan) and [`execute`]; `lost-race` when another process was quicker every time.
pub fn land(ctx: &Ctx, who: &str, options: &MergeOptions) -> Result<LandingReport> {
    // However many land at the same moment, one that came too late is overtaken only by those that come after it: each of
    // the others that came too late waits for its turn.
    let mut turn = None;
    for _ in 0..ATTEMPTS {
        // What judging fails with stays: a worktree that goes away meanwhile is not to be judged without it.
        let plan = judged_plan(ctx, who, options)?.map_err(|refused| refused.error())?;
        match execute(ctx, &plan) {
            Err(error) if error.code() == Code::LostRace => {
                // Where the turns take too long, it goes on without.
                let take = || lock::hold(ctx.repo.common_dir(), layout::LANDING_TURN).ok();
                turn = turn.or_else(take);
            }
            landed => return landed,
        }
    }
    Err(Error::new(
        Code::LostRace,
        format!("other processes moved a branch {ATTEMPTS} times while {who} was about to land"),
    ))
}

/// Whether the next agent would fail in the same way: the machine, the repository or this program is at fault, and
/// not the state of one agent.
pub(crate) fn concerns_all(code: Code) -> bool {
    let is_of_one = matches!(
        code,
        Code::BranchGone
            | Code::GitFailed
            | Code::HistoryIncomplete
            | Code::Io
            | Code::FileTooLong
            | Code::RepoCorrupt
            | Code::WorktreeForeign
    );
    let is_refusal = matches!(code.exit(), Exit::No | Exit::Refused | Exit::TryAgain);
    !is_of_one && !is_refusal
}
