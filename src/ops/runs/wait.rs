//! `wait`: until runs are over.

use crate::agents::ctx::Ctx;
use crate::agents::{crash_recovery, liveness};
use crate::domain::run::{Outcome, Run};
use crate::error::Result;
use crate::ops::run_row::{RunRow, SUCCESS};
use crate::ops::runs::named;
use crate::ops::runs::named::Named;
use crate::store::{layout, lock};
use serde::Serialize;
use serde_json::Value;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

/// What is waited for.
#[derive(Clone, Debug, Default)]
pub struct WaitOptions {
    /// The agents; when none is named, every run that goes on, and every one in the background whose end no `wait`
    /// or `stop` has told of.
    pub agents: Vec<String>,
    /// Only for the first that is over.
    pub any: bool,
    /// For how long.
    pub limit: Option<Duration>,
}

/// The answer of `wait`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WaitReport {
    /// The format's name and version.
    pub schema: &'static str,
    /// Whether the time was up first.
    pub timed_out: bool,
    /// The runs, in the order in which they were named; with `any` the one that ended first.
    pub runs: Vec<Waited>,
}

/// A run that was waited for.
#[derive(Clone, Debug, PartialEq)]
pub struct Waited {
    /// What the ledger knows.
    pub row: RunRow,
    /// What `run` answered, when it came to that.
    pub report: Option<Value>,
}

impl Waited {
    /// The status that `run` ended with, or would have in the foreground: the command's, and 1 where that is 0 and
    /// the run was no success.
    pub fn exit_status(&self) -> u8 {
        let told = self
            .report
            .as_ref()
            .and_then(|report| report["status"].as_str());
        match (self.row.exit_code, told) {
            (Some(0), Some(status)) => u8::from(status != SUCCESS),
            (code, _) => code.unwrap_or(0),
        }
    }
}

impl Serialize for Waited {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.report {
            Some(report) => report.serialize(serializer),
            None => self.row.serialize(serializer),
        }
    }
}

impl WaitReport {
    /// The status to end with: that of the first run that failed, and 124 when the time was up.
    pub fn exit_code(&self) -> u8 {
        if self.timed_out {
            return Outcome::TIMEOUT.code;
        }
        let codes = self.runs.iter().map(Waited::exit_status);
        codes.into_iter().find(|code| *code != 0).unwrap_or(0)
    }
}

/// Waits until no process is at work for the runs any more, and records the end of those that were killed.
///
/// # Errors
/// `agent-unknown`, `agent-ambiguous`; `agent-state` for an agent without a run in this clone; those of the
/// ledger; `io`.
pub fn wait(ctx: &Ctx, options: &WaitOptions) -> Result<WaitReport> {
    let runs = if options.agents.is_empty() {
        named::uncollected(ctx)?
    } else {
        named::last_runs(ctx, &options.agents)?
    };
    let enough = if options.any {
        runs.len().min(1)
    } else {
        runs.len()
    };
    let is_glance = options.limit == Some(Duration::ZERO);
    // What is over already must not depend on how soon a thread tells.
    let mut done = over_already(ctx, &runs)?;
    if options.any {
        done.truncate(1);
    }
    let over = watch(ctx, &runs, &done)?;
    let begin = Instant::now();
    while done.len() < enough && !is_glance {
        let index = match options.limit {
            None => over.recv().ok(),
            Some(limit) => over
                .recv_timeout(limit.saturating_sub(begin.elapsed()))
                .ok(),
        };
        match index {
            Some(index) => done.push(index),
            None => break,
        }
    }
    let timed_out = done.len() < enough;
    let told = runs.iter().enumerate().filter(|(index, _)| {
        let is_done = done.contains(index);
        is_done || !options.any || timed_out
    });
    let told = told.map(|(index, one)| waited(ctx, one, done.contains(&index)));
    Ok(WaitReport {
        schema: "git-agent.wait/1",
        timed_out,
        runs: told.collect::<Result<_>>()?,
    })
}

/// The indices of the runs that no process is at work for, in the order in which they ended.
fn over_already(ctx: &Ctx, runs: &[Named]) -> Result<Vec<usize>> {
    let mut over = Vec::new();
    for (index, one) in runs.iter().enumerate() {
        if !liveness::is_at_work(ctx.repo.common_dir(), &one.agent, &one.run)? {
            over.push(index);
        }
    }
    // The end of a dead run is recorded last, when it is told of.
    over.sort_by_key(|index| {
        let end = runs[*index].run.end.as_ref();
        (end.is_none(), end.map(|(_, time)| *time))
    });
    Ok(over)
}

/// Tells the index of every run that is not `done` as soon as no process is at work for it.
fn watch(ctx: &Ctx, runs: &[Named], done: &[usize]) -> Result<Receiver<usize>> {
    let (send, over) = mpsc::channel();
    let left = runs.iter().enumerate();
    for (index, one) in left.filter(|(index, _)| !done.contains(index)) {
        let send = send.clone();
        let name = layout::live_lock(one.agent.id);
        lock::when_free(ctx.repo.common_dir(), &name, move || {
            // The receiver is gone when the time is up.
            let _ = send.send(index);
        })?;
    }
    Ok(over)
}

pub(super) fn waited(ctx: &Ctx, one: &Named, is_over: bool) -> Result<Waited> {
    if !is_over {
        return Ok(Waited {
            row: RunRow::of(ctx, &one.agent, &one.run, true),
            report: None,
        });
    }
    // A supervisor that was killed has recorded nothing, and this is who finds out.
    crash_recovery::record_crashed_run(ctx, &one.agent)?;
    let events = ctx.ledger().events(one.agent.spawn_commit)?;
    let run = Run::find(&events, one.run.number());
    let run = run.as_ref().unwrap_or(&one.run);
    let common_dir = ctx.repo.common_dir();
    let report = liveness::load_report(common_dir, &one.agent, one.run.number())?;
    // It counts as told from here on, so that the next `wait` does not wait for it again.
    liveness::collect(common_dir, &one.agent, run);
    Ok(Waited {
        row: RunRow::of(ctx, &one.agent, run, false),
        report,
    })
}
