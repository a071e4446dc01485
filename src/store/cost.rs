//! What runs cost, as rows have it.

use super::ledger::Ledger;
use crate::domain::event::What;
use crate::error::Result;
use chrono::NaiveDate;

impl Ledger<'_> {
    /// What the runs of this clone cost that ended on a day (UTC), in millionths of a US dollar. What other clones wrote is theirs to pay,
    /// and no claim of theirs stops a run here.
    ///
    /// # Errors
    /// `repo-corrupt` when the ledger is damaged beyond its reflog, `io`.
    pub fn cost_of_day(&self, day: NaiveDate) -> Result<u64> {
        let Some(clone) = self.clone_number()? else {
            return Ok(0);
        };
        let mut cost = 0_u64;
        // Stamps begin with the day, so that rows of other days are not folded.
        for agent in self.agents_mentioning(&day.format("%Y%m%dT").to_string())? {
            for event in self.events(agent.spawn_commit)? {
                let is_ours = event.at.clone_number() == clone;
                if let What::Exited(exited) = &event.what
                    && is_ours
                    && event.at.time().date_naive() == day
                {
                    let own = exited.session.cost_micro_usd.unwrap_or(0);
                    cost = cost.saturating_add(own);
                }
            }
        }
        Ok(cost)
    }
}
