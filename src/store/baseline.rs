//! What a worktree held before its agent began, as objects.

use super::keep;
use crate::domain::agent::Agent;
use crate::domain::baseline::Baseline;
use crate::domain::id::AgentId;
use crate::domain::oid::Oid;
use crate::error::Result;
use crate::git::Repo;
use crate::wire::baseline;
use chrono::{DateTime, Utc};

/// Writes a baseline, keeps it, and gives the blob for the `spawned` event to name.
///
/// # Errors
/// As [`keep::keep`].
pub fn keep(repo: &Repo, agent: AgentId, baseline: &Baseline, now: DateTime<Utc>) -> Result<Oid> {
    let blob = repo.write_blob(&baseline::to_bytes(baseline))?;
    let what = [("baseline.json", blob)];
    keep::keep_with(repo, &[], &what, &format!("setup {agent}"), now)?;
    Ok(blob)
}

/// What an agent's worktree held before it began; `None` where that was nothing, or nothing that this version can
/// read.
///
/// # Errors
/// `history-incomplete` when the blob is not here; `repo-corrupt` when it cannot be read.
pub fn of_agent(repo: &Repo, agent: &Agent) -> Result<Option<Baseline>> {
    let Some(blob) = agent.baseline else {
        return Ok(None);
    };
    match repo.read_blob(blob) {
        Ok(bytes) => Ok(baseline::from_bytes(&bytes)),
        Err(_) if !repo.is_at_hand(blob) => Err(keep::absent(&format!(
            "{blob}, which says what [setup] made for the agent,"
        ))),
        Err(error) => Err(error),
    }
}
