//! Which audits of an agent count in this clone.
//!
//! A row travels, and who may push the ledger can add lines to it. An audit that failed the work is stricter than none, so it
//! counts wherever it was written, unless its auditor is known here to be none. What clears such an audit, a later one that
//! passed or the word of a person, counts only where this clone wrote it.

use super::ledger::Ledger;
use super::row::Row;
use super::spawn_commit;
use crate::domain::agent::Agent;
use crate::domain::event::What;
use crate::domain::id::AgentId;
use crate::domain::report::{AuditVerdict, Audited};
use crate::error::Result;
use std::collections::HashMap;

impl Ledger<'_> {
    /// The audits of an agent's work that count here, in the order of its row.
    ///
    /// # Errors
    /// `repo-corrupt`, `io`.
    pub fn audits(&self, agent: &Agent) -> Result<Vec<Audited>> {
        let body = self.lines(agent.spawn_commit)?;
        let row = Row::read(&body, agent.id);
        let mut audits = Vec::new();
        let mut auditors: HashMap<AgentId, bool> = HashMap::new();
        let closed = self.closed_here()?;
        for (index, event) in row.events.iter().enumerate() {
            let What::Audited(audit) = &event.what else {
                continue;
            };
            let counts = match (audit.verdict, audit.auditor) {
                (AuditVerdict::Pass, _) => closed.has_cleared(agent.id, &row.digest(index)),
                // No agent judges its own work, whatever line says so.
                (_, Some(auditor)) if auditor != agent.id => match auditors.get(&auditor) {
                    Some(known) => *known,
                    None => {
                        let known = self.may_audit(auditor)?;
                        auditors.insert(auditor, known);
                        known
                    }
                },
                _ => false,
            };
            if counts {
                audits.push(audit.clone());
            }
        }
        Ok(audits)
    }

    /// Whether there is such an agent, and nothing here says that its role does not audit.
    fn may_audit(&self, auditor: AgentId) -> Result<bool> {
        let Ok(auditor) = self.find(&auditor.to_string()) else {
            return Ok(false);
        };
        let policy = spawn_commit::if_here(self.repo, &auditor)?;
        // A policy that is not here says nothing, and then the stricter reading holds.
        Ok(policy.is_none_or(|policy| policy.report_rules().audit.is_some()))
    }
}
