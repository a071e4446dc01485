//! `done` and `fail`: a declaration of how an agent's work ended.

use super::agent_report::{AgentReport, Reporter};
use super::decide::require_own;
use crate::domain::agent::{Agent, Move};
use crate::domain::event::What;
use crate::error::{Code, Result};
use crate::ops::home::Home;
use crate::ops::run::record;
use crate::ops::{Ctx, lookup, send};
use crate::store::ledger::Ledger;
use crate::store::said;
use serde::Serialize;

const SCHEMA: &str = "git-agent.move/1";

/// The answer of a command that moves an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MoveReport {
    /// The format's name and version.
    pub schema: &'static str,
    /// `spooled` for a declaration of a fenced agent that waits in its spool for its supervisor, who records it; absent
    /// for a move that is recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<&'static str>,
    /// The agent after the move; while that waits, as it is.
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
    match move_agent(ctx, &agent.id.to_string(), step, what.clone()) {
        Err(error)
            if error.code() == Code::RepoReadOnly
                && Home::is_of(&ctx.env, &agent)
                && send::leave_declaration(ctx, &what)? =>
        {
            Ok(MoveReport {
                schema: SCHEMA,
                status: Some("spooled"),
                agent: Reporter::new(ctx)?.agent(&agent),
            })
        }
        moved => moved,
    }
}

/// Records what a fenced agent left in its spool about the end of its work.
///
/// # Errors
/// `agent-state` when that was declared already, or the decision about it has been taken; those of the ledger.
pub(super) fn post_declaration(ctx: &Ctx, agent: &Agent, what: What) -> Result<()> {
    let step = match &what {
        What::Failed { .. } => Move::Fail,
        _ => Move::Done,
    };
    append(ctx, agent, &agent.id.to_string(), step, what)
}

/// Moves an agent and records what moved it, after the end of its last run where that is not recorded yet.
pub(super) fn move_agent(ctx: &Ctx, who: &str, step: Move, what: What) -> Result<MoveReport> {
    let ledger = Ledger::new(&ctx.repo);
    let agent = record::at_rest(ctx, lookup::agent(ctx, &ledger, who)?)?;
    agent.may(step)?;
    append(ctx, &agent, &ctx.actor()?, step, what)?;
    let agent = ledger.agent(agent.spawn_commit)?.unwrap_or(agent);
    Ok(MoveReport {
        schema: SCHEMA,
        status: None,
        agent: Reporter::new(ctx)?.agent(&agent),
    })
}

fn append(ctx: &Ctx, agent: &Agent, by: &str, step: Move, what: What) -> Result<()> {
    let what = said::keep_whole(&ctx.repo, agent, by, what, ctx.now())?;
    let ledger = Ledger::new(&ctx.repo);
    // The move is judged against the row as it is when it is written, so that of two that race one is
    // told that it came too late.
    ledger.append_if(agent.spawn_commit, by, ctx.now(), |row| {
        row.unwrap_or(agent).may(step)?;
        Ok(what.clone())
    })?;
    Ok(())
}
