//! What this clone has decided about agents itself: `agents/closed`, one decision a line. Those that it has merged, rejected or
//! discarded, and those whose policy it has amended (`<id> amended <blob>`; programs that do not know that word pass over it).
//!
//! A row that was fetched may say so too. Only what this file says is this clone's own doing, so only that lets a command
//! remove worktrees and branches without asking objects first, and lets an agent do more than its spawn commit says. The file is written before the event, under the ledger's
//! lock; a kill between the two leaves a line about something that was wanted here and did not come about.

use super::{fsx, layout};
use crate::domain::agent::State;
use crate::domain::id::AgentId;
use crate::domain::oid::Oid;
use crate::error::Result;
use std::collections::HashSet;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

/// What this clone has closed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Closed {
    states: HashSet<(AgentId, State)>,
    policies: HashSet<(AgentId, Oid)>,
}

/// What a decision makes of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Decision {
    /// It is over.
    Over(State),
    /// This policy binds it.
    Amended(Oid),
}

/// The word before the blob of a policy.
const AMENDED: &str = "amended ";

impl Closed {
    /// Reads the file. A line that a power loss has cut short says nothing.
    ///
    /// # Errors
    /// `io`.
    pub fn load(common_dir: &Path) -> Result<Closed> {
        let text = fsx::load_if_there(&layout::closed(common_dir))?.unwrap_or_default();
        let lines = text.split(|&byte| byte == b'\n');
        let mut closed = Closed::default();
        for line in lines {
            let Some((id, rest)) = { std::str::from_utf8(line).ok() }
                .and_then(|line| line.split_once(' '))
                .and_then(|(id, rest)| Some((AgentId::parse(id)?, rest)))
            else {
                continue;
            };
            if let Some(blob) = rest.strip_prefix(AMENDED).and_then(Oid::from_hex) {
                closed.policies.insert((id, blob));
            } else if let Some(state) = State::parse(rest) {
                closed.states.insert((id, state));
            }
        }
        Ok(closed)
    }

    /// Whether this clone gave the agent that policy.
    pub fn has_amended(&self, id: AgentId, policy: Oid) -> bool {
        self.policies.contains(&(id, policy))
    }

    /// Whether this clone brought the agent into that state.
    pub fn says(&self, id: AgentId, state: State) -> bool {
        self.states.contains(&(id, state))
    }

    /// Whether this clone merged or discarded the agent.
    pub fn names(&self, id: AgentId) -> bool {
        self.says(id, State::Merged) || self.says(id, State::Discarded)
    }
}

/// Notes what this clone decides about agents. The caller holds the ledger's lock.
///
/// # Errors
/// `repo-read-only`, `disk-full`, `io`.
pub(super) fn note(common_dir: &Path, decisions: &[(AgentId, Decision)]) -> Result<()> {
    if decisions.is_empty() {
        return Ok(());
    }
    let known = Closed::load(common_dir)?;
    // Each begins with a line feed: what stands before may have been cut short.
    let line = |&(id, decision): &(AgentId, Decision)| match decision {
        Decision::Over(state) => (!known.says(id, state)).then(|| format!("\n{id} {state}\n")),
        Decision::Amended(policy) => {
            (!known.has_amended(id, policy)).then(|| format!("\n{id} {AMENDED}{policy}\n"))
        }
    };
    let lines: String = decisions.iter().filter_map(line).collect();
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
