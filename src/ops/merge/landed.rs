//! Work that is on the target already: brought by a landing of ours that was killed, by hand, or by a forge.

use crate::agents::work::simulated;
use crate::domain::oid::Oid;
use crate::error::Result;
use crate::git::Repo;
use crate::ops::merge::MergePlan;
use crate::store::landing_commit::{Line, Work};
use std::collections::BTreeSet;

/// The commit that brought the work; the target as it is where no single one did.
pub(super) fn commit_that_brought(repo: &Repo, plan: &MergePlan) -> Result<Oid> {
    let agent = &plan.agent;
    let start = agent.base.as_ref().map(|base| base.oid);
    let start = start.filter(|oid| repo.has_object(*oid));
    let tip_tree = repo.read_commit(plan.tip)?.tree;
    let tip = if plan.tree == tip_tree {
        plan.tip
    } else {
        simulated(repo, plan.tree, &[plan.tip])?
    };
    let work = Work {
        agent: agent.id,
        tip,
        start: start.unwrap_or(agent.spawn_commit),
    };
    let line = Line::read(repo, plan.base, BTreeSet::from([work.start]))?;
    Ok(line.brought(repo, work)?.unwrap_or(plan.base))
}
