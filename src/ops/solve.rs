//! Letting an agent resolve the conflicts of its work with what it lands on: `update --conflicts --host`, and a
//! train's second try for those that it left behind.
//!
//! ```text
//! update --conflicts ─> a run of the host, which is told what conflicts and why ─> update ─> verify
//! ```
//!
//! The run's work is judged at the end alone: the merge is unfinished until then.

use crate::agents::{Ctx, who::lookup};
use crate::error::Result;
use crate::hosts::Host;
use crate::ops::run::{self, Echo, RunOptions, RunTarget};
use crate::ops::update::{self, UpdateOptions, UpdateReport};
use crate::ops::verify::{self, Recording, VerifyOptions};

/// Brings an agent's branch up to what it lands on, and where that conflicts lets `host` resolve it, in its last
/// session with the agent if there is one.
///
/// # Errors
/// Those of an update, `update-conflicts` also where the host left something unresolved, which stays in the worktree; those of
/// a run.
pub fn solve(
    ctx: &Ctx,
    who: &str,
    host: &'static dyn Host,
    now: bool,
    echo: Echo<'_>,
) -> Result<UpdateReport> {
    let wanted = UpdateOptions { now, conflicts: true };
    let plan = update::plan(ctx, who, wanted)?;
    let report = update::execute(ctx, &plan)?;
    if !report.is_conflicting() {
        return Ok(report);
    }
    let agent = lookup::agent(ctx, &ctx.ledger(), &report.agent_id)?;
    let options = RunOptions {
        host: Some(host),
        resume: run::has_session(ctx, &agent, host)?,
        no_verify: true,
        ..RunOptions::default()
    };
    let target = RunTarget::Agent(report.agent_id);
    run::execute(ctx, run::plan(ctx, target, Vec::new(), options)?, echo)?;
    // What it did not resolve, or did where it must not, is named by this.
    let plan = update::plan(ctx, who, UpdateOptions::default())?;
    let report = update::execute(ctx, &plan)?;
    // Work that is good counts as done, as after any run: a train takes no other.
    let judged = VerifyOptions {
        agent: Some(report.agent_id.clone()),
        recording: Recording::Always,
        ..VerifyOptions::default()
    };
    verify::verify(ctx, &judged)?;
    Ok(report)
}
