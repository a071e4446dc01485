//! `train`: many agents land with few check runs, and the target only ever moves to a tree on which the checks were
//! green.
//!
//! ```text
//! gather   agents ─> judged without their check commands ─> MergePlans ─> order, from the judged objects
//! decide   MergePlans ─> stacks in memory ─> checks on the top ─> green: lands; red: bisect (domain::train)
//! land     green stack ─> one commit for each agent ─> one move of the target ─> rows, while the next checks run
//! ```
//!
//! A stack is made of commits that no ref names, with the parents that the landing commits will have, so the tree that was
//! checked is the tree that lands. The target moves over a whole stack at once: a train that is killed leaves it where it
//! was or at the top of a green stack. What is known of a tree is remembered (`check_memory`), so a train that is run again does
//! not repeat what was green.
//!
//! Deliberately absent: judging scope, origin and bundle, which `verify` does for each agent before its work is stacked.

mod checks;
mod close;
mod gather;
mod report;
mod track;

pub use close::{AllReport, Fate, TrainDecision, merge_all};
pub use close::{AnswerWay, CloseReport};
pub use report::{
    FailedCheck, FlakyReport, ItemReport, RunReason, TrainOutcome, TrainReport, TrainRun,
    TrainTarget,
};

use crate::agents::who::authority::require_orchestrator;
use crate::agents::work::stacked;
use crate::agents::{Ctx, Scratch};
use crate::domain::landing::train::{Purpose, Track, decide};
use crate::domain::life::sandbox::Mode;
use crate::error::{Code, Error, Exit, Result};
use crate::ops::agent_report::AgentRef;
use crate::ops::merge::{MergeOptions, MergePlan, Method, concerns_all, fetch_targets};
use crate::store::landing::spawn_commit::AGENTS_BRANCHES;
use crate::wire::output::path_text::PathText;
use checks::{Checks, Done};
use gather::Rider;
use serde::Serialize;
use std::time::{Duration, Instant};
use track::Stacking;

/// How long a train waits before it tries again to land on a target that another process moved, in milliseconds: at first not at all, and in
/// the end a minute altogether. Each try takes a check run, so few of them bridge a long time.
const PAUSES: [u64; 9] = [0, 250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000];

/// How long a train waits at most for the next move of a target that moves again and again. A stack has the most time to be checked if it stands
/// on a commit that has just come.
const NEXT_MOVE: Duration = Duration::from_secs(2);

/// How often the target is looked at meanwhile.
const LOOK: Duration = Duration::from_millis(5);

/// In which order several agents land.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// As they were spawned.
    #[default]
    Spawned,
    /// So that most of them land (`overlap --order`).
    Best,
}

/// What the caller asked for.
#[derive(Clone, Debug)]
pub struct TrainOptions {
    /// The agents, by whatever they go by; every one that is done where this is empty.
    pub agents: Vec<String>,
    /// The branch to land on; the one that each agent started from when absent.
    pub into: Option<String>,
    /// The remote whose branch the work lands on, in place of this clone's; the usual one where it is empty.
    pub push: Option<String>,
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
    /// What fence is around them.
    pub sandbox: Mode,
    /// Only says what would be stacked and checked.
    pub dry_run: bool,
    /// Records what the checks say, and moves no branch.
    pub no_land: bool,
    /// Takes what is there although something works in an agent.
    pub now: bool,
    /// Leaves the commands of `[hooks]` out.
    pub no_hooks: bool,
}

impl TrainOptions {
    /// How each agent's work is judged.
    fn of_each(&self) -> MergeOptions {
        MergeOptions {
            method: self.method,
            into: self.into.clone(),
            push: self.push.clone(),
            // `fetch_once` has asked the remote for all of them.
            is_fetched: true,
            // The train runs the checks on the stack.
            leave_checks: true,
            now: self.now,
            no_hooks: self.no_hooks,
            ..MergeOptions::default()
        }
    }
}

/// What happens while a train is under way. `lands_on` is the full name of the branch.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum TrainNews<'a> {
    /// An agent's work was merged on top of others, in memory.
    Stacked {
        /// The agent.
        #[serde(flatten)]
        agent: AgentRef,
        /// The branch.
        lands_on: &'a str,
        /// How many agents are below it.
        below: usize,
        /// The tree with its work.
        tree: &'a str,
    },
    /// An agent's work conflicts with a stack, or with what landed if nothing is below it.
    Conflict {
        /// The agent.
        #[serde(flatten)]
        agent: AgentRef,
        /// The branch.
        lands_on: &'a str,
        /// How many agents are below it.
        below: usize,
        /// Where they conflict.
        conflicts: Vec<PathText>,
    },
    /// A check run begins.
    CheckStarted {
        /// The branch.
        lands_on: &'a str,
        /// The tree.
        tree: &'a str,
        /// Whose work is stacked, in order; none for the target alone.
        stack: &'a [String],
        /// What the answer is needed for.
        purpose: Purpose,
        /// Why it runs.
        why: RunReason,
    },
    /// A check is over, or its answer was known.
    CheckEnded(&'a TrainRun),
    /// A check failed and then succeeded.
    Flaky(&'a FlakyReport),
    /// Agents landed.
    Landed {
        /// Their ids, in order.
        agents: Vec<String>,
        /// The branch.
        lands_on: &'a str,
        /// Where it is now.
        oid: &'a str,
    },
    /// An agent is rejected.
    Culprit {
        /// The agent.
        #[serde(flatten)]
        agent: AgentRef,
        /// The branch.
        lands_on: &'a str,
        /// What failed with its work.
        check: &'a FailedCheck,
        /// The agent together with whose work, and only together, it fails.
        #[serde(skip_serializing_if = "Option::is_none")]
        fails_with: Option<&'a AgentRef>,
    },
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
    rehearsed(ctx, options, |ctx| {
        let clock = Instant::now();
        let mut items = gather::items(ctx, options)?;
        ctx.logged("gathered");
        let (done, targets) = decide_all(ctx, options, &mut items, tell)?;
        Ok(TrainReport {
            dry_run: options.dry_run,
            items: items.into_iter().map(|item| item.report).collect(),
            targets,
            checks_run: done.run,
            checks_again: done.again,
            checks_known: done.known,
            sandbox: done.sandbox,
            runs: done.runs,
            flaky: done.flaky,
            duration_ms: u64::try_from(clock.elapsed().as_millis()).unwrap_or(u64::MAX),
            warnings: Vec::new(),
        })
    })
}

/// Calls `work` where a dry run writes nothing to the repository, not even objects.
fn rehearsed<T>(
    ctx: &Ctx,
    options: &TrainOptions,
    work: impl FnOnce(&Ctx) -> Result<T>,
) -> Result<T> {
    require_orchestrator(ctx)?;
    options.of_each().require_into(ctx)?;
    if !options.dry_run {
        return work(ctx);
    }
    if options.push.is_some() {
        // What is fetched stays: no scratch object may be in a ref.
        let agents = gather::open_agents(ctx)?;
        fetch_targets(ctx, &options.of_each(), &agents)?;
    }
    let scratch = Scratch::make(ctx, "train")?;
    work(&ctx.with_scratch_objects(scratch.path())?)
}

/// Decides about all agents that were judged.
fn decide_all(
    ctx: &Ctx,
    options: &TrainOptions,
    items: &mut [Rider],
    tell: &mut dyn FnMut(&TrainNews<'_>),
) -> Result<(Done, Vec<TrainTarget>)> {
    std::thread::scope(|scope| {
        let mut checks = Checks::new(ctx, options, scope)?;
        let targets = run_targets(ctx, options, items, &mut checks, tell)?;
        Ok((checks.finish(), targets))
    })
}

/// A train for each branch to land on, in the order of their first agents, branches of agents last: what was built upon one that lands
/// lands there, too.
fn run_targets(
    ctx: &Ctx,
    options: &TrainOptions,
    items: &mut [Rider],
    checks: &mut Checks<'_, '_>,
    tell: &mut dyn FnMut(&TrainNews<'_>),
) -> Result<Vec<TrainTarget>> {
    let mut reports: Vec<TrainTarget> = Vec::new();
    loop {
        let plans = items.iter().filter_map(|item| item.plan.as_ref());
        let is_agents = |plan: &&MergePlan| plan.target.starts_with(AGENTS_BRANCHES);
        let Some(next) = plans.min_by_key(is_agents) else {
            return Ok(reports);
        };
        let (target, aimed) = (next.target.clone(), stacked::target_of(ctx, &next.agent)?);
        if is_agents(&next) && options.into.is_none() && aimed.as_ref() != Some(&target) {
            // They land elsewhere by now, and are judged by where that is.
            gather::judge_those(ctx, options, items, |item| item.is_bound_for(&target))?;
            continue;
        }
        let Some(mut report) = run_target(ctx, options, items, &target, checks, tell)? else {
            continue;
        };
        // What was built upon work that lands makes a second round of one train.
        if let Some(at) = reports.iter().position(|known| known.refname == report.refname) {
            report.before = reports.remove(at).before;
        }
        reports.push(report);
    }
}

fn member<'m>(members: &'m mut [&mut Rider], candidate: usize) -> Result<&'m mut Rider> {
    match members.get_mut(candidate) {
        Some(member) => Ok(member),
        None => Err(Error::bug("a decision about an agent that is not in the train")),
    }
}

fn run_target(
    ctx: &Ctx,
    options: &TrainOptions,
    items: &mut [Rider],
    target: &str,
    checks: &mut Checks<'_, '_>,
    tell: &mut dyn FnMut(&TrainNews<'_>),
) -> Result<Option<TrainTarget>> {
    let mut report: Option<TrainTarget> = None;
    let mut last = None;
    let mut pauses = PAUSES.into_iter();
    loop {
        let mut members: Vec<&mut Rider> =
            items.iter_mut().filter(|item| item.is_bound_for(target)).collect();
        let plans: Vec<MergePlan> = members.iter().filter_map(|item| item.plan.clone()).collect();
        let Some(first) = plans.first() else {
            return Ok(report);
        };
        // It moved while they were judged one after the other. All of them are judged against one commit then.
        if plans.iter().any(|plan| plan.base != first.base) {
            gather::judge_again(ctx, options, items, target)?;
            continue;
        }
        let watched = first.base_ref().to_owned();
        let mut track = Stacking::new(ctx, options, plans, checks, tell)?;
        let start = track.start();
        let decided = decide(&mut track, start, members.len(), options.jobs);
        // What was decided last is not carried out yet: that happens while checks run, and no more
        // of them do.
        let settled = track.settle();
        // What was settled before an error is settled.
        let (blamed, has_moved) = (track.blamed(), track.has_moved());
        let (fates, ground) = track.finish();
        let known = report.get_or_insert_with(|| ground.clone());
        known.oid = ground.oid;
        for (member, fate) in members.iter_mut().zip(fates) {
            member.settle(fate);
        }
        match decided.and_then(|decided| settled.map(|()| decided)) {
            Ok(_) if has_moved => {}
            Ok(decided) => {
                known.red = decided.target_is_red;
                for candidate in decided.conflicting {
                    gather::close_conflict(ctx, options, member(&mut members, candidate)?)?;
                }
                for candidate in decided.undecided {
                    member(&mut members, candidate)?.leave(decided.target_is_red);
                }
                return Ok(report);
            }
            Err(error) if concerns_all(error.code()) => return Err(error),
            // One of them cannot land as it was judged; the others go on without it, unless another process was quicker.
            Err(error) => {
                // In a race the same agent may land once it is judged again, so it is not to blame.
                let is_race = matches!(error.code(), Code::LostRace | Code::AgentState);
                let blamed = blamed.filter(|_| !is_race);
                match blamed {
                    Some(candidate) => {
                        member(&mut members, candidate)?.refuse(error);
                        // One rider fewer each time, so this ends. The attempts are for what
                        // other processes move.
                        if !has_moved {
                            gather::judge_again(ctx, options, items, target)?;
                            continue;
                        }
                    }
                    None => {
                        // What no other process moved is the same at the next attempt.
                        let may_pass =
                            is_race || has_moved || error.code().exit() == Exit::TryAgain;
                        last = Some((error, may_pass));
                        if !may_pass {
                            break;
                        }
                    }
                }
            }
        }
        let Some(pause) = pauses.next() else {
            break;
        };
        if has_moved {
            wait_for_a_gap(ctx, &watched, Duration::from_millis(pause))?;
        }
        gather::judge_again(ctx, options, items, target)?;
    }
    // Those that no attempt decided about.
    for item in items.iter_mut().filter(|item| item.is_bound_for(target)) {
        let attempts = PAUSES.len() + 1;
        let moved = format!("other processes moved {target} {attempts} times meanwhile");
        item.refuse(match &last {
            Some((error, false)) => error.repeated(),
            Some((error, true)) => Error::new(Code::LostRace, error.to_string()),
            None => Error::new(Code::LostRace, moved),
        });
    }
    Ok(report)
}

/// Waits until a target that moves again and again has just moved, so that the time until it moves next is the longest; not at all at the first
/// time, for most targets move once.
fn wait_for_a_gap(ctx: &Ctx, watched: &str, pause: Duration) -> Result<()> {
    if pause.is_zero() {
        return Ok(());
    }
    let _activity = ctx.activity("waiting: other processes move the target");
    std::thread::sleep(pause);
    // Right after a move is the best moment: the next one is as far away as it gets.
    let before = ctx.repo.tip(watched)?.oid();
    let clock = Instant::now();
    while clock.elapsed() < NEXT_MOVE && ctx.repo.tip(watched)?.oid() == before {
        std::thread::sleep(LOOK);
    }
    Ok(())
}
