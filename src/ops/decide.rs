//! `reject` and `defer`, and what all decisions about an agent share.
//!
//! A rejected agent keeps its branch and its worktree; only the lock that shields the worktree from being
//! swept is taken away.

use super::home::Home;
use super::settle::{self, MoveReport};
use crate::domain::agent::{Agent, Move};
use crate::domain::event::What;
use crate::error::{Code, Error, Result};
use crate::ops::Ctx;
use crate::ops::lookup;
use crate::store::ledger::Ledger;
use crate::store::{layout, lock};
use std::fs;

/// Turns finished work down; an empty reason is none.
///
/// # Errors
/// `agent-unknown`; `agent-state` when it is neither done nor failed; `orchestrator-only`.
pub fn reject(ctx: &Ctx, who: &str, reason: &str) -> Result<MoveReport> {
    require_orchestrator(ctx)?;
    let agent = lookup::agent(ctx, &Ledger::new(&ctx.repo), who)?;
    // Not while it lands.
    let _landings = lock::hold(ctx.repo.common_dir(), layout::LANDING_LOCK)?;
    let reason = reason.to_owned();
    let id = agent.id.to_string();
    let whole = None;
    let what = What::Rejected { reason, whole };
    let report = settle::move_agent(ctx, &id, Move::TurnDown, what)?;
    unlock(ctx, &agent);
    Ok(report)
}

/// Puts the decision about finished work off; an empty reason is none.
///
/// # Errors
/// As [`reject`].
pub fn defer(ctx: &Ctx, who: &str, reason: &str) -> Result<MoveReport> {
    require_orchestrator(ctx)?;
    let _landings = lock::hold(ctx.repo.common_dir(), layout::LANDING_LOCK)?;
    let reason = reason.to_owned();
    let whole = None;
    settle::move_agent(ctx, who, Move::Defer, What::Deferred { reason, whole })
}

/// Refuses to say how an agent's work ended from inside another agent.
///
/// # Errors
/// As [`require_orchestrator`].
pub(super) fn require_own(ctx: &Ctx, agent: &Agent) -> Result<()> {
    if Home::is_of(&ctx.env, agent) {
        return Ok(());
    }
    require_orchestrator(ctx)
}

/// Refuses decisions from inside an agent: no agent lands, commits or removes work, its own or another's.
///
/// # Errors
/// `orchestrator-only`, also when it cannot be read whose worktree this is.
pub(super) fn require_orchestrator(ctx: &Ctx) -> Result<()> {
    let refused = |message: String| {
        Error::new(Code::OrchestratorOnly, message)
            .hint("to decide about an agent, leave its worktree: cd to the main one")
    };
    match Home::find(&ctx.env, &[&ctx.env.directory]) {
        Ok(None) => Ok(()),
        Ok(Some(home)) => Err(refused(format!(
            "this is inside agent {}, which does not decide about agents",
            home.agent.id.short()
        ))),
        Err(error) => Err(refused("this is inside an agent".to_owned()).because(error)),
    }
}

/// Takes our lock off the worktree of an agent that is decided about. That it stays locked where this
/// fails does no harm.
pub(super) fn unlock(ctx: &Ctx, agent: &Agent) {
    let admin = ctx.repo.admin_dir(&layout::worktree_name(agent.id));
    let locked = admin.join("locked");
    let is_ours = |text: String| text.trim_end() == layout::lock_reason(agent.id);
    if fs::read_to_string(&locked).is_ok_and(is_ours) {
        let _ = fs::remove_file(locked);
    }
}
