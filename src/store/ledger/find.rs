//! Finding an agent by whatever a person calls it.

use super::belief::Belief;
use super::row::Row;
use crate::domain::value::named::is_lower_hex;
use crate::domain::{Agent, AgentId, AgentName, Oid, State};
use crate::error::{Code, Error, Remedy, Result};
use crate::git::{Repo, record::notes};
use crate::store::files::place::{self, RecordedPlaces};
use crate::store::landing::spawn_commit;
use crate::store::ledger::Ledger;
use std::path::Path;

/// The first 12 hex digits of an id are those of its spawn commit; the 13th is the UUID version.
const SHARED_DIGITS: usize = 12;
/// Fewer digits than this name nothing.
const SHORTEST_PREFIX: usize = 4;
/// How many digits of an id people and tools use.
const SHORT_ID: usize = 8;
/// How many candidates an error lists.
const LISTED: usize = 8;

impl Ledger<'_> {
    /// The agent that goes by `who`: a prefix of its id or of its spawn commit (four hex digits or
    /// more, hyphens allowed), its alias, its branch (short or full), or the absolute path of its
    /// worktree. A name that several agents have means the live one, and where none is live the newest.
    ///
    /// # Errors
    /// `agent-unknown`; `agent-ambiguous` for the name of several live agents, also where an id begins as
    /// another agent's alias reads; `repo-corrupt`.
    pub fn find(&self, who: &str) -> Result<Agent> {
        let mut found = self.with_prefix(who)?;
        // To look for names takes every row. No id of four billion begins by chance as an alias of eight digits
        // reads, and spawn gives none that one begins with already.
        if found.is_empty() || who.len() < SHORT_ID {
            let all = self.agents_named(who)?;
            let mut named = meant(all.clone());
            if all.len() > 1 {
                self.add_own(&mut named, &all)?;
            }
            // An agent whose alias begins as its own id must not be ambiguous with itself.
            named.retain(|agent| found.iter().all(|other| other.id != agent.id));
            found.extend(named);
        }
        match found.len() {
            1 => Ok(found.remove(0)),
            0 => {
                let is_short = who.len() < SHORTEST_PREFIX && is_lower_hex(who);
                let why = if is_short { ", and an id goes by at least four digits" } else { "" };
                Err(Error::new(Code::AgentUnknown, format!("there is no agent `{who}`{why}"))
                    .remedy("to see the agents there are", Remedy::Agents))
            }
            _ => Err(ambiguous(who, &found)),
        }
    }

    /// Adds the agents of this clone to those that a name means, where none of these is one: another clone calls its own what it likes,
    /// and which is meant only the caller knows.
    fn add_own(&self, named: &mut Vec<Agent>, all: &[Agent]) -> Result<()> {
        let own = self.made_here(all)?;
        let is_own = |agent: &&Agent| own.contains(&agent.id);
        if !named.iter().any(|agent| is_own(&agent)) {
            named.extend(all.iter().rfind(is_own).cloned());
        }
        Ok(())
    }

    /// Whether a row's id or spawn commit begins with these hex digits.
    ///
    /// # Errors
    /// `repo-corrupt`.
    pub fn is_prefix_taken(&self, digits: &str) -> Result<bool> {
        Ok(!self.with_prefix(digits)?.is_empty())
    }

    /// The live agents with this alias, oldest first.
    ///
    /// # Errors
    /// `repo-corrupt`.
    pub fn live_with_alias(&self, alias: &AgentName) -> Result<Vec<Agent>> {
        let mut agents = self.agents_that(|entry| entry.name.as_deref() == Some(alias.as_str()))?;
        // The index names rows that may have this alias, and only the folded agent says whether it
        // has.
        agents.retain(|agent| agent.name.as_ref() == Some(alias) && agent.state.is_live());
        Ok(agents)
    }

    /// The youngest agent that was given a branch of this full name.
    ///
    /// # Errors
    /// `repo-corrupt`.
    pub fn last_with_branch(&self, branch: &str) -> Result<Option<Agent>> {
        Ok(self.agents_with_branch(branch)?.pop())
    }

    /// Every agent that was given a branch of this full name, oldest first.
    pub(in crate::store) fn agents_with_branch(&self, branch: &str) -> Result<Vec<Agent>> {
        let mut agents = self.agents_that(|entry| entry.branch.as_deref() == Some(branch))?;
        agents.retain(|agent| agent.branch.as_deref() == Some(branch));
        Ok(agents)
    }

    pub(in crate::store) fn with_prefix(&self, who: &str) -> Result<Vec<Agent>> {
        let digits = who.replace('-', "").to_ascii_lowercase();
        let nibbles: Option<Vec<u8>> = digits.chars().map(nibble).collect();
        let Some(nibbles) = nibbles.filter(|nibbles| nibbles.len() >= SHORTEST_PREFIX) else {
            return Ok(Vec::new());
        };
        // The rows are filed by spawn commit, with which an id shares no more than these digits.
        let shared = nibbles.get(..SHARED_DIGITS).unwrap_or(&nibbles);
        let belief = Belief::new(self.repo);
        let agents = self.read(|tree| {
            let mut keys: Vec<Oid> = notes::with_prefix(self.repo, tree, shared)?
                .into_iter()
                .map(|(key, _)| key)
                .filter(|key| {
                    let id = AgentId::from_spawn_commit(*key);
                    key.to_hex().starts_with(&digits) || id.hex().starts_with(&digits)
                })
                .collect();
            keys.sort_unstable();
            keys.dedup();
            let agents = keys.into_iter().map(|key| {
                let body = notes::body(self.repo, tree, key)?;
                let row = Row::read(&body, AgentId::from_spawn_commit(key));
                belief.fold(key, &row)
            });
            agents.filter_map(Result::transpose).collect()
        })?;
        Ok(agents.unwrap_or_default())
    }

    fn agents_named(&self, who: &str) -> Result<Vec<Agent>> {
        let path = who.trim_end_matches('/');
        let places = RecordedPlaces::new(self.repo)?;
        let goes_by = |agent: &Agent| {
            let branch = agent.branch.as_deref().unwrap_or_default();
            agent.name.as_ref().is_some_and(|name| name.as_str() == who)
                || branch == who
                || branch.strip_prefix("refs/heads/") == Some(who)
                || places.of(agent).as_deref() == Some(Path::new(path))
        };
        if Path::new(path).is_absolute()
            && let Some(id8) = place::remembered_at(self.repo.common_dir(), Path::new(path))?
        {
            return self.with_prefix(&id8);
        }
        let recorded = [Some(path), Some(places.as_recorded(path))];
        let mut agents = self.agents_that(|entry| {
            let branch = entry.branch.as_deref().unwrap_or_default();
            entry.name.as_deref() == Some(who)
                || branch == who
                || branch.strip_prefix("refs/heads/") == Some(who)
                || recorded.contains(&entry.worktree.as_deref())
        })?;
        agents.retain(goes_by);
        let branch = agents.first().and_then(|agent| agent.branch.clone());
        let is_shared = |branch: &String| {
            let other = |agent: &Agent| agent.branch.as_ref() != Some(branch);
            agents.len() > 1 && !agents.iter().any(other)
        };
        match branch.filter(is_shared) {
            // Only then is git asked: what a branch holds takes a walk over history.
            Some(branch) => holders(self.repo, &branch, agents),
            None => Ok(agents),
        }
    }
}

/// Of several agents whose rows claim one branch, those whose spawn commit it holds.
///
/// # Errors
/// `git-failed`, `repo-corrupt`.
fn holders(repo: &Repo, branch: &str, agents: Vec<Agent>) -> Result<Vec<Agent>> {
    let Some(tip) = repo.tip(branch)?.oid() else {
        return Ok(agents);
    };
    let is_holder = |agent: &&Agent| spawn_commit::is_held_by(repo, tip, agent);
    let holders: Vec<Agent> = agents.iter().filter(is_holder).cloned().collect();
    Ok(if holders.is_empty() { agents } else { holders })
}

/// Which of the agents that go by one name, oldest first, it means: those that are live, else those that are being
/// made, else the newest, of those that were made if any was.
fn meant(mut agents: Vec<Agent>) -> Vec<Agent> {
    let is_being_made = |agent: &Agent| agent.state == State::Spawning;
    if agents.iter().any(|agent| agent.state.is_live()) {
        agents.retain(|agent| agent.state.is_live());
    } else if agents.iter().any(is_being_made) {
        agents.retain(is_being_made);
    } else {
        if agents.iter().any(|agent| agent.policy.is_some()) {
            agents.retain(|agent| agent.policy.is_some());
        }
        agents.drain(..agents.len().saturating_sub(1));
    }
    agents
}

fn nibble(digit: char) -> Option<u8> {
    digit.to_digit(16).and_then(|value| u8::try_from(value).ok())
}

/// The error for a name that several agents go by.
pub fn ambiguous(who: &str, found: &[Agent]) -> Error {
    let count = found.len();
    let listed: Vec<_> = found
        .iter()
        .take(LISTED)
        .map(|agent| {
            format!(
                "  {}  {}  {}",
                agent.id,
                agent.state,
                agent.description.as_deref().unwrap_or_default()
            )
        })
        .collect();
    let what = format!("`{who}` names {count} agents");
    let error = Error::new(Code::AgentAmbiguous, what).detail(listed.join("\n"));
    let Some(first) = found.first() else {
        return error;
    };
    error.remedy(
        "to name one of them, give its id, or more digits of it",
        Remedy::Agent(first.id.to_string()),
    )
}
