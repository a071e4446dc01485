//! `train`: many agents land with few check runs, and the target only ever moves to a tree on which the checks were green.
//!
//! ```text
//! gather   agents ─> judged without their check commands ─> order ─> MergePlans, by target
//! decide   MergePlans ─> stacks in memory ─> checks on the top ─> green: lands; red: bisect (domain::train)
//! land     green stack ─> one commit for each agent ─> one move of the target ─> rows
//! ```
//!
//! A stack is made of commits that no ref names, with the parents that the landing commits will have, so the tree that was
//! checked is the tree that lands. The target moves over a whole stack at once: a train that is killed leaves it where it
//! was or at the top of a green stack. What is known of a tree is remembered (`memory`), so a train that is run again does
//! not repeat what was green.
//!
//! Deliberately absent: judging scope, origin and bundle, which `verify` does for each agent before its work is stacked.

mod checks;
mod gather;
mod memory;
mod report;
mod track;

pub use report::{
    FailedCheck, FlakyReport, ItemReport, Outcome, RunReason, TrainReport, TrainRun, TrainTarget,
};

use crate::agents::authority::require_orchestrator;
use crate::agents::ctx::Ctx;
use crate::agents::scratch::Scratch;
use crate::domain::train::decide;
use crate::error::{Code, Error, Result};
use crate::ops::merge::{MergePlan, Method, Order};
use checks::Checks;
use gather::Rider;
use std::time::{Duration, Instant};
use track::Stacking;

/// How often the agents are judged anew because another process moved the target.
const ATTEMPTS: usize = 10;

/// What the caller asked for.
#[derive(Clone, Debug)]
pub struct TrainOptions {
    /// The agents, by whatever they go by; every one that is done where this is empty.
    pub agents: Vec<String>,
    /// The branch to land on; the one that each agent started from when absent.
    pub into: Option<String>,
    /// How to land; as for `merge` when absent.
    pub method: Option<Method>,
    /// In which order.
    pub order: Order,
    /// How many checks run at the same time.
    pub jobs: usize,
    /// How many check runs there may be; no bound when absent.
    pub max_runs: Option<usize>,
    /// How long one check command may take.
    pub limit: Duration,
    /// Runs the check commands after one that failed, too.
    pub keep_going: bool,
    /// Only says what would be stacked and checked.
    pub dry_run: bool,
    /// Leaves the commands of `[hooks]` out.
    pub no_hooks: bool,
}

/// What happens while a train is under way.
pub enum TrainNews<'a> {
    /// So many check runs begin.
    Checking(usize),
    /// A check is over, or its answer was known.
    Checked(&'a TrainRun),
    /// So many agents landed on this branch.
    Landed(usize, &'a str),
    /// An agent's work was rejected.
    Rejected(&'a str),
}

/// Lands agents as a train.
///
/// # Errors
/// `orchestrator-only`; what is no matter of one agent: a full disk, a missing git, the ledger, settings that cannot be
/// read. What has landed until then has landed.
pub fn train(
    ctx: &Ctx,
    options: &TrainOptions,
    tell: &mut dyn FnMut(&TrainNews<'_>),
) -> Result<TrainReport> {
    require_orchestrator(ctx)?;
    if !options.dry_run {
        return run(ctx, options, tell);
    }
    let scratch = Scratch::make(ctx, "train")?;
    let apart = ctx.with_scratch_objects(scratch.path())?;
    run(&apart, options, tell)
}

fn run(
    ctx: &Ctx,
    options: &TrainOptions,
    tell: &mut dyn FnMut(&TrainNews<'_>),
) -> Result<TrainReport> {
    let clock = Instant::now();
    let mut items = gather::items(ctx, options)?;
    ctx.logged("gathered");
    let (runs, targets) = std::thread::scope(|scope| {
        let mut checks = Checks::new(ctx, options, scope);
        let targets = run_targets(ctx, options, &mut items, &mut checks, tell)?;
        Ok::<_, Error>((checks.finish(), targets))
    })?;
    Ok(TrainReport {
        schema: "git-agent.train/1",
        dry_run: options.dry_run,
        items: items.into_iter().map(|item| item.report).collect(),
        targets,
        checks_run: runs.run,
        checks_known: runs.known,
        runs: runs.runs,
        flaky: runs.flaky,
        duration_ms: u64::try_from(clock.elapsed().as_millis()).unwrap_or(u64::MAX),
    })
}

/// A train for each branch to land on, in the order of their first agents.
fn run_targets(
    ctx: &Ctx,
    options: &TrainOptions,
    items: &mut [Rider],
    checks: &mut Checks<'_, '_>,
    tell: &mut dyn FnMut(&TrainNews<'_>),
) -> Result<Vec<TrainTarget>> {
    let mut reports: Vec<TrainTarget> = Vec::new();
    loop {
        let next = items.iter().find_map(|item| item.plan.as_ref());
        let Some(target) = next.map(|plan| plan.target.clone()) else {
            return Ok(reports);
        };
        let report = run_target(ctx, options, items, &target, checks, tell)?;
        reports.push(report);
    }
}

fn run_target(
    ctx: &Ctx,
    options: &TrainOptions,
    items: &mut [Rider],
    target: &str,
    checks: &mut Checks<'_, '_>,
    tell: &mut dyn FnMut(&TrainNews<'_>),
) -> Result<TrainTarget> {
    let mut report: Option<TrainTarget> = None;
    for _ in 0..ATTEMPTS {
        let members: Vec<usize> = { 0..items.len() }
            .filter(|at| { items[*at].plan.iter() }.any(|plan| plan.target == target))
            .collect();
        let plans: Vec<MergePlan> = members
            .iter()
            .filter_map(|at| items[*at].plan.clone())
            .collect();
        // It moved while they were judged one after the other.
        if plans.iter().any(|plan| plan.base != plans[0].base) {
            gather::judge_again(ctx, options, items, target)?;
            continue;
        }
        let mut track = Stacking::new(ctx, options, plans, checks, tell)?;
        let start = track.start();
        let decided = decide(&mut track, start, members.len(), options.jobs);
        // What was settled before an error is settled.
        let (fates, ground) = track.finish();
        let known = report.get_or_insert_with(|| ground.clone());
        known.oid = ground.oid;
        let decided = match decided {
            Err(error) if error.code() == Code::LostRace => None,
            decided => Some(decided?),
        };
        known.red = decided.as_ref().is_some_and(|one| one.target_is_red);
        for (at, fate) in members.iter().zip(fates) {
            items[*at].settle(fate);
        }
        let Some(decided) = decided else {
            gather::judge_again(ctx, options, items, target)?;
            continue;
        };
        for candidate in decided.conflicting {
            gather::close_conflict(ctx, options, &mut items[members[candidate]])?;
        }
        for candidate in decided.undecided {
            items[members[candidate]].leave(decided.target_is_red);
        }
        return report.ok_or_else(|| Error::bug("a train has no target"));
    }
    Err(Error::new(
        Code::LostRace,
        format!("other processes moved {target} {ATTEMPTS} times while a train was under way"),
    ))
}
