//! What is kept of a verdict.

use crate::agents::ctx::Ctx;
use crate::agents::current::CurrentAgent;
use crate::agents::{at_work, bundle};
use crate::domain::agent::Move;
use crate::domain::event::What;
use crate::domain::evidence::Row;
use crate::domain::finding::Verdict;
use crate::error::{Code, Result};
use crate::ops::verify::reported::{self, Reported};
use crate::ops::verify::{Case, Recording};
use crate::store::agent_branch;
use crate::store::ledger::Ledger;

/// Keeps the bundle and adds the verdict to the agent's row, unless it says so already, is about
/// another commit than the branch's, or accepts what was only half judged. `recording` may ask for less.
pub(super) fn record(
    ctx: &Ctx,
    recording: Recording,
    case: &Case<'_>,
    verdict: &Verdict,
    said: &Reported,
) -> Result<()> {
    let subject = &case.subject;
    let agent = &subject.agent;
    let is_wanted = match recording {
        Recording::Always => true,
        Recording::ByOthers => {
            agent.finished
                && !CurrentAgent::is_of(&ctx.env, agent)
                && at_work::at_work(ctx, agent).is_none()
        }
        Recording::Requested => !CurrentAgent::is_of(&ctx.env, agent),
        Recording::WhereItLands => verdict.can_land(),
        Recording::Never => false,
    };
    // A row begins with its spawn, in the clone that spawns.
    if !is_wanted || subject.row != Row::Present {
        return Ok(());
    }
    if let Some(tree) = case.bundle.tree {
        bundle::keep(ctx, &subject.agent, tree)?;
    }
    // Before the verdict, so that a kill between the two leaves nothing unsaid: judging again says it.
    if let Some((audited, audit)) = said.audit.as_ref().filter(|_| verdict.is_accepted()) {
        reported::record(ctx, audited, audit)?;
    }
    let recorded = verdict.recorded();
    let step = if recorded.accepted {
        Move::Accept
    } else {
        Move::Reject
    };
    let branch = agent_branch::local(&ctx.repo, agent)?;
    let elsewhere = branch.oid().is_some_and(|tip| tip != subject.tip);
    let half = recorded.accepted && verdict.is_partial();
    let known = agent.verdict.as_ref() == Some(&recorded);
    if elsewhere || half || known || agent.may(step).is_err() {
        return Ok(());
    }
    let what = What::Verified(recorded);
    let appended =
        Ledger::new(&ctx.repo).append_if(agent.spawn_commit, &ctx.actor()?, ctx.now(), |row| {
            row.unwrap_or(agent).may(step)?;
            Ok(what.clone())
        });
    match appended {
        // It landed or was discarded while it was judged; the answer stands, the row needs none.
        Err(error) if error.code() == Code::AgentState => Ok(()),
        other => other.map(|_| ()),
    }
}
