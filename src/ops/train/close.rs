//! What is left to decide once every agent has its verdict.

use super::gather::{Rider, is_ready, judge_those, open_agents, riders};
use super::report::{ItemReport, TrainOutcome};
use super::{Order, TrainOptions, decide_all, rehearsed};
use crate::agents::{Ctx, life::at_work, upkeep::crash_recovery};
use crate::domain::{Agent, AgentId, Quoted, State, branch_name, value::shell};
use crate::error::{Code, Result};
use crate::ops::agent_report::AgentRef;
use crate::ops::error_report::ErrorReport;
use crate::ops::merge::LandingState;
use crate::ops::status;
use crate::ops::train::gather::bring_into_order;
use crate::store::files::{briefing, layout};
use crate::wire::output::path_text::PathText;
use serde::{Serialize, Serializer};
use serde_with_macros::skip_serializing_none;
use std::collections::{BTreeSet, HashSet};
use std::path::Path;

/// The close of a round of landings: there when an agent is still at work, or did not land.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CloseReport {
    /// Who is not finished; the round is not over before they are.
    pub unfinished: Vec<AgentRef>,
    /// Who was turned down, and whose task no later agent has.
    pub rejected: Vec<AgentRef>,
    /// About whom the decision was put off.
    pub deferred: Vec<AgentRef>,
    /// Who failed, was refused in this round, or did work that a verdict rejected before.
    pub not_landed: Vec<AgentRef>,
    /// What has to be decided, once no agent is at work; absent where all who finished have landed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
    /// The ways to answer it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ways: Vec<AnswerWay>,
}

/// One way to answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AnswerWay {
    /// `as-is`, `retry` or `close`.
    pub way: &'static str,
    /// What it means.
    pub what: &'static str,
    /// The commands that go this way.
    pub commands: Vec<String>,
}

/// Whether an agent did its work and a verdict rejected that: nothing goes on in it, so that there is nothing to wait for.
fn is_turned_back(one: &TrainDecision) -> bool {
    // A verdict that rejects makes an agent idle again, which is not the same as having no verdict.
    one.outcome == Fate::Left(State::Idle) && one.verdict == Some("reject")
}

/// The code of what kept work from landing that its verdict does not speak against, as what is not committed in a worktree.
fn obstacle(one: &TrainDecision) -> Option<&'static str> {
    let is_judged = !one.findings.is_empty() || !one.conflicts.is_empty();
    let code = one.error.as_ref().map(|error| error.code)?;
    (one.outcome == Fate::NotMerged && !is_judged && code != Code::NotAccepted.name())
        .then_some(code)
}

/// Whether an agent changed nothing, which a verdict accepts.
fn is_empty(one: &TrainDecision) -> bool {
    obstacle(one) == Some(Code::NothingToLand.name())
}

/// Whether nothing speaks against its work and it did not land all the same, as where the target itself is red.
fn is_undecided(one: &TrainDecision) -> bool {
    one.outcome == Fate::NotMerged
        && one.verdict == Some("accept")
        && one.error.is_none()
        && one.conflicts.is_empty()
}

/// Whether it failed, was refused in this round, or did work that a verdict rejected before.
fn has_not_landed(one: &TrainDecision) -> bool {
    one.outcome.is_refusal() || one.outcome == Fate::Left(State::Failed) || is_turned_back(one)
}

/// The commands that say what is to be mended of an agent that did not land, and that let it land where this round lands.
fn to_mend(one: &TrainDecision, options: &TrainOptions) -> Vec<String> {
    if !has_not_landed(one) {
        return Vec::new();
    }
    let (verb, place) = match obstacle(one) {
        _ if is_empty(one) => ("discard", String::new()),
        // Spawned where no branch was checked out.
        Some(code) if code == Code::NoTarget.name() && options.into.is_none() => {
            ("merge", " --into <branch>".to_owned())
        }
        // A train names the command that fails.
        _ if is_undecided(one) => ("train --no-land --explain", branch("--into", options)),
        // Landing it alone says what to do about that.
        Some(_) => ("merge", place(options)),
        // So it does of what was judged against the branch of a remote.
        None if options.push.is_some() => ("merge", place(options)),
        None => ("verify", branch("--base", options)),
    };
    // What failed is passed over until it is called done.
    let is_failed = one.outcome == Fate::Left(State::Failed);
    let id = &one.agent.short_id;
    let mut commands = vec![format!("git agent {verb} {id}{place}")];
    commands.extend(is_failed.then(|| format!("git agent mark done {id}")));
    commands
}

/// What a command takes to land where this round lands.
fn place(options: &TrainOptions) -> String {
    let push = options.push.iter().map(|remote| match remote.as_str() {
        "" => " --push".to_owned(),
        remote => format!(" --push={}", shell::word(remote.as_bytes())),
    });
    std::iter::once(branch("--into", options)).chain(push).collect()
}

/// The option by which a command takes that branch of this clone: `--into` to land there, `--base` to judge against it.
fn branch(option: &str, options: &TrainOptions) -> String {
    let named = options.into.iter();
    named.map(|name| format!(" {option} {}", shell::word(name.as_bytes()))).collect()
}

impl CloseReport {
    /// `None` when there is nothing to wait for and nothing to decide.
    pub(super) fn of(
        ctx: &Ctx,
        options: &TrainOptions,
        decisions: &[TrainDecision],
        moved: &BTreeSet<String>,
    ) -> Option<CloseReport> {
        let with = |is: fn(&TrainDecision) -> bool| -> Vec<AgentRef> {
            let those = decisions.iter().filter(|one| is(one));
            those.map(|one| one.agent.clone()).collect()
        };
        let mut close = CloseReport {
            unfinished: with(|one| {
                let is_unfinished =
                    matches!(one.outcome, Fate::Left(state) if state.is_unfinished());
                is_unfinished && !is_turned_back(one)
            }),
            rejected: not_tried_again(ctx, with(|one| one.outcome == Fate::Left(State::Rejected))),
            deferred: with(|one| one.outcome == Fate::Deferred),
            not_landed: with(has_not_landed),
            question: None,
            ways: Vec::new(),
        };
        let left = close.rejected.len() + close.deferred.len() + close.not_landed.len();
        if left > 0 {
            let noun = if left == 1 { "agent has" } else { "agents have" };
            close.question = Some(format!("{left} {noun} not landed. What next?"));
            let push = (!moved.is_empty()).then(|| push(ctx, moved));
            let mend = decisions.iter().flat_map(|one| to_mend(one, options)).collect();
            let mut not_landed = decisions.iter().filter(|one| has_not_landed(one));
            let is_in_the_way =
                |one| obstacle(one).is_some() && !is_empty(one) || is_undecided(one);
            let how = if not_landed.clone().any(is_in_the_way) {
                "mend what is in the way of each, then land it"
            } else if not_landed.all(is_empty) {
                "discard what changed nothing"
            } else {
                "mend what the verdicts reject, then land it"
            };
            let place = place(options);
            close.ways = close.answers(ctx.repo.common_dir(), &place, push, (mend, how));
        }
        (left > 0 || !close.unfinished.is_empty()).then_some(close)
    }

    /// Each way is there where something goes it.
    fn answers(
        &self,
        common_dir: &Path,
        place: &str,
        push: Option<Vec<String>>,
        (mend, how): (Vec<String>, &'static str),
    ) -> Vec<AnswerWay> {
        let mut retry: Vec<_> =
            self.rejected.iter().map(|agent| spawn_again(common_dir, &agent.short_id)).collect();
        retry.extend(mend);
        let retried = match (self.rejected.is_empty(), self.not_landed.is_empty()) {
            (false, true) => "begin the rejected ones anew, then land them",
            (true, _) => how,
            (false, false) => "begin the rejected ones anew and mend the others, then land them",
        };
        let is_retried = !retry.is_empty();
        retry.push(format!("git agent merge --all{place}"));
        let mut closing: Vec<_> = self
            .deferred
            .iter()
            .map(|agent| format!("git agent merge {}{place}", agent.short_id))
            .collect();
        let closed = if closing.is_empty() {
            "close now and come back; all of it stays"
        } else {
            "close now and come back; all of it stays, and deferred agents land by their names"
        };
        closing.push("git agent list".to_owned());
        let way = |way, what, commands| AnswerWay { way, what, commands };
        let ways = [
            push.map(|push| way("as-is", "push what has landed, for the pull request", push)),
            is_retried.then(|| way("retry", retried, retry)),
            Some(way("close", closed, closing)),
        ];
        ways.into_iter().flatten().collect()
    }
}

/// Those of whose task there is no later agent, as `retry` makes one. What cannot be read leaves all.
fn not_tried_again(ctx: &Ctx, mut rejected: Vec<AgentRef>) -> Vec<AgentRef> {
    let agents = ctx.ledger().agents().unwrap_or_default();
    let is_tried_again = |one: &AgentRef| {
        let earlier = agents.iter().find(|agent| agent.id.to_string() == one.agent_id);
        earlier.is_some_and(|earlier| {
            let is_later = |it: &&Agent| it.started > earlier.started && it.dna == earlier.dna;
            earlier.dna.is_some() && agents.iter().any(|it| is_later(&it))
        })
    };
    rejected.retain(|one| !is_tried_again(one));
    rejected
}

/// The commands that push the branches of this clone that moved. One that was never pushed follows none, so the remote is named.
fn push(ctx: &Ctx, moved: &BTreeSet<String>) -> Vec<String> {
    let remote = ctx.repo.remotes().unwrap_or_default().first().cloned();
    let add = remote.is_none().then(|| "git remote add origin <url>".to_owned());
    let remote = remote.unwrap_or_else(|| "origin".to_owned());
    let word = |text: &str| format!(" {}", shell::word(text.as_bytes()));
    let branches: String = moved.iter().map(|name| word(branch_name(name))).collect();
    add.into_iter().chain([format!("git push{}{branches}", word(&remote))]).collect()
}

/// A rejected agent stays rejected; its task is still there for another one. The file itself is not named: its agent may have
/// changed it, and `retry` notices that.
fn spawn_again(common_dir: &Path, short: &str) -> String {
    let task = layout::agents_dir(common_dir).join(short).join(briefing::TASK);
    // Only the clone that spawned it has the task to begin anew with.
    if task.is_file() {
        format!("git agent retry {short}")
    } else {
        format!("git agent show {short}")
    }
}

// `merge --all`: a train of every agent that is done, in the order they were spawned or in the one that lets most of
// them land; one verdict for every agent, and what remains to be decided.

/// One verdict per open agent: `git-agent.merge-all/3`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "schema", rename = "git-agent.merge-all/3")]
pub struct AllReport {
    /// What became of each, in the order they were taken.
    pub items: Vec<TrainDecision>,
    /// Who is still at work, and what is to be decided about those who did not land; absent when there is
    /// neither.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub close: Option<CloseReport>,
    /// What the caller should know of what came after.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// What became of one agent.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TrainDecision {
    /// The agent.
    #[serde(flatten)]
    pub agent: AgentRef,
    /// What became of it.
    pub outcome: Fate,
    /// What was judged, in this round or before: `accept` or `reject`.
    pub verdict: Option<&'static str>,
    /// The commit that brought its work.
    pub commit: Option<String>,
    /// The codes of what rejects it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<String>,
    /// The paths on which it conflicts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<PathText>,
    /// What kept it from landing, for one that was tried in this round.
    pub error: Option<ErrorReport>,
    /// Why it did not land, for people.
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

impl TrainDecision {
    fn new(agent: &Agent, outcome: Fate) -> TrainDecision {
        TrainDecision {
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
        // Asked once: while checks run, a question may come or be answered, and who is ready by then was not tried.
        let ready: Vec<&Agent> = agents.iter().filter(|agent| is_ready(ctx, agent)).collect();
        // One in which something is at work is named and left: it is not finished, whatever its row says.
        let (at_work, ready): (Vec<&Agent>, Vec<&Agent>) = ready
            .into_iter()
            .partition(|agent| !options.now && at_work::at_work(ctx, agent).is_some());
        let at_work: HashSet<AgentId> = at_work.into_iter().map(|agent| agent.id).collect();
        let mut riders = riders(ctx, ready.into_iter().cloned())?;
        judge_those(ctx, options, &mut riders, Rider::is_open)?;
        bring_into_order(ctx, options.order, &mut riders)?;
        // Decisions are told in the order in which they were made.
        if options.order == Order::Best {
            let place = |agent: &Agent| riders.iter().position(|rider| rider.is(agent));
            agents.sort_by_key(|agent| place(agent).unwrap_or(usize::MAX));
        }
        decide_all(ctx, options, &mut riders, &mut |_| {})?;
        // What concerns a branch is said of each that landed on it.
        let mut warnings = Vec::new();
        for text in riders.iter().flat_map(|rider| &rider.report.warnings) {
            if !warnings.contains(text) {
                warnings.push(text.clone());
            }
        }
        // What landed on a remote needs no push.
        let has_moved =
            |report: &&ItemReport| options.push.is_none() && report.outcome == TrainOutcome::Landed;
        let reports = riders.iter().map(|rider| &rider.report).filter(has_moved);
        let moved: BTreeSet<String> = reports.filter_map(|one| one.lands_on.clone()).collect();
        let mut items = Vec::new();
        for agent in &agents {
            if let Some(rider) = riders.iter().find(|rider| rider.is(agent)) {
                items.push(decision(agent, rider));
                continue;
            }
            if !options.dry_run {
                // Its run may be dead, and the row then says what is not so any more.
                crash_recovery::run_at_rest(ctx, agent.clone())?;
            }
            let state = if at_work.contains(&agent.id) {
                State::Running
            } else {
                status::state(ctx, agent)
            };
            items.push(left_alone(agent, state));
        }
        Ok(AllReport { close: CloseReport::of(ctx, options, &items, &moved), warnings, items })
    })
}

fn decision(agent: &Agent, rider: &Rider) -> TrainDecision {
    let report = &rider.report;
    let fate = match report.outcome {
        TrainOutcome::Landed => Fate::Landed(LandingState::Merged),
        TrainOutcome::AlreadyMerged => Fate::Landed(LandingState::AlreadyMerged),
        TrainOutcome::Planned => Fate::Landed(LandingState::Planned),
        _ if rider.lacks_bundle => Fate::RejectBundle,
        _ => Fate::NotMerged,
    };
    let error =
        report.error.as_ref().map(ErrorReport::from).filter(|_| !matches!(fate, Fate::Landed(_)));
    let findings = error.iter().flat_map(|error| &error.findings);
    let conflicts: Vec<PathText> = error.iter().flat_map(|error| error.conflicts.clone()).collect();
    let conflicts = if conflicts.is_empty() { report.conflicts.clone() } else { conflicts };
    // In a rehearsal nothing failed that would say it.
    let in_words = || {
        let quoted = |path: &PathText| Quoted(&path.to_bytes()).to_string();
        let paths: Vec<String> = conflicts.iter().map(quoted).collect();
        (!paths.is_empty()).then(|| format!("conflicts in {}", paths.join(", ")))
    };
    TrainDecision {
        verdict: rider.verdict,
        commit: report.commit.clone(),
        findings: findings.map(ToString::to_string).collect(),
        reason: report.reason.clone().or_else(in_words),
        conflicts,
        error,
        ..TrainDecision::new(agent, fate)
    }
}

fn left_alone(agent: &Agent, state: State) -> TrainDecision {
    let fate = if agent.deferred { Fate::Deferred } else { Fate::Left(state) };
    let findings = rejected_for(agent);
    let reason = Some(findings.unwrap_or_default().join(", ")).filter(|text| !text.is_empty());
    TrainDecision {
        verdict: findings.map(|_| "reject"),
        findings: findings.unwrap_or_default().to_vec(),
        reason: reason.or(agent.summary.clone().filter(|text| !text.is_empty())),
        ..TrainDecision::new(agent, fate)
    }
}

/// The codes for which a verdict rejected an agent, when that was the last that was said of it.
fn rejected_for(agent: &Agent) -> Option<&[String]> {
    let is_left = matches!(agent.state, State::Idle | State::Failed) && !agent.deferred;
    let verdict = agent.verdict.as_ref();
    let verdict = verdict.filter(|verdict| is_left && !verdict.accepted)?;
    Some(&verdict.findings)
}
