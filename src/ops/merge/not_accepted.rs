//! Work that does not land, and the error that says why.

use crate::domain::agent::Agent;
use crate::domain::evidence::Outcome;
use crate::domain::finding::{Finding, Verdict};
use crate::domain::folded_paths::by_code;
use crate::error::{Code, Error, ErrorFacts};
use crate::ops::merge::RemoteTarget;

/// An agent whose work was judged and does not land.
#[derive(Debug)]
pub struct NotAccepted {
    pub(super) agent: Agent,
    /// What rejects the work, or leaves a part of it unjudged.
    pub verdict: Verdict,
    /// The remote's branch that it was judged against, in place of this clone's.
    pub(super) against: Option<RemoteTarget>,
}

impl NotAccepted {
    /// The codes of what rejects the work, and the paths on which it conflicts.
    fn facts(&self) -> ErrorFacts {
        let rejecting = self.verdict.findings.iter().filter(|one| one.rejects());
        let mut findings: Vec<_> = rejecting.map(|one| one.code.name()).collect();
        findings.dedup();
        let outcome = self
            .verdict
            .landing
            .as_ref()
            .map(|landing| &landing.outcome);
        let conflicts = match outcome {
            Some(Outcome::Conflicts(conflicts)) => conflicts.as_slice(),
            _ => &[],
        };
        ErrorFacts {
            findings,
            conflicts: conflicts.iter().map(|one| one.path.clone()).collect(),
            ..ErrorFacts::default()
        }
    }

    /// The error that names what rejects the work.
    pub(crate) fn error(&self) -> Error {
        let short = self.agent.id.short();
        // One that accepts only half was judged: its notes say what was left out.
        let telling = |finding: &&Finding| finding.rejects() || self.verdict.is_accepted();
        let mut lines = Vec::new();
        for folded in by_code(self.verdict.findings.iter().filter(telling)) {
            let named = { folded.named.iter() }
                .map(|finding| format!("  {} {}", folded.code, finding.message));
            lines.extend(named);
            if folded.more > 0 {
                lines.push(format!("  {} more {}", folded.more, folded.code));
            }
            lines.extend(folded.places.iter().map(|place| format!("    {place}")));
        }
        Error::new(
            Code::NotAccepted,
            format!("agent {short} has no accepting verdict, so its work does not land"),
        )
        .detail(lines.join("\n"))
        .facts(self.facts())
        .hint(match &self.against {
            None => format!("to see how to mend it, run git agent verify {short}"),
            Some(there) => format!(
                "to see how to mend it, run git agent verify {short} --base {}",
                there.copy
            ),
        })
    }
}
