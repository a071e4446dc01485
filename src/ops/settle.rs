//! `done` and `fail`: somebody declares how an agent's work ended.

use super::agent_report::{AgentReport, Reporter};
use super::decide::require_own;
use crate::domain::agent::Move;
use crate::domain::event::What;
use crate::error::Result;
use crate::ops::run::record;
use crate::ops::{Ctx, lookup};
use crate::store::ledger::Ledger;
use crate::store::said;
use serde::Serialize;

/// The answer of a command that moves an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MoveReport {
    /// The format's name and version.
    pub schema: &'static str,
    /// The agent after the move.
    #[serde(flatten)]
    pub agent: AgentReport,
}

/// Declares an agent's work finished.
///
/// # Errors
/// `agent-unknown`; `agent-state` when that was declared already, or the decision about it has been taken;
/// `orchestrator-only` from inside another agent, and those of the ledger.
pub fn done(ctx: &Ctx, who: &str, summary: &str) -> Result<MoveReport> {
    let summary = summary.to_owned();
    let whole = None;
    declare(ctx, who, Move::Done, What::Done { summary, whole })
}

/// Declares an agent's work failed.
///
/// # Errors
/// As [`done`].
pub fn fail(ctx: &Ctx, who: &str, reason: &str) -> Result<MoveReport> {
    let reason = reason.to_owned();
    let whole = None;
    declare(ctx, who, Move::Fail, What::Failed { reason, whole })
}

fn declare(ctx: &Ctx, who: &str, step: Move, what: What) -> Result<MoveReport> {
    let agent = lookup::agent(ctx, &Ledger::new(&ctx.repo), who)?;
    require_own(ctx, &agent)?;
    move_agent(ctx, &agent.id.to_string(), step, what)
}

/// Moves an agent and records what moved it, after the end of its last run where that is not recorded yet.
pub(super) fn move_agent(ctx: &Ctx, who: &str, step: Move, what: What) -> Result<MoveReport> {
    let ledger = Ledger::new(&ctx.repo);
    let agent = record::at_rest(ctx, lookup::agent(ctx, &ledger, who)?)?;
    agent.may(step)?;
    let by = ctx.actor()?;
    let what = said::keep_whole(&ctx.repo, &agent, &by, what, ctx.now())?;
    let commit = agent.spawn_commit;
    // The move is judged against the row as it is when it is written, so that of two that race one is
    // told that it came too late.
    ledger.append_if(commit, &by, ctx.now(), |row| {
        row.unwrap_or(&agent).may(step)?;
        Ok(what.clone())
    })?;
    let agent = ledger.agent(commit)?.unwrap_or(agent);
    Ok(MoveReport {
        schema: "git-agent.move/1",
        agent: Reporter::new(ctx)?.agent(&agent),
    })
}
