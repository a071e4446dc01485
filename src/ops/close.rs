//! `done`, `fail`, `accept`, `reject` and `defer`: how an agent's work ended, and what is decided about it.
//!
//! A rejected agent keeps its branch and its worktree; only the lock that shields the worktree from being
//! swept is taken away.

use crate::agents::place::worktree::release;
use crate::agents::upkeep::{crash_recovery, spool};
use crate::agents::who::authority::{
    append, require_no_agent_above, require_orchestrator, require_own, require_undecided,
};
use crate::agents::work::tip_of;
use crate::agents::{Ctx, CurrentAgent, Work, who::lookup};
use crate::domain::life::report::{AuditVerdict, Audited, standing};
use crate::domain::{Agent, Move, State, What};
use crate::error::{Code, Error, Remedy, Result};
use crate::ops::agent_report::{AgentReport, Reporter};
use crate::ops::status;
use crate::store::files::{layout, lock};
use crate::store::ledger;
use serde::Serialize;

/// The answer of a command that moves an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "schema", rename = "git-agent.move/3")]
pub struct MoveReport {
    /// `spooled` for a declaration of a fenced agent that waits in its spool for its supervisor, who records it; absent
    /// for a move that is recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<&'static str>,
    /// The agent after the move; while that waits, as it is.
    #[serde(flatten)]
    pub agent: AgentReport,
}

/// Declares an agent's work finished.
///
/// # Errors
/// `agent-unknown`; `agent-state` when that was declared already, or the decision about it has been taken;
/// `orchestrator-only` from inside another agent, and those of the ledger.
pub fn done(ctx: &Ctx, who: &str, summary: &str) -> Result<MoveReport> {
    let summary = summary.to_owned();
    let whole = None;
    declare(ctx, who, Move::Done, What::Done { summary, whole })
}

/// Declares an agent's work failed.
///
/// # Errors
/// As [`done`].
pub fn fail(ctx: &Ctx, who: &str, reason: &str) -> Result<MoveReport> {
    let reason = reason.to_owned();
    let whole = None;
    declare(ctx, who, Move::Fail, What::Failed { reason, whole })
}

/// Turns work down; an empty reason is none.
///
/// # Errors
/// `agent-unknown`; `agent-state` while a run goes on, when nothing was done in it, and when it is decided about;
/// `orchestrator-only`.
pub fn reject(ctx: &Ctx, who: &str, reason: &str) -> Result<MoveReport> {
    require_orchestrator(ctx)?;
    let agent = lookup::agent(ctx, &ctx.ledger(), who)?;
    // Before the lock: it reads the worktree, which may take long.
    require_worked(ctx, &agent, "rejected")?;
    // Not while it lands.
    let _landings = lock::hold(ctx.repo.common_dir(), layout::LANDING_LOCK)?;
    let reason = reason.to_owned();
    let id = agent.id.to_string();
    let whole = None;
    let what = What::Rejected { reason, whole };
    let report = move_agent(ctx, &id, Move::TurnDown, what)?;
    // After the row: what holds the worktree goes once nothing is to be done there.
    release(ctx, &agent);
    Ok(report)
}

/// Puts the decision about finished work off; an empty reason is none.
///
/// # Errors
/// As [`reject`].
pub fn defer(ctx: &Ctx, who: &str, reason: &str) -> Result<MoveReport> {
    require_orchestrator(ctx)?;
    let agent = lookup::agent(ctx, &ctx.ledger(), who)?;
    require_worked(ctx, &agent, "deferred")?;
    let _landings = lock::hold(ctx.repo.common_dir(), layout::LANDING_LOCK)?;
    let reason = reason.to_owned();
    let whole = None;
    move_agent(ctx, &agent.id.to_string(), Move::Defer, What::Deferred { reason, whole })
}

/// Accepts an agent's work although an audit or a train rejected it. What comes afterwards counts again.
///
/// # Errors
/// `agent-unknown`; `agent-state` where neither stands against it; `orchestrator-only` for every process of an agent: no agent
/// clears itself, or another.
pub fn accept(ctx: &Ctx, who: &str, reason: &str) -> Result<MoveReport> {
    require_no_agent_above(ctx)?;
    ledger::require_no_secret(reason)?;
    let ledger = ctx.ledger();
    let agent = lookup::agent(ctx, &ledger, who)?;
    agent.require_understood()?;
    // The tree that is accepted has to be the one that a landing then finds.
    let _landings = lock::hold(ctx.repo.common_dir(), layout::LANDING_LOCK)?;
    let tip = tip_of(ctx, &agent)?;
    let tree = Work::look_up(ctx, agent.clone())?.tree(ctx)?;
    if agent.rejections_by_trains().next().is_none()
        && standing(&ledger.audits(&agent)?, tree).is_none()
    {
        let short = agent.id.short();
        let what = format!("no audit and no train stands against agent {short}");
        return Err(
            Error::new(Code::AgentState, what).remedy("to see its history", Remedy::History(short))
        );
    }
    let what = What::Audited(Audited {
        auditor: None,
        run: None,
        verdict: AuditVerdict::Pass,
        tip,
        tree,
        reason: reason.to_owned(),
    });
    ledger.append(agent.spawn_commit, &ctx.actor()?, what, ctx.now())?;
    Ok(MoveReport { status: None, agent: Reporter::new(ctx)?.agent(ctx, &agent) })
}

fn require_worked(ctx: &Ctx, agent: &Agent, participle: &str) -> Result<()> {
    if status::state(ctx, agent) != State::Ready {
        return Ok(());
    }
    let short = agent.id.short();
    Err(Error::new(
        Code::AgentState,
        format!("agent {short} is ready: nothing was done in it that could be {participle}"),
    )
    .hint(format!("to remove it, run git agent discard {short}")))
}

/// Refuses what is said with a move, where it holds a credential.
fn require_recordable(what: &What) -> Result<()> {
    what.said().map_or(Ok(()), |(text, _)| ledger::require_no_secret(text))
}

fn declare(ctx: &Ctx, who: &str, step: Move, what: What) -> Result<MoveReport> {
    require_recordable(&what)?;
    let agent = lookup::agent(ctx, &ctx.ledger(), who)?;
    require_own(ctx, &agent)?;
    require_undecided(ctx, &agent)?;
    // A clone of its own has a ledger that counts for no other process.
    let spooled = || {
        let reporter = Reporter::new(ctx)?;
        Ok(MoveReport { status: Some("spooled"), agent: reporter.agent(ctx, &agent) })
    };
    let spool = ctx.env.spool.as_ref();
    let is_apart = spool.is_some_and(|spool| !spool.starts_with(ctx.repo.common_dir()));
    if (is_apart || spool::spool_of_clone(ctx).is_some()) && CurrentAgent::is_of(&ctx.env, &agent) {
        // What is spooled is refused when it is posted, of which the agent hears late.
        agent.may(step)?;
        if spool::leave_declaration(ctx, &what)? {
            return spooled();
        }
    }
    // Inside the fence the ledger cannot be written; the supervisor then records what lies in the
    // spool.
    match move_agent(ctx, &agent.id.to_string(), step, what.clone()) {
        Err(error)
            if error.code() == Code::RepoReadOnly
                && CurrentAgent::is_of(&ctx.env, &agent)
                && spool::leave_declaration(ctx, &what)? =>
        {
            spooled()
        }
        moved => moved,
    }
}

/// Moves an agent and records what moved it, after the end of its last run where that is not recorded yet.
pub(super) fn move_agent(ctx: &Ctx, who: &str, step: Move, what: What) -> Result<MoveReport> {
    require_recordable(&what)?;
    let ledger = ctx.ledger();
    let agent = crash_recovery::at_rest(ctx, lookup::agent(ctx, &ledger, who)?)?;
    let agent = status::as_shown(ctx, agent);
    agent.may(step)?;
    append(ctx, &agent, &ctx.actor()?, step, what)?;
    let agent = ledger.agent(agent.spawn_commit)?.unwrap_or(agent);
    Ok(MoveReport { status: None, agent: Reporter::new(ctx)?.agent(ctx, &agent) })
}
