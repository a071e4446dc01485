//! Which commits are an agent's own doing.

use crate::agents::ctx::Ctx;
use crate::domain::agent::Agent;
use crate::domain::oid::Oid;
use crate::error::Result;
use crate::git::refs::Tip;

/// The commits that an agent's base and its branch have, here or as the branch was last fetched. What can be
/// reached from them is not the agent's doing: a rebase or a merge brings it along.
///
/// # Errors
/// Those of [`crate::git::Repo::tip`].
pub(crate) fn of_its_base(ctx: &Ctx, agent: &Agent) -> Result<Vec<Oid>> {
    let Some(base) = &agent.base else {
        return Ok(Vec::new());
    };
    let mut commits = vec![base.oid];
    if let Some(name) = &base.refname {
        let upstream = ctx.repo.upstream_name(name);
        for name in upstream.iter().chain([name]) {
            if let Tip::At(oid) = ctx.repo.tip(name)? {
                commits.push(oid);
            }
        }
    }
    Ok(commits)
}
