//! The ledger as a whole: its ref, what foreign writers dropped, the commits that its rows are on.

use crate::agents::ctx::Ctx;
use crate::domain::agent::{Agent, State};
use crate::domain::diagnosis::Sign;
use crate::domain::event::What;
use crate::domain::oid::Oid;
use crate::domain::stamp::is_ahead;
use crate::error::{Remedy, Result};
use crate::ops::doctor::survey::Survey;
use crate::ops::doctor::{DOCTOR, Finding};
use crate::ops::remedy::command;
use crate::store::chain::recovery::{self, Condition};
use crate::store::chain::{self, Chain};
use std::collections::BTreeMap;

pub(super) fn look(ctx: &Ctx, survey: &Survey) -> Result<Vec<Finding>> {
    let mut found = Vec::new();
    match recovery::condition(&ctx.repo, Chain::Ledger)? {
        Condition::Sound => {}
        Condition::Damaged => found.push(Finding::curable(
            Sign::LedgerDamaged,
            format!(
                "{} leads to nothing whole; its reflog does",
                Chain::Ledger.refname()
            ),
            |ctx| {
                recovery::repair(&ctx.repo, Chain::Ledger, ctx.now())?;
                Ok("wrote down what the reflog gave back".to_owned())
            },
        )),
        Condition::Lost => {
            found.push(Finding::report(
                Sign::LedgerLost,
                format!(
                    "{} and its reflog lead to nothing readable",
                    Chain::Ledger.refname()
                ),
                super::TAKE_OVER.to_owned(),
            ));
            // Nothing else can be said of a ledger that cannot be read.
            return Ok(found);
        }
    }
    let dropped = chain::foreign_writes(&ctx.repo)?.dropped.len();
    if dropped > 0 {
        let what = format!("{dropped} notes lack lines that foreign writers dropped");
        found.push(Finding::curable(Sign::LinesDropped, what, move |ctx| {
            let restored = chain::restore_foreign(&ctx.repo, ctx.now())?;
            Ok(if restored.changed {
                format!("brought back the lines of {dropped} notes")
            } else {
                "nothing was missing any more".to_owned()
            })
        }));
    }
    let ahead = { survey.rows().iter() }.filter(|agent| is_ahead(agent.updated, ctx.now()));
    found.extend(ahead.map(|agent| {
        let (short, date) = (agent.id.short(), agent.updated.format("%Y-%m-%d"));
        Finding::report(
            Sign::ClockAhead,
            format!("the last event of agent {short} is dated {date}, ahead of the clock"),
            format!("git agent show --log {short}"),
        )
    }));
    found.extend(unproven(ctx, survey.rows())?);
    // The rows of another clone come without their commits until those are fetched.
    let gone = survey
        .rows()
        .iter()
        .filter(|agent| survey.is_local(agent) && !ctx.repo.has_object(agent.spawn_commit));
    found.extend(gone.map(|agent| {
        Finding::report(
            Sign::SpawnCommitGone,
            format!(
                "the row of agent {} is on commit {}, which is gone",
                agent.id.short(),
                agent.spawn_commit
            ),
            command(&Remedy::SynchroniseAll),
        )
    }));
    Ok(found)
}

/// A sentence for a ledger that another writer has just taken lines from; `None` for every other, and where that
/// cannot be told.
pub fn overwritten(ctx: &Ctx) -> Option<String> {
    let is_overwritten = chain::is_overwritten(&ctx.repo).unwrap_or(false);
    is_overwritten.then(|| {
        format!(
            "{} was overwritten, as by git fetch with a `+` before the refspec, and lacks events that were \
             recorded in this clone; to restore them, run {DOCTOR}",
            Chain::Ledger.refname()
        )
    })
}

/// How many agents a finding names.
const NAMED: usize = 8;

/// Landings that rows claim and nothing in this clone shows.
fn unproven(ctx: &Ctx, agents: &[Agent]) -> Result<Option<Finding>> {
    // History that ends early proves nothing either way.
    if ctx.repo.is_shallow() {
        return Ok(None);
    }
    let mut claims: BTreeMap<&str, Vec<(&Agent, Oid)>> = BTreeMap::new();
    for agent in agents.iter().filter(|agent| agent.state == State::Merged) {
        if let Some((commit, into)) = &agent.landed {
            claims.entry(into).or_default().push((agent, *commit));
        }
    }
    // Of an agent that has a worktree or a branch here, the work itself was looked for already, and not found.
    let mut unproven = Vec::new();
    for agent in { agents.iter() }.filter(|agent| agent.claimed == Some(State::Merged)) {
        let events = ctx.ledger().events(agent.spawn_commit)?;
        let claimed = events.iter().rev().find_map(|event| match event.what {
            What::Merged { commit, .. } => Some(commit),
            _ => None,
        });
        unproven.extend(claimed.map(|commit| (agent, commit)));
    }
    for (into, claims) in claims {
        let local = ctx.repo.tip(into)?.oid();
        let fetched = ctx.repo.fetched_branches(into)?;
        let fetched = fetched.into_iter().map(|(_, tip)| tip);
        // A forge may have landed it where only the remote's branch shows it.
        let tips: Vec<Oid> = local.into_iter().chain(fetched).collect();
        let there: Vec<Oid> = { claims.iter().map(|(_, commit)| *commit) }
            .filter(|commit| ctx.repo.has_object(*commit))
            .collect();
        let elsewhere = ctx.repo.unreachable(&there, &tips)?;
        let is_shown = |commit: &Oid| there.contains(commit) && !elsewhere.contains(commit);
        let claims = claims.into_iter();
        unproven.extend(claims.filter(|(_, commit)| !is_shown(commit)));
    }
    let Some((first, _)) = unproven.first() else {
        return Ok(None);
    };
    let mut named = Vec::new();
    for (agent, commit) in unproven.iter().take(NAMED) {
        let events = ctx.ledger().events(agent.spawn_commit)?;
        let mut claims = events.iter().rev();
        let claim = claims.find(|event| matches!(event.what, What::Merged { .. }));
        let by = claim.map_or("", |event| event.by.as_str());
        named.push(format!(
            "{} as {} by {by}",
            agent.id.short(),
            commit.short()
        ));
    }
    let more = match unproven.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let what = format!(
        "rows claim landings that no branch in this clone shows: {}{more}",
        named.join(", ")
    );
    let command = format!("git agent show --log {}", first.id.short());
    Ok(Some(Finding::report(Sign::LandingUnproven, what, command)))
}
