//! `stop`: ends runs as their own time limit would.

use crate::agents::ctx::Ctx;
use crate::agents::liveness;
use crate::error::Result;
use crate::ops::runs::named;
use crate::ops::runs::named::Named;
use crate::ops::runs::wait::{Waited, waited};
use crate::store::{layout, lock};
use serde::Serialize;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// How long after being asked a supervisor is looked for again: there is none yet in the first moments of a run,
/// and none any more while the work is being judged.
const AGAIN: Duration = Duration::from_millis(200);

/// The answer of `stop`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StopReport {
    /// The format's name and version.
    pub schema: &'static str,
    /// The runs, in the order in which their agents were named.
    pub runs: Vec<Waited>,
}

/// Ends the runs of these agents, with everything that their commands started, and waits until they are
/// recorded. A run that is over already is told of as it ended.
///
/// # Errors
/// `agent-unknown`, `agent-ambiguous`; `agent-state` for an agent without a run in this clone; those of the
/// ledger; `io`.
pub fn stop(ctx: &Ctx, agents: &[String], at_once: bool) -> Result<StopReport> {
    let runs = named::last_runs(ctx, agents)?;
    for one in &runs {
        // All are asked before one is waited for.
        liveness::ask_to_end(ctx, one.agent.id, at_once)?;
    }
    for one in &runs {
        until_over(ctx, one, at_once)?;
    }
    let told = runs.iter().map(|one| waited(ctx, one, true));
    Ok(StopReport {
        schema: "git-agent.stop/1",
        runs: told.collect::<Result<_>>()?,
    })
}

fn until_over(ctx: &Ctx, one: &Named, at_once: bool) -> Result<()> {
    let (send, over) = mpsc::channel();
    let name = layout::live_lock(one.agent.id);
    lock::when_free(ctx.repo.common_dir(), &name, move || {
        let _ = send.send(());
    })?;
    while over.recv_timeout(AGAIN) == Err(RecvTimeoutError::Timeout) {
        let row = ctx.ledger().agent(one.agent.spawn_commit)?;
        let last = row.and_then(|row| row.run).map(|run| run.number());
        if last != Some(one.run.number()) {
            // Another was started, which was not to be ended.
            return Ok(());
        }
        // The supervisor may not have been there yet when it was asked.
        liveness::ask_to_end(ctx, one.agent.id, at_once)?;
    }
    Ok(())
}
