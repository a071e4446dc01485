//! `merge --all`: every agent that is done, in the order they were spawned or in the one that lets most of
//! them land, each judged against what the one before it left; one verdict for every agent, and what remains
//! to be decided.

use crate::agents::authority::require_orchestrator;
use crate::agents::crash_recovery;
use crate::agents::ctx::Ctx;
use crate::agents::lookup;
use crate::domain::agent::{Agent, State};
use crate::domain::event::Isolation;
use crate::error::{Code, Error, Exit, Result};
use crate::ops::merge::CloseReport;
use crate::ops::merge::LandingReport;
use crate::ops::merge::MergeOptions;
use crate::ops::merge::Order;
use crate::ops::merge::execute;
use crate::ops::merge::plan;
use crate::ops::overlap;
use serde::Serialize;

/// How often an agent is tried when another process moves a branch meanwhile. Of those who land at the same
/// moment one gets through each time, so as many as this do all.
const ATTEMPTS: usize = 10;

/// One verdict per open agent: `git-agent.merge-all/1`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AllReport {
    /// The format's name and version.
    pub schema: &'static str,
    /// What became of each, in the order they were taken.
    pub agents: Vec<Decision>,
    /// Who is still at work, and what is to be decided about those who did not land; absent when there is
    /// neither.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub close: Option<CloseReport>,
}

/// What became of one agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// The agent's id.
    pub agent_id: String,
    /// The alias.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `merged`, `already-merged` or `planned`; `reject-bundle` for an incomplete bundle and
    /// `not-merged` for any other refusal; the state of one that was not up for landing, or `deferred`.
    pub verdict: String,
    /// The commit that brought its work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Why it did not land.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl AllReport {
    /// Whether the round did what it was for: no agent that was done was refused, and something landed unless
    /// nothing was left to land. Agents that are running or failed have work to land; a rejected or deferred one
    /// has been decided about.
    pub fn is_success(&self) -> bool {
        let any = |verdicts: &[&str]| {
            let mut agents = self.agents.iter();
            agents.any(|one| verdicts.contains(&one.verdict.as_str()))
        };
        let landed = any(&["merged", "already-merged", "planned"]);
        !any(&["reject-bundle", "not-merged"]) && (landed || !any(&["running", "failed"]))
    }
}

/// Lands every agent that is done and not deferred, or for a dry run says what each would do against
/// the target as it is.
///
/// # Errors
/// `orchestrator-only`; what is no matter of one agent's work: git, the file system, the ledger. What
/// has landed until then has landed.
pub fn all(ctx: &Ctx, options: &MergeOptions) -> Result<AllReport> {
    require_orchestrator(ctx)?;
    let mut agents = lookup::agents(ctx)?;
    agents.retain(|agent| agent.state.is_open() && agent.state != State::Spawning);
    agents.sort_by_key(|agent| (agent.started, agent.spawn_commit));
    if options.order == Order::Best {
        let order = overlap::order_of(ctx)?;
        // An agent without a place in it keeps the one among the others, at the end.
        let place = |agent: &Agent| order.iter().position(|id| *id == agent.id.to_string());
        agents.sort_by_key(|agent| place(agent).unwrap_or(usize::MAX));
    }
    let decisions = agents.iter().map(|agent| {
        let up = agent.state == State::Done && !agent.deferred;
        if up && agent.isolation != Some(Isolation::Shared) {
            return attempt(ctx, agent, options);
        }
        if !options.dry_run {
            crash_recovery::at_rest(ctx, agent.clone())?;
        }
        Ok(left_alone(agent))
    });
    let decisions = decisions.collect::<Result<Vec<_>>>()?;
    Ok(AllReport {
        schema: "git-agent.merge-all/1",
        close: CloseReport::of(ctx.repo.common_dir(), &decisions),
        agents: decisions,
    })
}

/// Lands one agent, and judges it anew where another process moved a branch after it was judged.
///
/// # Errors
/// As [`plan`] and [`execute`]; `lost-race` when another process was quicker every time.
pub fn land(ctx: &Ctx, who: &str, options: &MergeOptions) -> Result<LandingReport> {
    for _ in 1..ATTEMPTS {
        // What judging fails with stays: a worktree that goes away meanwhile is not to be judged without it.
        match execute(ctx, &plan(ctx, who, options)?) {
            Err(error) if error.code() == Code::LostRace => {}
            landed => return landed,
        }
    }
    execute(ctx, &plan(ctx, who, options)?)
}

fn attempt(ctx: &Ctx, agent: &Agent, options: &MergeOptions) -> Result<Decision> {
    let who = agent.id.to_string();
    let name = name_of(agent);
    let landed = match options.dry_run {
        true => plan(ctx, &who, options).map(|plan| plan.report()),
        false => land(ctx, &who, options),
    };
    match landed {
        Ok(report) => Ok(Decision {
            agent_id: who,
            name,
            verdict: report.verdict.to_owned(),
            commit: report.commit,
            reason: None,
        }),
        Err(error) => refusal(agent, error),
    }
}

/// A refusal is this agent's; anything else ends the walk.
fn refusal(agent: &Agent, error: Error) -> Result<Decision> {
    if !matches!(
        error.code().exit(),
        Exit::No | Exit::Refused | Exit::TryAgain
    ) {
        return Err(error);
    }
    let details = error.details().join("\n");
    let bundle = details.lines().any(|line| line.starts_with("  bundle."));
    let verdict = if bundle {
        "reject-bundle"
    } else {
        "not-merged"
    };
    let reason = match details.is_empty() {
        true => error.message().to_owned(),
        false => format!("{}\n{details}", error.message()),
    };
    Ok(Decision {
        agent_id: agent.id.to_string(),
        name: name_of(agent),
        verdict: verdict.to_owned(),
        commit: None,
        reason: Some(reason),
    })
}

fn left_alone(agent: &Agent) -> Decision {
    let verdict = match agent.deferred {
        true => "deferred".to_owned(),
        false => agent.state.to_string(),
    };
    Decision {
        agent_id: agent.id.to_string(),
        name: name_of(agent),
        verdict,
        commit: None,
        reason: rejected_for(agent).or(agent.summary.clone().filter(|text| !text.is_empty())),
    }
}

/// What made a verdict fail an agent, when that was the last that was said of it.
fn rejected_for(agent: &Agent) -> Option<String> {
    let failed = agent.state == State::Failed && !agent.deferred;
    let verdict = agent
        .verdict
        .as_ref()
        .filter(|verdict| failed && !verdict.accepted)?;
    Some(verdict.findings.join(", ")).filter(|text| !text.is_empty())
}

fn name_of(agent: &Agent) -> Option<String> {
    agent.name.as_ref().map(ToString::to_string)
}
