//! `show`, `log` and `path`: one agent.

use crate::agents::place::{task_copy, worktree};
use crate::agents::who::assignment::{Assignment, PromptWish};
use crate::agents::work::{base_of, tip_of};
use crate::agents::{Ctx, Scratch, Work, life::liveness, own_changes, stock::layered, who::lookup};
use crate::domain::boundary::scope::control_files;
use crate::domain::work::role::DEFAULT_DENYLIST;
use crate::domain::{Agent, AgentId, Event, Glob, Isolation, Oid, State, What};
use crate::error::{Code, Error, IoContext, Result};
use crate::git::worktree::populate;
use crate::hosts;
use crate::hosts::output::{Pieces, Shown};
use crate::ops::agent_report::{self, AgentReport, EventReport, Reporter, rfc3339};
use crate::ops::status::{self, WorkStatus};
use crate::store::files::{briefing, fsx, layout};
use crate::store::{Ledger, landing::spawn_commit, ledger};
use crate::wire::output::otlp;
use crate::wire::row::policy::Policy;
use serde::Serialize;
use serde_json::Value;
use serde_with_macros::skip_serializing_none;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// How many lines of the last run are shown, and how much of its log is read for them.
const LAST_LINES: usize = 5;
const LAST_BYTES: u64 = 16 << 10;

/// The answer of `show`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "schema", rename = "git-agent.show/3")]
pub struct ShowReport {
    /// The agent.
    #[serde(flatten)]
    pub agent: AgentReport,
    /// The task as it was given, all of it; absent where its text is not in this clone.
    pub task: Option<String>,
    /// How much it changed, committed or not; absent where there is nothing to compare.
    pub diff: Option<DiffCountsReport>,
    /// The last lines that its last run wrote, for people; machines read the log that `logs` names.
    #[serde(skip)]
    pub last_output: Vec<String>,
    /// Where its work stands.
    #[serde(flatten)]
    pub standing: WorkStatus,
    /// What its runs cost.
    #[serde(flatten)]
    pub costs: CostReport,
    /// The directories that its worktree holds besides the files at the top; absent for one that is whole.
    pub sparse: Option<BTreeSet<String>>,
    /// The globs it may touch; absent while it is being made, null where what binds it is not in this clone.
    pub whitelist: Option<Option<Vec<String>>>,
    /// The globs it must not touch; absent and null as the whitelist.
    pub denylist: Option<Option<Vec<String>>>,
    /// The globs of the whitelist that win over the denylist, as they name control files.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub opened: Vec<String>,
    /// Commands that `verify` runs; absent and null as the whitelist.
    pub checks: Option<Option<Vec<String>>>,
    /// The blob of the policy that its owner gave it since it was spawned; absent where that was never amended.
    pub amended_policy: Option<String>,
    /// What happened, oldest first.
    pub events: Vec<EventReport>,
}

/// What all runs of an agent cost, in US dollars, as far as hosts told; absent where none did.
#[skip_serializing_none]
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct CostReport {
    /// Its own.
    pub cost_usd: Option<f64>,
    /// Those of all agents that it asked for, directly or not.
    pub children_cost_usd: Option<f64>,
}

// Made of whole numbers, as that of a session.
impl Eq for CostReport {}

/// How much an agent changed, in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct DiffCountsReport {
    /// Files that differ from the base.
    pub files: usize,
    /// Lines that are new.
    pub insertions: usize,
    /// Lines that are gone.
    pub deletions: usize,
}

/// The answer of `log`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "schema", rename = "git-agent.log/2")]
pub struct LogReport {
    /// The agent's id.
    pub agent_id: String,
    /// The first eight hex digits of the id.
    pub short_id: String,
    /// What happened, oldest first.
    pub events: Vec<EventReport>,
}

/// The call that a host's agent tool takes, ready to paste.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Invocation {
    /// The agent type: the role's where the host has it, else the host's general one.
    pub subagent_type: String,
    /// What the host shows.
    pub description: String,
    /// The whole prompt, which names the worktree.
    pub prompt: String,
    /// `worktree` where the host asks us for worktrees. Without that it would make a second one, and keep its agent out of
    /// ours, so the call asks for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub isolation: Option<&'static str>,
}

/// The answer of `path`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "schema", rename = "git-agent.path/1")]
pub struct PathReport {
    /// The agent's id.
    pub agent_id: String,
    /// The first eight hex digits of the id.
    pub short_id: String,
    /// The worktree relative to the root when inside it, else absolute.
    pub worktree_path: String,
    /// The worktree, absolute.
    pub worktree_abspath: String,
    /// Whether it is layered: no file is there but in a run, or a shell of `enter`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub layered: bool,
}

/// One agent with its scope and its events. `who` may also be a revision: the agent whose work that commit brought.
///
/// # Errors
/// `agent-unknown`, `agent-ambiguous`, and those of the ledger.
pub fn show(ctx: &Ctx, who: &str) -> Result<ShowReport> {
    let ledger = ctx.ledger();
    let agent = lookup::agent_or_landed(ctx, &ledger, who)?;
    // An agent of another clone may have come without its policy.
    let policy = spawn_commit::if_here(&ctx.repo, &agent)?;
    let told = |select: fn(&Policy) -> &Vec<String>| {
        agent.policy.map(|_| policy.as_ref().map(select).cloned())
    };
    let place = worktree::find(&ctx.repo, &agent);
    let mut report = Reporter::new(ctx)?.agent_at(&agent, place.as_deref());
    report.summary = summary(&ledger, &agent)?;
    let standing = status::of(ctx, &agent);
    report.state = standing.state_of(report.state);
    let task = task_copy::load(ctx, &agent).ok();
    let mut events = events(&ledger, &agent)?;
    // Without any look yet all is new, and a mark would say nothing.
    let seen = fsx::load_if_there(&seen_note(ctx, agent.id)).ok().flatten();
    if let Some(seen) = seen.as_ref().map(|seen| String::from_utf8_lossy(seen)) {
        let seen: BTreeSet<&str> = seen.lines().collect();
        events.iter_mut().for_each(|event| event.unseen = !seen.contains(event.stamp.as_str()));
    }
    Ok(ShowReport {
        task: task.and_then(|task| Some(task.text.given()?.value.trim().to_owned())),
        // Looking does not fail because of what cannot be compared.
        diff: diff_counts(ctx, &agent, &standing).ok().flatten(),
        last_output: last_output(ctx, &agent),
        standing,
        costs: costs(&ledger, &agent)?,
        agent: report,
        sparse: place
            .and_then(|_| populate::cone_directories(&worktree::admin_dir(&ctx.repo, agent.id))),
        whitelist: told(|policy| &policy.whitelist),
        denylist: told(|policy| &policy.denylist),
        opened: { policy.as_ref() }.map_or_else(Vec::new, Policy::opened_by),
        checks: told(|policy| &policy.checks),
        amended_policy: agent.amended.map(Oid::to_hex),
        events,
    })
}

/// What an agent's runs cost, and those of all that it asked for.
fn costs(ledger: &Ledger<'_>, agent: &Agent) -> Result<CostReport> {
    let usd = |micro_usd: u64| micro_usd as f64 / 1e6;
    let own = ledger.cost_of_agent(agent.spawn_commit)?;
    let mut others = ledger.agents()?;
    // Parents are what task files said, so a circle is possible: each agent counts once.
    others.retain(|one| one.id != agent.id);
    let (mut asking, mut below) = (vec![agent.id], None);
    while let Some(parent) = asking.pop() {
        let children = others.extract_if(.., |one| one.parent == Some(parent));
        for child in children.collect::<Vec<_>>() {
            if let Some(cost) = ledger.cost_of_agent(child.spawn_commit)? {
                below = Some(below.unwrap_or(0) + cost);
            }
            asking.push(child.id);
        }
    }
    Ok(CostReport { cost_usd: own.map(usd), children_cost_usd: below.map(usd) })
}

/// The file with the stamps of the events that a person has seen.
fn seen_note(ctx: &Ctx, id: AgentId) -> PathBuf {
    layout::agent_dir(ctx.repo.common_dir(), id).join("seen")
}

/// Notes that a person has seen what a report says. Stamps and not a time: what another clone did before that may come later.
pub fn note_look(ctx: &Ctx, report: &ShowReport) {
    let id = AgentId::parse(&report.agent.agent_id);
    let note = id.map(|id| seen_note(ctx, id));
    // Of an agent of another clone nothing is kept here; and that a look could not be noted is no reason to fail.
    if let Some(note) =
        note.filter(|note| !ctx.env.fenced && note.parent().is_some_and(Path::is_dir))
    {
        let stamps: Vec<&str> = report.events.iter().map(|event| event.stamp.as_str()).collect();
        let _ = fsx::write_private(&note, stamps.join("\n").as_bytes());
    }
}

/// How much differs from the base. What is not committed is made a tree in a directory of its own, because looking adds
/// nothing to the repository.
pub(super) fn diff_counts(
    ctx: &Ctx,
    agent: &Agent,
    standing: &WorkStatus,
) -> Result<Option<DiffCountsReport>> {
    let work = Work::look_up(ctx, agent.clone())?;
    let Some(tip) = work.tip else {
        return Ok(None);
    };
    // git writes the objects of what is not committed, and of uncommitted changes that an update brought along; a look leaves none behind.
    let is_clean = matches!(standing.uncommitted.known(), None | Some(0));
    let scratch = if is_clean && own_changes::below(&ctx.repo, agent)?.is_none() {
        None
    } else {
        Some(Scratch::make(ctx, "show")?)
    };
    let beside = scratch.as_ref().map(|it| ctx.with_scratch_objects(it.path())).transpose()?;
    let ctx = beside.as_ref().unwrap_or(ctx);
    let tree = if is_clean { ctx.repo.tree_of(tip)? } else { work.tree(ctx)? };
    let (_, before) = own_changes::compared_with(&ctx.repo, &work, tree)?;
    let counts = ctx.repo.diff_counts(before, tree)?;
    Ok(Some(DiffCountsReport {
        files: counts.files,
        insertions: counts.insertions,
        deletions: counts.deletions,
    }))
}

/// The last lines of the last run's standard output, or of its standard error where it wrote nothing else; none where the
/// run was not in this clone.
pub(super) fn last_output(ctx: &Ctx, agent: &Agent) -> Vec<String> {
    // What a person types at a terminal, and the prompt for it, says nothing about the work.
    let Some(run) = agent.run.as_ref().filter(|run| !run.started.by_hand) else {
        return Vec::new();
    };
    let host = hosts::of_command(&run.started.command);
    let log = |stream| liveness::log(ctx.repo.common_dir(), agent, run.number(), stream);
    // The answer is on standard output; where there is none, the other may tell why.
    let mut streams = ["out", "err"].into_iter().map(|stream| {
        // The first line of what is read may be the end of a longer one, which is as good as any.
        let text = fsx::end_of(&log(stream), LAST_BYTES).unwrap_or_default();
        let mut pieces = Pieces::default();
        let parts = text.lines().flat_map(|line| match host {
            Some(host) => host.shown(line),
            None => vec![Shown::Said(line.to_owned())],
        });
        let mut shown: Vec<_> = parts.flat_map(|part| pieces.push(part)).collect();
        shown.extend(pieces.rest());
        let shown = shown.into_iter().map(|shown| match shown {
            Shown::Said(words) | Shown::Piece(words) => words,
            Shown::Did(what) => format!("> {what}"),
        });
        let lines = shown.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>());
        let mut lines: Vec<String> = lines.filter(|line| !line.trim().is_empty()).collect();
        lines.split_off(lines.len().saturating_sub(LAST_LINES))
    });
    streams.find(|lines: &Vec<String>| !lines.is_empty()).unwrap_or_default()
}

/// One agent's events.
///
/// # Errors
/// As [`show`].
pub fn log(ctx: &Ctx, who: &str) -> Result<LogReport> {
    let ledger = ctx.ledger();
    let agent = lookup::agent_or_landed(ctx, &ledger, who)?;
    Ok(LogReport {
        agent_id: agent.id.to_string(),
        short_id: agent.id.short(),
        events: events(&ledger, &agent)?,
    })
}

/// The call that starts the agent in a host.
///
/// # Errors
/// As [`show`]; `agent-state` when its prompt is gone, `bug` when the prompt lost its ban on git.
pub fn invocation(ctx: &Ctx, who: &str) -> Result<Invocation> {
    let agent = lookup::agent(ctx, &ctx.ledger(), who)?;
    let path = layout::agent_dir(ctx.repo.common_dir(), agent.id).join(briefing::PROMPT);
    if !path.exists() {
        let why = if agent.state.is_open() {
            "is not in this clone".to_owned()
        } else {
            format!("was deleted when the agent was {}", agent.state)
        };
        let what = format!("the prompt of agent {} {why}", agent.id);
        return Err(Error::new(Code::AgentState, what)
            .hint("to give the task to a new agent, run git agent spawn <task.toml>"));
    }
    let prompt = fs::read_to_string(&path).at("could not read", &path)?;
    if !prompt.contains(crate::domain::work::prompt::GIT_BAN) {
        return Err(Error::bug(format!(
            "{} does not say `{}`",
            path.display(),
            crate::domain::work::prompt::GIT_BAN
        )));
    }
    let policy = spawn_commit::if_here(&ctx.repo, &agent)?;
    let description = agent.description.clone().unwrap_or_default();
    let agent_type = agent_type(ctx, &agent, policy.as_ref())?;
    let wanted = policy.map(|policy| policy.subagent_type).or(agent.role);
    let (description, wanted) = match agent_type {
        // The prompt says who it is, and the host's general type takes any prompt.
        Some(agent_type) => (format!("{agent_type}: {description}"), None),
        None => (description, wanted),
    };
    let places = [Some(ctx.repo.root()?), ctx.env.home.clone()];
    let is_defined = |file: &str| (places.iter().flatten()).any(|place| place.join(file).is_file());
    let settings = |file: &str| fs::read_to_string(places[0].as_ref()?.join(file)).ok();
    let isolates =
        agent.isolation == Some(Isolation::Worktree) && hosts::asks_for_worktrees(settings);
    Ok(Invocation {
        isolation: isolates.then_some("worktree"),
        subagent_type: hosts::agent_type(&wanted.unwrap_or_default(), is_defined),
        description,
        prompt,
    })
}

/// The roster's agent type that the run or the task asked for; `None` also where the task is not what was spawned.
fn agent_type(ctx: &Ctx, agent: &Agent, policy: Option<&Policy>) -> Result<Option<String>> {
    let noted = layout::agent_type_note(ctx.repo.common_dir(), agent.id);
    if let Some(noted) = fsx::load_if_there(&noted)? {
        return Ok(Some(String::from_utf8_lossy(&noted).into_owned()));
    }
    let task = policy.map(|policy| Assignment::recall(ctx, agent, policy, &PromptWish::default()));
    Ok(task.and_then(Result::ok).and_then(|task| task.character.agent_type))
}

/// Where an agent works.
///
/// # Errors
/// As [`show`]; `agent-state` for an agent without a worktree, or whose worktree is not in this clone.
pub fn path(ctx: &Ctx, who: &str) -> Result<PathReport> {
    let agent = lookup::agent(ctx, &ctx.ledger(), who)?;
    if agent.isolation != Some(Isolation::Worktree) {
        let what = format!("agent {} is shared and has no worktree", agent.id);
        return Err(Error::new(Code::AgentState, what));
    }
    let worktree = worktree::find(&ctx.repo, &agent);
    let Some(worktree) = worktree.as_ref().filter(|worktree| worktree.is_dir()) else {
        return Err(not_there(ctx, &agent, worktree.as_deref()));
    };
    Ok(PathReport {
        agent_id: agent.id.to_string(),
        short_id: agent.id.short(),
        worktree_path: Reporter::new(ctx)?.inside(worktree),
        worktree_abspath: worktree.to_string_lossy().into_owned(),
        layered: layered::of(&ctx.repo, agent.id).is_some(),
    })
}

/// The error for a worktree that is not there, and why it is not.
fn not_there(ctx: &Ctx, agent: &Agent, worktree: Option<&Path>) -> Error {
    let id = agent.id.short();
    let error = |what: String| Error::new(Code::AgentState, what);
    match agent.state {
        State::Discarded if lookup::was_never_ready(ctx, agent) => {
            lookup::with_failed_spawn(ctx, agent, error(format!("the spawn of agent {id} failed")))
        }
        State::Discarded => error(format!("agent {id} is discarded and has no worktree any more"))
            .hint(format!(
                "to have its work in a directory, run git agent rescue {id} --to <directory>"
            )),
        // Before the question whether it is gone, which cannot be answered here.
        _ if ctx.env.fenced => {
            error(format!("the worktree of agent {id} is not seen from inside the sandbox"))
                .hint("to see where its own is, an agent runs git agent path")
        }
        state => match lookup::require_worktree_here(ctx, agent) {
            Err(elsewhere) => elsewhere,
            Ok(()) if state == State::Merged => {
                error(format!("agent {id} is merged and its worktree was removed"))
                    .hint(format!("to see where it landed, run git agent show --log {id}"))
            }
            Ok(()) => error(match worktree {
                Some(worktree) => {
                    format!("the worktree of agent {id} is gone from {}", worktree.display())
                }
                None => format!("the worktree of agent {id} is gone"),
            })
            .hint("to see what can be done about it, run git agent doctor"),
        },
    }
}

/// The globs that agents are usually kept from: the defaults, and for typed tasks files that decide what others run.
pub fn default_denylist() -> BTreeSet<String> {
    let everything = Glob::parse("**").into_iter().collect::<Vec<_>>();
    let others = hosts::control_files().map(str::to_owned);
    let control = control_files(&everything, others).into_keys();
    let control = control.map(|glob| glob.as_str().to_owned());
    let usual = DEFAULT_DENYLIST.iter().map(|glob| (*glob).to_owned());
    usual.chain(control).collect()
}

/// The last summary or reason, all of it.
fn summary(ledger: &Ledger<'_>, agent: &Agent) -> Result<Option<String>> {
    let events = ledger.events(agent.spawn_commit)?;
    let is_it = |what: &What| what.said().map(|(text, _)| text) == agent.summary.as_deref();
    let said = events.iter().map(|event| &event.what).rfind(|what| is_it(what));
    let whole = said.and_then(|what| ledger::whole(ledger.repo(), what));
    Ok(whole.or_else(|| agent.summary.clone()))
}

fn events(ledger: &Ledger<'_>, agent: &Agent) -> Result<Vec<EventReport>> {
    let events = ledger.events(agent.spawn_commit)?;
    let report = |event| agent_report::event_report(ledger.repo(), event);
    Ok(events.iter().map(report).collect())
}

// What `log` tells other programs, in their formats: which lines an agent wrote, and how its life went.

/// The lines that an agent wrote, as a trace record: those that its landing brought, or those of its branch.
///
/// # Errors
/// `agent-unknown`, `agent-state` for an agent without a branch; `branch-gone`, `repo-corrupt`.
pub fn agent_trace(ctx: &Ctx, who: &str) -> Result<Value> {
    let ledger = ctx.ledger();
    let agent = lookup::agent_or_landed(ctx, &ledger, who)?;
    let (before, revision) = commits(ctx, &agent)?;
    let lines = ctx.repo.added_lines(ctx.repo.tree_of(before)?, ctx.repo.tree_of(revision)?)?;
    let time = rfc3339(agent.updated);
    let events = ledger.events(agent.spawn_commit)?;
    let model = model(&events);
    Ok(otlp::record(&agent, revision, model, &time, &lines))
}

/// The model of all runs of an agent; `None` where they differ, because no row says which run wrote which line.
fn model(events: &[Event]) -> Option<&str> {
    let mut models = events.iter().filter_map(|event| match &event.what {
        What::Started(started) => Some(started.model.as_deref()),
        _ => None,
    });
    let first = models.next()??;
    models.all(|model| model == Some(first)).then_some(first)
}

/// An agent's life as OpenTelemetry spans.
///
/// # Errors
/// `agent-unknown`, and those of the ledger.
pub fn otlp(ctx: &Ctx, who: &str) -> Result<Value> {
    let ledger = ctx.ledger();
    let agent = lookup::agent_or_landed(ctx, &ledger, who)?;
    let events = ledger.events(agent.spawn_commit)?;
    Ok(otlp::spans(&agent, &events))
}

/// The commit that holds the agent's work, and the one that it is compared with.
fn commits(ctx: &Ctx, agent: &Agent) -> Result<(Oid, Oid)> {
    let Some(base) = &agent.base else {
        return Err(half_made(agent));
    };
    let landed = agent.landed.as_ref().map(|(commit, _)| *commit);
    // A row may tell of a landing in another clone, whose commit was not fetched.
    if let Some(landed) = landed.filter(|commit| ctx.repo.has_object(*commit)) {
        // A landing that only moved the branch brought all commits since the agent began.
        let parents = ctx.repo.read_commit(landed)?.parents;
        let moved = parents.len() == 1 && ctx.repo.is_ancestor(agent.spawn_commit, landed)?;
        let first = parents.first().copied().filter(|_| !moved);
        return Ok((first.unwrap_or(base.oid), landed));
    }
    let tip = tip_of(ctx, agent)?;
    // What the branch has merged of the target is not the agent's.
    let (_, target) = base_of(ctx, agent, None)?;
    let fork = match target {
        Some(target) => ctx.repo.merge_base(target, tip)?,
        None => None,
    };
    Ok((fork.unwrap_or(base.oid), tip))
}

fn half_made(agent: &Agent) -> Error {
    let what = format!("agent {} is half made and has no work yet", agent.id.short());
    Error::new(Code::AgentState, what)
}
