//! Work that is on the target already: brought by a landing of ours that was killed, or by hand.

use super::MergePlan;
use crate::domain::oid::Oid;
use crate::error::Result;
use crate::git::Repo;

/// How far back along the target's first parents a landing is looked for.
const DEPTH: usize = 1000;

/// The commit that brought the work: the newest on the target itself that carries the agent's trailer,
/// else the agent's tip where the target holds it, else the target as it is.
pub(super) fn commit_that_brought(repo: &Repo, plan: &MergePlan) -> Result<Oid> {
    let id = plan.agent.id.to_string();
    let mut next = Some(plan.base);
    for _ in 0..DEPTH {
        // A shallow clone ends somewhere.
        let Some(oid) = next.filter(|oid| repo.has_object(*oid)) else {
            break;
        };
        let commit = repo.read_commit(oid)?;
        if commit.trailer("Agent-Id") == Some(id.as_str()) {
            return Ok(oid);
        }
        next = commit.parents.first().copied();
    }
    match repo.is_ancestor(plan.tip, plan.base)? {
        true => Ok(plan.tip),
        false => Ok(plan.base),
    }
}
