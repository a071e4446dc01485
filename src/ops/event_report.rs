//! One event as `show` and `log` answer it.

use crate::domain::event::{Event, What};
use crate::domain::id::AgentId;
use crate::domain::oid::Oid;
use crate::domain::run::Ending;
use crate::git::Repo;
use crate::ops::agent_report::{rfc3339, short_branch};
use crate::store::long_text;
use serde::Serialize;
use serde_with_macros::skip_serializing_none;

/// One event in JSON.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EventReport {
    /// The time, RFC 3339.
    pub recorded_at: String,
    /// What happened.
    pub event: String,
    /// Who says so.
    pub by: String,
    /// What the events of one command have in common; absent in rows of old.
    pub operation: Option<String>,
    /// What else is known, in words.
    pub detail: Option<String>,
    /// The blob of what was said, where a line of the ledger cannot hold it.
    pub text_blob: Option<String>,
}

pub(super) fn event(repo: &Repo, event: &Event) -> EventReport {
    let blob = event.what.said().and_then(|(_, blob)| blob);
    EventReport {
        recorded_at: rfc3339(event.at.time()),
        event: event.what.kind().to_owned(),
        by: event.by.clone(),
        operation: event.operation.as_ref().map(ToString::to_string),
        detail: long_text::whole(repo, &event.what).or_else(|| detail(&event.what)),
        text_blob: blob.map(Oid::to_hex),
    }
}

/// What an event says beyond its name, in words.
fn detail(what: &What) -> Option<String> {
    let text = match what {
        What::Spawning(facts) => match &facts.branch {
            Some(branch) => short_branch(branch),
            None => facts.isolation.as_str().to_owned(),
        },
        What::Spawned(facts) => format!("policy {}", facts.policy.short()),
        What::Started(facts) => facts.command.clone(),
        What::Exited(facts) => {
            let status = match facts.ended {
                Some(Ending::Exit) | None => format!("status {}", facts.code),
                Some(ended) => format!("status {} ({})", facts.code, ended.as_str()),
            };
            match facts.session.cost_usd() {
                Some(cost) => format!("{status}, cost {cost:.2} USD"),
                None => status,
            }
        }
        What::Committed { commit, .. } => commit.short(),
        What::Verified(verdict) if verdict.accepted => {
            format!("accepted {}", verdict.tip.short())
        }
        What::Verified(verdict) => {
            let partner = verdict.fails_with.map(AgentId::short);
            let partner = partner.map(|short| format!(", together with agent {short}"));
            format!(
                "rejected {}: {}{}",
                verdict.tip.short(),
                verdict.findings.join(", "),
                partner.unwrap_or_default()
            )
        }
        What::Merged { commit, into, .. } => {
            format!("{} into {}", commit.short(), short_branch(into))
        }
        What::Done { summary: text, .. }
        | What::Failed { reason: text, .. }
        | What::Rejected { reason: text, .. }
        | What::Deferred { reason: text, .. }
        | What::Noted { text } => text.clone(),
        What::Renamed { name: Some(name) } => format!("is called {name}"),
        What::Undone {
            operation,
            revert: Some(commit),
        } => format!("{operation} by {}", commit.short()),
        What::Undone { operation, .. } => operation.to_string(),
        What::Renamed { name: None } => "another agent has its name".to_owned(),
        What::Amended { policy, reason, .. } => match reason.as_str() {
            "" => format!("policy {}", policy.short()),
            reason => format!("policy {}: {reason}", policy.short()),
        },
        What::Competed(facts) => {
            let (place, of, best) = (facts.place, facts.of, &facts.best);
            format!("place {place} of {of} on one task, the best is {best}")
        }
        What::Audited(facts) => {
            let who = facts.auditor.map_or_else(
                || "a person".to_owned(),
                |id| format!("agent {}", id.short()),
            );
            let verdict = if facts.auditor.is_some() {
                facts.verdict.as_str()
            } else {
                "accepted all the same"
            };
            let reason = if facts.reason.is_empty() { "" } else { ": " };
            format!(
                "{who}: {verdict}, at {}{reason}{}",
                facts.tip.short(),
                facts.reason
            )
        }
        What::Discarded { tip } => tip.map(|tip| format!("was at {}", tip.short()))?,
        What::Salvaged { commit } => commit.short(),
        What::Rescued { to } => to.clone(),
        What::Expired { commits } => {
            let short: Vec<_> = commits.iter().map(|oid| oid.short()).collect();
            short.join(", ")
        }
        What::Unknown { needs, .. } => {
            needs.map(|needs| format!("git-agent {needs} or newer understands it"))?
        }
    };
    Some(text).filter(|text| !text.is_empty())
}
