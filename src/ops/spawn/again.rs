//! The task of an agent that was spawned before, for another try.

use crate::agents::ctx::Ctx;
use crate::agents::{lookup, task_copy};
use crate::domain::agent::{Agent, State};
use crate::domain::id::AgentId;
use crate::domain::task::TaskDraft;
use crate::error::{Code, Error, Result};
use crate::ops::spawn::start::{self, Start};

/// The warning for an agent that is over.
const FORGOTTEN: &str = "a briefing or a system prompt of the first try was deleted when that agent was merged or discarded; \
                         to give them again, run git agent run with --briefing or --system-prompt";

/// What another try starts from.
#[derive(Debug)]
pub struct EarlierTask {
    /// The task as it was given.
    pub draft: TaskDraft,
    /// The agent.
    pub id: AgentId,
    /// Where it starts once more, if others wrote that.
    pub start: Option<Start>,
    /// The agent's name, which the next one gets in its place.
    pub name: Option<String>,
    /// The agent that asked for it.
    pub parent: Option<String>,
    /// What the caller should know.
    pub warning: Option<String>,
}

/// Recalls the task of an agent.
///
/// # Errors
/// `agent-unknown`, `agent-ambiguous`; `agent-state` for one that is still at work, and where the task is not in this clone or was changed; those of the ledger.
pub fn earlier_task(ctx: &Ctx, who: &str) -> Result<EarlierTask> {
    let agent = lookup::agent(ctx, &ctx.ledger(), who)?;
    agent.require_understood()?;
    if matches!(agent.state, State::Spawning | State::Ready | State::Running) {
        let id = agent.id.short();
        return Err(Error::new(
            Code::AgentState,
            format!("agent {id} is {} and cannot be tried again", agent.state),
        )
        .hint(format!(
            "to end it first, run git agent mark fail {id} -m <reason>"
        )));
    }
    let is_forgotten = matches!(agent.state, State::Merged | State::Discarded);
    let draft = task_copy::load(ctx, &agent).map_err(|error| match error.code() {
        Code::AgentState => unknown_task(&agent, error.message()),
        _ => error,
    })?;
    Ok(EarlierTask {
        start: start::again(ctx, &agent)?,
        draft,
        id: agent.id,
        name: agent.name.as_ref().map(ToString::to_string),
        parent: agent.parent.map(|parent| parent.to_string()),
        warning: is_forgotten.then(|| FORGOTTEN.to_owned()),
    })
}

fn unknown_task(agent: &Agent, why: &str) -> Error {
    let id = agent.id.short();
    Error::new(
        Code::AgentState,
        format!("agent {id} cannot be tried again: {why}"),
    )
    .hint("to start with a task file, run git agent spawn <task.toml>")
}
