//! What finding agents takes of every row, with a disposable copy, so that it folds the rows of those that are found and no
//! others.
//!
//! An entry holds what follows from a row alone. Where this clone has a say in what a row means (`belief`,
//! `row_origin`), the row itself is read.

use super::belief::{self, Belief};
use super::cache::{self, Changed, Copied};
use super::row::Row;
use crate::domain::{Agent, AgentId, AgentName, Oid, State, life::operation};
use crate::error::Result;
use crate::git::Repo;
use crate::store::files::{fsx, layout};
use crate::store::landing::spawn_commit::{self, SpawnCommit};
use crate::store::ledger::Ledger;
use crate::wire::row::policy::Policy;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};

const ENTRIES: Copied = Copied {
    // Entries of the first forms give a state also where this clone has a say in it.
    kind: "git-agent row index 5 ",
    path: layout::row_index,
    worth: 8,
    keep: |key, body| RowEntry::made_of(key, &body),
};

/// What is kept of a note that is no agent's row.
const NO_ROW: &[u8] = b"-";

/// What follows from a row alone.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::store) struct RowEntry<'e> {
    /// The state; absent where objects decide which of the row's events are believed.
    state: Option<Cow<'e, str>>,
    /// When the agent was spawned, in microseconds since the epoch.
    started: i64,
    #[serde(borrow)]
    pub(in crate::store) name: Option<Cow<'e, str>>,
    #[serde(borrow)]
    pub(in crate::store) branch: Option<Cow<'e, str>>,
    #[serde(borrow)]
    pub(in crate::store) worktree: Option<Cow<'e, str>>,
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
            // Three kinds of entries, by what it costs to know their state here. What the row alone decides is taken from the
            // copy. What claims to be over may be denied by what this clone has; that is asked below, of these only. Where
            // objects decide (`None`), and where a claim may be denied, the row is read and folded with belief.
            let (mut live, mut over) = (Vec::new(), Vec::new());
            let mut doubtful = BTreeSet::new();
            self.each_entry(tree, |key, entry| match entry.state() {
                Some(state) if state.is_live() => live.extend(entry.live(key)),
                // Half made, or rejected: its work may not land.
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
    pub(in crate::store) fn agents_that(
        &self,
        may: impl Fn(&RowEntry<'_>) -> bool,
    ) -> Result<Vec<Agent>> {
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
            // Only for such a row is the fold the same in every clone; of all others this clone's
            // own decisions are asked.
            state: (belief::is_plain(&row.events)
                && agent.amended.is_none()
                && !row.may_be_overruled()
                && !row.may_have_been_done(agent.state)
                && operation::taken_back(&row.events).is_empty())
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

// What agents may touch, with a disposable copy of the scopes that spawn commits carry, so that a look at a thousand
// agents does not read a thousand objects. A spawn commit never changes, so what was read of one stays right.

/// What the file holds.
const KIND: &str = "git-agent scope cache 1 ";

/// What an agent may touch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BoundScope {
    /// No file.
    Nothing,
    /// What these globs allow.
    Globs(ScopeText),
    /// What a policy of another version says, or none.
    Unknown,
}

/// Whitelist and denylist in one text, the same for the same globs, so that many agents with one scope take one
/// comparison.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ScopeText(Vec<u8>);

impl ScopeText {
    /// Of these globs.
    pub fn of(whitelist: &[String], denylist: &[String]) -> ScopeText {
        // Texts always serialize.
        ScopeText(serde_json::to_vec(&(whitelist, denylist)).unwrap_or_default())
    }

    /// Whitelist and denylist; `None` for a text that is cut short.
    pub fn globs(&self) -> Option<(Vec<String>, Vec<String>)> {
        serde_json::from_slice(&self.0).ok()
    }
}

impl BoundScope {
    fn of(policy: &Policy) -> BoundScope {
        if policy.edits {
            BoundScope::Globs(ScopeText::of(&policy.whitelist, &policy.wholly_denied()))
        } else {
            BoundScope::Nothing
        }
    }
}

/// The scopes of agents that are asked for one by one.
pub struct ScopeCache<'r> {
    repo: &'r Repo,
    /// What the file has.
    kept: BTreeMap<Oid, BoundScope>,
    /// What was asked for, as the next file has it.
    asked: Vec<(Oid, BoundScope)>,
    /// How many of these the file does not have.
    missing: usize,
}

impl<'r> ScopeCache<'r> {
    /// With what is remembered; a file that is not whole is passed over.
    pub fn open(repo: &'r Repo) -> ScopeCache<'r> {
        let mut kept = BTreeMap::new();
        let mut texts = HashMap::new();
        let file = fsx::open(&layout::scope_cache(repo.common_dir()));
        let whole = file.ok().and_then(|mut file| {
            cache::read_cache_file(&mut file, KIND, |key, body| {
                if body.is_empty() {
                    kept.insert(key, BoundScope::Nothing);
                    return;
                }
                let text = ScopeText(body.to_owned());
                // One that cannot be read is looked for again.
                let is_whole =
                    *{ texts.entry(text.clone()) }.or_insert_with(|| text.globs().is_some());
                if is_whole {
                    kept.insert(key, BoundScope::Globs(text));
                }
            })
        });
        // A file that was cut short may lack an entry in its middle, so none of it counts.
        if whole.is_none() {
            kept.clear();
        }
        ScopeCache { repo, kept, asked: Vec::new(), missing: 0 }
    }

    /// What an agent may touch.
    ///
    /// # Errors
    /// As [`spawn_commit::of_agent`].
    pub fn of_agent(&mut self, agent: &LiveRow) -> Result<BoundScope> {
        let (key, Some(blob)) = (agent.spawn_commit, agent.policy) else {
            return Ok(BoundScope::Unknown);
        };
        // The copy is of what spawn commits say.
        if agent.amended.is_some() {
            let policy = spawn_commit::bound_policy(self.repo, key, blob, agent.amended)?;
            return Ok(policy.as_ref().map_or(BoundScope::Unknown, BoundScope::of));
        }
        let scope = match self.kept.remove(&key) {
            Some(scope) => scope,
            None => match SpawnCommit::read(self.repo, key)? {
                Some(spawn) => {
                    self.missing += 1;
                    BoundScope::of(&spawn.terms)
                }
                None => {
                    let policy = spawn_commit::load_policy(self.repo, blob)?;
                    return Ok(policy.as_ref().map_or(BoundScope::Unknown, BoundScope::of));
                }
            },
        };
        self.asked.push((key, scope.clone()));
        Ok(scope)
    }

    /// Remembers what was asked for, where enough of it is new.
    pub fn keep(self) {
        if self.repo.is_scratch() || self.missing <= 32 + self.asked.len() / 64 {
            return;
        }
        let common_dir = self.repo.common_dir();
        // Without a cache everything works, only slower.
        let _ = fsx::create_dir(&layout::cache_dir(common_dir)).and_then(|()| {
            fsx::write_atomic_by(&layout::scope_cache(common_dir), |file| {
                cache::write_cache_file(file, KIND, Oid::EMPTY_TREE, |on| {
                    for (key, scope) in &self.asked {
                        match scope {
                            BoundScope::Globs(text) => on(*key, &text.0),
                            BoundScope::Nothing => on(*key, &[]),
                            BoundScope::Unknown => {}
                        }
                    }
                    Ok(())
                })
            })
        });
    }
}
