//! The policy as objects: the spawn commit that carries it, and a blob for the ledger to name and the keep chain to
//! hold.
//!
//! Where the spawn commit carries a policy, that one binds, whatever the ledger says; the ledger adds the hash of the
//! specification. The blob binds agents of earlier versions, and those whose spawn commit is not in this clone.

use super::keep;
use super::spawn_commit::SpawnCommit;
use crate::domain::agent::Agent;
use crate::domain::oid::Oid;
use crate::error::{Code, Error, Remedy, Result};
use crate::git::Repo;
use crate::wire::policy::Policy;

/// Writes the blob of `git-agent.policy/1`, for the keep chain to hold; no ref moves.
///
/// # Errors
/// Those of [`Repo::write_blob`].
pub fn write(repo: &Repo, policy: &Policy) -> Result<Oid> {
    repo.write_blob(&policy.to_bytes())
}

/// Reads a policy back; `None` when the blob is no policy of a version we know.
///
/// # Errors
/// `history-incomplete` when the blob is not here, as in a clone that did not fetch the keep chain;
/// `repo-corrupt` when it cannot be read.
pub fn load(repo: &Repo, blob: Oid) -> Result<Option<Policy>> {
    match repo.read_blob(blob) {
        Ok(bytes) => Ok(Policy::from_bytes(&bytes)),
        Err(_) if !repo.is_at_hand(blob) => Err(keep::absent(&format!(
            "policy {blob}, which binds the agent,"
        ))),
        Err(error) => Err(error),
    }
}

/// The policy that binds an agent; `None` for one that was never given any, or none that we can read.
///
/// # Errors
/// As [`load`]; `repo-corrupt` when the spawn commit cannot be read.
pub fn of_agent(repo: &Repo, agent: &Agent) -> Result<Option<Policy>> {
    let Some(blob) = agent.policy else {
        return Ok(None);
    };
    match SpawnCommit::read(repo, agent.spawn_commit)? {
        Some(spawn) => Ok(Some(Policy {
            spec_sha: agent.spec_sha.clone().unwrap_or_default(),
            ..spawn.terms
        })),
        None => load(repo, blob),
    }
}

/// As [`of_agent`], where a policy that is not here is one that cannot be read.
///
/// # Errors
/// `repo-corrupt` when it is here and cannot be read.
pub fn if_here(repo: &Repo, agent: &Agent) -> Result<Option<Policy>> {
    match of_agent(repo, agent) {
        Err(error) if error.code() == Code::HistoryIncomplete => Ok(None),
        answer => answer,
    }
}

/// The policy that binds an agent.
///
/// # Errors
/// As [`of_agent`]; `agent-state` for an agent without a policy.
pub fn require(repo: &Repo, agent: &Agent) -> Result<Policy> {
    of_agent(repo, agent)?.ok_or_else(|| {
        let id = agent.id.short();
        Error::new(
            Code::AgentState,
            format!("the ledger holds no policy for agent {id}"),
        )
        .remedy("to see its history", Remedy::History(id))
    })
}
