//! The policy as objects: the spawn commit that carries it, and a blob for the ledger to name and the keep chain to
//! hold.
//!
//! Where the spawn commit carries a policy, that one binds, whatever the ledger says; the ledger adds the hash of the
//! specification. The blob binds agents of earlier versions, and those whose spawn commit is not in this clone.
//!
//! Its owner may amend it (`git agent amend`): scope, checks, bundle and time limit are then those of the blob that the last
//! amendment names which this clone made itself. Role, base and place stay what the spawn commit says.

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
    let policy = bound(repo, agent.spawn_commit, blob, agent.amended)?;
    Ok(policy.map(|policy| with_spec(policy, agent)))
}

/// The policy that an agent was spawned with, as [`of_agent`] gives the one that binds it now.
///
/// # Errors
/// As [`of_agent`].
pub fn at_spawn(repo: &Repo, agent: &Agent) -> Result<Option<Policy>> {
    let Some(blob) = agent.policy else {
        return Ok(None);
    };
    let policy = bound(repo, agent.spawn_commit, blob, None)?;
    Ok(policy.map(|policy| with_spec(policy, agent)))
}

/// The ledger names the hash of the specification, which the spawn commit cannot.
fn with_spec(policy: Policy, agent: &Agent) -> Policy {
    match policy.spec_sha.as_str() {
        "" => Policy {
            spec_sha: agent.spec_sha.clone().unwrap_or_default(),
            ..policy
        },
        _ => policy,
    }
}

/// The policy of a spawn commit, or of the blob that the row names for one without, with what the last amendment changed.
pub(super) fn bound(
    repo: &Repo,
    spawn_commit: Oid,
    blob: Oid,
    amended: Option<Oid>,
) -> Result<Option<Policy>> {
    let first = match SpawnCommit::read(repo, spawn_commit)? {
        Some(spawn) => Some(spawn.terms),
        None => load(repo, blob)?,
    };
    let (Some(first), Some(amended)) = (&first, amended) else {
        return Ok(first);
    };
    // One that cannot be read is no reason to let the first one bind, which may allow more.
    Ok(load(repo, amended)?.map(|amended| first.amended_by(amended)))
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
