//! What `log` tells other programs, in their formats: which lines an agent wrote, and how its life went.

use crate::agents::ctx::Ctx;
use crate::agents::lookup;
use crate::agents::work::{base_of, tip_of};
use crate::domain::agent::Agent;
use crate::domain::event::{Event, What};
use crate::domain::oid::Oid;
use crate::error::{Code, Error, Result};
use crate::ops::agent_report::rfc3339;
use crate::wire::{agent_trace, otlp};
use serde_json::Value;

/// The lines that an agent wrote, as a trace record: those that its landing brought, or those of its branch.
///
/// # Errors
/// `agent-unknown`, `agent-state` for an agent without a branch; `branch-gone`, `repo-corrupt`.
pub fn agent_trace(ctx: &Ctx, who: &str) -> Result<Value> {
    let ledger = ctx.ledger();
    let agent = lookup::agent_or_landed(ctx, &ledger, who)?;
    let (before, revision) = commits(ctx, &agent)?;
    let tree = |commit| Ok::<_, Error>(ctx.repo.read_commit(commit)?.tree);
    let lines = ctx.repo.added_lines(tree(before)?, tree(revision)?)?;
    let time = rfc3339(agent.updated);
    let events = ledger.events(agent.spawn_commit)?;
    let model = model(&events);
    Ok(agent_trace::record(&agent, revision, model, &time, &lines))
}

/// The model of all runs of an agent; `None` where they differ, because no row says which run wrote which line.
fn model(events: &[Event]) -> Option<&str> {
    let mut models = events.iter().filter_map(|event| match &event.what {
        What::Started(started) => Some(started.model.as_deref()),
        _ => None,
    });
    let first = models.next()??;
    models.all(|model| model == Some(first)).then_some(first)
}

/// An agent's life as OpenTelemetry spans.
///
/// # Errors
/// `agent-unknown`, and those of the ledger.
pub fn otlp(ctx: &Ctx, who: &str) -> Result<Value> {
    let ledger = ctx.ledger();
    let agent = lookup::agent_or_landed(ctx, &ledger, who)?;
    let events = ledger.events(agent.spawn_commit)?;
    Ok(otlp::spans(&agent, &events))
}

/// The commit that holds the agent's work, and the one that it is compared with.
fn commits(ctx: &Ctx, agent: &Agent) -> Result<(Oid, Oid)> {
    let Some(base) = &agent.base else {
        return Err(half_made(agent));
    };
    let landed = agent.landed.as_ref().map(|(commit, _)| *commit);
    // A row may tell of a landing in another clone, whose commit was not fetched.
    if let Some(landed) = landed.filter(|commit| ctx.repo.has_object(*commit)) {
        // A landing that only moved the branch brought all commits since the agent began.
        let parents = ctx.repo.read_commit(landed)?.parents;
        let moved = parents.len() == 1 && ctx.repo.is_ancestor(agent.spawn_commit, landed)?;
        let first = parents.first().copied().filter(|_| !moved);
        return Ok((first.unwrap_or(base.oid), landed));
    }
    let tip = tip_of(ctx, agent)?;
    // What the branch has merged of the target is not the agent's.
    let (_, target) = base_of(ctx, agent, None)?;
    let fork = match target {
        Some(target) => ctx.repo.merge_base(target, tip)?,
        None => None,
    };
    Ok((fork.unwrap_or(base.oid), tip))
}

fn half_made(agent: &Agent) -> Error {
    let what = format!(
        "agent {} is half made and has no work yet",
        agent.id.short()
    );
    Error::new(Code::AgentState, what)
}
