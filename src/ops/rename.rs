//! `rename`: another name for an agent. Its id, its branch and its worktree stay as they are.

use crate::agents::who::authority::require_orchestrator;
use crate::agents::{Ctx, who::lookup};
use crate::domain::What;
use crate::error::{Code, Error, Remedy, Result};
use crate::ops::agent_report::{AgentReport, Reporter};
use crate::ops::spawn::named::new_name;
use serde::Serialize;

/// The answer of `rename`: `git-agent.rename/1`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "schema", rename = "git-agent.rename/1")]
pub struct RenameReport {
    /// The agent under its new name.
    #[serde(flatten)]
    pub agent: AgentReport,
    /// The name that it had.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_name: Option<String>,
    /// What the caller should know.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// Calls an agent by another name from now on.
///
/// # Errors
/// `agent-unknown`, `agent-ambiguous`; `usage` for a name that breaks a rule, or that the agent has; `orchestrator-only`; those of the ledger.
pub fn rename(ctx: &Ctx, who: &str, name: &str) -> Result<RenameReport> {
    require_orchestrator(ctx)?;
    let ledger = ctx.ledger();
    let agent = lookup::agent(ctx, &ledger, who)?;
    agent.require_understood()?;
    let (name, warning) = new_name(&ledger, name, agent.id)?;
    if agent.name.as_ref() == Some(&name) {
        let id = agent.id.short();
        return Err(Error::new(Code::Usage, format!("agent {id} is called {name} already"))
            .remedy("to see it", Remedy::Agent(id)));
    }
    let previous_name = agent.name.as_ref().map(ToString::to_string);
    let what = What::Renamed { name: Some(name), task: None };
    ledger.append(agent.spawn_commit, &ctx.actor()?, what, ctx.now())?;
    let agent = ledger.agent(agent.spawn_commit)?.unwrap_or(agent);
    Ok(RenameReport {
        agent: Reporter::new(ctx)?.agent(ctx, &agent),
        previous_name,
        warnings: warning.into_iter().collect(),
    })
}
