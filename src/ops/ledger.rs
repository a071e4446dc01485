//! `ledger verify`: is every event that was ever recorded here still here, and as it was?

use crate::agents::ctx::Ctx;
use crate::domain::agent::Agent;
use crate::domain::oid::Oid;
use crate::error::Result;
use crate::ops::agent_report::rfc3339;
use crate::store::ledger::Ledger;
use crate::store::tampering::{self, LostEvents};
use chrono::DateTime;
use serde::Serialize;

/// The answer of `ledger verify`: `git-agent.ledger-verify/1`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LedgerReport {
    /// The format's name and version.
    pub schema: &'static str,
    /// `accept` where nothing is missing, else `reject`.
    pub verdict: &'static str,
    /// How many rows there are.
    pub rows: usize,
    /// Events that are gone, by the commit that took them away.
    pub removals: Vec<RemovalReport>,
    /// Rows with events that follow an event which is not there.
    pub broken: Vec<BrokenRow>,
}

/// Events that one commit of the ledger took away and that are still gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RemovalReport {
    /// The commit whose note it is.
    pub note: String,
    /// The agent whose row it is; absent for the note on a commit that landed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// The first eight hex digits of the id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub short_id: Option<String>,
    /// How many events.
    pub events: usize,
    /// The commit of the ledger; absent where the ref was moved to a history that never had the events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Its committer, as the commit says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// When, as the commit says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub removed_at: Option<String>,
}

/// A row whose events do not all follow one another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BrokenRow {
    /// The agent's id.
    pub agent_id: String,
    /// The first eight hex digits of the id.
    pub short_id: String,
    /// Events whose predecessor was in the row once: it was removed or changed.
    pub removed: usize,
    /// Events whose predecessor was never in the row, as far as the ledger's history goes: they may have been made up.
    pub unknown: usize,
}

/// Looks through every row and through the ledger's history.
///
/// # Errors
/// `repo-corrupt`.
pub fn verify(ctx: &Ctx) -> Result<LedgerReport> {
    let ledger = Ledger::new(&ctx.repo);
    let agents = ledger.agents()?;
    let mut broken = Vec::new();
    for agent in &agents {
        let links = ledger.broken_links(agent.spawn_commit)?;
        if links.removed + links.unknown > 0 {
            broken.push(BrokenRow {
                agent_id: agent.id.to_string(),
                short_id: agent.id.short(),
                removed: links.removed,
                unknown: links.unknown,
            });
        }
    }
    let removals = tampering::removals(&ctx.repo)?;
    let removals: Vec<RemovalReport> = { removals.iter() }
        .map(|removal| told(&agents, removal))
        .collect();
    Ok(LedgerReport {
        schema: "git-agent.ledger-verify/1",
        verdict: if removals.is_empty() && broken.is_empty() {
            "accept"
        } else {
            "reject"
        },
        rows: agents.len(),
        removals,
        broken,
    })
}

fn told(agents: &[Agent], removal: &LostEvents) -> RemovalReport {
    let agent = agents
        .iter()
        .find(|agent| agent.spawn_commit == removal.note);
    let by = removal.by.as_ref();
    let time = by.and_then(|(_, seconds)| DateTime::from_timestamp(*seconds, 0));
    RemovalReport {
        note: removal.note.to_hex(),
        agent_id: agent.map(|agent| agent.id.to_string()),
        short_id: agent.map(|agent| agent.id.short()),
        events: removal.lines,
        commit: removal.commit.map(Oid::to_hex),
        by: by.map(|(who, _)| who.clone()),
        removed_at: time.map(rfc3339),
    }
}
