//! Moves of an agent from one state to another, as rows of the ledger.

use crate::agents::ctx::Ctx;
use crate::domain::agent::{Agent, Move};
use crate::domain::event::What;
use crate::error::Result;
use crate::store::long_text;

/// Records what a fenced agent left in its spool about the end of its work.
///
/// # Errors
/// `agent-state` when that was declared already, or the decision about it has been taken; those of the ledger.
pub(crate) fn post_declaration(ctx: &Ctx, agent: &Agent, what: What) -> Result<()> {
    let step = match &what {
        What::Failed { .. } => Move::Fail,
        _ => Move::Done,
    };
    append(ctx, agent, &agent.id.to_string(), step, what)
}

/// Records what moves an agent.
///
/// # Errors
/// `agent-state` when another move came first; those of the ledger.
pub(crate) fn append(ctx: &Ctx, agent: &Agent, by: &str, step: Move, what: What) -> Result<()> {
    // A text that is too long for a line is kept as an object, which the event then names.
    let what = long_text::keep_whole(&ctx.repo, agent, by, what, ctx.now())?;
    // The move is judged against the row as it is when it is written, so that of two that race one is
    // told that it came too late.
    ctx.ledger()
        .append_if(agent.spawn_commit, by, ctx.now(), |row| {
            row.unwrap_or(agent).may(step)?;
            Ok(what.clone())
        })?;
    Ok(())
}
