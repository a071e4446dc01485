//! Runs in the ledger: how they are written down, and whether one that has no end yet is alive.

use super::publish;
use crate::agents::run_repo::RunRepo;
use crate::domain::agent::Agent;
use crate::domain::event::{Exited, What};
use crate::domain::run::{Outcome, Run};
use crate::error::{Code, Error, Result};
use crate::ops::Ctx;
use crate::ops::send::post_spool;
use crate::proc::warden;
use crate::store::ledger::Ledger;
use crate::store::lock::{self, Guard};
use crate::store::{fsx, layout};
use chrono::{DateTime, Utc};
use serde_json::Value;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a process that only asks whether an agent is at work may keep us waiting.
const PATIENCE: Duration = Duration::from_millis(250);

/// The ending of the empty file that stands beside the logs of a run in the background until its end is told of.
const UNCOLLECTED: &str = "uncollected";

/// Whether a run goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ops) enum Pulse {
    /// Its end is recorded.
    Over,
    /// A process holds the agent's lock.
    Alive,
    /// It is another clone's, and nothing more is known.
    Elsewhere,
    /// No process does: its supervisor was killed.
    Dead,
}

/// Feels the pulse of a run.
///
/// # Errors
/// `io`.
pub(in crate::ops) fn pulse(common_dir: &Path, agent: &Agent, run: &Run) -> Result<Pulse> {
    if run.end.is_some() {
        return Ok(Pulse::Over);
    }
    if !is_here(common_dir, agent, run) {
        return Ok(Pulse::Elsewhere);
    }
    match lock::is_held(common_dir, &layout::live_lock(agent.id))? {
        true => Ok(Pulse::Alive),
        false => Ok(Pulse::Dead),
    }
}

/// How the last run of an agent ended, as far as its traces tell, where its supervisor was killed and the ledger has
/// no end of it: that, and when the last trace was left. `None` for every other agent.
pub(in crate::ops) fn unrecorded_end(
    common_dir: &Path,
    agent: &Agent,
) -> Option<(Exited, DateTime<Utc>)> {
    let run = agent.run.as_ref()?;
    // A lock that cannot be looked at may be held.
    if pulse(common_dir, agent, run).ok()? != Pulse::Dead {
        return None;
    }
    let lock = layout::agents_dir(common_dir).join(layout::live_lock(agent.id));
    let noted = File::open(&lock).ok().and_then(|file| warden::noted(&file));
    let traces = ["out", "err"].map(|stream| log(common_dir, agent, run.number(), stream));
    let times = traces.iter().chain([&lock]).filter_map(|path| {
        let modified = fs::metadata(path).ok()?.modified().ok()?;
        Some(DateTime::<Utc>::from(modified))
    });
    let last = times.fold(run.began, DateTime::max);
    Some((
        end_of(run.number(), noted.unwrap_or(Outcome::LOST), None),
        last,
    ))
}

/// An agent as it stands, for readers, which write nothing: where the end of its last run is not recorded, as it
/// will be once it is.
pub(in crate::ops) fn as_it_stands(common_dir: &Path, agent: Agent) -> Agent {
    match unrecorded_end(common_dir, &agent) {
        Some((exited, _)) => agent.with_run_ended(&exited),
        None => agent,
    }
}

/// Whether a process of ours is at work for an agent because of its last run: its command, or judging it.
///
/// # Errors
/// `io`.
pub(in crate::ops) fn is_at_work(common_dir: &Path, agent: &Agent, run: &Run) -> Result<bool> {
    Ok(is_here(common_dir, agent, run) && lock::is_held(common_dir, &layout::live_lock(agent.id))?)
}

/// Whether a run was one of this clone's, which then has its logs.
pub(in crate::ops) fn is_here(common_dir: &Path, agent: &Agent, run: &Run) -> bool {
    log(common_dir, agent, run.number(), "out").exists()
}

/// The log of one stream of a run.
pub(in crate::ops) fn log(common_dir: &Path, agent: &Agent, number: u32, stream: &str) -> PathBuf {
    layout::runs_dir(common_dir, agent.id).join(format!("{number}.{stream}"))
}

/// Keeps what a run answered, for those who wait for it.
///
/// # Errors
/// Those of [`fsx::write_private`].
pub(super) fn keep_report(
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
pub(super) fn leave_uncollected(common_dir: &Path, agent: &Agent, number: u32) -> Result<()> {
    fsx::write_private(&log(common_dir, agent, number, UNCOLLECTED), b"")
}

/// Whether nothing has told yet how a run in the background ended.
pub(in crate::ops) fn is_uncollected(common_dir: &Path, agent: &Agent, run: &Run) -> bool {
    log(common_dir, agent, run.number(), UNCOLLECTED).exists()
}

/// Notes that the caller hears how a run ended. Where that fails it is told of once more.
pub(in crate::ops) fn collect(common_dir: &Path, agent: &Agent, run: &Run) {
    let _ = fs::remove_file(log(common_dir, agent, run.number(), UNCOLLECTED));
}

/// What a run answered; `None` when it did not come to that.
///
/// # Errors
/// `io`.
pub(in crate::ops) fn load_report(
    common_dir: &Path,
    agent: &Agent,
    number: u32,
) -> Result<Option<Value>> {
    let bytes = fsx::load_if_there(&log(common_dir, agent, number, "json"))?;
    Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
}

/// Takes the lock that says a process of ours works for the agent.
///
/// # Errors
/// `run-active` when one does.
pub(super) fn lock(ctx: &Ctx, agent: &Agent) -> Result<Guard> {
    let common = ctx.repo.common_dir();
    fsx::create_dir(&layout::agent_dir(common, agent.id))?;
    lock::hold_for(common, &layout::live_lock(agent.id), PATIENCE).map_err(|error| {
        let id = agent.id.short();
        match error.code() {
            Code::LockTimeout => Error::new(
                Code::RunActive,
                format!("a process is at work for agent {id}"),
            )
            .hint(format!("to see it, run git agent show {id}")),
            _ => error,
        }
    })
}

/// A run that is dead no longer.
#[derive(Debug)]
pub(in crate::ops) struct Buried {
    /// What is known of its end.
    pub outcome: Outcome,
    /// The files that its command had changed to lead git to other settings; they were put back.
    pub restored: Vec<PathBuf>,
}

/// Does what the supervisor of a dead run could not do any more: puts back what leads git to its settings, and
/// records the end. `None` when there is no such run, or when it turns out to be alive.
///
/// # Errors
/// Those of the ledger and of the file system.
pub(in crate::ops) fn bury(ctx: &Ctx, agent: &Agent) -> Result<Option<Buried>> {
    match lock(ctx, agent) {
        Ok(guard) => bury_locked(ctx, agent, &guard),
        Err(error) if error.code() == Code::RunActive => Ok(None),
        Err(error) => Err(error),
    }
}

/// An agent that is about to be decided about, or whose worktree is about to be read, after [`bury`] where its last
/// run is dead: the command may have led git to settings of its own there.
///
/// # Errors
/// As [`bury`].
pub(in crate::ops) fn at_rest(ctx: &Ctx, agent: Agent) -> Result<Agent> {
    let Some(run) = &agent.run else {
        return Ok(agent);
    };
    // A command that verifies its own work may not open the lock for writing, and nothing of its run is left behind.
    if is_at_work(ctx.repo.common_dir(), &agent, run)? {
        return Ok(agent);
    }
    let is_left = publish::run_repo(ctx, &agent).is_some_and(|run_repo| run_repo.exists());
    let is_dead = pulse(ctx.repo.common_dir(), &agent, run)? == Pulse::Dead;
    if !(is_dead || is_left) || bury(ctx, &agent)?.is_none() {
        return Ok(agent);
    }
    let row = Ledger::new(&ctx.repo).agent(agent.spawn_commit)?;
    Ok(row.unwrap_or(agent))
}

/// As [`bury`], for the holder of the lock.
pub(super) fn bury_locked(ctx: &Ctx, agent: &Agent, guard: &Guard) -> Result<Option<Buried>> {
    let common = ctx.repo.common_dir();
    let row = Ledger::new(&ctx.repo).agent(agent.spawn_commit)?;
    let dead = row
        .as_ref()
        .and_then(|row| row.run.as_ref())
        .filter(|run| run.end.is_none() && is_here(common, agent, run));
    let Some(run) = dead else {
        // One that ended in order, but could not be published then.
        settle(ctx, agent)?;
        return Ok(None);
    };
    let restored = settle(ctx, agent)?;
    // What the command declared came before its end. What cannot be posted now stays in the spool.
    let _ = post_spool(ctx, agent);
    let outcome = warden::noted(guard.file()).unwrap_or(Outcome::LOST);
    exited(ctx, agent, run.number(), outcome, None)?;
    Ok(Some(Buried { outcome, restored }))
}

/// Publishes what a run left in its repository, if one is there, and gives the files that were put back.
fn settle(ctx: &Ctx, agent: &Agent) -> Result<Vec<PathBuf>> {
    match publish::run_repo(ctx, agent).filter(RunRepo::exists) {
        Some(run_repo) => Ok(publish::finish(ctx, agent, &run_repo)?.restored),
        None => Ok(Vec::new()),
    }
}

/// Adds the end of a run to the row.
pub(super) fn exited(
    ctx: &Ctx,
    agent: &Agent,
    number: u32,
    outcome: Outcome,
    log_bytes: Option<u64>,
) -> Result<()> {
    let what = What::Exited(end_of(number, outcome, log_bytes));
    let ledger = Ledger::new(&ctx.repo);
    ledger.append(agent.spawn_commit, &ctx.actor()?, what, ctx.now())?;
    Ok(())
}

fn end_of(number: u32, outcome: Outcome, log_bytes: Option<u64>) -> Exited {
    Exited {
        run: Some(number),
        code: outcome.code,
        ended: Some(outcome.ending),
        log_bytes,
    }
}
