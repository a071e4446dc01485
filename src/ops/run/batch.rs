//! Several runs at once, each on a thread with a repository of its own.

use crate::agents::ctx::Ctx;
use crate::agents::parallel::{self, Queue};
use crate::error::Result;
use crate::hosts::Host;
use crate::ops::run::{Echo, RunOptions, RunReport, StartReport, Target, execute, plan};
use crate::proc::signals::Interrupts;
use serde::Serialize;
use std::ffi::OsString;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// How often a live display is told that time has passed.
const TICK: Duration = Duration::from_millis(500);

/// The same command for many.
pub struct Batch {
    /// For whom; one that could not be read fails when its turn comes.
    pub targets: Vec<Result<Target>>,
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
pub struct BatchReport {
    /// The format's name and version.
    pub schema: &'static str,
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
    let work = |queue: &Queue<(usize, Result<Target>)>, news: Sender<News>| {
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
                let plan = plan(&ctx, target, command.clone(), options)?;
                let echo = Echo {
                    begun: Some(Box::new(begun)),
                    ..Echo::default()
                };
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
        schema: "git-agent.run-batch/2",
        status: if succeeded == count {
            "success"
        } else {
            "failed"
        },
        succeeded,
        failed,
        left,
        duration_ms: u64::try_from(clock.elapsed().as_millis()).unwrap_or(u64::MAX),
        exit_code: asked.unwrap_or(u8::from(succeeded != count)),
    })
}
