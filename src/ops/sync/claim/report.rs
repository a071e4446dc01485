//! The answer of a verb that finds a claim it need not work under.

use super::TaskClaim;
use crate::domain::id::AgentId;
use serde::Serialize;
use serde_with_macros::skip_serializing_none;

/// The answer for a task that is done already, or that this clone has already.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClaimReport {
    /// The format's name and version.
    pub schema: &'static str,
    /// The key.
    pub key: String,
    /// The remote.
    pub remote: String,
    /// The full name of the claim on the remote.
    pub remote_ref: String,
    /// `done`, or `held` by this clone.
    pub state: &'static str,
    /// The agent that did it or works on it.
    pub agent_id: Option<String>,
    /// The first eight hex digits of its id.
    pub short_id: Option<String>,
    /// What needs attention, such as a claim that no row bears out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl TaskClaim {
    /// The answer for a task that is done, by that agent.
    pub fn report(&self, agent: Option<AgentId>) -> ClaimReport {
        ClaimReport {
            schema: "git-agent.run-claim/1",
            key: self.key.clone(),
            remote: self.remote.clone(),
            remote_ref: self.refname.clone(),
            state: "done",
            agent_id: agent.map(|agent| agent.to_string()),
            short_id: agent.map(|agent| agent.short()),
            warnings: Vec::new(),
        }
    }
}
