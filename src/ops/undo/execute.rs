//! The steps of an undo, in the order that makes every stop harmless.

use super::report::{BranchMoveReport, UndoReport};
use super::revert::revert;
use super::{STEPS, UndoPlan};
use crate::agents::branch_swap::move_with_worktrees;
use crate::agents::ctx::Ctx;
use crate::agents::worktree;
use crate::domain::event::What;
use crate::domain::oid::Oid;
use crate::error::Result;
use crate::ops::agent_report::Reporter;
use crate::ops::discard::{self, DiscardOptions};
use crate::ops::{amend, rescue};
use crate::store::ledger::Ledger;
use crate::store::{keep, layout, lock};
use std::collections::HashMap;

/// Carries out a plan.
///
/// # Errors
/// `lost-race` when a branch moved since the plan was made; `target-dirty`, naming the paths; `update-conflicts` where a revert
/// conflicts; those of the ledger and of bringing worktrees back.
pub fn execute(ctx: &Ctx, plan: &UndoPlan) -> Result<UndoReport> {
    let repo = &ctx.repo;
    let mut report = plan.answer("undone");
    let landings = lock::hold(repo.common_dir(), layout::LANDING_LOCK)?;
    // What a branch leaves hangs on nothing else from now on, and taking this back needs it.
    let left = { plan.moves.iter() }.filter(|one| one.from != one.to);
    let left: Vec<Oid> = left.map(|one| one.from).collect();
    if !left.is_empty() {
        keep::keep(
            repo,
            &left,
            &format!("undone {}", plan.operation),
            ctx.now(),
        )?;
    }
    ctx.reached(STEPS[0]);
    let reason = format!("agent: undo {}", plan.operation);
    for one in plan.moves.iter().filter(|one| one.from != one.to) {
        let checkouts = repo.checkouts(&one.refname)?;
        let branch = (one.refname.as_str(), checkouts.as_slice());
        move_with_worktrees(ctx, branch, (one.from, one.to), &reason, &|| Ok(()))?;
    }
    let mut reverted = HashMap::new();
    for one in &plan.reverts {
        let made = revert(ctx, one, &plan.operation)?;
        report.moves.push(BranchMoveReport::from(&made));
        reverted.insert(one.to, made.to);
    }
    for agent in &plan.agents {
        worktree::reopen(ctx, agent)?;
    }
    drop(landings);
    for agent in &plan.restored {
        report.warnings.extend(rescue::restore(ctx, agent)?);
    }
    record(ctx, plan, &reverted)?;
    ctx.reached(STEPS[6]);
    let names: Vec<String> = { plan.removed.iter() }
        .map(|it| it.id.to_string())
        .collect();
    let mut discarded = Ok(());
    discard::discard_each(ctx, &names, DiscardOptions::default(), &mut |one| {
        if discarded.is_ok() {
            discarded = one.map(drop);
        }
    });
    discarded?;
    // The rows as they stand now, and the prompts that tell of a policy.
    let ledger = Ledger::new(repo);
    let reporter = Reporter::new(ctx)?;
    for before in &plan.agents {
        let now = ledger.agent(before.spawn_commit)?;
        let now = now.unwrap_or_else(|| before.clone());
        if now.binding_policy() != before.binding_policy()
            && let Some(policy) = now.binding_policy()
            && let Err(error) = amend::tell(ctx, &now, policy)
        {
            let why = format!("its prompt was not written anew: {error}; the next run does that");
            report.warnings.push(why);
        }
        report.agents.push(reporter.agent(&now));
    }
    report.undone_by = Some(repo.operation()?.to_string());
    Ok(report)
}

/// One event for each agent, all by one commit of the ledger. What is discarded again says so itself.
fn record(ctx: &Ctx, plan: &UndoPlan, reverted: &HashMap<Oid, Oid>) -> Result<()> {
    let is_removed = |key: &Oid| plan.removed.iter().any(|agent| agent.spawn_commit == *key);
    let rows = plan.agents.iter().map(|agent| agent.spawn_commit);
    let rows: Vec<Oid> = rows.filter(|key| !is_removed(key)).collect();
    let what = |row: usize| {
        let landing = plan.landings.iter().find(|(key, _)| *key == rows[row]);
        What::Undone {
            operation: plan.operation.clone(),
            revert: landing.and_then(|(_, commit)| reverted.get(commit).copied()),
        }
    };
    let ledger = Ledger::new(&ctx.repo);
    ledger.append_each(&rows, &ctx.actor()?, ctx.now(), |row, _| Ok(what(row)))?;
    Ok(())
}
