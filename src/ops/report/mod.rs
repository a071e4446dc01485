//! `report`: everything that happened to all agents, gathered for one page.
//!
//! ```text
//! rows of the ledger + where work stands + commits that landed -> FleetReport -> JSON | page
//! ```
//!
//! Time ends with the moment in which the report is made; all else in it is what the repository says.

pub mod watch;

use super::agent_report::{AgentReport, Reporter, SessionReport, rfc3339};
use super::overlap::{OverlapOptions, OverlapReport, overlap};
use super::show::{DiffCountsReport, diff_counts};
use super::status::{Fact, OverlapSet, Places, WorkStatus, conflicts, merge_key, survey};
use super::tree::tree;
use super::usage::{self, UsageReport};
use crate::agents::context::real_path::real_path;
use crate::agents::work::is_live;
use crate::agents::{Ctx, life::liveness, who::lookup};
use crate::domain::judge::finding::verdict_word;
use crate::domain::life::event::Exited;
use crate::domain::{Agent, Ending, Event, FindingCode, Oid, State, What};
use crate::error::{Code, Error, Result};
use crate::git::Repo;
use crate::ops::agent_report::{self, EventReport, TargetReport};
use crate::store::Mailbox;
use crate::store::files::{fsx, layout};
use crate::store::mailbox::{Reader, Tally};
use chrono::{DateTime, Utc};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

/// The answer of `report`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "schema", rename = "git-agent.report/3")]
pub struct FleetReport {
    /// What the repository's directory is called.
    pub repository: String,
    /// When it was made, RFC 3339: how long an agent has waited counts from here, not from the last event.
    pub made_at: String,
    /// The time of the last event, RFC 3339; absent without agents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_event_at: Option<String>,
    /// How many agents are in each state that occurs, in the order of a life.
    pub states: Vec<StateCount>,
    /// Every agent, oldest first.
    pub agents: Vec<ReportedAgent>,
    /// Who asked for whom: depth-first, parents before children.
    pub tree: Vec<TreeEntry>,
    /// Which live agents get in each other's way, as `overlap` answers; absent unless there are two, null when it
    /// could not be found out.
    #[serde(skip_serializing_if = "Fact::is_absent")]
    pub overlap: Fact<OverlapReport>,
    /// Who won where several agents did one task; absent where none did.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tournaments: Vec<TournamentOutcome>,
    /// What agents take; absent below a gibibyte of the disk, unless a limit of disk or cost is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<UsageReport>,
}

/// How many agents are in a state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StateCount {
    /// The state.
    pub state: &'static str,
    /// How many.
    pub count: usize,
}

/// An agent's place in the tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TreeEntry {
    /// 0 for those that no agent asked for.
    pub depth: usize,
    /// The agent's id.
    pub agent_id: String,
    /// The first eight hex digits of the id.
    pub short_id: String,
}

/// One agent's life.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReportedAgent {
    /// What the ledger says.
    #[serde(flatten)]
    pub agent: AgentReport,
    /// Where its work stands.
    #[serde(flatten)]
    pub standing: WorkStatus,
    /// How much a live agent changed, committed or not; absent where there is nothing to compare.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<DiffCountsReport>,
    /// The states it was in, one after the other.
    pub spans: Vec<Span>,
    /// Every verdict on its work, oldest first.
    pub verdicts: Vec<VerdictReport>,
    /// The commit that its work landed as.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub landed: Option<LandedCommit>,
    /// Runs of its command, oldest first.
    pub runs: Vec<RunSummary>,
    /// Its messages.
    pub mail: Tally,
    /// What happened, oldest first.
    pub events: Vec<EventReport>,
}

/// A tournament, as far as its agents are known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TournamentOutcome {
    /// The first eight hex digits of the winner's id; absent where no work could land.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub winner: Option<String>,
    /// Every agent that took part, best first.
    pub agents: Vec<Competitor>,
}

/// An agent that took part in a tournament.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Competitor {
    /// The first eight hex digits of its id.
    pub short_id: String,
    /// Its place, from 1.
    pub place: u32,
    /// Whether its work could land.
    pub accepted: bool,
    /// The agent host that did it; absent for a command of the caller's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

/// Gathers everything.
///
/// # Errors
/// Those of the ledger and of listing worktrees.
pub fn report(ctx: &Ctx) -> Result<FleetReport> {
    let mut agents = lookup::agents(ctx)?;
    agents.sort_unstable_by_key(|agent| (agent.started, agent.id));
    let is_lost = |agent: &Agent| agent.run.as_ref().is_some_and(|run| run.is_lost);
    let end = |agent| liveness::unrecorded_end(ctx.repo.common_dir(), agent);
    let lost: Vec<Option<Lost>> =
        agents.iter().map(|agent| is_lost(agent).then(|| end(agent)).flatten()).collect();
    let times = lost.iter().flatten().map(|(_, time)| *time);
    let until = agents.iter().map(|agent| agent.updated).chain(times).max();
    // A clock that went back ends no span before it begins.
    let made_at = until.map_or(ctx.now(), |until| until.max(ctx.now()));
    let rows =
        ctx.ledger().select(|spawn_commit, events| Some((spawn_commit, events.to_owned())))?;
    let gather = Gather {
        ctx,
        rows: rows.into_iter().collect(),
        reporter: Reporter::new(ctx)?,
        until: made_at,
    };
    let mail = mail(ctx, &agents)?;
    let places = Places::load(&ctx.repo)?;
    let wanted: Vec<&Agent> = agents.iter().collect();
    let mut looked_at = lost.iter().zip(mail);
    let mut reported = Vec::with_capacity(agents.len());
    survey(ctx, &wanted, &places, |agent, standing| {
        let besides = looked_at.next();
        reported.extend(besides.map(|besides| gather.agent(agent, besides, standing)));
        Ok(())
    })?;
    OverlapSet::fill(&mut reported, |agent| &mut agent.standing);
    let tree = tree(ctx, None)?.agents.into_iter().map(|node| TreeEntry {
        depth: node.depth,
        agent_id: node.agent.agent_id,
        short_id: node.agent.short_id,
    });
    let root = ctx.repo.root()?;
    Ok(FleetReport {
        repository: root
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default(),
        made_at: rfc3339(made_at),
        last_event_at: until.map(rfc3339),
        states: states(&reported),
        agents: reported,
        tree: tree.collect(),
        overlap: overlaps(ctx, &agents),
        tournaments: gather.tournaments(&agents),
        // Where the limits cannot be read, `doctor` says so.
        usage: usage::notable(ctx).unwrap_or_default(),
    })
}

struct Gather<'a> {
    ctx: &'a Ctx,
    /// The events of every row.
    rows: HashMap<Oid, Vec<Event>>,
    reporter: Reporter,
    until: DateTime<Utc>,
}

/// How a run ended whose supervisor was killed, and when.
type Lost = (Exited, DateTime<Utc>);

impl Gather<'_> {
    fn events(&self, agent: &Agent) -> &[Event] {
        self.rows.get(&agent.spawn_commit).map_or(&[], Vec::as_slice)
    }

    /// The tournaments that agents took part in, each with the places that their rows say.
    fn tournaments(&self, agents: &[Agent]) -> Vec<TournamentOutcome> {
        let mut places: BTreeMap<&str, Vec<Competitor>> = BTreeMap::new();
        for agent in agents {
            for event in self.events(agent) {
                if let What::Competed(facts) = &event.what {
                    places.entry(&facts.best).or_default().push(Competitor {
                        short_id: agent.id.short(),
                        place: facts.place,
                        accepted: facts.accepted,
                        host: facts.host.clone(),
                    });
                }
            }
        }
        let outcome = |mut agents: Vec<Competitor>| {
            agents.sort_by_key(|one| one.place);
            let winner = agents.first().filter(|one| one.place == 1 && one.accepted);
            TournamentOutcome { winner: winner.map(|one| one.short_id.clone()), agents }
        };
        places.into_values().map(outcome).collect()
    }

    /// One agent, with the end of its last run where the ledger has none, and its messages.
    fn agent(
        &self,
        agent: &Agent,
        (lost, mail): (&Option<Lost>, Tally),
        mut standing: WorkStatus,
    ) -> ReportedAgent {
        let (events, lost) = (self.events(agent), lost.as_ref());
        let report = self.reporter.row(agent);
        standing.conflicts = merge_key(agent, &standing).is_some()
            && conflicts(self.ctx, agent, &standing).unwrap_or(false);
        // Like overlaps, what could not be counted keeps nothing else back.
        let diff = Some(agent)
            .filter(|agent| is_live(agent))
            .and_then(|agent| diff_counts(self.ctx, agent, &standing).ok().flatten());
        ReportedAgent {
            diff,
            agent: AgentReport { state: standing.state_of(report.state), ..report },
            standing,
            spans: spans(agent, events, lost, self.until),
            verdicts: verdicts(events),
            landed: landed(&self.ctx.repo, agent, events),
            runs: runs(events, lost),
            mail,
            events: { events.iter() }
                .map(|event| agent_report::event_report(&self.ctx.repo, event))
                .collect(),
        }
    }
}

fn mail(ctx: &Ctx, agents: &[Agent]) -> Result<Vec<Tally>> {
    let readers: Vec<Reader> = agents.iter().map(Reader::agent).collect::<Result<_>>()?;
    Mailbox::new(&ctx.repo).tally(&readers)
}

/// What is not known about overlaps does not keep the rest of a report back.
fn overlaps(ctx: &Ctx, agents: &[Agent]) -> Fact<OverlapReport> {
    if agents.iter().filter(|agent| is_live(agent)).count() < 2 {
        return Fact::NotApplicable;
    }
    let everything =
        OverlapOptions { scopes: true, changes: true, merge: true, ..OverlapOptions::default() };
    overlap(ctx, &everything).map_or(Fact::Unknown, Fact::Known)
}

fn states(agents: &[ReportedAgent]) -> Vec<StateCount> {
    let count = |state: &State| StateCount {
        state: state.as_str(),
        count: { agents.iter() }.filter(|agent| agent.agent.state == state.as_str()).count(),
    };
    let counts = State::ALL.iter().map(count);
    counts.filter(|count| count.count > 0).collect()
}

// Where the page goes.

/// The answer of `report --html`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "schema", rename = "git-agent.report-saved/1")]
pub struct SavedReport {
    /// The file that was written, absolute.
    pub path: String,
    /// How many agents it tells of.
    pub agents: usize,
}

/// The page that is kept current in a directory, which is made.
///
/// # Errors
/// `disk-full`, `io`.
pub fn page_in(ctx: &Ctx, directory: &Path) -> Result<PathBuf> {
    let directory = ctx.absolute(directory);
    fsx::create_dir(&directory)?;
    Ok(directory.join("index.html"))
}

/// The page for which the user named no file.
///
/// # Errors
/// As [`page_in`].
pub fn default_page(ctx: &Ctx) -> Result<PathBuf> {
    let common_dir = ctx.repo.common_dir();
    fsx::create_dir(&layout::cache_dir(common_dir))?;
    Ok(layout::report_page(common_dir))
}

/// Writes a page. A file that is there is replaced only when it begins as our pages do, with `mark` in its
/// first lines.
///
/// # Errors
/// `path-exists` when something else is there; `disk-full`, `io`.
pub fn save(
    ctx: &Ctx,
    report: &FleetReport,
    file: &Path,
    page: &str,
    mark: &str,
) -> Result<SavedReport> {
    let path = ctx.absolute(file);
    let there = fsx::load_if_there(&path)?;
    if there.is_some_and(|there| !begins_with_mark(&there, mark)) {
        let what = format!("{} is there already and is no report", path.display());
        return Err(
            Error::new(Code::PathExists, what).hint("to write to another file, pass --html <file>")
        );
    }
    fsx::write_atomic(&path, page.as_bytes())?;
    let path = real_path(&path).unwrap_or(path);
    Ok(SavedReport { path: path.to_string_lossy().into_owned(), agents: report.agents.len() })
}

/// Looked for in the first bytes only, so that a file that quotes a report is none.
fn begins_with_mark(content: &[u8], mark: &str) -> bool {
    let head = content.get(..1024).unwrap_or(content);
    String::from_utf8_lossy(head).contains(mark)
}

// One agent's life, told from its events.

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
pub struct RunSummary {
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
fn spans(
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
        && changes.last().is_some_and(|(state, _)| *state != agent.state)
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

fn verdicts(events: &[Event]) -> Vec<VerdictReport> {
    let verdict = |event: &Event| match &event.what {
        What::Verified(verdict) => Some(VerdictReport {
            recorded_at: rfc3339(event.at.time()),
            verdict: verdict_word(verdict.accepted),
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
        meaning: known.find(|known| known.name() == code).map(|known| known.meaning()),
    }
}

fn landed(repo: &Repo, agent: &Agent, events: &[Event]) -> Option<LandedCommit> {
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
fn runs(events: &[Event], lost: Option<&(Exited, DateTime<Utc>)>) -> Vec<RunSummary> {
    let mut runs: Vec<RunSummary> = Vec::new();
    let mut begun: Option<DateTime<Utc>> = None;
    for event in events {
        let time = event.at.time();
        match (&event.what, runs.last_mut()) {
            (What::Started(facts), _) => {
                begun = Some(time);
                runs.push(RunSummary {
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

fn end(run: &mut RunSummary, begun: Option<DateTime<Utc>>, facts: &Exited, time: DateTime<Utc>) {
    run.ended_at = Some(rfc3339(time));
    run.ended = facts.ended.map(Ending::as_str);
    run.exit_code = Some(facts.code);
    run.session = SessionReport::from(&facts.session);
    run.duration_ms = begun.map(|begun| (time - begun).num_milliseconds());
}
