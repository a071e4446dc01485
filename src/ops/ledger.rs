//! `ledger verify`: is every event that was ever recorded here still here, and as it was?

use crate::agents::Ctx;
use crate::domain::judge::finding::verdict_word;
use crate::domain::{Agent, Oid};
use crate::error::Result;
use crate::git::repo::program::CommitSignature;
use crate::ops::agent_report::rfc3339;
use crate::store::ledger::audit::LostEvents;
use crate::store::{landing::spawn_commit, ledger::audit};
use chrono::DateTime;
use serde::Serialize;
use serde_with_macros::skip_serializing_none;
use std::collections::BTreeMap;

/// The answer of `ledger verify`: `git-agent.ledger-verify/1`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "schema", rename = "git-agent.ledger-verify/1")]
pub struct LedgerReport {
    /// `accept` where nothing is missing, and everything is signed where that is required; else `reject`.
    pub verdict: &'static str,
    /// How many rows there are.
    pub rows: usize,
    /// Events that are gone, by the commit that took them away.
    pub removals: Vec<RemovalReport>,
    /// Rows with events that follow an event which is not there.
    pub broken: Vec<BrokenRow>,
    /// Who signed the events; absent where neither the caller nor `agent.sign` asks for signatures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signatures: Option<SignaturesReport>,
}

/// Who signed the events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SignaturesReport {
    /// Events with a good signature by a key that git trusts, by signer.
    pub signed: Vec<SignedReport>,
    /// All other events.
    pub unsigned: Vec<UnsignedReport>,
}

/// The events of one signer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SignedReport {
    /// The signer, as the list of allowed signers says.
    pub signer: String,
    /// How many events.
    pub events: usize,
}

/// An event without a good signature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnsignedReport {
    /// The id of the agent that it is about.
    pub agent_id: String,
    /// The first eight hex digits of the id.
    pub short_id: String,
    /// The event's kind.
    pub event: String,
    /// When it was recorded, as it says.
    pub recorded_at: String,
    /// The commit of the ledger that brought it; absent where that is not here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// `missing`: there is no signature; `untrusted`: it is by a key that git does not trust; `bad`: it is of another
    /// text; `unknown`: the commit is not here.
    pub signature: &'static str,
}

/// Events that one commit of the ledger took away and that are still gone.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RemovalReport {
    /// The commit whose note it is.
    pub note: String,
    /// The agent whose row it is; absent for the note on a commit that landed.
    pub agent_id: Option<String>,
    /// The first eight hex digits of the id.
    pub short_id: Option<String>,
    /// How many events.
    pub events: usize,
    /// The commit of the ledger; absent where the ref was moved to a history that never had the events.
    pub commit: Option<String>,
    /// Its committer, as the commit says.
    pub by: Option<String>,
    /// When, as the commit says.
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

/// Looks through every row and through the ledger's history, and at its signatures where they are wanted. Only with
/// `require_signed` an event without one is rejected.
///
/// # Errors
/// `repo-corrupt`; `usage` where `agent.sign` is neither true nor false; `git-failed`.
pub fn verify(ctx: &Ctx, require_signed: bool) -> Result<LedgerReport> {
    let ledger = ctx.ledger();
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
    let removals = audit::rows_removed(&ctx.repo)?;
    let removals: Vec<RemovalReport> =
        removals.iter().map(|removal| told(&agents, removal)).collect();
    let signatures = if require_signed || spawn_commit::are_wanted(&ctx.repo)? {
        Some(signed(ctx)?)
    } else {
        None
    };
    let lacks_signatures =
        signatures.as_ref().is_some_and(|found| require_signed && !found.unsigned.is_empty());
    Ok(LedgerReport {
        verdict: verdict_word(removals.is_empty() && broken.is_empty() && !lacks_signatures),
        rows: agents.len(),
        removals,
        broken,
        signatures,
    })
}

fn signed(ctx: &Ctx) -> Result<SignaturesReport> {
    let mut signers: BTreeMap<String, usize> = BTreeMap::new();
    let mut unsigned = Vec::new();
    for found in spawn_commit::signatures(&ctx.repo)? {
        let (commit, signature) = found.commit.unzip();
        let signature = match signature {
            Some(CommitSignature::Good(signer)) => {
                *signers.entry(signer).or_default() += 1;
                continue;
            }
            Some(CommitSignature::Missing) => "missing",
            Some(CommitSignature::Untrusted) => "untrusted",
            Some(CommitSignature::Bad) => "bad",
            None => "unknown",
        };
        unsigned.push((found.event, commit, signature));
    }
    unsigned.sort_by_key(|(event, ..)| (event.agent, event.at));
    let reports = unsigned.into_iter().map(|(event, commit, signature)| UnsignedReport {
        agent_id: event.agent.to_string(),
        short_id: event.agent.short(),
        event: event.what.kind().to_owned(),
        recorded_at: rfc3339(event.at.time()),
        commit: commit.map(Oid::to_hex),
        signature,
    });
    let signed = signers.into_iter();
    Ok(SignaturesReport {
        signed: signed.map(|(signer, events)| SignedReport { signer, events }).collect(),
        unsigned: reports.collect(),
    })
}

fn told(agents: &[Agent], removal: &LostEvents) -> RemovalReport {
    let agent = agents.iter().find(|agent| agent.spawn_commit == removal.note);
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
