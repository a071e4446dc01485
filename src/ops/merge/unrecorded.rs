//! Landings with `--now` whose row a kill kept from being written.
//!
//! Such a landing may bring a commit that is on no branch of the agent's, whose work goes on meanwhile. So nothing but a note tells the next
//! landing which part of the work the target has already: `<common dir>/agents/<id8>/landing`, written before the target moves and
//! removed once the row says so.

use crate::agents::ctx::Ctx;
use crate::domain::agent::Agent;
use crate::domain::oid::Oid;
use crate::error::{IoContext, Result};
use crate::ops::merge::MergePlan;
use crate::store::ledger::{Ledger, RecordedLanding};
use crate::store::{fsx, layout, lock};
use std::fs;

/// Notes what is about to land of an agent that goes on: the commit, the work in it, and the branch.
///
/// # Errors
/// `io`, `disk-full`.
pub(super) fn note(ctx: &Ctx, plan: &MergePlan, (tip, commit): (Oid, Oid)) -> Result<()> {
    if !plan.now {
        return Ok(());
    }
    let text = format!("{commit} {tip} {} {}\n", plan.target, plan.base_ref());
    let path = layout::landing_note(ctx.repo.common_dir(), plan.agent.id);
    fsx::write_private(&path, text.as_bytes())
}

/// Removes the note: the row has it.
pub(super) fn forget(ctx: &Ctx, plan: &MergePlan) {
    // One that stays is found to be recorded.
    if plan.now {
        let _ = fs::remove_file(layout::landing_note(ctx.repo.common_dir(), plan.agent.id));
    }
}

/// Writes down the landing that was noted, if it came to that; gives the agent as it is then.
///
/// # Errors
/// `io`, `lock-timeout`, those of the ledger.
pub(super) fn complete(ctx: &Ctx, ledger: &Ledger<'_>, agent: Agent) -> Result<Agent> {
    let common_dir = ctx.repo.common_dir();
    let path = layout::landing_note(common_dir, agent.id);
    if !path.exists() {
        return Ok(agent);
    }
    // A landing that is under way has its note, too.
    let _landings = lock::hold(common_dir, layout::LANDING_LOCK)?;
    let text = fsx::load_if_there(&path)?.unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let now = ledger.agent(agent.spawn_commit)?.unwrap_or(agent);
    if let [commit, tip, into, base] = words[..]
        && let (Some(commit), Some(tip)) = (Oid::from_hex(commit), Oid::from_hex(tip))
        && now.landed_tip != Some(tip)
        // The note is older than the move of the target, so it may tell of a landing that never
        // took place.
        && holds(ctx, &[into, base], commit)?
    {
        let landing = RecordedLanding {
            spawn_commit: now.spawn_commit,
            commit,
            into: into.to_owned(),
            tip: Some(tip),
        };
        ledger.append_landings(&[landing], &ctx.actor()?, ctx.now(), |_| Ok(()))?;
    }
    fs::remove_file(&path).at_if_there("could not remove", &path)?;
    Ok(ledger.agent(now.spawn_commit)?.unwrap_or(now))
}

/// Whether one of the refs has a commit.
fn holds(ctx: &Ctx, refs: &[&str], commit: Oid) -> Result<bool> {
    for name in refs {
        if let Some(is) = ctx.repo.tip(name)?.oid()
            && ctx.repo.has_object(commit)
            && ctx.repo.merge_base(commit, is)? == Some(commit)
        {
            return Ok(true);
        }
    }
    Ok(false)
}
