//! Runs in the ledger: how they are written down, and whether one that has no end yet is alive.

use crate::agents::context::ctx::Ctx;
use crate::domain::life::event::Exited;
use crate::domain::life::run::Outcome;
use crate::domain::{Agent, AgentId, Run, State, What};
use crate::error::{Code, Error, Remedy, Result};
use crate::proc::supervisor;
use crate::store::files::lock::Guard;
use crate::store::files::{fsx, layout, lock};
use crate::store::mailbox::reader;
use chrono::{DateTime, Utc};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a process that only asks whether an agent is at work may keep us waiting.
const GLANCE: Duration = Duration::from_millis(250);

/// How long another command of ours that has the agent's lock, and is no run, is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// The ending of the empty file that stands beside the logs of a run in the background until its end is told of.
const UNCOLLECTED: &str = "uncollected";

/// The ending of the empty file that stands there from the beginning of a run until its work was judged.
const UNJUDGED: &str = "unjudged";

/// Whether a run goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Liveness {
    /// Its end is recorded.
    Over,
    /// A process holds the agent's lock.
    Alive,
    /// It is another clone's, and nothing more is known.
    Elsewhere,
    /// No process does: its supervisor was killed.
    Dead,
}

/// Whether a run goes on.
///
/// # Errors
/// `io`.
pub(crate) fn of_run(common_dir: &Path, agent: &Agent, run: &Run) -> Result<Liveness> {
    if run.end.is_some() {
        return Ok(Liveness::Over);
    }
    // A lock says nothing about a process of another machine.
    if !is_here(common_dir, agent, run) {
        return Ok(Liveness::Elsewhere);
    }
    // The kernel frees it with the process, however that ended.
    if lock::is_held(common_dir, &layout::live_lock(agent.id))? {
        Ok(Liveness::Alive)
    } else {
        Ok(Liveness::Dead)
    }
}

/// How the last run of an agent ended, as far as its traces tell, where its supervisor was killed and the ledger has
/// no end of it: that, and when the last trace was left. `None` for every other agent.
pub(crate) fn unrecorded_end(common_dir: &Path, agent: &Agent) -> Option<(Exited, DateTime<Utc>)> {
    let run = agent.run.as_ref()?;
    // A lock that cannot be looked at may be held.
    if of_run(common_dir, agent, run).ok()? != Liveness::Dead {
        return None;
    }
    // The supervisor notes in the lock file how the command ended, so that this outlives it.
    let lock = layout::agents_dir(common_dir).join(layout::live_lock(agent.id));
    let noted = fsx::open(&lock).ok().and_then(|file| supervisor::noted(&file));
    let traces = ["out", "err"].map(|stream| log(common_dir, agent, run.number(), stream));
    let times = traces.iter().chain([&lock]).filter_map(|path| {
        let modified = fs::metadata(path).ok()?.modified().ok()?;
        Some(DateTime::<Utc>::from(modified))
    });
    // It worked until it last wrote something.
    let last = times.fold(run.began, DateTime::max);
    Some((end_of(common_dir, agent, run.number(), noted.unwrap_or(Outcome::LOST)), last))
}

/// An agent as it stands, for readers, which write nothing: where the end of its last run is not recorded, as it
/// will be once it is.
pub(crate) fn as_it_stands(ctx: &Ctx, agent: Agent) -> Agent {
    let common_dir = ctx.repo.common_dir();
    let is_left = |agent: &Agent| is_left(common_dir, agent).unwrap_or(false);
    if unrecorded_end(common_dir, &agent).is_none() && !is_left(&agent) {
        return agent;
    }
    // The run may have ended after its row was read: it is in the row before its lock is free.
    let agent = ctx.ledger().agent(agent.spawn_commit).ok().flatten().unwrap_or(agent);
    match unrecorded_end(common_dir, &agent) {
        Some((exited, _)) if is_left(&agent) => unjudged(agent.with_run_ended(&exited)),
        Some((exited, _)) => agent.with_run_ended(&exited),
        None if is_left_unjudged(ctx, &agent).unwrap_or(false) => unjudged(agent),
        None => agent,
    }
}

/// An agent whose work was not judged, which is not done.
fn unjudged(agent: Agent) -> Agent {
    let state = if agent.state == State::Done { State::Idle } else { agent.state };
    Agent { state, ..agent }
}

/// Notes that the work of a run is to be judged once its command has ended.
///
/// # Errors
/// Those of [`fsx::write_private`].
pub(crate) fn owe_verdict(common_dir: &Path, agent: &Agent, number: u32) -> Result<()> {
    fsx::write_private(&log(common_dir, agent, number, UNJUDGED), b"")
}

/// Notes that it was, or that there was nothing to be judged.
pub(crate) fn owe_no_verdict(common_dir: &Path, agent: &Agent, number: u32) {
    let _ = fs::remove_file(log(common_dir, agent, number, UNJUDGED));
}

/// Whether nothing is at work for an agent whose last run is noted as to be judged.
fn is_left(common_dir: &Path, agent: &Agent) -> Result<bool> {
    let Some(run) = &agent.run else { return Ok(false) };
    Ok(is_to_be_judged(common_dir, agent, run) && !is_at_work(common_dir, agent, run)?)
}

fn is_to_be_judged(common_dir: &Path, agent: &Agent, run: &Run) -> bool {
    log(common_dir, agent, run.number(), UNJUDGED).exists()
}

/// As [`owes_verdict`], for a caller that does not know whether something is at work for the agent.
///
/// # Errors
/// Those of the ledger; `io`.
pub(crate) fn is_left_unjudged(ctx: &Ctx, agent: &Agent) -> Result<bool> {
    Ok(is_left(ctx.repo.common_dir(), agent)? && owes_verdict(ctx, agent)?)
}

/// Whether the last run of an agent ended well, and what was to judge it was killed before it had a verdict. The caller knows that
/// nothing is at work for the agent.
///
/// # Errors
/// Those of the ledger.
pub(crate) fn owes_verdict(ctx: &Ctx, agent: &Agent) -> Result<bool> {
    let Some(run) = &agent.run else { return Ok(false) };
    let is_success = run.end.as_ref().is_some_and(|(end, _)| end.is_success());
    if !is_success || !is_to_be_judged(ctx.repo.common_dir(), agent, run) {
        return Ok(false);
    }
    let events = ctx.ledger().events(agent.spawn_commit)?;
    let is_about_work = |what: &&What| {
        matches!(
            what,
            What::Exited(_) | What::Verified(_) | What::Unjudged { .. } | What::Done { .. }
        )
    };
    let last = events.iter().rev().map(|event| &event.what).find(is_about_work);
    Ok(matches!(last, Some(What::Exited(_))))
}

/// Whether a process of ours is at work for an agent because of its last run: its command, or judging it.
///
/// # Errors
/// `io`.
pub(crate) fn is_at_work(common_dir: &Path, agent: &Agent, run: &Run) -> Result<bool> {
    // A supervisor that goes on after the record of the end still holds the lock: the work is being
    // judged. That of an earlier run is not the one that holds it now.
    let is_last = agent.run.as_ref().is_none_or(|last| last.number() <= run.number());
    Ok(is_last
        && is_here(common_dir, agent, run)
        && lock::is_held(common_dir, &layout::live_lock(agent.id))?)
}

/// Whether a run was one of this clone's, which then has its logs.
pub(crate) fn is_here(common_dir: &Path, agent: &Agent, run: &Run) -> bool {
    log(common_dir, agent, run.number(), "out").exists()
}

/// The log of one stream of a run.
pub(crate) fn log(common_dir: &Path, agent: &Agent, number: u32, stream: &str) -> PathBuf {
    layout::runs_dir(common_dir, agent.id).join(format!("{number}.{stream}"))
}

/// The numbers of the runs that left a file of this kind in this clone. Not counted from the row, which may name any number.
pub(crate) fn logged(common_dir: &Path, agent: &Agent, stream: &str) -> BTreeSet<u32> {
    fsx::numbers_in(&layout::runs_dir(common_dir, agent.id), stream)
}

/// No agent has so many runs. A row that comes from elsewhere may say so.
const MOST_RUNS: u32 = 1 << 24;

/// The number of the next run: one more than that of the last one, and than any of which there is a report here.
pub(crate) fn next_number(common_dir: &Path, agent: &Agent) -> u32 {
    let told = agent.run.as_ref().map(Run::number);
    let numbers = logged(common_dir, agent, "json").into_iter().chain(told);
    numbers.filter(|number| *number < MOST_RUNS).max().unwrap_or(0) + 1
}

/// The runs in the background before the last one whose end nothing has told of yet.
pub(crate) fn uncollected_before(common_dir: &Path, agent: &Agent, last: &Run) -> Vec<u32> {
    let numbers = logged(common_dir, agent, UNCOLLECTED).into_iter();
    numbers.filter(|number| *number < last.number()).collect()
}

/// Keeps what a run answered, for those who wait for it.
///
/// # Errors
/// Those of [`fsx::write_private`].
pub(crate) fn keep_report(
    common_dir: &Path,
    agent: &Agent,
    number: u32,
    report: &Value,
) -> Result<()> {
    let path = log(common_dir, agent, number, "json");
    fsx::write_private(&path, report.to_string().as_bytes())
}

/// Notes that the caller of a run did not stay to hear how it ends.
///
/// # Errors
/// Those of [`fsx::write_private`].
pub(crate) fn leave_uncollected(common_dir: &Path, agent: &Agent, number: u32) -> Result<()> {
    fsx::write_private(&log(common_dir, agent, number, UNCOLLECTED), b"")
}

/// Whether nothing has told yet how a run in the background ended.
pub(crate) fn is_uncollected(common_dir: &Path, agent: &Agent, number: u32) -> bool {
    log(common_dir, agent, number, UNCOLLECTED).exists()
}

/// Notes that the caller hears how a run ended. Where that fails it is told of once more.
pub(crate) fn collect(common_dir: &Path, agent: &Agent, run: &Run) {
    let _ = fs::remove_file(log(common_dir, agent, run.number(), UNCOLLECTED));
}

/// What a run answered; `None` when it did not come to that.
///
/// # Errors
/// `io`.
pub(crate) fn load_report(common_dir: &Path, agent: &Agent, number: u32) -> Result<Option<Value>> {
    let bytes = fsx::load_if_there(&log(common_dir, agent, number, "json"))?;
    Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
}

/// Takes the lock that says a process of ours works for the agent. A run that has it may go on for hours and is not waited for; any
/// other command is, as it is over soon.
///
/// # Errors
/// `run-active` when one works for it.
pub(crate) fn lock(ctx: &Ctx, agent: &Agent) -> Result<Guard> {
    let began = Instant::now();
    loop {
        let busy = match lock_at_once(ctx, agent) {
            Err(error) if error.code() == Code::RunActive => error,
            taken => return taken,
        };
        if is_running(ctx, agent)? || began.elapsed() >= PATIENCE {
            return Err(busy);
        }
        tracing::debug!(agent = agent.id.short(), "waits for another command");
    }
}

/// Whether what has the agent's lock is a run, as its row tells by now.
///
/// # Errors
/// Those of the ledger; `io`.
pub(crate) fn is_running(ctx: &Ctx, agent: &Agent) -> Result<bool> {
    // A run that has just begun is in the row after it has the lock.
    let row = ctx.ledger().agent(agent.spawn_commit)?;
    let run = row.as_ref().unwrap_or(agent).run.as_ref();
    let liveness = run.map(|run| of_run(ctx.repo.common_dir(), agent, run)).transpose()?;
    Ok(liveness == Some(Liveness::Alive))
}

/// As [`lock`], without waiting for another command: for the holder of the landing lock, for which that command may wait.
///
/// # Errors
/// As [`lock`].
pub(crate) fn lock_at_once(ctx: &Ctx, agent: &Agent) -> Result<Guard> {
    let common = ctx.repo.common_dir();
    let directory = layout::agent_dir(common, agent.id);
    layout::require_no_link(&directory)?;
    fsx::create_dir(&directory)?;
    lock::hold_for(common, &layout::live_lock(agent.id), GLANCE).map_err(|error| {
        match error.code() {
            Code::LockTimeout => is_active(agent),
            _ => error,
        }
    })
}

fn is_active(agent: &Agent) -> Error {
    let id = agent.id.short();
    Error::new(Code::RunActive, format!("a process is at work for agent {id}"))
        .remedy("to see it", Remedy::Agent(id))
}

/// Refuses an agent of which a run goes on, for a dry run: it takes no lock.
///
/// # Errors
/// `run-active`; those of the ledger; `io`.
pub(crate) fn require_no_run(ctx: &Ctx, agent: &Agent) -> Result<()> {
    if is_running(ctx, agent)? { Err(is_active(agent)) } else { Ok(()) }
}

/// As [`lock`], after a landing that holds it: that is over soon, and what comes after it lands with the next one.
///
/// # Errors
/// As [`lock`].
pub(crate) fn lock_after_landing(ctx: &Ctx, agent: &Agent) -> Result<Guard> {
    let common = ctx.repo.common_dir();
    lock(ctx, agent).or_else(|error| {
        if error.code() != Code::RunActive || !lock::is_held(common, layout::LANDING_LOCK)? {
            // No landing has the lock, so there is no telling when it is free.
            return Err(error);
        }
        // A landing takes the agent's lock only for as long as it lasts, so it is worth waiting
        // for.
        lock::wait_until_free(common, layout::LANDING_LOCK)?;
        lock(ctx, agent)
    })
}

/// Asks the supervisor of an agent's run to end the command as its time limit would, or `at_once`.
///
/// # Errors
/// `io` when it cannot be looked for.
pub(crate) fn ask_to_end(ctx: &Ctx, agent: AgentId, at_once: bool) -> Result<()> {
    let slate = layout::agents_dir(ctx.repo.common_dir()).join(layout::live_lock(agent));
    supervisor::ask_to_end(&slate, at_once)
        .map_err(|error| Error::io("could not look for the run's supervisor", error))
}

/// As [`ask_to_end`] of a run, also where its command has ended and what came of it is being judged; one that a terminal stopped goes on
/// first.
///
/// # Errors
/// As [`ask_to_end`].
pub(crate) fn end_run(ctx: &Ctx, agent: AgentId, run: &Run, at_once: bool) -> Result<()> {
    ask_to_end(ctx, agent, at_once)?;
    let slate = layout::agents_dir(ctx.repo.common_dir()).join(layout::live_lock(agent));
    supervisor::wake(&slate, run.started.pid, run.end.is_some());
    Ok(())
}

/// The end of a run as a row has it.
pub(crate) fn end_of(common_dir: &Path, agent: &Agent, number: u32, outcome: Outcome) -> Exited {
    Exited {
        run: Some(number),
        code: outcome.code,
        ended: Some(outcome.ending),
        asked: reader::is_open(common_dir, agent),
        ..Exited::default()
    }
}
