//! Landing one agent, as often as other processes get in the way.

use crate::agents::ctx::Ctx;
use crate::error::{Code, Error, Exit, Result};
use crate::ops::merge::execute;
use crate::ops::merge::judged_plan;
use crate::ops::merge::{LandingReport, MergeOptions};

/// How often an agent is tried when another process moves a branch meanwhile. Of those who land at the same
/// moment one gets through each time, so as many as this do all.
const ATTEMPTS: usize = 10;

/// Lands one agent, and judges it anew where another process moved a branch after it was judged.
///
/// # Errors
/// As [`plan`](super::plan) and [`execute`]; `lost-race` when another process was quicker every time.
pub fn land(ctx: &Ctx, who: &str, options: &MergeOptions) -> Result<LandingReport> {
    for _ in 0..ATTEMPTS {
        // What judging fails with stays: a worktree that goes away meanwhile is not to be judged without it.
        let plan = judged_plan(ctx, who, options)?.map_err(|refused| refused.error())?;
        match execute(ctx, &plan) {
            Err(error) if error.code() == Code::LostRace => {}
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
