//! `ps`, `wait`, `stop` and `logs`: runs that were started here or in another terminal.
//!
//! Nothing is asked of a run but what the system says: its agent's `live.lock` is held as long as a process
//! of ours works for it, its supervisor is the process that has that file as standard input, and the ledger and its logs
//! tell the rest.

use crate::agents::life::{at_work::waits_for_answer, liveness};
use crate::agents::who::authority::require_own;
use crate::agents::who::current::CurrentAgent;
use crate::agents::{Ctx, upkeep::crash_recovery, who::lookup};
use crate::domain::life::run::Outcome;
use crate::domain::{Agent, Event, Run, What};
use crate::error::{Code, Error, IoContext, Remedy, Result};
use crate::ops::run_row::{RunRow, SUCCESS};
use crate::store::files::{layout, lock};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

// Runs by the agents that people name.

/// A run of this clone.
struct Named {
    pub agent: Agent,
    pub run: Run,
}

/// The last runs of these agents, in their order and each once.
///
/// # Errors
/// `agent-unknown`, `agent-ambiguous`; `agent-state` for an agent without a run in this clone.
fn last_runs(ctx: &Ctx, who: &[String]) -> Result<Vec<Named>> {
    let mut runs = who.iter().map(|who| last_run(ctx, who)).collect::<Result<Vec<_>>>()?;
    let mut seen = BTreeSet::new();
    // One that is named twice is told of once.
    runs.retain(|one| seen.insert(one.agent.id));
    Ok(runs)
}

/// Every run that a process of ours is at work for, and every run in the background whose end nothing has told of yet; oldest first.
///
/// # Errors
/// Those of the ledger; `io`.
fn uncollected(ctx: &Ctx) -> Result<Vec<Named>> {
    let common_dir = ctx.repo.common_dir();
    let mut runs = Vec::new();
    for agent in ctx.ledger().agents()? {
        let Some(last) = agent.run.clone() else { continue };
        // Another run may have begun before the end of one was told of.
        let earlier = liveness::uncollected_before(common_dir, &agent, &last);
        if !earlier.is_empty() {
            let events = ctx.ledger().events(agent.spawn_commit)?;
            let found = earlier.iter().filter_map(|number| Run::find(&events, *number));
            runs.extend(found.map(|run| Named { agent: agent.clone(), run }));
        }
        let is_live = agent.state.is_open()
            && !is_around_us(ctx, &agent)
            && liveness::is_at_work(common_dir, &agent, &last)?;
        if is_live || liveness::is_uncollected(common_dir, &agent, last.number()) {
            runs.push(Named { agent, run: last });
        }
    }
    runs.sort_by_key(|named| named.run.began);
    Ok(runs)
}

/// Whether this process is part of the agent's run, behind its fence.
fn is_around_us(ctx: &Ctx, agent: &Agent) -> bool {
    ctx.env.fenced && CurrentAgent::is_of(&ctx.env, agent)
}

/// The last run of an agent.
///
/// # Errors
/// As [`last_runs`]; `orchestrator-only` inside that run.
fn last_run(ctx: &Ctx, who: &str) -> Result<Named> {
    let agent = lookup::agent(ctx, &ctx.ledger(), who)?;
    if is_around_us(ctx, &agent) {
        let id = agent.id.short();
        let what = format!(
            "this is inside the run of agent {id}, which cannot wait for itself or stop itself"
        );
        return Err(Error::new(Code::OrchestratorOnly, what)
            .hint("to end the work, run git-agent done --summary <text>, and finish"));
    }
    match agent.run.clone() {
        Some(run) if liveness::is_here(ctx.repo.common_dir(), &agent, &run) => {
            Ok(Named { agent, run })
        }
        run => {
            let id = agent.id.short();
            let what = match &run {
                Some(run) => format!("run {} of agent {id} is not in this clone", run.number()),
                None => format!("agent {id} has not been run"),
            };
            let error = Error::new(Code::AgentState, what);
            // Another run beside one in another clone is no advice.
            Err(if agent.state.is_live() && run.is_none() {
                error.hint(format!("to run a command for it, run git agent run {id} -- …"))
            } else {
                error.remedy("to see what became of it", Remedy::History(id))
            })
        }
    }
}

/// Every run that a process of ours is at work for, oldest first.
///
/// # Errors
/// Those of the ledger; `io`.
fn at_work(ctx: &Ctx) -> Result<Vec<Named>> {
    let mut found = Vec::new();
    for agent in ctx.ledger().agents()?.into_iter().filter(|agent| agent.state.is_open()) {
        if let Some(run) = agent.run.clone()
            && liveness::is_at_work(ctx.repo.common_dir(), &agent, &run)?
        {
            found.push(Named { agent, run });
        }
    }
    found.sort_by_key(|named| named.run.began);
    Ok(found)
}

// `ps`: the runs that go on in this clone.

/// The answer of `ps`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "schema", rename = "git-agent.ps/1")]
pub struct PsReport {
    /// The runs, oldest first.
    pub runs: Vec<RunRow>,
}

/// Looks for runs that are at work.
///
/// # Errors
/// Those of the ledger; `io`.
pub fn ps(ctx: &Ctx) -> Result<PsReport> {
    let runs = at_work(ctx)?;
    let rows = runs.iter().map(|one| RunRow::of(ctx, &one.agent, &one.run, true));
    Ok(PsReport { runs: rows.collect() })
}

// `stop`: ends runs as their own time limit would.

/// How long after being asked a supervisor is looked for again: there is none yet in the first moments of a run,
/// and none any more while the work is being judged.
const AGAIN: Duration = Duration::from_millis(200);

/// The answer of `stop`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "schema", rename = "git-agent.stop/1")]
pub struct StopReport {
    /// The runs, in the order in which their agents were named.
    pub runs: Vec<Waited>,
}

/// Ends the runs of these agents, with everything that their commands started, and waits until they are
/// recorded. A run that is over already is told of as it ended.
///
/// # Errors
/// `agent-unknown`, `agent-ambiguous`; `agent-state` for an agent without a run in this clone; `orchestrator-only` from inside another
/// agent; those of the ledger; `io`.
pub fn stop(ctx: &Ctx, agents: &[String], at_once: bool) -> Result<StopReport> {
    let runs = last_runs(ctx, agents)?;
    for one in &runs {
        require_own(ctx, &one.agent)?;
    }
    for one in &runs {
        // All are asked before one is waited for.
        liveness::end_run(ctx, one.agent.id, &one.run, at_once)?;
    }
    for one in &runs {
        until_over(ctx, one, at_once)?;
    }
    let told = runs.iter().map(|one| waited(ctx, one, true));
    Ok(StopReport { runs: told.collect::<Result<_>>()? })
}

fn until_over(ctx: &Ctx, one: &Named, at_once: bool) -> Result<()> {
    let (send, over) = mpsc::channel();
    let name = layout::live_lock(one.agent.id);
    lock::when_free(ctx.repo.common_dir(), &name, move || {
        let _ = send.send(());
    })?;
    while over.recv_timeout(AGAIN) == Err(RecvTimeoutError::Timeout) {
        let row = ctx.ledger().agent(one.agent.spawn_commit)?;
        let last = row.and_then(|row| row.run).filter(|run| run.number() == one.run.number());
        let Some(mut last) = last else {
            // Another was started, which was not to be ended.
            return Ok(());
        };
        // What a command that ended when it was asked has left is judged to the end.
        last.end = last.end.filter(|_| at_once);
        // The supervisor may not have been there yet when it was asked.
        liveness::end_run(ctx, one.agent.id, &last, at_once)?;
    }
    Ok(())
}

// `wait`: until runs are over.

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
#[serde(tag = "schema", rename = "git-agent.wait/1")]
pub struct WaitReport {
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
        let told = self.report.as_ref().and_then(|report| report["status"].as_str());
        match (self.row.exit_code, told.unwrap_or(self.row.status)) {
            (Some(0), status) => u8::from(status != SUCCESS),
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
        uncollected(ctx)?
    } else {
        last_runs(ctx, &options.agents)?
    };
    let enough = if options.any { runs.len().min(1) } else { runs.len() };
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
            Some(limit) => over.recv_timeout(limit.saturating_sub(begin.elapsed())).ok(),
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
    Ok(WaitReport { timed_out, runs: told.collect::<Result<_>>()? })
}

/// The indices of the runs that no process is at work for, in the order in which they ended.
fn over_already(ctx: &Ctx, runs: &[Named]) -> Result<Vec<usize>> {
    let mut over = Vec::new();
    for (index, one) in runs.iter().enumerate() {
        if !liveness::is_at_work(ctx.repo.common_dir(), &one.agent, &one.run)? {
            over.push((index, one.run.end.as_ref()));
        }
    }
    // The end of a dead run is recorded last, when it is told of.
    over.sort_by_key(|(_, end)| (end.is_none(), end.map(|(_, time)| *time)));
    Ok(over.into_iter().map(|(index, _)| index).collect())
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

fn waited(ctx: &Ctx, one: &Named, is_over: bool) -> Result<Waited> {
    if !is_over {
        return Ok(Waited { row: RunRow::of(ctx, &one.agent, &one.run, true), report: None });
    }
    // A supervisor that was killed has recorded nothing, and this is who finds out.
    crash_recovery::record_crashed_run(ctx, &one.agent)?;
    let events = ctx.ledger().events(one.agent.spawn_commit)?;
    let run = Run::find(&events, one.run.number());
    let run = run.as_ref().unwrap_or(&one.run);
    let common_dir = ctx.repo.common_dir();
    let mut report = liveness::load_report(common_dir, &one.agent, one.run.number())?;
    // It may have been answered since.
    let now = ctx.ledger().agent(one.agent.spawn_commit)?;
    let waits = |agent: &Agent| agent.asked || waits_for_answer(common_dir, agent);
    if let Some(Value::Object(report)) =
        report.as_mut().filter(|_| !now.is_some_and(|now| waits(&now)))
    {
        report.remove("waiting");
    }
    // It counts as told from here on, so that the next `wait` does not wait for it again.
    liveness::collect(common_dir, &one.agent, run);
    let mut row = RunRow::of(ctx, &one.agent, run, false);
    if report.is_none() && row.status == SUCCESS && was_unjudged(&events, run.number()) {
        (row.status, row.verdict) = ("failed", Some(None));
    }
    Ok(Waited { row, report })
}

/// Whether nothing judged the work of a run after it had ended.
fn was_unjudged(events: &[Event], number: u32) -> bool {
    let has_ended =
        |event: &&Event| !matches!(&event.what, What::Exited(exited) if exited.run == Some(number));
    let since = events.iter().skip_while(has_ended);
    let mut since = since.take_while(|event| !matches!(event.what, What::Started(_)));
    since.any(|event| matches!(event.what, What::Unjudged { .. }))
}

// `logs`: what a run wrote to its streams.

/// How often a log that is followed is looked at.
const PAUSE: Duration = Duration::from_millis(100);

/// Which log is wanted.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// Whose.
    pub agent: String,
    /// Of which run; the last one when none is named.
    pub run: Option<u32>,
    /// Standard error in place of standard output.
    pub stderr: bool,
    /// Goes on until the run is over.
    pub follow: bool,
}

/// The answer of `logs`, beside the log itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "schema", rename = "git-agent.logs/1")]
pub struct LogsReport {
    /// The agent's id.
    pub agent_id: String,
    /// The first eight hex digits of the id.
    pub short_id: String,
    /// The number of the run.
    pub run: u32,
    /// `stdout` or `stderr`.
    pub stream: &'static str,
    /// The log, absolute.
    pub path: String,
    /// Its length so far, in bytes.
    pub bytes: u64,
}

/// Hands a log to `take`, piece by piece, until `take` has enough of it.
///
/// # Errors
/// `agent-unknown`, `agent-ambiguous`, `agent-state` when there is no such run here, `io`.
pub fn logs(
    ctx: &Ctx,
    options: &LogOptions,
    take: &mut dyn FnMut(&[u8]) -> Result<bool>,
) -> Result<LogsReport> {
    let common = ctx.repo.common_dir();
    let last = last_run(ctx, &options.agent)?;
    let number = options.run.unwrap_or(last.run.number());
    let (stream, ending) = if options.stderr { ("stderr", "err") } else { ("stdout", "out") };
    let path = liveness::log(common, &last.agent, number, ending);
    let mut file = open(&path, &last.agent, number)?;
    let mut bytes = 0;
    let mut wants_more = copy(&mut file, &path, &mut bytes, take)?;
    // An earlier run writes no more.
    if options.follow && number == last.run.number() {
        let (send, over) = mpsc::channel();
        let name = layout::live_lock(last.agent.id);
        lock::when_free(common, &name, move || {
            // The receiver is gone when the reader has enough.
            let _ = send.send(());
        })?;
        let mut goes_on = true;
        while wants_more && goes_on {
            // What was written last was written before the lock was given back.
            goes_on = over.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout);
            wants_more = copy(&mut file, &path, &mut bytes, take)?;
        }
    }
    Ok(LogsReport {
        agent_id: last.agent.id.to_string(),
        short_id: last.agent.id.short(),
        run: number,
        stream,
        path: path.to_string_lossy().into_owned(),
        bytes,
    })
}

fn open(path: &Path, agent: &Agent, number: u32) -> Result<File> {
    match File::open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let id = agent.id.short();
            let what = format!("agent {id} has no run {number} here");
            Err(Error::new(Code::AgentState, what)
                .hint(format!("to see its runs, run git agent show --log {id}")))
        }
        other => other.at("could not open", path),
    }
}

/// Copies what is there now; `false` when `take` has enough.
fn copy(
    file: &mut File,
    path: &Path,
    bytes: &mut u64,
    take: &mut dyn FnMut(&[u8]) -> Result<bool>,
) -> Result<bool> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = file.read(&mut buffer).at("could not read", path)?;
        if count == 0 {
            return Ok(true);
        }
        *bytes += count as u64;
        if !take(buffer.get(..count).unwrap_or_default())? {
            return Ok(false);
        }
    }
}
