//! The nearest commit that makes an agent.

use super::Question;
use crate::domain::agent::Agent;
use crate::domain::evidence::Row;
use crate::domain::id::AgentId;
use crate::domain::oid::Oid;
use crate::error::{Error, Result};
use crate::git::history::gained::incomplete_history;
use crate::git::objects::RawCommit;
use crate::store::spawn_commit::{self, NONCE, SPAWN_SUBJECT, SpawnCommit};

/// A commit that makes an agent.
pub(super) struct Candidate {
    /// The spawn commit, what a rebase made of it, or the commit that carries it.
    pub at: Oid,
    pub agent: Agent,
    pub altered: Vec<String>,
    pub row: Row,
}

/// What the line of first parents holds.
pub(super) enum Nearest {
    /// A commit that makes an agent.
    Agent(Box<Candidate>),
    /// A spawn commit that was rebased, of an agent that this clone does not know.
    Unknown(Oid),
    /// Neither.
    None,
}

impl Question<'_> {
    /// The nearest commit that makes an agent, going back along first parents.
    pub(super) fn nearest(&self, tip: Oid) -> Result<Nearest> {
        let repo = &self.ctx.repo;
        let ends = repo.shallow_ends()?;
        let mut claims = Vec::new();
        let mut next = Some(tip);
        while let Some(oid) = next {
            repo.require_commit(oid)?;
            let commit = repo.read_raw_commit(oid)?;
            claims.extend(
                commit
                    .trailer("Agent-Id")
                    .as_deref()
                    .and_then(AgentId::parse),
            );
            if let Some((spawn, text)) = spawn_commit::carried(&commit) {
                // The policy is read from that commit, which may be nowhere else.
                repo.write_raw_commit(&text)?;
                let candidate = self.made_by(oid, spawn, &text)?;
                return Ok(Nearest::Agent(Box::new(candidate)));
            }
            if let Some(nonce) = commit.trailer(NONCE) {
                if let Some(candidate) = self.candidate(oid, &commit, &nonce, &claims)? {
                    return Ok(Nearest::Agent(Box::new(candidate)));
                }
                // The message of a squash holds the trailer too.
                if commit.subject().starts_with(SPAWN_SUBJECT) {
                    return Ok(Nearest::Unknown(oid));
                }
            }
            if ends.contains(&oid) {
                return Err(incomplete_history(
                    "the commit that made the agent of this branch",
                ));
            }
            next = commit.parents().first().copied();
        }
        Ok(Nearest::None)
    }

    /// The agent that a commit with that nonce makes; `claims` are the agents that later commits name.
    fn candidate(
        &self,
        at: Oid,
        commit: &RawCommit,
        nonce: &str,
        claims: &[AgentId],
    ) -> Result<Option<Candidate>> {
        let row = match self.ledger.agent(at)? {
            Some(agent) => Some(agent),
            None => self.twin(nonce)?,
        };
        if let Some(agent) = row {
            return Ok(Some(self.of_row(at, agent)?));
        }
        let spawn = match SpawnCommit::of(at, commit) {
            Some(spawn) => Some(spawn),
            None => self.original(nonce, claims)?,
        };
        spawn.map(|spawn| self.without_row(at, &spawn)).transpose()
    }

    /// The agent of a spawn commit that the commit `at` carries.
    fn made_by(&self, at: Oid, spawn: Oid, text: &RawCommit) -> Result<Candidate> {
        if let Some(agent) = self.ledger.agent(spawn)? {
            return self.of_row(at, agent);
        }
        let spawn = SpawnCommit::of(spawn, text);
        let spawn = spawn.ok_or_else(|| Error::bug("a carried spawn commit makes an agent"))?;
        self.without_row(at, &spawn)
    }

    fn of_row(&self, at: Oid, agent: Agent) -> Result<Candidate> {
        let (agent, altered) = spawn_commit::bound(&self.ctx.repo, agent)?;
        Ok(Candidate {
            at,
            agent,
            altered,
            row: Row::Present,
        })
    }

    fn without_row(&self, at: Oid, spawn: &SpawnCommit) -> Result<Candidate> {
        let row = if self.ledger.is_begun()? {
            Row::Missing
        } else {
            Row::NoLedger
        };
        Ok(Candidate {
            at,
            agent: spawn.agent()?,
            altered: Vec::new(),
            row,
        })
    }

    /// The agent of the ledger whose spawn commit has that nonce: a rebase keeps it.
    fn twin(&self, nonce: &str) -> Result<Option<Agent>> {
        let agents = self.ledger.agents()?.into_iter();
        let is_twin = |agent: &Agent| {
            let own = self.ctx.repo.read_raw_commit(agent.spawn_commit).ok();
            own.and_then(|own| own.trailer(NONCE)).as_deref() == Some(nonce)
        };
        Ok(agents.into_iter().find(is_twin))
    }

    /// The spawn commit with that nonce of one of these agents, where it is still in this clone.
    fn original(&self, nonce: &str, claims: &[AgentId]) -> Result<Option<SpawnCommit>> {
        let repo = &self.ctx.repo;
        for id in claims {
            let Some(oid) = repo.object_with_prefix(&id.digits_of_spawn_commit()) else {
                continue;
            };
            let Ok(commit) = repo.read_raw_commit(oid) else {
                continue;
            };
            if AgentId::from_spawn_commit(oid) == *id
                && commit.trailer(NONCE).as_deref() == Some(nonce)
                && let Some(spawn) = SpawnCommit::of(oid, &commit)
            {
                return Ok(Some(spawn));
            }
        }
        Ok(None)
    }
}
