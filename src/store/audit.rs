//! Whether a row is as it was written: each line names the one before it.
//!
//! A line that follows one which is not there has two explanations: that one was removed or changed, or the line was made
//! up by a writer who did not know the row. The ledger's history tells them apart, because every version of a row stays
//! reachable there. Only the first is evidence against the row; the second must not be a way to block an agent.

use super::chain::{self, Chain};
use super::ledger::Ledger;
use super::row::Row;
use crate::domain::id::AgentId;
use crate::domain::oid::Oid;
use crate::error::Result;
use crate::git::notes::{self, lines};
use crate::wire::event_line;
use std::collections::{HashSet, VecDeque};

/// How many commits of the ledger are searched for the lines that are not there.
const SEARCHED: usize = 10_000;

/// Lines of a row that follow a line which is not there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BrokenLinks {
    /// That line was in the row once: it was removed or changed.
    pub removed: usize,
    /// That line was never in the row, as far as the ledger's history goes.
    pub unknown: usize,
}

impl Ledger<'_> {
    /// Which lines of a row follow a line that is not there. Two clones that wrote at the same time leave two lines after
    /// one, which is no break.
    ///
    /// # Errors
    /// `repo-corrupt` when the ledger is damaged beyond its reflog.
    pub fn broken_links(&self, spawn_commit: Oid) -> Result<BrokenLinks> {
        let id = AgentId::from_spawn_commit(spawn_commit);
        let body = self.read(|tree| notes::body(self.repo, tree, spawn_commit))?;
        let body = body.unwrap_or_default();
        let row = Row::read(&body, id);
        let mut seen = HashSet::new();
        let mut missing = Vec::new();
        let mut links = BrokenLinks::default();
        for (index, event) in row.events.iter().enumerate() {
            match &event.previous {
                Some(previous) if !seen.contains(previous) => missing.push(previous.clone()),
                None if !seen.is_empty() => links.unknown += 1,
                _ => {}
            }
            seen.insert(row.digest(index));
        }
        if !missing.is_empty() {
            let known = self.once_there(spawn_commit, &missing)?;
            links.removed = missing.iter().filter(|line| known.contains(*line)).count();
            links.unknown += missing.len() - links.removed;
        }
        Ok(links)
    }

    /// Those of the digests that are of lines which a former version of the note held.
    fn once_there(&self, key: Oid, digests: &[String]) -> Result<HashSet<String>> {
        let mut wanted: HashSet<&str> = digests.iter().map(String::as_str).collect();
        let mut found = HashSet::new();
        let tip = chain::tip(self.repo, Chain::Ledger)?;
        let mut waiting: VecDeque<Oid> = tip.into_iter().map(|tip| tip.oid).collect();
        let (mut commits, mut blobs) = (HashSet::new(), HashSet::new());
        while let Some(oid) = waiting.pop_front() {
            if wanted.is_empty() || commits.len() >= SEARCHED {
                break;
            }
            // What is not here, as in a shallow clone, tells nothing.
            let Ok(commit) = self.repo.read_commit(oid) else {
                continue;
            };
            if !commits.insert(oid) {
                continue;
            }
            waiting.extend(&commit.parents);
            let notes = notes::lookup(self.repo, commit.tree, key).unwrap_or_default();
            for blob in notes.into_iter().filter(|blob| blobs.insert(*blob)) {
                let body = self.repo.read_blob(blob).unwrap_or_default();
                for digest in lines::split(&body).map(event_line::digest) {
                    if wanted.remove(digest.as_str()) {
                        found.insert(digest);
                    }
                }
            }
        }
        Ok(found)
    }
}
