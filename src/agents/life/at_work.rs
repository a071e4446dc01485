//! Whether something works in an agent at this moment: seen from locks, sessions and processes, never from its row.
//!
//! Three things count, and the first of them that is found is told:
//!
//! 1. a process of ours that holds the agent's `live.lock`: `run`, `enter`, or a command that removes the agent;
//! 2. a session of an agent host (`host_session`), from its prompt until it stops;
//! 3. a process that stands in the agent's worktree, as a person's build or a host without hooks does.
//!
//! A landing asks twice: before the work is judged, and under the landing lock with the `live.lock` in its hand, so that no
//! run begins while the work lands. What a run did in between is told by its number (`require_same_run`).

use crate::agents::context::ctx::Ctx;
use crate::agents::life::host_session::{self, SessionRecord};
use crate::agents::{life::liveness, place::worktree};
use crate::domain::{Agent, State};
use crate::error::{Code, Error, Remedy, Result};
use crate::store::files::lock::Guard;
use crate::store::files::{briefing, layout, lock};
use crate::store::mailbox::reader;
use crate::system::Occupant;
use std::path::Path;

/// What works in an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AtWork {
    /// A process of ours: a run, or a command that has the agent for itself.
    Ours,
    /// A session of an agent host; whether it waits for a person.
    Session {
        /// Whether it waits for an answer or a permission.
        waits: bool,
    },
    /// A process that stands in the worktree.
    Process {
        /// Its number.
        pid: i32,
        /// Its program's name.
        name: String,
    },
}

/// The state of an agent as its row, locks and sessions tell it, for readers that look into no worktree: `ops::status::state` looks for
/// work as well. Processes that merely stand in a worktree are looked for by the commands that land alone.
pub(crate) fn shown_state(common_dir: &Path, agent: &Agent) -> State {
    // The row of a discarded or rejected agent is the last word, and so is that of one that is being made.
    if !(agent.state.is_live() || agent.state == State::Merged) {
        return agent.state;
    }
    let sessions = host_session::all(common_dir, agent.id);
    match seen(common_dir, agent, &sessions) {
        Some(AtWork::Session { waits: true }) => State::Waiting,
        Some(_) if reader::is_open(common_dir, agent) => State::Waiting,
        Some(_) => State::Running,
        None if waits_for_answer(common_dir, agent) => State::Waiting,
        // The first session ends `ready`, whatever became of it.
        None if agent.state == State::Ready && !sessions.is_empty() => State::Idle,
        None => agent.state,
    }
}

/// Whether an agent asked, and nothing of it goes on before there is an answer, also where its run ended well after that: a host that is
/// not talked to ends its turn to wait. What the agent declared stands.
pub(crate) fn waits_for_answer(common_dir: &Path, agent: &Agent) -> bool {
    matches!(agent.state, State::Ready | State::Idle | State::Done)
        && !agent.declared
        && reader::is_open(common_dir, agent)
}

/// What holds the agent's lock, or which session works.
fn seen(common_dir: &Path, agent: &Agent, sessions: &[SessionRecord]) -> Option<AtWork> {
    // A lock that cannot be looked at may be held.
    let is_held = lock::is_held(common_dir, &layout::live_lock(agent.id)).unwrap_or(true);
    let working = || sessions.iter().filter(|session| session.is_at_work());
    // A session that waits for a person says more than that a supervisor of ours holds the lock, so
    // it comes first. It counts only where no other session works.
    if working().any(SessionRecord::waits) && working().all(SessionRecord::waits) {
        return Some(AtWork::Session { waits: true });
    }
    if is_held {
        return Some(AtWork::Ours);
    }
    working().next().map(|_| AtWork::Session { waits: false })
}

/// What works in an agent; `None` where nothing does. Another landing of it, or another short command, is waited for, and is no work.
pub(crate) fn at_work(ctx: &Ctx, agent: &Agent) -> Option<AtWork> {
    let what = look(ctx, agent);
    let common_dir = ctx.repo.common_dir();
    // It holds the agent's lock, too, for as long as the target moves.
    let is_landing = || lock::is_held(common_dir, layout::LANDING_LOCK).unwrap_or(false);
    if what != Some(AtWork::Ours) {
        return what;
    }
    if is_landing() {
        let _ = lock::wait_until_free(common_dir, layout::LANDING_LOCK);
    } else if liveness::is_running(ctx, agent).unwrap_or(false) {
        // A run may go on for hours, and of many agents each would cost the time of a try.
        return what;
    } else {
        let _ = liveness::lock(ctx, agent);
    }
    look(ctx, agent)
}

/// As [`at_work`], at this moment: for the holder of the landing lock, who must not wait for it.
pub(crate) fn look(ctx: &Ctx, agent: &Agent) -> Option<AtWork> {
    let common_dir = ctx.repo.common_dir();
    let sessions = host_session::all(common_dir, agent.id);
    seen(common_dir, agent, &sessions).or_else(|| occupant(ctx, agent, &sessions))
}

/// A process that stands in the agent's worktree. The processes that called us do not count, nor what the caller pipes us through, nor a host
/// whose session is at rest: that one waits for its next prompt.
fn occupant(ctx: &Ctx, agent: &Agent, sessions: &[SessionRecord]) -> Option<AtWork> {
    let top = worktree::find(&ctx.repo, agent)?;
    let at_rest = |one: &Occupant| sessions.iter().any(|session| session.is_of(one));
    let is_caller_inside = ctx.env.directory.starts_with(&top);
    let found = Occupant::all_inside(&top).into_iter();
    let mut found = found.filter(|one| {
        let is_callers = is_caller_inside && one.shares_group;
        let is_host = one.is_ancestor || one.leads_terminal || one.is_of_git_agent;
        !(is_host || is_callers || at_rest(one))
    });
    found.next().map(|one| AtWork::Process { pid: one.pid, name: one.name })
}

/// Makes sure that nothing works in an agent.
///
/// # Errors
/// `agent-busy`, saying what does.
pub(crate) fn require_at_rest(ctx: &Ctx, agent: &Agent) -> Result<()> {
    require_idle(ctx, agent).map_err(or_now)
}

fn or_now(busy: Error) -> Error {
    busy.hint("to take what is there now, pass --now")
}

/// As [`require_at_rest`], for what no option makes take work from under the hands of another.
///
/// # Errors
/// `agent-busy`, saying what works in it.
pub(crate) fn require_idle(ctx: &Ctx, agent: &Agent) -> Result<()> {
    match at_work(ctx, agent) {
        None => Ok(()),
        Some(what) => Err(busy(agent, &what)),
    }
}

/// Refuses what would move the branch of an agent that a run goes on for: that works in a repository of its own, which goes on from the branch as
/// it was, and could not be taken over.
///
/// # Errors
/// `agent-busy`; those of the ledger; `io`.
pub(crate) fn require_no_run(ctx: &Ctx, agent: &Agent) -> Result<()> {
    if liveness::is_running(ctx, agent)? { Err(busy(agent, &AtWork::Ours)) } else { Ok(()) }
}

/// Keeps runs from beginning as long as the guard lives, and makes sure that nothing works in the agent. `None` for one that has no worktree
/// here, in which nothing can begin. `lock` is one of those of [`liveness`].
///
/// # Errors
/// `agent-busy`; those of making the lock.
pub(crate) fn hold_at_rest(
    ctx: &Ctx,
    agent: &Agent,
    lock: fn(&Ctx, &Agent) -> Result<Guard>,
) -> Result<Option<Guard>> {
    if worktree::find(&ctx.repo, agent).is_none_or(|top| !top.exists()) {
        return Ok(None);
    }
    // The lock first: once it is held no run can begin, and what is found then stays true.
    let guard = lock(ctx, agent).map_err(|error| match error.code() {
        Code::RunActive => or_now(busy(agent, &AtWork::Ours)),
        _ => error,
    })?;
    // The lock is ours now, so only sessions and processes are left to ask for.
    let sessions = host_session::all(ctx.repo.common_dir(), agent.id);
    let working = sessions.iter().find(|session| session.is_at_work());
    let what = working.map(|session| AtWork::Session { waits: session.waits() });
    match what.or_else(|| occupant(ctx, agent, &sessions)) {
        None => Ok(Some(guard)),
        Some(what) => Err(or_now(busy(agent, &what))),
    }
}

/// Makes sure that no run began since the work was judged: one that is over by now may have left anything.
///
/// # Errors
/// `lost-race`.
pub(crate) fn require_same_run(judged: &Agent, now: &Agent) -> Result<()> {
    let number = |agent: &Agent| agent.run.as_ref().map(|run| run.number());
    if number(judged) == number(now) {
        return Ok(());
    }
    Err(Error::new(
        Code::LostRace,
        format!("a run of agent {} began while its work was judged", now.id.short()),
    ))
}

/// Deletes the prompt of an agent that is decided about, unless something works in it and may still read it. What is then left is found by
/// `gc` and by `doctor`.
///
/// # Errors
/// Those of [`briefing::forget`].
pub(crate) fn forget_prompt(ctx: &Ctx, agent: &Agent, held: Option<&Guard>) -> Result<()> {
    // A caller that holds the lock has asked already.
    if held.is_none() && look(ctx, agent).is_some() {
        return Ok(());
    }
    briefing::forget(ctx.repo.common_dir(), agent.id)
}

fn busy(agent: &Agent, what: &AtWork) -> Error {
    let short = agent.id.short();
    let what = match what {
        AtWork::Ours => "a run or another command of git-agent".to_owned(),
        AtWork::Session { waits: false } => "a session of an agent host".to_owned(),
        AtWork::Session { waits: true } => {
            "a session of an agent host, which waits for a person,".to_owned()
        }
        AtWork::Process { pid, name } => format!("process {pid} ({})", name.escape_debug()),
    };
    Error::new(
        Code::AgentBusy,
        format!("{what} is at work in agent {short}, so its work is not taken"),
    )
    .remedy("to wait until a run is over", Remedy::Wait(short.clone()))
    .remedy("to end a run", Remedy::Stop(short))
}
