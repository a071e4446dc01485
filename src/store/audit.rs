//! Whether a row is as it was written: each line names the one before it.

use super::ledger::{Ledger, body_of};
use crate::domain::id::AgentId;
use crate::domain::oid::Oid;
use crate::error::Result;
use crate::git::notes::lines;
use crate::wire::event_line;
use std::collections::HashSet;

impl Ledger<'_> {
    /// How many lines of a row follow a line that is not there. Two clones that wrote at the same time
    /// leave two lines after one, which is no break.
    ///
    /// # Errors
    /// `repo-corrupt` when the ledger is damaged beyond its reflog.
    pub fn broken_links(&self, spawn_commit: Oid) -> Result<usize> {
        let id = AgentId::from_spawn_commit(spawn_commit);
        let body = self.read(|tree| body_of(self.repo, tree, spawn_commit))?;
        let body = body.unwrap_or_default();
        let mut seen = HashSet::new();
        let mut broken = 0;
        for line in lines::split(&body) {
            let Some(event) = event_line::decode(line).filter(|event| event.agent == id) else {
                continue;
            };
            let follows = match &event.previous {
                Some(previous) => seen.contains(previous),
                None => seen.is_empty(),
            };
            broken += usize::from(!follows);
            seen.insert(event_line::digest(line));
        }
        Ok(broken)
    }
}
