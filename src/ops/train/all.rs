//! `merge --all`: a train of every agent that is done, in the order they were spawned or in the one that lets most of
//! them land; one verdict for every agent, and what remains to be decided.

use crate::agents::ctx::Ctx;
use crate::agents::{at_work, crash_recovery};
use crate::domain::agent::{Agent, State};
use crate::domain::id::AgentId;
use crate::error::Result;
use crate::ops::agent_report::AgentRef;
use crate::ops::error_report::ErrorReport;
use crate::ops::merge::LandingState;
use crate::ops::train::close::CloseReport;
use crate::ops::train::gather::{Rider, is_ready, judge_those, open_agents};
use crate::ops::train::order::bring_into_order;
use crate::ops::train::report::Outcome;
use crate::ops::train::{Order, TrainOptions, decide_all, rehearsed};
use crate::wire::path_text::PathText;
use serde::{Serialize, Serializer};
use std::collections::HashSet;

/// One verdict per open agent: `git-agent.merge-all/3`.
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
    /// What the caller should know of what came after.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
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
        let unfinished = any(
            |fate| matches!(fate, Fate::Left(state) if state.is_unfinished() || state == State::Failed),
        );
        !any(Fate::is_refusal) && (landed || !unfinished)
    }
}

/// Lands every agent that is done and not deferred, as a train: if there are no check commands, all that stack land at once.
///
/// # Errors
/// As [`train`](super::train).
pub fn merge_all(ctx: &Ctx, options: &TrainOptions) -> Result<AllReport> {
    rehearsed(ctx, options, |ctx| {
        let mut agents = open_agents(ctx)?;
        // One in which something is at work is named and left: it is not finished, whatever its row says.
        let at_work: HashSet<AgentId> = { agents.iter() }
            .filter(|agent| !options.now && is_ready(agent))
            .filter(|agent| at_work::at_work(ctx, agent).is_some())
            .map(|agent| agent.id)
            .collect();
        let is_ready = |agent: &Agent| is_ready(agent) && !at_work.contains(&agent.id);
        let ready = agents.iter().filter(|agent| is_ready(agent));
        let mut riders: Vec<Rider> = ready.cloned().map(Rider::of).collect();
        judge_those(ctx, options, &mut riders, |_| true)?;
        bring_into_order(ctx, options.order, &mut riders)?;
        if options.order == Order::Best {
            let place = |agent: &Agent| riders.iter().position(|rider| rider.is(agent));
            agents.sort_by_key(|agent| place(agent).unwrap_or(usize::MAX));
        }
        decide_all(ctx, options, &mut riders, &mut |_| {})?;
        let mut items = Vec::new();
        let mut riders = riders.iter();
        for agent in &agents {
            if is_ready(agent) {
                items.extend(riders.next().map(|rider| decision(agent, rider)));
                continue;
            }
            if !options.dry_run {
                crash_recovery::run_at_rest(ctx, agent.clone())?;
            }
            let state = if at_work.contains(&agent.id) {
                State::Running
            } else {
                at_work::shown_state(ctx.repo.common_dir(), agent)
            };
            items.push(left_alone(agent, state));
        }
        Ok(AllReport {
            schema: "git-agent.merge-all/3",
            close: CloseReport::of(ctx.repo.common_dir(), &items),
            warnings: Vec::new(),
            items,
        })
    })
}

fn decision(agent: &Agent, rider: &Rider) -> Decision {
    let report = &rider.report;
    let fate = match report.outcome {
        Outcome::Landed => Fate::Landed(LandingState::Merged),
        Outcome::AlreadyMerged => Fate::Landed(LandingState::AlreadyMerged),
        Outcome::Planned => Fate::Landed(LandingState::Planned),
        _ if rider.lacks_bundle => Fate::RejectBundle,
        _ => Fate::NotMerged,
    };
    let error = report.error.as_ref().map(ErrorReport::from);
    let error = error.filter(|_| !matches!(fate, Fate::Landed(_)));
    let findings = error.iter().flat_map(|error| &error.findings);
    let conflicts = { error.iter() }.flat_map(|error| error.conflicts.clone());
    let conflicts: Vec<PathText> = conflicts.collect();
    Decision {
        verdict: rider.verdict,
        commit: report.commit.clone(),
        findings: findings.map(ToString::to_string).collect(),
        conflicts: if conflicts.is_empty() {
            report.conflicts.clone()
        } else {
            conflicts
        },
        reason: report.reason.clone(),
        error,
        ..Decision::new(agent, fate)
    }
}

fn left_alone(agent: &Agent, state: State) -> Decision {
    let fate = if agent.deferred {
        Fate::Deferred
    } else {
        Fate::Left(state)
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

/// The codes for which a verdict rejected an agent, when that was the last that was said of it.
fn rejected_for(agent: &Agent) -> Option<&[String]> {
    let is_left = matches!(agent.state, State::Idle | State::Failed) && !agent.deferred;
    let verdict = agent.verdict.as_ref();
    let verdict = verdict.filter(|verdict| is_left && !verdict.accepted)?;
    Some(&verdict.findings)
}
