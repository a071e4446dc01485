//! The keep chain: its ref, and the spawn commits and the work that it must hold.

use crate::agents::ctx::Ctx;
use crate::domain::agent::Agent;
use crate::domain::diagnosis::Sign;
use crate::domain::oid::Oid;
use crate::error::Result;
use crate::ops::doctor::survey::Survey;
use crate::ops::doctor::{Finding, kept};
use crate::store::chain::Chain;
use crate::store::chain::repair::{self, Condition};
use crate::store::keep;

pub(super) fn look(ctx: &Ctx, survey: &Survey) -> Result<Vec<Finding>> {
    match repair::condition(&ctx.repo, Chain::Keep)? {
        Condition::Sound => {}
        Condition::Damaged => {
            let what = format!(
                "{} leads to nothing readable; its reflog does",
                Chain::Keep.refname()
            );
            let cure = |ctx: &Ctx| {
                repair::repair(&ctx.repo, Chain::Keep, ctx.now())?;
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
    let rows = match survey.agents {
        Some(_) => kept::rows(ctx)?,
        None => Vec::new(),
    };
    let held = keep::kept(&ctx.repo)?;
    let missing = survey
        .rows()
        .iter()
        .filter(|agent| !held.contains(&agent.spawn_commit))
        .filter(|agent| ctx.repo.has_object(agent.spawn_commit));
    let findings = missing.map(|agent| {
        let agent = agent.clone();
        let what = format!(
            "nothing keeps the spawn commit of agent {}",
            agent.id.short()
        );
        Finding::curable(Sign::NotKept, what, move |ctx| {
            let why = format!("spawn {}", agent.id);
            let blobs = bound_by(ctx, &agent);
            let link = keep::keep_with(&ctx.repo, &[agent.spawn_commit], &blobs, &why, ctx.now())?;
            Ok(format!("kept {} by {link}", agent.spawn_commit))
        })
    });
    let mut findings: Vec<_> = findings.collect();
    findings.extend(kept::look(ctx, rows, &held)?);
    Ok(findings)
}

/// What bound the agent, as far as it is still there.
fn bound_by(ctx: &Ctx, agent: &Agent) -> Vec<(&'static str, Oid)> {
    let named = [
        ("baseline.json", agent.baseline),
        ("policy.json", agent.policy),
        ("amended.json", agent.amended),
    ];
    let is_here = |oid: &Oid| ctx.repo.has_object(*oid);
    let here = |(name, oid): (&'static str, Option<Oid>)| Some((name, oid.filter(is_here)?));
    named.into_iter().filter_map(here).collect()
}
