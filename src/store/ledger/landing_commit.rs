//! Which commit brought an agent's work to a branch, also where a forge squashed it, and whose work a commit brought.
//!
//! A landing is looked for along the first parents of the branch. It is, in this order: the commit with which the branch
//! came to hold the agent's tip; the newest one that makes the change which merging the work in its place would have made;
//! the newest one whose message names the agent.

use super::agent_branch;
use crate::domain::{Agent, AgentId, Event, Oid, What};
use crate::error::Result;
use crate::git::{Commit, Repo, record::notes};
use crate::store::landing::commit_change::{CommitChange, Paths, first_parents};
use crate::store::landing::replay::{Replay, is_level_again};
use crate::store::landing::spawn_commit;
use crate::store::landing::spawn_commit::NONCE;
use crate::store::ledger::Ledger;
use crate::wire::row::event_line;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// How many commits are compared with what merging the work there would make: each takes a child process.
const COMPARED: usize = 32;
/// How many agents, those with the newest events, are asked whether a commit holds their work.
const ASKED: usize = 2000;

/// The trailer of an agent's commits. A squash by a forge repeats it anywhere in its message.
const TRAILER: &str = "Agent-Id";

/// Committed work of an agent.
#[derive(Clone, Copy, Debug)]
pub struct CommittedWork<'a> {
    /// Whose it is.
    pub agent: &'a Agent,
    /// The commit that holds all of it.
    pub tip: Oid,
    /// The commit that the agent was spawned from.
    pub start: Oid,
}

/// The newest commits of a branch along first parents, newest first.
pub struct FirstParents(Vec<CommitChange>);

impl FirstParents {
    /// Reads the branch with that tip back to the oldest of `starts`.
    ///
    /// # Errors
    /// `repo-corrupt`.
    pub fn read(repo: &Repo, tip: Oid, starts: BTreeSet<Oid>) -> Result<FirstParents> {
        first_parents(repo, tip, starts).map(FirstParents)
    }

    /// The commit that brought the work; `None` where no single one of them did.
    ///
    /// # Errors
    /// `repo-corrupt`, `git-failed`.
    pub fn brought(&self, repo: &Repo, work: CommittedWork<'_>) -> Result<Option<Oid>> {
        // Updates that came after the landing brought nothing of the agent's anywhere.
        if let Some(top) = self.0.first()
            && is_level_again(repo, work.agent, (top.commit.oid, work.tip))?
        {
            return Ok(work.agent.landed.as_ref().map(|(landing, _)| *landing));
        }
        for tip in self.names_of(repo, work)? {
            let holds = |step: &CommitChange| {
                let base = repo.merge_base(tip, step.commit.oid);
                base.is_ok_and(|base| base == Some(tip))
            };
            // The newest tells at once of work that was squashed, which none of them holds. Each look walks history.
            let holding = if self.0.first().is_some_and(holds) {
                // Once a commit of a line holds the tip, all newer ones do, so halving finds the
                // oldest of them.
                self.0.partition_point(holds)
            } else {
                0
            };
            // The oldest commit that was read may hold it because the ones before it do.
            if let Some(oldest) = holding.checked_sub(1).and_then(|at| self.0.get(at))
                && (holding < self.0.len() || !is_in(repo, tip, oldest))
            {
                return Ok(Some(oldest.commit.oid));
            }
        }
        let touched = paths(repo, work.start, work.tip)?;
        let mut compared = 0;
        for step in &self.0 {
            // A merge brings what was put on top of what landed below it in another form, as a stack is.
            if compared < COMPARED && step.stays_within(repo, &touched)? {
                compared += 1;
                if step.lands(repo, work.tip)? {
                    return Ok(Some(step.commit.oid));
                }
            }
        }
        let named = self.0.iter().find(|step| names(&step.commit).contains(&work.agent.id));
        Ok(named.map(|step| step.commit.oid))
    }
}

impl FirstParents {
    /// The commits that hold the work: its tip, and what stands for that without the spawn commit.
    fn names_of(&self, repo: &Repo, work: CommittedWork<'_>) -> Result<Vec<Oid>> {
        let mut names = vec![work.tip];
        if let Some(top) = self.0.first() {
            let replay = Replay::of(repo, work.agent, top.commit.oid, work.tip)?;
            let is_new = |tip: &Oid| *tip != work.tip && repo.has_object(*tip);
            names.extend(Some(replay.tip).filter(is_new));
        }
        Ok(names)
    }
}

/// Whether what stood before a commit holds the tip already.
fn is_in(repo: &Repo, tip: Oid, step: &CommitChange) -> bool {
    let base = repo.merge_base(tip, step.before.oid);
    base.is_ok_and(|base| base == Some(tip))
}

fn paths(repo: &Repo, start: Oid, tip: Oid) -> Result<Paths> {
    let (old, new) = (repo.tree_of(start)?, repo.tree_of(tip)?);
    repo.changed_paths(old, new)
}

/// The agents that a message names.
fn names(commit: &Commit) -> BTreeSet<AgentId> {
    let lines = commit.message.lines().filter_map(|line| line.split_once(':'));
    let named = lines.filter(|(key, _)| key.trim().eq_ignore_ascii_case(TRAILER));
    named.filter_map(|(_, id)| AgentId::parse(id.trim())).collect()
}

impl Ledger<'_> {
    /// The agents whose work a commit brought to the branch it is on: those that rows or the message name, else those
    /// whose work is what the commit brings.
    ///
    /// # Errors
    /// `repo-corrupt`, `git-failed`.
    pub fn landed_as(&self, commit: Oid) -> Result<Vec<Agent>> {
        let mut agents = self.agents_mentioning(&commit.to_hex())?;
        let is_it = |agent: &Agent| agent.landed.as_ref().is_some_and(|(oid, _)| *oid == commit);
        agents.retain(is_it);
        if !agents.is_empty() {
            return Ok(agents);
        }
        let commit = self.repo().read_commit(commit)?;
        let mut ids = self.pointed_at(commit.oid)?;
        ids.extend(names(&commit));
        for id in ids {
            agents.extend(self.with_prefix(&id.hex())?);
        }
        if agents.is_empty() {
            agents = self.brought_by(commit)?;
        }
        Ok(agents)
    }

    /// The agents whose work landed on a branch by commits that can be reached from `tip` and from none of `hidden`, by id.
    ///
    /// # Errors
    /// `history-incomplete`, `repo-corrupt`, `git-failed`.
    pub fn landed_between(&self, hidden: &[Oid], tip: Oid, branch: &str) -> Result<Vec<Agent>> {
        let mut ids = BTreeSet::new();
        for oid in self.repo().commits_between(hidden, tip)? {
            ids.extend(names(&self.repo().read_commit(oid)?));
        }
        let mut agents = Vec::new();
        for id in ids {
            agents.extend(self.with_prefix(&id.hex())?);
        }
        agents.retain(|agent| agent.landed.as_ref().is_some_and(|(_, into)| into == branch));
        Ok(agents)
    }

    /// The agents that the note on a landed commit names.
    fn pointed_at(&self, commit: Oid) -> Result<BTreeSet<AgentId>> {
        let body = self.read(|tree| notes::body(self.repo(), tree, commit))?;
        let body = body.unwrap_or_default();
        let events = notes::lines_of(&body).filter_map(event_line::decode);
        let is_pointer =
            |event: &Event| matches!(event.what, What::Merged { commit: to, .. } if to == commit);
        Ok(events.filter(is_pointer).map(|event| event.agent).collect())
    }

    /// The agents whose work a commit brings, as the objects tell it.
    fn brought_by(&self, commit: Commit) -> Result<Vec<Agent>> {
        let repo = self.repo();
        let mut found = Vec::new();
        // A merge names the agent by the commits that it brings, and nothing has to be compared.
        if let [first, second] = commit.parents[..] {
            for oid in repo.commits_between(&[first], second)? {
                let commit = repo.read_raw_commit(oid)?;
                if let Some((spawn, _)) = spawn_commit::carried(&commit) {
                    found.extend(self.agent(spawn)?);
                } else if commit.trailer(NONCE).is_some() {
                    found.extend(self.agent(oid)?);
                }
            }
            return Ok(found);
        }
        let Some(step) = CommitChange::of(repo, commit)? else {
            return Ok(found);
        };
        let mut open = self.select(|key, events| {
            let agent = Agent::fold(key, events)?;
            let tip = events.iter().rev().find_map(|event| last_tip(&event.what));
            agent.landed.is_none().then_some((agent, tip))
        })?;
        // What a commit brought is the work of an agent that was at it lately, as a rule.
        open.sort_by_key(|(agent, _)| Reverse(agent.updated));
        for (agent, tip) in open.into_iter().take(ASKED) {
            let branch = agent_branch::local_or_fetched(repo, &agent)?;
            let tip = branch.map(|(_, tip)| tip).or(tip);
            let start = agent.base.as_ref().map(|base| base.oid);
            let (Some(tip), Some(start)) = (tip, start) else {
                continue;
            };
            let is_here = repo.has_object(tip) && repo.has_object(start);
            if is_here
                && step.touches_only(repo, &paths(repo, start, tip)?)?
                && step.lands(repo, tip)?
            {
                found.push(agent);
            }
        }
        Ok(found)
    }
}

/// The tip that an event names.
fn last_tip(what: &What) -> Option<Oid> {
    match what {
        What::Discarded { tip } => *tip,
        What::Committed { commit, .. } => Some(*commit),
        What::Verified(verdict) => Some(verdict.tip),
        _ => None,
    }
}
