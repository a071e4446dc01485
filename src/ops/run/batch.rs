//! Several runs at once, each on a thread with a repository of its own.

use crate::agents::context::parallel::Queue;
use crate::agents::{Ctx, Work, context::parallel, own_changes, who::lookup};
use crate::domain::life::event::Competed;
use crate::domain::life::run::{Attempt, lost_to, ranking};
use crate::domain::{Layering, What};
use crate::error::{Code, Result};
use crate::hosts::Host;
use crate::ops::close;
use crate::ops::run::{Echo, RunOptions, RunReport, RunTarget, StartReport, execute, plan};
use crate::proc::signals::Interrupts;
use serde::Serialize;
use serde_with_macros::skip_serializing_none;
use std::ffi::OsString;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// How often a live display is told that time has passed.
const TICK: Duration = Duration::from_millis(500);

/// The same command for many.
pub struct Batch {
    /// For whom; one that could not be read fails when its turn comes.
    pub targets: Vec<Result<RunTarget>>,
    /// The command's words.
    pub command: Vec<OsString>,
    /// What was asked for besides.
    pub options: RunOptions,
    /// The agent host of each target, where they have one of their own.
    pub hosts: Vec<&'static dyn Host>,
    /// How many may work at the same time.
    pub jobs: usize,
}

/// What happens in a batch. Numbers are those of its targets.
pub enum News {
    /// A command works.
    Begun(usize, Box<StartReport>),
    /// It is over, or did not begin.
    Ended(usize, Result<Box<RunReport>>),
    /// Nothing, for a while.
    Tick,
}

/// How a batch came out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "schema", rename = "git-agent.run-batch/2")]
pub struct BatchReport {
    /// `success` when every run succeeded, else `failed`.
    pub status: &'static str,
    /// How many succeeded.
    pub succeeded: usize,
    /// How many failed, or could not begin.
    pub failed: usize,
    /// How many were not begun, because we were asked to end first.
    pub left: usize,
    /// How long it all took, in milliseconds.
    pub duration_ms: u64,
    /// The status to end with.
    #[serde(skip)]
    pub exit_code: u8,
    /// Whether a signal asked all of it to end.
    #[serde(skip)]
    pub is_interrupted: bool,
}

/// Runs the command for every target, at most so many at a time, and tells of each as it comes. One that fails
/// does not stop the others; a request to end does.
///
/// # Errors
/// The first error of `tell`; the runs go on all the same. `io` when signals cannot be caught.
pub fn execute_all(
    ctx: &Ctx,
    batch: Batch,
    tell: &mut dyn FnMut(News) -> Result<()>,
) -> Result<BatchReport> {
    let clock = Instant::now();
    let interrupts = Interrupts::hold()?;
    let (count, mut succeeded, mut failed) = (batch.targets.len(), 0, 0);
    let (command, options) = (&batch.command, &batch.options);
    let seed = ctx.seed();
    let work = |queue: &Queue<(usize, Result<RunTarget>)>, news: Sender<News>| {
        // What has not begun when a signal comes is left; what works is ended by the signal's own
        // way.
        while interrupts.received().is_none()
            && let Some((index, target)) = queue.next()
        {
            let begun = |start: &StartReport| {
                // The listener stays until all is over.
                let _ = news.send(News::Begun(index, Box::new(start.clone())));
            };
            let run = |target| {
                let ctx = seed.open()?;
                let mut options = options.clone();
                options.host = batch.hosts.get(index).copied().or(options.host);
                // No person looks into the worktrees of several.
                if count > 1 {
                    options.made.layered_by_default = Layering::Auto;
                }
                let plan = plan(&ctx, target, command.clone(), options)?;
                let echo = Echo { begun: Some(Box::new(begun)), ..Echo::default() };
                execute(&ctx, plan, echo).map(Box::new)
            };
            let _ = news.send(News::Ended(index, target.and_then(run)));
        }
    };
    let listen = |news: Receiver<News>| {
        let mut told = Ok(());
        loop {
            let piece = match news.recv_timeout(TICK) {
                Ok(piece) => piece,
                Err(RecvTimeoutError::Timeout) => News::Tick,
                Err(RecvTimeoutError::Disconnected) => return told,
            };
            match &piece {
                News::Ended(_, Ok(report)) if report.exit_status() == 0 => succeeded += 1,
                News::Ended(..) => failed += 1,
                News::Begun(..) | News::Tick => {}
            }
            told = told.and(tell(piece));
        }
    };
    let targets = batch.targets.into_iter().enumerate().collect();
    parallel::share(targets, batch.jobs, work, listen)?;
    let left = count - succeeded - failed;
    // As a shell reports a signal: 128 and its number.
    let asked = interrupts.received().map(|signal| 128 + signal.as_raw());
    let asked = asked.and_then(|code| u8::try_from(code).ok());
    Ok(BatchReport {
        status: if succeeded == count { "success" } else { "failed" },
        succeeded,
        failed,
        left,
        duration_ms: u64::try_from(clock.elapsed().as_millis()).unwrap_or(u64::MAX),
        exit_code: asked.unwrap_or(u8::from(succeeded != count)),
        is_interrupted: asked.is_some(),
    })
}

// A tournament: several agents on one task. The best is ready to land, and the decision about the others is put off.

/// How a tournament came out; part of the answer of `run`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TournamentReport {
    /// The first eight hex digits of the winner's id; absent where no work may land.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub winner: Option<String>,
    /// Every attempt, best first.
    pub attempts: Vec<AttemptReport>,
}

/// One attempt.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AttemptReport {
    /// What the command line named.
    pub target: String,
    /// The agent host that did it; absent for a command of the caller's.
    pub host: Option<&'static str>,
    /// The agent's id.
    pub agent_id: String,
    /// The first eight hex digits of the id.
    pub short_id: String,
    /// Whether it has work that may land, and waits for no answer.
    pub accepted: bool,
    /// How many lines it changed; absent where that could not be determined.
    pub changed_lines: Option<usize>,
    /// What it cost, in US dollars.
    pub cost_usd: Option<f64>,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
}

/// A run that took part.
pub struct BatchRun {
    /// What the command line named.
    pub target: String,
    /// The agent host that did it, if one did.
    pub host: Option<&'static str>,
    /// How it ended.
    pub run: Box<RunReport>,
}

/// Compares attempts, records the place of each in its row, and defers those whose work may land and that did not win.
///
/// # Errors
/// Those of the ledger.
pub fn decide(ctx: &Ctx, entries: &[BatchRun]) -> Result<TournamentReport> {
    let mut reports: Vec<AttemptReport> = entries
        .iter()
        .map(|BatchRun { target, host, run }| AttemptReport {
            target: target.clone(),
            host: *host,
            agent_id: run.agent_id.clone(),
            short_id: run.short_id.clone(),
            accepted: run.status == "success"
                && !run.waiting
                && run.verify.as_ref().is_some_and(|report| report.verdict.can_land()),
            // Work that cannot be read has a verdict that says so.
            changed_lines: changed_lines(ctx, &run.agent_id).ok(),
            cost_usd: run.session.cost_usd,
            duration_ms: run.duration_ms,
        })
        .collect();
    let compared: Vec<Attempt> = reports
        .iter()
        .map(|report| Attempt {
            is_accepted: report.accepted,
            changed_lines: report.changed_lines,
            cost_usd: report.cost_usd,
            duration_ms: report.duration_ms,
        })
        .collect();
    let order = ranking(&compared);
    let place = |at: usize| order.iter().position(|one| *one == at);
    let mut places: Vec<_> = (0..reports.len()).map(place).zip(reports).collect();
    places.sort_unstable_by_key(|(place, _)| *place);
    reports = places.into_iter().map(|(_, report)| report).collect();
    // Before anything is deferred, so that a kill leaves rows that say how it came out.
    record(ctx, &reports)?;
    let winner = reports.first().filter(|first| first.accepted);
    let winner = winner.map(|first| first.short_id.clone());
    if let Some(winner) = &winner {
        let reason = lost_to(winner, reports.len());
        // What was not accepted cannot land anyway, so nothing is put off.
        for loser in reports.iter().skip(1).filter(|one| one.accepted) {
            match close::defer(ctx, &loser.agent_id, &reason) {
                // Another command decided about it meanwhile.
                Err(error) if error.code() == Code::AgentState => {}
                deferred => drop(deferred?),
            }
        }
    }
    Ok(TournamentReport { winner, attempts: reports })
}

/// Writes down in every row how the agent came out.
fn record(ctx: &Ctx, reports: &[AttemptReport]) -> Result<()> {
    let ledger = ctx.ledger();
    let by = ctx.actor()?;
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let Some(best) = reports.first() else {
        return Ok(());
    };
    for (at, report) in reports.iter().enumerate() {
        let agent = lookup::agent(ctx, &ledger, &report.agent_id)?;
        let what = What::Competed(Competed {
            best: best.short_id.clone(),
            place: count(at + 1),
            of: count(reports.len()),
            accepted: report.accepted,
            host: report.host.map(str::to_owned),
        });
        ledger.append(agent.spawn_commit, &by, what, ctx.now())?;
    }
    Ok(())
}

fn changed_lines(ctx: &Ctx, agent_id: &str) -> Result<usize> {
    let agent = lookup::agent(ctx, &ctx.ledger(), agent_id)?;
    let work = Work::look_up(ctx, agent)?;
    let tree = work.tree(ctx)?;
    let (_, before) = own_changes::compared_with(&ctx.repo, &work, tree)?;
    let counts = ctx.repo.diff_counts(before, tree)?;
    Ok(counts.insertions + counts.deletions)
}
