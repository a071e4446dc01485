//! A tournament: several agents on one task. The best is ready to land, and the decision about the others is put off.

use crate::agents::ctx::Ctx;
use crate::agents::lookup;
use crate::agents::work::Work;
use crate::domain::event::{Competed, What};
use crate::domain::run::{Attempt, lost_to, ranking};
use crate::error::{Code, Result};
use crate::ops::close;
use crate::ops::run::RunReport;
use serde::Serialize;
use serde_with_macros::skip_serializing_none;

/// How a tournament came out; part of the answer of `run`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TournamentReport {
    /// The first eight hex digits of the winner's id; absent where no work may land.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub winner: Option<String>,
    /// Every attempt, best first.
    pub attempts: Vec<AttemptReport>,
}

/// One attempt.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AttemptReport {
    /// What the command line named.
    pub target: String,
    /// The agent host that did it; absent for a command of the caller's.
    pub host: Option<&'static str>,
    /// The agent's id.
    pub agent_id: String,
    /// The first eight hex digits of the id.
    pub short_id: String,
    /// Whether its work may land.
    pub accepted: bool,
    /// How many lines it changed; absent where that could not be determined.
    pub changed_lines: Option<usize>,
    /// What it cost, in US dollars.
    pub cost_usd: Option<f64>,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
}

/// A run that took part.
pub struct Entry {
    /// What the command line named.
    pub target: String,
    /// The agent host that did it, if one did.
    pub host: Option<&'static str>,
    /// How it ended.
    pub run: Box<RunReport>,
}

/// Compares attempts, records the place of each in its row, and defers those whose work may land and that did not win.
///
/// # Errors
/// Those of the ledger.
pub fn decide(ctx: &Ctx, entries: &[Entry]) -> Result<TournamentReport> {
    let mut reports: Vec<AttemptReport> = entries
        .iter()
        .map(|Entry { target, host, run }| AttemptReport {
            target: target.clone(),
            host: *host,
            agent_id: run.agent_id.clone(),
            short_id: run.short_id.clone(),
            accepted: run.status == "success" && run.verdict == Some(Some("accept")),
            // Work that cannot be read has a verdict that says so.
            changed_lines: changed_lines(ctx, &run.agent_id).ok(),
            cost_usd: run.session.cost_usd,
            duration_ms: run.duration_ms,
        })
        .collect();
    let compared: Vec<Attempt> = { reports.iter() }
        .map(|report| Attempt {
            is_accepted: report.accepted,
            changed_lines: report.changed_lines,
            cost_usd: report.cost_usd,
            duration_ms: report.duration_ms,
        })
        .collect();
    let order = ranking(&compared);
    let place = |at: usize| order.iter().position(|one| *one == at);
    let mut places: Vec<_> = (0..reports.len()).map(place).zip(reports).collect();
    places.sort_by_key(|(place, _)| *place);
    reports = places.into_iter().map(|(_, report)| report).collect();
    // Before anything is deferred, so that a kill leaves rows that say how it came out.
    record(ctx, &reports)?;
    let winner = { reports.first() }.filter(|first| first.accepted);
    let winner = winner.map(|first| first.short_id.clone());
    if let Some(winner) = &winner {
        let reason = lost_to(winner, reports.len());
        // What was not accepted cannot land anyway, so nothing is put off.
        for loser in reports.iter().skip(1).filter(|one| one.accepted) {
            match close::defer(ctx, &loser.agent_id, &reason) {
                // Another command decided about it meanwhile.
                Err(error) if error.code() == Code::AgentState => {}
                deferred => drop(deferred?),
            }
        }
    }
    Ok(TournamentReport {
        winner,
        attempts: reports,
    })
}

/// Writes down in every row how the agent came out.
fn record(ctx: &Ctx, reports: &[AttemptReport]) -> Result<()> {
    let ledger = ctx.ledger();
    let by = ctx.actor()?;
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    for (at, report) in reports.iter().enumerate() {
        let agent = lookup::agent(ctx, &ledger, &report.agent_id)?;
        let what = What::Competed(Competed {
            best: reports[0].short_id.clone(),
            place: count(at + 1),
            of: count(reports.len()),
            accepted: report.accepted,
            host: report.host.map(str::to_owned),
        });
        ledger.append(agent.spawn_commit, &by, what, ctx.now())?;
    }
    Ok(())
}

fn changed_lines(ctx: &Ctx, agent_id: &str) -> Result<usize> {
    let agent = lookup::agent(ctx, &ctx.ledger(), agent_id)?;
    let work = Work::look_up(ctx, agent)?;
    let fork = ctx.repo.read_commit(work.fork(&ctx.repo)?)?.tree;
    let counts = ctx.repo.diff_counts(fork, work.tree(ctx)?)?;
    Ok(counts.insertions + counts.deletions)
}
