//! Whether the branch of a remote has agents' work, as the remote is now and not as it was fetched last.

use crate::agents::ctx::Ctx;
use crate::domain::agent::Agent;
use crate::domain::id::AgentId;
use crate::domain::oid::Oid;
use crate::error::Result;
use crate::git::refs::remote::RemoteRefs;
use crate::store::landed;
use std::collections::{BTreeSet, HashSet};
use std::time::Instant;

/// The agents whose work, given by its tip, the branch that they started from has on a remote with these refs. What cannot be
/// told counts as not landed.
///
/// # Errors
/// Those of [`crate::git::Repo::fetch_refs`].
pub(crate) fn landed_there(
    ctx: &Ctx,
    remote: &str,
    listed: &RemoteRefs,
    works: &[(&Agent, Oid)],
    end: Instant,
) -> Result<HashSet<AgentId>> {
    let questions: Vec<_> = { works.iter() }
        .filter_map(|(agent, tip)| {
            let base = agent.base.as_ref()?.refname.as_deref()?;
            Some((*agent, *tip, base, *listed.get(base)?))
        })
        .collect();
    // No ref is moved: the copies of a remote's branches are the user's.
    let lacking: BTreeSet<_> = { questions.iter() }
        .filter(|(.., is)| !ctx.repo.has_object(*is))
        .map(|(_, _, base, _)| (*base).to_owned())
        .collect();
    if !lacking.is_empty() {
        let lacking: Vec<_> = lacking.into_iter().collect();
        ctx.repo.fetch_refs(remote, &lacking, end)?;
    }
    let questions = questions.into_iter();
    let questions = questions
        .map(|(agent, tip, _, is)| (agent, tip, is))
        .collect();
    let answers = landed::landed_at(&ctx.repo, questions).into_iter();
    let landed = answers.filter(|(_, landed)| matches!(landed, Ok(true)));
    Ok(landed.map(|(agent, _)| agent).collect())
}
