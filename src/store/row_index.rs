//! What finding agents takes of every row, with a disposable copy, so that it folds the rows of those that are found and no
//! others.
//!
//! An entry holds what follows from a row alone. Where this clone has a say in what a row means (`belief`,
//! `row_origin`), the row itself is read.

use super::belief::Belief;
use super::cache::{Changed, Copied};
use super::ledger::Ledger;
use super::row::Row;
use super::{layout, row_origin};
use crate::domain::agent::{Agent, State};
use crate::domain::id::{AgentId, AgentName};
use crate::domain::oid::Oid;
use crate::error::Result;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeSet;

const ENTRIES: Copied = Copied {
    // Entries of the first form do not say that a policy was amended.
    kind: "git-agent row index 3 ",
    path: layout::row_index,
    worth: 8,
    keep: |key, body| RowEntry::made_of(key, &body),
};

/// What is kept of a note that is no agent's row.
const NO_ROW: &[u8] = b"-";

/// What follows from a row alone.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RowEntry<'e> {
    /// The state; absent where objects decide which of the row's events are believed.
    state: Option<Cow<'e, str>>,
    /// When the agent was spawned, in microseconds since the epoch.
    started: i64,
    #[serde(borrow)]
    pub(super) name: Option<Cow<'e, str>>,
    #[serde(borrow)]
    pub(super) branch: Option<Cow<'e, str>>,
    #[serde(borrow)]
    pub(super) worktree: Option<Cow<'e, str>>,
    policy: Option<Cow<'e, str>>,
}

/// An agent whose work may still land, as far as its scope takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveRow {
    /// Its id.
    pub id: AgentId,
    /// The commit that carries its row.
    pub spawn_commit: Oid,
    /// Its alias.
    pub name: Option<AgentName>,
    /// The blob of its policy; absent while half made.
    pub policy: Option<Oid>,
    /// The blob of the policy that it was given since.
    pub amended: Option<Oid>,
    started: DateTime<Utc>,
}

impl Ledger<'_> {
    /// Every live agent, oldest first.
    ///
    /// # Errors
    /// `repo-corrupt` when the ledger is damaged beyond its reflog; `io`, `git-failed`.
    pub fn live_agents(&self) -> Result<Vec<LiveRow>> {
        let belief = Belief::new(self.repo);
        let live = self.read(|tree| {
            let (mut live, mut over) = (Vec::new(), Vec::new());
            let mut doubtful = BTreeSet::new();
            self.each_entry(tree, |key, entry| match entry.state() {
                Some(state) if state.is_live() => live.extend(entry.live(key)),
                Some(state) if state.is_open() => {}
                Some(_) => over.push((key, entry.branch.map(Cow::into_owned))),
                None => drop(doubtful.insert(key)),
            })?;
            for (key, branch) in over {
                let id = AgentId::from_spawn_commit(key);
                if belief.may_deny(id, branch.as_deref())? {
                    doubtful.insert(key);
                }
            }
            let read = folded(&belief, &self.bodies(tree, doubtful)?)?;
            let read = read.iter().filter(|agent| agent.state.is_live());
            live.extend(read.map(LiveRow::of));
            Ok(live)
        })?;
        let mut live = live.unwrap_or_default();
        live.sort_by_cached_key(|agent| (agent.started, agent.spawn_commit));
        Ok(live)
    }

    /// The agents that may be meant, going by what their rows say, oldest first. Those of rows that are not believed
    /// as they stand are among them.
    pub(super) fn agents_that(&self, may: impl Fn(&RowEntry<'_>) -> bool) -> Result<Vec<Agent>> {
        let belief = Belief::new(self.repo);
        let agents = self.read(|tree| {
            let mut keys = BTreeSet::new();
            self.each_entry(tree, |key, entry| {
                if entry.state.is_none() || may(&entry) {
                    keys.insert(key);
                }
            })?;
            folded(&belief, &self.bodies(tree, keys)?)
        })?;
        let mut agents = agents.unwrap_or_default();
        agents.sort_by_cached_key(|agent| (agent.started, agent.spawn_commit));
        Ok(agents)
    }

    fn each_entry(&self, tree: Oid, mut on: impl FnMut(Oid, RowEntry<'_>)) -> Result<()> {
        self.each_copied(&ENTRIES, tree, |key, kept| {
            if kept != NO_ROW {
                on(key, RowEntry::read(kept));
            }
        })
    }
}

fn folded(belief: &Belief<'_>, bodies: &Changed) -> Result<Vec<Agent>> {
    let agents = bodies.iter().map(|(key, body)| {
        let row = Row::read(body, AgentId::from_spawn_commit(*key));
        belief.fold(*key, &row)
    });
    agents.filter_map(Result::transpose).collect()
}

impl<'e> RowEntry<'e> {
    fn made_of(key: Oid, body: &[u8]) -> Vec<u8> {
        let row = Row::read(body, AgentId::from_spawn_commit(key));
        let Some(agent) = Agent::fold(key, &row.events) else {
            return NO_ROW.to_owned();
        };
        let state = agent.state.as_str();
        let policy = agent.policy.map(Oid::to_hex);
        let entry = RowEntry {
            state: (row_origin::is_plain(&row.events) && agent.amended.is_none())
                .then_some(Cow::Borrowed(state)),
            started: agent.started.timestamp_micros(),
            name: agent.name.as_ref().map(|name| name.as_str().into()),
            branch: agent.branch.as_deref().map(Cow::Borrowed),
            worktree: agent.worktree.as_deref().map(Cow::Borrowed),
            policy: policy.map(Cow::Owned),
        };
        // Texts and numbers always serialize.
        serde_json::to_vec(&entry).unwrap_or_default()
    }

    /// What the file has; an entry that cannot be read leaves everything to the row.
    fn read(kept: &'e [u8]) -> RowEntry<'e> {
        serde_json::from_slice(kept).unwrap_or(RowEntry {
            state: None,
            started: 0,
            name: None,
            branch: None,
            worktree: None,
            policy: None,
        })
    }

    fn state(&self) -> Option<State> {
        self.state.as_deref().and_then(State::parse)
    }

    fn live(&self, spawn_commit: Oid) -> Option<LiveRow> {
        Some(LiveRow {
            id: AgentId::from_spawn_commit(spawn_commit),
            spawn_commit,
            name: { self.name.as_deref() }.and_then(|name| AgentName::parse(name).ok()),
            policy: self.policy.as_deref().and_then(Oid::from_hex),
            // An entry that has a state is of a row without amendments.
            amended: None,
            started: DateTime::from_timestamp_micros(self.started)?,
        })
    }
}

impl LiveRow {
    fn of(agent: &Agent) -> LiveRow {
        LiveRow {
            id: agent.id,
            spawn_commit: agent.spawn_commit,
            name: agent.name.clone(),
            policy: agent.policy,
            amended: agent.amended,
            started: agent.started,
        }
    }
}
