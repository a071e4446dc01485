//! The branches of agents on a remote, of which those go whose work the remote's target branch has.
//!
//! What is deleted is decided from objects alone: the branch holds an agent's spawn commit, and the branch that the agent
//! started from, as the remote has it now, has all of its work. Each deletion has a lease: a branch that moved stays.

use crate::agents::ctx::Ctx;
use crate::agents::landed_there::landed_there;
use crate::agents::remote_name::remote_name;
use crate::domain::agent::{Agent, State};
use crate::domain::oid::Oid;
use crate::error::Result;
use crate::git::refs::remote::{self, PushManner, RefChange, RefPush};
use crate::store::spawn_commit;
use serde::Serialize;
use std::time::{Duration, Instant};

/// How long the remote is waited for, each time that it is asked.
const LIMIT: Duration = Duration::from_secs(60);

/// What becomes of agents' branches on a remote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RemoteSweep {
    /// The remote.
    pub remote: String,
    /// The branches of agents that it has, by name.
    pub branches: Vec<RemoteBranch>,
}

/// One branch of a remote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RemoteBranch {
    /// The full name there.
    #[serde(rename = "ref")]
    pub refname: String,
    /// The commit it is at.
    pub oid: String,
    /// The agent's id.
    pub agent_id: String,
    /// The first eight hex digits of the id.
    pub short_id: String,
    /// `remove`, `removed` or `keep`.
    pub action: &'static str,
    /// Why, in words.
    pub why: String,
}

/// Looks at the branches of agents on a remote, the usual one where no name is given.
///
/// # Errors
/// `usage` for an unknown remote; those of the network.
pub(super) fn plan(ctx: &Ctx, agents: &[Agent], wanted: &str) -> Result<RemoteSweep> {
    let end = Instant::now() + LIMIT;
    let remote = remote_name(ctx, Some(wanted).filter(|name| !name.is_empty()))?;
    let listed = ctx.repo.list_remote(&remote, end)?;
    let there: Vec<(&Agent, &str, Oid)> = { agents.iter() }
        .filter_map(|agent| {
            let branch = agent.branch.as_deref()?;
            Some((agent, branch, *listed.get(branch)?))
        })
        .collect();
    let lacking = { there.iter() }.filter(|(.., is)| !ctx.repo.has_object(*is));
    let lacking: Vec<_> = lacking.map(|(_, name, _)| (*name).to_owned()).collect();
    if !lacking.is_empty() {
        // What is not here then was deleted meanwhile, and is kept by what follows.
        ctx.repo.fetch_refs(&remote, &lacking, end)?;
    }
    let own = { there.iter() }.filter(|(agent, _, tip)| {
        // A row may name any branch of the remote; the spawn commit in its history proves whose it
        // is.
        ctx.repo.has_object(*tip) && spawn_commit::is_held_by(&ctx.repo, *tip, agent)
    });
    let own: Vec<_> = own.map(|(agent, _, tip)| (*agent, *tip)).collect();
    let landed = landed_there(ctx, &remote, &listed, &own, end)?;
    let is_own = |agent: &Agent| own.iter().any(|(one, _)| one.id == agent.id);
    let branches = there.into_iter().map(|(agent, name, tip)| {
        let doubt = if !is_own(agent) {
            Some("nothing proves that it is the agent's".to_owned())
        } else if matches!(agent.state, State::Running | State::Waiting) {
            Some(format!("the agent is {}", agent.state))
        } else if !landed.contains(&agent.id) {
            Some("its work has not landed there".to_owned())
        } else {
            None
        };
        RemoteBranch {
            refname: name.to_owned(),
            oid: tip.to_hex(),
            agent_id: agent.id.to_string(),
            short_id: agent.id.short(),
            action: if doubt.is_some() { "keep" } else { "remove" },
            why: doubt.unwrap_or_else(|| "its work has landed there".to_owned()),
        }
    });
    let mut branches: Vec<_> = branches.collect();
    branches.sort_by(|one, other| one.refname.cmp(&other.refname));
    Ok(RemoteSweep { remote, branches })
}

/// Deletes what is to go, each branch only if it is where it was seen. What is gone is read from the remote's list.
///
/// # Errors
/// Those of the network.
pub(super) fn execute(ctx: &Ctx, sweep: &mut RemoteSweep) -> Result<()> {
    let doomed = |one: &&mut RemoteBranch| one.action == "remove";
    let pushes = sweep.branches.iter_mut().filter(doomed).filter_map(|one| {
        Some(RefPush::new(
            one.refname.clone(),
            RefChange::Delete(Oid::from_hex(&one.oid)?),
        ))
    });
    let pushes: Vec<_> = pushes.collect();
    if pushes.is_empty() {
        return Ok(());
    }
    let end = Instant::now() + LIMIT;
    let manner = PushManner::default();
    let outcome = ctx.repo.push_refs(&sweep.remote, &pushes, manner, end)?;
    let left = ctx.repo.list_remote(&sweep.remote, end)?;
    for one in sweep.branches.iter_mut().filter(doomed) {
        let refusal = { outcome.refusals.iter() }.find(|refusal| refusal.refname == one.refname);
        // What the remote still lists is there, whatever was said of the push.
        one.action = match left.get(&one.refname) {
            None => "removed",
            Some(_) => "keep",
        };
        if one.action == "keep" {
            one.why = match refusal.filter(|refusal| !remote::is_passing(&refusal.reason)) {
                Some(refusal) => {
                    let layer = remote::refusing_layer(&refusal.reason, &outcome.remote_text);
                    format!(
                        "the remote does not delete it: {layer} ({})",
                        refusal.reason
                    )
                }
                None => "it moved meanwhile".to_owned(),
            };
        }
    }
    Ok(())
}
