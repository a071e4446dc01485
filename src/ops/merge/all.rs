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
use crate::ops::agent_report::AgentRef;
use crate::ops::error_report::ErrorReport;
use crate::ops::merge::CloseReport;
use crate::ops::merge::LandingReport;
use crate::ops::merge::MergeOptions;
use crate::ops::merge::Order;
use crate::ops::merge::execute;
use crate::ops::merge::plan::{NotAccepted, judged_plan, rehearsed_plan};
use crate::ops::merge::report::LandingState;
use crate::ops::overlap;
use crate::wire::path_text::PathText;
use serde::{Serialize, Serializer};

/// How often an agent is tried when another process moves a branch meanwhile. Of those who land at the same
/// moment one gets through each time, so as many as this do all.
const ATTEMPTS: usize = 10;

/// One verdict per open agent: `git-agent.merge-all/2`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AllReport {
    /// The format's name and version.
    pub schema: &'static str,
    /// What became of each, in the order they were taken.
    pub items: Vec<Decision>,
    /// Who is still at work, and what is to be decided about those who did not land; absent when there is
    /// neither.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub close: Option<CloseReport>,
}

/// What became of one agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// The agent.
    #[serde(flatten)]
    pub agent: AgentRef,
    /// What became of it.
    pub outcome: Fate,
    /// What was judged, in this round or before: `accept` or `reject`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<&'static str>,
    /// The commit that brought its work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The codes of what rejects it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<String>,
    /// The paths on which it conflicts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<PathText>,
    /// What kept it from landing, for one that was tried in this round.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorReport>,
    /// Why it did not land, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What a round of landings decided about an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It has landed, or would.
    Landed(LandingState),
    /// It was refused for an incomplete bundle.
    RejectBundle,
    /// It was refused for another reason.
    NotMerged,
    /// The decision about it was put off before.
    Deferred,
    /// It was not up for landing.
    Left(State),
}

impl Fate {
    /// The word used in JSON: for an agent that was not up for landing its state.
    pub fn as_str(self) -> &'static str {
        match self {
            Fate::Landed(landing) => landing.as_str(),
            Fate::RejectBundle => "reject-bundle",
            Fate::NotMerged => "not-merged",
            Fate::Deferred => "deferred",
            Fate::Left(state) => state.as_str(),
        }
    }

    /// Whether it was refused in this round.
    pub fn is_refusal(self) -> bool {
        matches!(self, Fate::RejectBundle | Fate::NotMerged)
    }
}

impl Serialize for Fate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl Decision {
    fn new(agent: &Agent, outcome: Fate) -> Decision {
        Decision {
            agent: AgentRef::of(agent),
            outcome,
            verdict: None,
            commit: None,
            findings: Vec::new(),
            conflicts: Vec::new(),
            error: None,
            reason: None,
        }
    }
}

impl AllReport {
    /// Whether the round did what it was for: no agent that was done was refused, and something landed unless
    /// nothing was left to land. Agents that are running or failed have work to land; a rejected or deferred one
    /// has been decided about.
    pub fn is_success(&self) -> bool {
        let any = |is: fn(Fate) -> bool| self.items.iter().any(|one| is(one.outcome));
        let landed = any(|fate| matches!(fate, Fate::Landed(_)));
        let unfinished = any(|fate| matches!(fate, Fate::Left(State::Running | State::Failed)));
        !any(Fate::is_refusal) && (landed || !unfinished)
    }
}

/// Lands every agent that is done and not deferred, or for a dry run says what each would do against
/// the target as it is.
///
/// # Errors
/// `orchestrator-only`; what is no matter of one agent: a full disk, a missing git, the ledger. What has landed until
/// then has landed.
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
        schema: "git-agent.merge-all/2",
        close: CloseReport::of(ctx.repo.common_dir(), &decisions),
        items: decisions,
    })
}

/// Lands one agent, and judges it anew where another process moved a branch after it was judged.
///
/// # Errors
/// As [`plan`](super::plan) and [`execute`]; `lost-race` when another process was quicker every time.
pub fn land(ctx: &Ctx, who: &str, options: &MergeOptions) -> Result<LandingReport> {
    land_judged(ctx, who, options)?.map_err(|refused| refused.error())
}

fn land_judged(
    ctx: &Ctx,
    who: &str,
    options: &MergeOptions,
) -> Result<Result<LandingReport, Box<NotAccepted>>> {
    for _ in 0..ATTEMPTS {
        // What judging fails with stays: a worktree that goes away meanwhile is not to be judged without it.
        let plan = match judged_plan(ctx, who, options)? {
            Ok(plan) => plan,
            Err(refused) => return Ok(Err(refused)),
        };
        match execute(ctx, &plan) {
            Err(error) if error.code() == Code::LostRace => {}
            landed => return landed.map(Ok),
        }
    }
    Err(Error::new(
        Code::LostRace,
        format!("other processes moved a branch {ATTEMPTS} times while {who} was about to land"),
    ))
}

fn attempt(ctx: &Ctx, agent: &Agent, options: &MergeOptions) -> Result<Decision> {
    let who = agent.id.to_string();
    let landed = if options.dry_run {
        rehearsed_plan(ctx, &who, options).map(|plan| plan.map(|plan| plan.report()))
    } else {
        land_judged(ctx, &who, options)
    };
    match landed {
        Ok(Ok(report)) => Ok(Decision {
            verdict: Some("accept"),
            commit: report.commit,
            ..Decision::new(agent, Fate::Landed(report.outcome))
        }),
        Ok(Err(refused)) => {
            let incomplete = refused.verdict.bundle_errors().next().is_some();
            let fate = if incomplete {
                Fate::RejectBundle
            } else {
                Fate::NotMerged
            };
            let verdict = if refused.verdict.is_accepted() {
                "accept"
            } else {
                "reject"
            };
            Ok(Decision {
                verdict: Some(verdict),
                ..refusal(agent, fate, &refused.error())
            })
        }
        // What fails because of one agent's work or state is this agent's decision; anything else ends the walk.
        Err(error) if !concerns_all(error.code()) => Ok(refusal(agent, Fate::NotMerged, &error)),
        Err(error) => Err(error),
    }
}

/// Whether the next agent would fail in the same way: the machine, the repository or this program is at fault, and
/// not the state of one agent.
pub(crate) fn concerns_all(code: Code) -> bool {
    let is_of_one = matches!(
        code,
        Code::BranchGone
            | Code::GitFailed
            | Code::HistoryIncomplete
            | Code::Io
            | Code::RepoCorrupt
            | Code::WorktreeForeign
    );
    let is_refusal = matches!(code.exit(), Exit::No | Exit::Refused | Exit::TryAgain);
    !is_of_one && !is_refusal
}

fn refusal(agent: &Agent, fate: Fate, error: &Error) -> Decision {
    let details = error.details().join("\n");
    let reason = if details.is_empty() {
        error.message().to_owned()
    } else {
        format!("{}\n{details}", error.message())
    };
    let told = ErrorReport::from(error);
    Decision {
        findings: told.findings.iter().map(ToString::to_string).collect(),
        conflicts: told.conflicts.clone(),
        error: Some(told),
        reason: Some(reason),
        ..Decision::new(agent, fate)
    }
}

fn left_alone(agent: &Agent) -> Decision {
    let fate = if agent.deferred {
        Fate::Deferred
    } else {
        Fate::Left(agent.state)
    };
    let findings = rejected_for(agent);
    let reason = Some(findings.unwrap_or_default().join(", ")).filter(|text| !text.is_empty());
    Decision {
        verdict: findings.map(|_| "reject"),
        findings: findings.unwrap_or_default().to_vec(),
        reason: reason.or(agent.summary.clone().filter(|text| !text.is_empty())),
        ..Decision::new(agent, fate)
    }
}

/// The codes for which a verdict failed an agent, when that was the last that was said of it.
fn rejected_for(agent: &Agent) -> Option<&[String]> {
    let failed = agent.state == State::Failed && !agent.deferred;
    let verdict = agent.verdict.as_ref();
    let verdict = verdict.filter(|verdict| failed && !verdict.accepted)?;
    Some(&verdict.findings)
}
