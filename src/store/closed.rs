//! The agents that this clone has merged, rejected or discarded itself: `agents/closed`, one a line.
//!
//! A row that was fetched may say so too. Only what this file says is this clone's own doing, so only that lets a command
//! remove worktrees and branches without asking objects first. The file is written before the event, under the ledger's
//! lock; a kill between the two leaves a line about something that was wanted here and did not come about.

use super::{fsx, layout};
use crate::domain::agent::State;
use crate::domain::id::AgentId;
use crate::error::Result;
use std::collections::HashSet;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

/// What this clone has closed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Closed(HashSet<(AgentId, State)>);

impl Closed {
    /// Reads the file. A line that a power loss has cut short says nothing.
    ///
    /// # Errors
    /// `io`.
    pub fn load(common_dir: &Path) -> Result<Closed> {
        let text = fsx::load_if_there(&layout::closed(common_dir))?.unwrap_or_default();
        let lines = text.split(|&byte| byte == b'\n');
        let read = |line: &[u8]| {
            let (id, state) = std::str::from_utf8(line).ok()?.split_once(' ')?;
            Some((AgentId::parse(id)?, State::parse(state)?))
        };
        Ok(Closed(lines.filter_map(read).collect()))
    }

    /// Whether this clone brought the agent into that state.
    pub fn says(&self, id: AgentId, state: State) -> bool {
        self.0.contains(&(id, state))
    }

    /// Whether this clone merged or discarded the agent.
    pub fn names(&self, id: AgentId) -> bool {
        self.says(id, State::Merged) || self.says(id, State::Discarded)
    }
}

/// Notes that this clone brings agents into these states. The caller holds the ledger's lock.
///
/// # Errors
/// `repo-read-only`, `disk-full`, `io`.
pub(super) fn note(common_dir: &Path, over: &[(AgentId, State)]) -> Result<()> {
    if over.is_empty() {
        return Ok(());
    }
    let known = Closed::load(common_dir)?;
    let new = over.iter().filter(|(id, state)| !known.says(*id, *state));
    // Each begins with a line feed: what stands before may have been cut short.
    let lines: String = new.map(|(id, state)| format!("\n{id} {state}\n")).collect();
    if lines.is_empty() {
        return Ok(());
    }
    let path = layout::closed(common_dir);
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        .and_then(|mut file| file.write_all(lines.as_bytes()))
        .map_err(|error| fsx::not_writable(&path, error))
}
