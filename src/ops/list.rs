//! `list`: the agents of a repository, oldest first.

use super::agent_report::{AgentReport, Reporter};
use crate::domain::agent::State;
use crate::error::Result;
use crate::ops::Ctx;
use crate::store::ledger::Ledger;
use serde::Serialize;

/// Which agents are wanted.
#[derive(Clone, Debug, Default)]
pub struct ListOptions {
    /// Also those that are landed or discarded.
    pub all: bool,
    /// Only those in this state; implies `all`.
    pub state: Option<State>,
    /// Only those in this role.
    pub role: Option<String>,
    /// Only those with a DNA that begins like this.
    pub dna: Option<String>,
}

/// The answer of `list`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListReport {
    /// The format's name and version.
    pub schema: &'static str,
    /// The agents, oldest first.
    pub agents: Vec<AgentReport>,
}

/// Reads the ledger.
///
/// # Errors
/// Those of [`Ledger::agents`].
pub fn list(ctx: &Ctx, options: &ListOptions) -> Result<ListReport> {
    let reporter = Reporter::new(ctx)?;
    let mut agents = Ledger::new(&ctx.repo).agents()?;
    agents.sort_by_key(|agent| (agent.started, agent.id));
    let wanted = agents.iter().filter(|agent| {
        let state = match options.state {
            Some(state) => agent.state == state,
            None => options.all || agent.state.is_open(),
        };
        let role = options.role.is_none() || agent.role == options.role;
        let dna = options.dna.as_ref().is_none_or(|dna| {
            let hex = dna.trim_start_matches("sha256:");
            let own = agent.dna.as_deref().unwrap_or_default();
            own.trim_start_matches("sha256:").starts_with(hex)
        });
        state && role && dna
    });
    Ok(ListReport {
        schema: "git-agent.list/1",
        agents: wanted.map(|agent| reporter.agent(agent)).collect(),
    })
}
