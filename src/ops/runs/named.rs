//! Runs by the agents that people name.

use crate::agents::ctx::Ctx;
use crate::agents::{liveness, lookup};
use crate::domain::agent::Agent;
use crate::domain::run::Run;
use crate::error::{Code, Error, Result};
use std::collections::BTreeSet;

/// A run of this clone.
pub(super) struct Named {
    pub agent: Agent,
    pub run: Run,
}

/// The last runs of these agents, in their order and each once.
///
/// # Errors
/// `agent-unknown`, `agent-ambiguous`; `agent-state` for an agent without a run in this clone.
pub(super) fn last_runs(ctx: &Ctx, who: &[String]) -> Result<Vec<Named>> {
    let runs = who.iter().map(|who| last_run(ctx, who));
    let mut runs = runs.collect::<Result<Vec<_>>>()?;
    let mut seen = BTreeSet::new();
    // One that is named twice is told of once.
    runs.retain(|one| seen.insert(one.agent.id));
    Ok(runs)
}

/// Every run that a process of ours is at work for, and every last run of an agent in the background whose end
/// nothing has told of yet; oldest first.
///
/// # Errors
/// Those of the ledger; `io`.
pub(super) fn uncollected(ctx: &Ctx) -> Result<Vec<Named>> {
    let common_dir = ctx.repo.common_dir();
    all(ctx, |agent, run| {
        let is_live = agent.state.is_open() && liveness::is_at_work(common_dir, agent, run)?;
        Ok(is_live || liveness::is_uncollected(common_dir, agent, run))
    })
}

/// The last run of an agent.
///
/// # Errors
/// As [`last_runs`].
pub(super) fn last_run(ctx: &Ctx, who: &str) -> Result<Named> {
    let agent = lookup::agent(ctx, &ctx.ledger(), who)?;
    match agent.run.clone() {
        Some(run) if liveness::is_here(ctx.repo.common_dir(), &agent, &run) => {
            Ok(Named { agent, run })
        }
        run => {
            let id = agent.id.short();
            let what = match run {
                Some(run) => format!("run {} of agent {id} is not in this clone", run.number()),
                None => format!("agent {id} has not been run"),
            };
            Err(Error::new(Code::AgentState, what).hint(format!(
                "to run a command for it, run git agent run {id} -- …"
            )))
        }
    }
}

/// Every run that a process of ours is at work for, oldest first.
///
/// # Errors
/// Those of the ledger; `io`.
pub(super) fn at_work(ctx: &Ctx) -> Result<Vec<Named>> {
    all(ctx, |agent, run| {
        let is_open = agent.state.is_open();
        Ok(is_open && liveness::is_at_work(ctx.repo.common_dir(), agent, run)?)
    })
}

/// The last runs that `is_wanted`, oldest first.
fn all(ctx: &Ctx, is_wanted: impl Fn(&Agent, &Run) -> Result<bool>) -> Result<Vec<Named>> {
    let mut found = Vec::new();
    for agent in ctx.ledger().agents()? {
        if let Some(run) = agent.run.clone()
            && is_wanted(&agent, &run)?
        {
            found.push(Named { agent, run });
        }
    }
    found.sort_by_key(|named| named.run.began);
    Ok(found)
}
