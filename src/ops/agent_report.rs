//! One agent, one event and one branch to land on, as every answer has them.

use crate::agents::Ctx;
use crate::agents::life::at_work::shown_state;
use crate::agents::who::lookup::clone_id;
use crate::domain::life::claim::Lease;
use crate::domain::life::event::Base;
use crate::domain::value::stamp::is_ahead;
use crate::domain::{
    Agent, AgentId, Ending, Event, HostSession, Isolation, Oid, Run, State, What, branch_name,
};
use crate::error::Result;
use crate::git::Repo;
use crate::store::files::leases::HeldLeases;
use crate::store::files::place::is_of_this_clone;
use crate::store::files::{layout, leases};
use crate::store::{RecordedPlaces, ledger};
use chrono::{DateTime, SecondsFormat, Utc};
use serde::Serialize;
use serde_with_macros::skip_serializing_none;
use std::path::{Path, PathBuf};

/// An agent in JSON. Absent means not applicable.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AgentReport {
    /// The id, a UUID.
    pub agent_id: String,
    /// The first eight hex digits of the id.
    pub short_id: String,
    /// The alias.
    pub name: Option<String>,
    /// Its state as a reader tells it: that of its row, unless something is seen to work in it.
    pub state: &'static str,
    /// `merged` or `discarded`, where the row says so and nothing in this clone proves it.
    pub claimed_state: Option<&'static str>,
    /// Whether a decision was put off.
    pub deferred: bool,
    /// The role's name.
    pub role: Option<String>,
    /// `worktree` or `shared`.
    pub isolation: Option<&'static str>,
    /// Whether its worktree is layered.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub layered: bool,
    /// The parent's id.
    pub parent_id: Option<String>,
    /// The first 60 characters of the task.
    pub description: Option<String>,
    /// The fingerprint of role, task and scope.
    pub dna: Option<String>,
    /// The branch, short name.
    pub branch: Option<String>,
    /// The worktree relative to the root when inside it, else absolute; absent when it is in another clone.
    pub worktree_path: Option<String>,
    /// The worktree, absolute; absent as the one before.
    pub worktree_abspath: Option<String>,
    /// The four hex digits of the clone that it was spawned in.
    pub clone_id: String,
    /// Whether that is this clone.
    pub local: bool,
    /// Where it started from.
    pub base: Option<BaseReport>,
    /// The first commit of the branch.
    pub spawn_commit: String,
    /// The time of the first event, RFC 3339.
    pub created_at: String,
    /// The time of the last event, RFC 3339.
    pub updated_at: String,
    /// The last summary or reason that was given.
    pub summary: Option<String>,
    /// The values of its own that it holds while it lives.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub leases: Vec<Lease>,
    /// Its last run.
    pub run: Option<LastRun>,
    /// What does not add up in its row.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub irregular: Vec<String>,
    /// Seconds since the first event, for people.
    #[serde(skip)]
    pub age_seconds: i64,
}

/// The last run of an agent in JSON.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LastRun {
    /// Its number among the runs of its agent.
    pub run: u32,
    /// `running`, `exited`, or `dead` for one whose end was not recorded.
    pub state: &'static str,
    /// Its command, shortened.
    pub command: String,
    /// When it began, RFC 3339.
    pub started_at: String,
    /// When it ended, RFC 3339.
    pub ended_at: Option<String>,
    /// Its status as a shell gives it.
    pub exit_code: Option<u8>,
    /// `exit`, `signal`, `timeout`, `stopped` or `lost`.
    pub ended: Option<&'static str>,
    /// What its host told of its session.
    #[serde(flatten)]
    pub session: SessionReport,
}

/// What a host told of the session of a run, in JSON. Absent where it told nothing.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SessionReport {
    /// By what the host continues the session.
    pub session_id: Option<String>,
    /// What the session cost, in US dollars.
    pub cost_usd: Option<f64>,
    /// How many tokens the models were given, those from a cache included.
    pub input_tokens: Option<u64>,
    /// How many tokens the models gave, those of reasoning included.
    pub output_tokens: Option<u64>,
}

// A cost is made of a whole number or read from JSON, so it is never a number that is none.
impl Eq for SessionReport {}

impl From<&HostSession> for SessionReport {
    fn from(session: &HostSession) -> SessionReport {
        SessionReport {
            session_id: session.id.clone(),
            cost_usd: session.cost_usd(),
            input_tokens: session.input_tokens,
            output_tokens: session.output_tokens,
        }
    }
}

/// An agent by its names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AgentRef {
    /// The id.
    pub agent_id: String,
    /// The first eight hex digits of the id.
    pub short_id: String,
    /// The alias.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl AgentRef {
    pub(crate) fn of(agent: &Agent) -> AgentRef {
        AgentRef {
            agent_id: agent.id.to_string(),
            short_id: agent.id.short(),
            name: agent.name.as_ref().map(ToString::to_string),
        }
    }
}

/// A base in JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BaseReport {
    /// The ref that was named; absent when it was an object name.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    pub refname: Option<String>,
    /// The commit.
    pub oid: String,
}

impl From<&Base> for BaseReport {
    fn from(base: &Base) -> BaseReport {
        BaseReport { refname: base.refname.clone(), oid: base.oid.to_hex() }
    }
}

/// Turns folded rows into reports, all with the same root and the same now.
pub(super) struct Reporter {
    places: RecordedPlaces,
    root: PathBuf,
    common_dir: PathBuf,
    clone: Option<u16>,
    leases: HeldLeases,
    now: DateTime<Utc>,
}

impl Reporter {
    pub(super) fn new(ctx: &Ctx) -> Result<Reporter> {
        Ok(Reporter {
            places: RecordedPlaces::new(&ctx.repo)?,
            clone: ctx.ledger().clone_number().ok().flatten(),
            leases: leases::held(ctx.repo.common_dir())?,
            root: ctx.repo.root()?,
            common_dir: ctx.repo.common_dir().to_owned(),
            now: ctx.now(),
        })
    }

    /// What its row, locks and sessions say of an agent, for callers that look for work themselves, or want none looked for.
    pub(super) fn row(&self, agent: &Agent) -> AgentReport {
        let local = is_of_this_clone(&self.common_dir, self.clone, agent);
        // A path on another machine means nothing on this one.
        let worktree = self.places.of(agent).filter(|_| local);
        AgentReport {
            agent_id: agent.id.to_string(),
            short_id: agent.id.short(),
            name: agent.name.as_ref().map(ToString::to_string),
            state: shown_state(&self.common_dir, agent).as_str(),
            claimed_state: agent.claimed.map(State::as_str),
            deferred: agent.deferred,
            role: agent.role.clone(),
            isolation: if layout::clone_record(&self.common_dir, agent.id).exists() {
                Some("clone")
            } else {
                agent.isolation.map(Isolation::as_str)
            },
            layered: layout::layer_dir(&self.common_dir, agent.id).is_dir(),
            parent_id: agent.parent.map(|parent| parent.to_string()),
            description: agent.description.clone(),
            dna: agent.dna.clone(),
            branch: agent.branch.as_deref().map(short_branch),
            worktree_path: worktree.as_deref().map(|path| self.inside(path)),
            worktree_abspath: worktree.as_deref().map(text),
            clone_id: clone_id(agent),
            local,
            base: agent.base.as_ref().map(BaseReport::from),
            spawn_commit: agent.spawn_commit.to_hex(),
            created_at: rfc3339(agent.started),
            updated_at: rfc3339(agent.updated),
            summary: agent.summary.clone(),
            leases: self.leases(agent),
            run: agent.run.as_ref().map(LastRun::new),
            irregular: self.irregular(agent),
            age_seconds: (self.now - agent.started).num_seconds().max(0),
        }
    }

    /// As [`Reporter::row`], with the place where its worktree was found, which may have been moved.
    pub(super) fn agent_at(&self, agent: &Agent, place: Option<&Path>) -> AgentReport {
        let mut report = self.row(agent);
        if let Some(place) = place {
            report.worktree_path = Some(self.inside(place));
            report.worktree_abspath = Some(text(place));
        }
        report
    }

    fn leases(&self, agent: &Agent) -> Vec<Lease> {
        let held = self.leases.get(&agent.id.short());
        held.cloned().unwrap_or_default()
    }

    /// What is impossible about the history, and what the clock says about its end.
    fn irregular(&self, agent: &Agent) -> Vec<String> {
        let mut sentences = agent.irregular.clone();
        if is_ahead(agent.updated, self.now) {
            let date = agent.updated.format("%Y-%m-%d");
            sentences.push(format!("its last event is dated {date}, ahead of the clock"));
        }
        sentences
    }

    /// A path as people read it: relative to the root when it is inside.
    pub(super) fn inside(&self, path: &Path) -> String {
        text(path.strip_prefix(&self.root).unwrap_or(path))
    }
}

impl LastRun {
    fn new(run: &Run) -> LastRun {
        let end = run.end.as_ref();
        LastRun {
            run: run.number(),
            state: match end {
                Some(_) => "exited",
                None if run.is_lost => "dead",
                None => "running",
            },
            command: run.started.command.clone(),
            started_at: rfc3339(run.began),
            ended_at: end.map(|(_, time)| rfc3339(*time)),
            exit_code: end.map(|(facts, _)| facts.code),
            ended: end.and_then(|(facts, _)| facts.ended).map(Ending::as_str),
            session: end.map(|(facts, _)| SessionReport::from(&facts.session)).unwrap_or_default(),
        }
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

pub(super) fn short_branch(full: &str) -> String {
    branch_name(full).to_owned()
}

pub(super) fn rfc3339(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Micros, true)
}

// One event as `show` and `log` answer it.

/// One event in JSON.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EventReport {
    /// The time, RFC 3339.
    pub recorded_at: String,
    /// What happened.
    pub event: String,
    /// Who says so.
    pub by: String,
    /// What the events of one command have in common; absent in rows of old.
    pub operation: Option<String>,
    /// What else is known, in words.
    pub detail: Option<String>,
    /// The blob of what was said, where a line of the ledger cannot hold it.
    pub text_blob: Option<String>,
    /// Whether it came after the last look of a person at the agent: after the last `show` on a terminal of this clone.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unseen: bool,
    /// What tells it from all others of its row.
    #[serde(skip)]
    pub stamp: String,
}

pub(super) fn event_report(repo: &Repo, event: &Event) -> EventReport {
    let blob = event.what.said().and_then(|(_, blob)| blob);
    EventReport {
        recorded_at: rfc3339(event.at.time()),
        event: event.what.kind().to_owned(),
        by: event.by.clone(),
        operation: event.operation.as_ref().map(ToString::to_string),
        detail: ledger::whole(repo, &event.what).or_else(|| detail(&event.what)),
        text_blob: blob.map(Oid::to_hex),
        unseen: false,
        stamp: event.at.to_string(),
    }
}

/// What an event says beyond its name, in words.
fn detail(what: &What) -> Option<String> {
    let text = match what {
        What::Spawning(facts) => match &facts.branch {
            Some(branch) => short_branch(branch),
            None => facts.isolation.as_str().to_owned(),
        },
        What::Spawned(facts) => format!("policy {}", facts.policy.short()),
        What::Started(facts) => facts.command.clone(),
        What::Exited(facts) => {
            let status = match facts.ended {
                Some(Ending::Exit) | None => format!("status {}", facts.code),
                Some(ended) => format!("status {} ({})", facts.code, ended.as_str()),
            };
            match facts.session.cost_usd() {
                Some(cost) => format!("{status}, cost {cost:.2} USD"),
                None => status,
            }
        }
        What::Committed { commit, .. } => commit.short(),
        What::Verified(verdict) if verdict.accepted => {
            format!("accepted {}", verdict.tip.short())
        }
        What::Verified(verdict) => {
            let partner = verdict.fails_with.map(AgentId::short);
            let partner = partner.map(|short| format!(", together with agent {short}"));
            format!(
                "rejected {}: {}{}",
                verdict.tip.short(),
                verdict.findings.join(", "),
                partner.unwrap_or_default()
            )
        }
        What::Merged { commit, into, .. } => {
            format!("{} into {}", commit.short(), short_branch(into))
        }
        What::Done { summary: text, .. }
        | What::Failed { reason: text, .. }
        | What::Rejected { reason: text, .. }
        | What::Deferred { reason: text, .. }
        | What::Unjudged { reason: text }
        | What::Noted { text } => text.clone(),
        What::Renamed { task: Some(text), .. } => format!("is for: {text}"),
        What::Renamed { name: Some(name), .. } => format!("is called {name}"),
        What::Undone { operation, revert: Some(commit) } => {
            format!("{operation} by {}", commit.short())
        }
        What::Undone { operation, .. } => operation.to_string(),
        What::Reopened {} => "it has work since it landed".to_owned(),
        What::Renamed { name: None, .. } => "another agent has its name".to_owned(),
        What::Amended { policy, reason, .. } => match reason.as_str() {
            "" => format!("policy {}", policy.short()),
            reason => format!("policy {}: {reason}", policy.short()),
        },
        What::Competed(facts) => {
            let (place, of, best) = (facts.place, facts.of, &facts.best);
            format!("place {place} of {of} on one task, the best is {best}")
        }
        What::Audited(facts) => {
            let who = facts
                .auditor
                .map_or_else(|| "a person".to_owned(), |id| format!("agent {}", id.short()));
            let verdict = if facts.auditor.is_some() {
                facts.verdict.as_str()
            } else {
                "accepted all the same"
            };
            let reason = if facts.reason.is_empty() { "" } else { ": " };
            format!("{who}: {verdict}, at {}{reason}{}", facts.tip.short(), facts.reason)
        }
        What::Discarded { tip } => tip.map(|tip| format!("was at {}", tip.short()))?,
        What::Salvaged { commit } => commit.short(),
        What::Rescued { to } => to.clone(),
        What::Expired { commits } => {
            let short: Vec<_> = commits.iter().map(|oid| oid.short()).collect();
            short.join(", ")
        }
        What::Unknown { needs, .. } => {
            needs.map(|needs| format!("git-agent {needs} or newer understands it"))?
        }
    };
    Some(text).filter(|text| !text.is_empty())
}

// A branch to land on, as every answer has it.

/// A branch to land on, in JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TargetReport {
    /// The branch, full name; absent where it is a mere commit.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    pub refname: Option<String>,
    /// The commit it is at; absent where that was not asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oid: Option<String>,
}

impl TargetReport {
    /// A branch, and where it is.
    pub fn new(refname: Option<&str>, oid: Option<Oid>) -> TargetReport {
        TargetReport { refname: refname.map(str::to_owned), oid: oid.map(Oid::to_hex) }
    }

    /// The branch's short name; empty where it has none.
    pub fn short(&self) -> &str {
        branch_name(self.refname.as_deref().unwrap_or_default())
    }
}
