//! One agent's life, told from its events.

use crate::domain::agent::{Agent, State};
use crate::domain::event::{Event, Exited, What};
use crate::domain::finding::FindingCode;
use crate::domain::run::Ending;
use crate::git::Repo;
use crate::ops::agent_report::{SessionReport, rfc3339};
use crate::ops::target_report::TargetReport;
use chrono::{DateTime, Utc};
use serde::Serialize;

/// A stretch of time in one state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Span {
    /// The state.
    pub state: &'static str,
    /// When it was entered, RFC 3339.
    pub entered_at: String,
    /// When it was left; for the last one the end of the report, or for an end its beginning.
    pub left_at: String,
    /// The same as a time.
    #[serde(skip)]
    pub begin: DateTime<Utc>,
    /// The same as a time.
    #[serde(skip)]
    pub end: DateTime<Utc>,
}

/// A verdict as the ledger holds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VerdictReport {
    /// When it was recorded, RFC 3339.
    pub recorded_at: String,
    /// `accept` or `reject`.
    pub verdict: &'static str,
    /// The commit that was judged.
    pub tip: String,
    /// What it would have landed on.
    pub target: TargetReport,
    /// What was found.
    pub findings: Vec<FoundCode>,
}

/// A finding as far as the ledger remembers it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FoundCode {
    /// The stable code.
    pub code: String,
    /// What it means; absent for a code that this version does not know.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meaning: Option<&'static str>,
}

/// A commit that brought an agent's work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LandedCommit {
    /// The commit.
    pub commit: String,
    /// The branch it landed on.
    pub target: TargetReport,
    /// When, RFC 3339.
    pub landed_at: String,
    /// The first line of its message; null when the commit is not here.
    pub subject: Option<String>,
}

/// A run of an agent's command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Run {
    /// The command line, shortened.
    pub command: String,
    /// When it began, RFC 3339.
    pub started_at: String,
    /// When it ended; null while it runs, or when its end was not recorded.
    pub ended_at: Option<String>,
    /// What ended it: `exit`, `signal`, `timeout`, `stopped` or `lost`; null in rows of old.
    pub ended: Option<&'static str>,
    /// Its status as a shell gives it.
    pub exit_code: Option<u8>,
    /// How long it took, in milliseconds.
    pub duration_ms: Option<i64>,
    /// What its host told of its session.
    #[serde(flatten)]
    pub session: SessionReport,
}

/// The states that an agent was in; `lost` is the end of its last run, where the ledger has none because the
/// supervisor was killed. The last state of an open agent goes on until `until`.
pub(super) fn spans(
    agent: &Agent,
    events: &[Event],
    lost: Option<&(Exited, DateTime<Utc>)>,
    until: DateTime<Utc>,
) -> Vec<Span> {
    let mut changes: Vec<(State, DateTime<Utc>)> = Vec::new();
    Agent::fold_telling(agent.spawn_commit, events, |event, state| {
        if changes.last().is_none_or(|(last, _)| *last != state) {
            changes.push((state, event.at.time()));
        }
    });
    if let Some((_, time)) = lost
        && changes
            .last()
            .is_some_and(|(state, _)| *state != agent.state)
    {
        let last = events.last().map_or(*time, |event| event.at.time());
        changes.push((agent.state, last.max(*time)));
    }
    let ends = changes.iter().skip(1).map(|(_, begin)| *begin);
    let last = changes.last().map(|(state, begin)| match state {
        State::Merged | State::Rejected | State::Discarded => *begin,
        _ => until.max(*begin),
    });
    let ends: Vec<_> = ends.chain(last).collect();
    changes
        .into_iter()
        .zip(ends)
        .map(|((state, begin), end)| Span {
            state: state.as_str(),
            entered_at: rfc3339(begin),
            left_at: rfc3339(end),
            begin,
            end,
        })
        .collect()
}

pub(super) fn verdicts(events: &[Event]) -> Vec<VerdictReport> {
    let verdict = |event: &Event| match &event.what {
        What::Verified(verdict) => Some(VerdictReport {
            recorded_at: rfc3339(event.at.time()),
            verdict: if verdict.accepted { "accept" } else { "reject" },
            tip: verdict.tip.to_hex(),
            target: TargetReport::new(None, Some(verdict.base)),
            findings: verdict.findings.iter().map(|code| found(code)).collect(),
        }),
        _ => None,
    };
    events.iter().filter_map(verdict).collect()
}

fn found(code: &str) -> FoundCode {
    let mut known = FindingCode::ALL.iter();
    FoundCode {
        code: code.to_owned(),
        meaning: known
            .find(|known| known.name() == code)
            .map(|known| known.meaning()),
    }
}

pub(super) fn landed(repo: &Repo, agent: &Agent, events: &[Event]) -> Option<LandedCommit> {
    let (commit, into) = agent.landed.as_ref()?;
    let merge = |event: &&Event| matches!(event.what, What::Merged { .. });
    let time = events.iter().rev().find(merge)?.at.time();
    let message = repo.read_commit(*commit).ok().map(|commit| commit.message);
    Some(LandedCommit {
        commit: commit.to_hex(),
        target: TargetReport::new(Some(into), None),
        landed_at: rfc3339(time),
        subject: message.map(|text| text.lines().next().unwrap_or_default().to_owned()),
    })
}

/// The runs of an agent; `lost` is as in [`spans`].
pub(super) fn runs(events: &[Event], lost: Option<&(Exited, DateTime<Utc>)>) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let mut begun: Option<DateTime<Utc>> = None;
    for event in events {
        let time = event.at.time();
        match (&event.what, runs.last_mut()) {
            (What::Started(facts), _) => {
                begun = Some(time);
                runs.push(Run {
                    command: facts.command.clone(),
                    started_at: rfc3339(time),
                    ended_at: None,
                    ended: None,
                    exit_code: None,
                    duration_ms: None,
                    session: SessionReport::default(),
                });
            }
            (What::Exited(facts), Some(run)) if run.ended_at.is_none() => {
                end(run, begun, facts, time);
            }
            _ => {}
        }
    }
    if let (Some((facts, time)), Some(run)) = (lost, runs.last_mut()) {
        end(run, begun, facts, *time);
    }
    runs
}

fn end(run: &mut Run, begun: Option<DateTime<Utc>>, facts: &Exited, time: DateTime<Utc>) {
    run.ended_at = Some(rfc3339(time));
    run.ended = facts.ended.map(Ending::as_str);
    run.exit_code = Some(facts.code);
    run.session = SessionReport::from(&facts.session);
    run.duration_ms = begun.map(|begun| (time - begun).num_milliseconds());
}
