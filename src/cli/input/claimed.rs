//! `--claim` of `run` and `spawn`: the claim on a task, and what this clone did under it before.

use crate::agents::Ctx;
use crate::domain::{Agent, AgentId};
use crate::error::{Code, Error, Result};
use crate::ops::run;
use crate::ops::sync::claim::{self, Acquired, ClaimReport, TaskClaim};

/// What became of the wish for a claim.
pub(in crate::cli) enum TaskState {
    /// It is held, and there may be an agent of an earlier attempt in this clone.
    Held(Box<TaskClaim>, Box<Option<Agent>>),
    /// The task is done already.
    Done(ClaimReport),
}

/// Takes the claim of that key on a remote, for a verb that was given so many tasks. It names `agent`, unless there is one
/// of an earlier attempt.
///
/// # Errors
/// `usage` for several tasks; those of [`claim::acquire`] and of the ledger.
pub(in crate::cli) fn acquire(
    ctx: &Ctx,
    verb: &str,
    tasks: usize,
    remote: Option<&str>,
    key: &str,
    agent: Option<AgentId>,
) -> Result<TaskState> {
    if tasks > 1 {
        let what = "--claim is for one task, and several are given";
        return Err(Error::new(Code::Usage, what)
            .hint(format!("to take several, run git agent {verb} --claim for each")));
    }
    let claim = match claim::acquire(ctx, remote, key, agent)? {
        Acquired::Held(claim) => claim,
        Acquired::Done(report) => return Ok(TaskState::Done(report)),
    };
    let earlier = claim.earlier_agent().map(|id| run::earlier(ctx, id));
    let earlier = earlier.transpose()?.flatten();
    Ok(TaskState::Held(claim, Box::new(earlier)))
}
