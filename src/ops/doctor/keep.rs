//! The keep chain: its ref, and the spawn commits and the work that it must hold.

use crate::agents::ctx::Ctx;
use crate::domain::agent::Agent;
use crate::domain::diagnosis::Sign;
use crate::domain::id::AgentId;
use crate::domain::oid::Oid;
use crate::error::{Remedy, Result};
use crate::ops::doctor::survey::Survey;
use crate::ops::doctor::{Finding, kept};
use crate::ops::remedy::command;
use crate::store::chain::Chain;
use crate::store::chain::recovery::{self, Condition};
use crate::store::keep;
use std::collections::BTreeSet;

/// How many agents a finding names.
const NAMED: usize = 4;

pub(super) fn look(ctx: &Ctx, survey: &Survey) -> Result<Vec<Finding>> {
    match recovery::condition(&ctx.repo, Chain::Keep)? {
        Condition::Sound => {}
        Condition::Damaged => {
            let what = format!(
                "{} leads to nothing readable; its reflog does",
                Chain::Keep.refname()
            );
            let cure = |ctx: &Ctx| {
                recovery::repair(&ctx.repo, Chain::Keep, ctx.now())?;
                Ok("wrote down what the reflog gave back".to_owned())
            };
            return Ok(vec![Finding::curable(Sign::KeepDamaged, what, cure)]);
        }
        Condition::Lost => {
            return Ok(vec![Finding::report(
                Sign::KeepDamaged,
                format!(
                    "{} and its reflog lead to nothing readable",
                    Chain::Keep.refname()
                ),
                super::TAKE_OVER.to_owned(),
            )]);
        }
    }
    // Rows that cannot be read claim nothing, and their family says so.
    let rows = match survey.agents {
        Some(_) => kept::rows(ctx)?,
        None => Vec::new(),
    };
    // After the rows, which speak of what was kept before.
    let held = keep::kept(&ctx.repo)?;
    // What another clone keeps, this one need not: without `agent.sync all` the branches of its agents come alone.
    let (here, elsewhere): (Vec<_>, Vec<_>) = { survey.rows().iter() }
        .filter(|agent| !held.contains(&agent.spawn_commit))
        .filter(|agent| ctx.repo.has_object(agent.spawn_commit))
        .partition(|agent| survey.is_local(agent) || survey.worktree(agent).is_some());
    let mut elsewhere: BTreeSet<_> = elsewhere.into_iter().map(|agent| agent.id).collect();
    let findings = here.into_iter().map(|agent| {
        let agent = agent.clone();
        let what = format!(
            "nothing keeps the spawn commit of agent {}",
            agent.id.short()
        );
        Finding::curable(Sign::NotKept, what, move |ctx| {
            let why = format!("spawn {}", agent.id);
            // A spawn keeps these with its commit; what is written again keeps as much.
            let blobs = bound_by(ctx, &agent);
            let link = keep::keep_with(&ctx.repo, &[agent.spawn_commit], &blobs, &why, ctx.now())?;
            Ok(format!("kept {} by {link}", agent.spawn_commit))
        })
    });
    let mut findings: Vec<_> = findings.collect();
    findings.extend(kept::look(ctx, rows, &held, &mut elsewhere)?);
    findings.extend(kept_elsewhere(&elsewhere));
    Ok(findings)
}

/// One line for all agents: a clone of a busy remote has rows of thousands.
fn kept_elsewhere(agents: &BTreeSet<AgentId>) -> Option<Finding> {
    let named: Vec<_> = agents
        .iter()
        .take(NAMED)
        .map(|agent| agent.short())
        .collect();
    let more = match agents.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let what = format!(
        "what is kept of agents of other clones is not kept here: {}{more}",
        named.join(", ")
    );
    let command = command(&Remedy::SynchroniseAll);
    (!agents.is_empty()).then(|| Finding::report(Sign::KeptElsewhere, what, command))
}

/// What bound the agent, as far as it is still there.
fn bound_by(ctx: &Ctx, agent: &Agent) -> Vec<(&'static str, Oid)> {
    let named = [
        ("baseline.json", agent.baseline),
        ("policy.json", agent.policy),
        ("amended.json", agent.amended),
    ];
    // One that is not here cannot be kept, and would fail the rest.
    let is_here = |oid: &Oid| ctx.repo.has_object(*oid);
    let here = |(name, oid): (&'static str, Option<Oid>)| Some((name, oid.filter(is_here)?));
    named.into_iter().filter_map(here).collect()
}
