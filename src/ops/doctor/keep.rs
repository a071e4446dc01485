//! The keep chain: its ref, and the spawn commits and the work that it must hold.

use crate::agents::ctx::Ctx;
use crate::domain::agent::Agent;
use crate::domain::diagnosis::Sign;
use crate::domain::oid::Oid;
use crate::error::Result;
use crate::git::tree::{Entry, FILE};
use crate::ops::doctor::Finding;
use crate::ops::doctor::kept;
use crate::ops::doctor::survey::Survey;
use crate::store::chain::{self, Chain};
use crate::store::repair::{self, Condition};
use crate::store::{keep, layout, recovery};

const CHAIN: Chain = Chain::Keep(layout::KEEP_REF);

pub(super) fn look(ctx: &Ctx, survey: &Survey) -> Result<Vec<Finding>> {
    match repair::condition(&ctx.repo, CHAIN)? {
        Condition::Sound => {}
        Condition::Damaged => {
            let what = format!(
                "{} leads to nothing readable; its reflog does",
                CHAIN.refname()
            );
            let cure = |ctx: &Ctx| {
                repair::repair(&ctx.repo, CHAIN, ctx.now())?;
                Ok("wrote down what the reflog gave back".to_owned())
            };
            return Ok(vec![Finding::curable(Sign::KeepDamaged, what, cure)]);
        }
        Condition::Lost => {
            return Ok(vec![Finding::report(
                Sign::KeepDamaged,
                format!(
                    "{} and its reflog lead to nothing readable",
                    CHAIN.refname()
                ),
                recovery::fetch_command(CHAIN.refname()),
            )]);
        }
    }
    let rows = match survey.agents {
        Some(_) => kept::rows(ctx)?,
        None => Vec::new(),
    };
    let held = repair::kept(&ctx.repo)?;
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
            let mut commits = vec![agent.spawn_commit];
            commits.extend(policy_commit(ctx, &agent)?);
            let why = format!("spawn {}", agent.id);
            let link = keep::keep(&ctx.repo, &commits, &why, ctx.now())?;
            Ok(format!("kept {} by {link}", agent.spawn_commit))
        })
    });
    let mut findings: Vec<_> = findings.collect();
    findings.extend(kept::look(ctx, rows, &held)?);
    Ok(findings)
}

/// A commit that holds what bound the agent, as far as it is still there.
fn policy_commit(ctx: &Ctx, agent: &Agent) -> Result<Option<Oid>> {
    let named = [
        ("policy.json", agent.policy),
        ("baseline.json", agent.baseline),
    ];
    let here = |(name, oid): (&str, Option<Oid>)| {
        let oid = oid.filter(|oid| ctx.repo.has_object(*oid))?;
        let (mode, name) = (FILE, name.into());
        Some(Entry { mode, name, oid })
    };
    let entries: Vec<_> = named.into_iter().filter_map(here).collect();
    if entries.is_empty() {
        return Ok(None);
    }
    let tree = ctx.repo.write_tree(entries)?;
    let who = chain::identity(&ctx.repo, ctx.now());
    chain::commit(&ctx.repo, tree, &[], &who, "agent: policy").map(Some)
}
