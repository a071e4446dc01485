//! The end of a run whose supervisor was killed: published and recorded by the next command that looks.

use crate::agents::context::ctx::Ctx;
use crate::agents::context::run_repo::RunRepo;
use crate::agents::life::host_session;
use crate::agents::life::liveness::{self, Liveness};
use crate::agents::upkeep::spool::{has_unheard_answer, post_spool};
use crate::agents::upkeep::{clone, publish};
use crate::domain::life::event::Exited;
use crate::domain::life::run::Outcome;
use crate::domain::{Agent, HostSession, Move, What};
use crate::error::{Code, Result};
use crate::git::files::lock_file;
use crate::proc::supervisor;
use crate::store::files::lock::Guard;
use crate::store::files::{briefing, layout};

/// A run that is dead no longer.
#[derive(Debug)]
pub(crate) struct CrashRecovery {
    /// What is known of its end.
    pub outcome: Outcome,
    /// What the caller should know of what its command left, one sentence each.
    pub warnings: Vec<String>,
}

/// Does what the supervisor of a dead run could not do any more: puts back what leads git to its settings, and
/// records the end. `None` when there is no such run, or when it turns out to be alive.
///
/// # Errors
/// Those of the ledger and of the file system.
pub(crate) fn record_crashed_run(ctx: &Ctx, agent: &Agent) -> Result<Option<CrashRecovery>> {
    match liveness::lock_at_once(ctx, agent) {
        Ok(guard) => record_crashed_run_locked(ctx, agent, &guard),
        Err(error) if error.code() == Code::RunActive => Ok(None),
        Err(error) => Err(error),
    }
}

/// An agent as it is where nothing may be written; else one that is about to be decided about, or whose worktree is about to be read, after [`record_crashed_run`] where its last
/// run is dead: the command may have led git to settings of its own there.
///
/// # Errors
/// As [`record_crashed_run`].
pub(crate) fn at_rest(ctx: &Ctx, agent: Agent) -> Result<Agent> {
    clone::bring_in(ctx, &agent)?;
    run_at_rest(ctx, agent)
}

/// As [`at_rest`], without what the agent has in a clone of its own.
///
/// # Errors
/// As [`record_crashed_run`].
pub(crate) fn run_at_rest(ctx: &Ctx, agent: Agent) -> Result<Agent> {
    if ctx.repo.is_scratch() {
        return Ok(agent);
    }
    // What cannot be cleared now is in the way of a command that needs it, and that one says so.
    let _ = lock_file::clear_left(ctx.repo.common_dir());
    let Some(run) = &agent.run else {
        return Ok(agent);
    };
    // A command that verifies its own work may not open the lock for writing, and nothing of its run is left behind.
    if liveness::is_at_work(ctx.repo.common_dir(), &agent, run)? {
        return Ok(agent);
    }
    let is_left = publish::run_repo(ctx, &agent).is_some_and(|run_repo| run_repo.exists());
    let is_dead = liveness::of_run(ctx.repo.common_dir(), &agent, run)? == Liveness::Dead;
    let owes_verdict = liveness::owes_verdict(ctx, &agent)?;
    if !(is_dead || is_left || owes_verdict) {
        return Ok(agent);
    }
    if record_crashed_run(ctx, &agent)?.is_none() && !owes_verdict {
        return Ok(agent);
    }
    let row = ctx.ledger().agent(agent.spawn_commit)?;
    Ok(row.unwrap_or(agent))
}

/// As [`record_crashed_run`], for the holder of the lock.
pub(crate) fn record_crashed_run_locked(
    ctx: &Ctx,
    agent: &Agent,
    guard: &Guard,
) -> Result<Option<CrashRecovery>> {
    let common = ctx.repo.common_dir();
    // Read again under the lock: another command may have recorded the end before this one got it.
    let row = ctx.ledger().agent(agent.spawn_commit)?;
    let dead = row
        .as_ref()
        .and_then(|row| row.run.as_ref())
        .filter(|run| run.end.is_none() && liveness::is_here(common, agent, run));
    let Some(run) = dead else {
        // One that ended in order, but could not be published then.
        settle(ctx, agent)?;
        record_unjudged(ctx, row.as_ref().unwrap_or(agent))?;
        return Ok(None);
    };
    // Published before the end is recorded: after a kill in between the run still counts as dead
    // and is settled again.
    let warnings = settle(ctx, agent)?;
    // A prompt of its own that it could not delete; the next run tries again.
    let _ = briefing::end_run_prompt(common, agent.id);
    // What the command declared came before its end. What cannot be posted now stays in the spool.
    let _ = post_spool(ctx, agent);
    let outcome = supervisor::noted(guard.file()).unwrap_or(Outcome::LOST);
    let session = host_session::session_of_lost(ctx, agent, run)?;
    let place = layout::runs_dir(common, agent.id);
    let is_unheard = has_unheard_answer(ctx, agent, &[&place]);
    exited(ctx, agent, run.number(), (outcome, is_unheard), None, session)?;
    let row = ctx.ledger().agent(agent.spawn_commit)?;
    record_unjudged(ctx, row.as_ref().unwrap_or(agent))?;
    // No report of this run tells it, and who finds the run dead may have asked for something else: where a stash is kept stands in
    // the row.
    for text in warnings.iter().filter_map(|text| ctx.public_text(text, None).ok()) {
        ctx.ledger().append(agent.spawn_commit, &ctx.actor()?, What::Noted { text }, ctx.now())?;
    }
    Ok(Some(CrashRecovery { outcome, warnings }))
}

/// Records that nothing judged the work of the last run of an agent, as its row is now, where that is so.
fn record_unjudged(ctx: &Ctx, agent: &Agent) -> Result<()> {
    let Some(run) = &agent.run else { return Ok(()) };
    if liveness::owes_verdict(ctx, agent)? {
        tell_unjudged(ctx, agent, "the process that was to judge it was killed")?;
    }
    liveness::owe_no_verdict(ctx.repo.common_dir(), agent, run.number());
    Ok(())
}

/// Takes back what the good end of a run said of the agent: work that cannot be judged is not done.
///
/// # Errors
/// `agent-state` where the decision about it has been taken; those of the ledger.
pub(crate) fn tell_unjudged(ctx: &Ctx, agent: &Agent, reason: &str) -> Result<()> {
    let what = What::Unjudged { reason: reason.to_owned() };
    ctx.ledger().append_if(agent.spawn_commit, &ctx.actor()?, ctx.now(), |row| {
        row.unwrap_or(agent).may(Move::Reject)?;
        Ok(what.clone())
    })?;
    Ok(())
}

/// Publishes what a run left in its repository, if one is there, and gives what the caller should know.
fn settle(ctx: &Ctx, agent: &Agent) -> Result<Vec<String>> {
    match publish::run_repo(ctx, agent).filter(RunRepo::exists) {
        Some(run_repo) => Ok(publish::finish(ctx, agent, &run_repo)?.warnings),
        None => Ok(Vec::new()),
    }
}

/// Adds the end of a run to the row: how it ended, and whether an answer came that it did not hear.
pub(crate) fn exited(
    ctx: &Ctx,
    agent: &Agent,
    number: u32,
    (outcome, is_unheard): (Outcome, bool),
    log_bytes: Option<u64>,
    session: HostSession,
) -> Result<()> {
    let end = liveness::end_of(ctx.repo.common_dir(), agent, number, outcome);
    let asked = end.asked || is_unheard;
    let what = What::Exited(Exited { session, log_bytes, asked, ..end });
    ctx.ledger().append(agent.spawn_commit, &ctx.actor()?, what, ctx.now())?;
    Ok(())
}
