//! `run`: a command works for an agent, and what became of it is recorded.
//!
//! ```text
//! task.toml ─> SpawnPlan ─┐
//! id ─> Agent ────────────┴─> RunPlan ─> Stage ─> supervisor ─> Outcome ─> VerifyReport ─> RunReport
//! ```
//!
//! [`plan`] reads and decides, [`execute`] does. The steps, each named for the tests that stop the
//! process there:
//!
//! 1. `locked`: the agent's `live.lock` is ours, and what an earlier run could not record is recorded.
//! 2. `prepared`: logs, spool and a private directory for temporary files are there, and what the command
//!    may write is known ([`fence`]).
//! 3. `started`: the row says so. From here on requests to end this process end the command first.
//! 4. `launched`: the command works below a supervisor, which holds the lock as well. What it leaves in its
//!    spool is posted as it comes, and what it commits is published.
//! 5. `ended`: nothing of the command is left, and the outcome is noted in the lock's file. What it did in its own
//!    repository is published ([`crate::agents::upkeep::publish`]) before git looks at the worktree; [`FENCED_STEPS`] are part of this.
//! 6. `exited`: the row says so.
//! 7. `verified`: a command that succeeded was judged.
//!
//! When we are killed, the supervisor hears of it and ends the command with all that it started; until then
//! the lock stays taken. A row that says `started` and not `exited` while the lock is free is
//! therefore a dead run; the next run, `doctor --fix` or any other command that is about to read the worktree
//! completes it from the supervisor's note and the run repository (`agents::crash_recovery`).
//! A run that fails takes nothing back: worktree and row stay as they are.

pub mod batch;
mod command_line;
mod cost_watch;
mod enclosure;
mod execute;
pub mod fence;
mod inputs;
mod lead;
pub mod output;
mod push_guard;
mod report;
mod stage;

use crate::agents::life::{admission, liveness};
use crate::agents::who::assignment::PromptWish;
use crate::agents::who::{authority, lookup};
use crate::agents::{Ctx, place::worktree, upkeep::crash_recovery};
use crate::domain::life::run::{DEFAULT_LIMIT, shell_line};
use crate::domain::life::sandbox::{Mode, Namespaces};
use crate::domain::{
    Agent, AgentId, Enforcement, Isolation, Layering, Limit, Limits, Move, State, TaskDraft, What,
};
use crate::error::{Code, Error, Remedy, Result};
use crate::hosts::{self, Host};
use crate::ops::spawn::{self, SpawnOptions, SpawnPlan};
use crate::proc::launch::not_found;
pub use crate::proc::launch::{HandedOver, detach, end_with_caller, hand_over, launch, prepare};
pub use crate::proc::supervisor::{BuildSlots, SupervisorOrder, TreeBounds, keep};
pub use crate::proc::terminal::is_here as has_terminal;
use crate::store::files::layout;
pub use enclosure::SandboxReport;
pub use execute::{Begun, Echo, execute};
use inputs::{AgentInputs, RunRequest};
use output::OutputWish;
pub use report::{RunReport, StartReport};
use serde::Serialize;
use serde_with_macros::skip_serializing_none;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The steps, in order, under the names given to [`crate::agents::context::ctx::Seams::reached`].
pub const STEPS: [&str; 12] = [
    "locked",
    "run-repo",
    "prepared",
    "started",
    "launched",
    "objects-taken",
    "branch-moved",
    "admin-carried",
    "led-back",
    "ended",
    "exited",
    "verified",
];

/// Those of them that only a command behind a fence has.
pub const FENCED_STEPS: [&str; 5] =
    ["run-repo", "objects-taken", "branch-moved", "admin-carried", "led-back"];

/// What the caller asked for besides agent and command.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// How long the command may take; replaces the task's own.
    pub limit: Option<Duration>,
    /// How strictly it is fenced in.
    pub sandbox: Mode,
    /// Further places that it may write, as they were typed.
    pub allow_write: Vec<PathBuf>,
    /// Lets it push, with the caller's credentials.
    pub allow_push: bool,
    /// Leaves the verdict out.
    pub no_verify: bool,
    /// Commits what is in scope before it is judged, because what is not committed stays in this clone.
    pub commit: bool,
    /// A person works with it: it gets a terminal of its own, which is led to the caller's.
    pub terminal: bool,
    /// Its own status says nothing about the work, as that of a shell.
    pub any_status: bool,
    /// It goes on without the caller, who hears from `wait` how it ended.
    pub background: bool,
    /// The agent host to start by its recipe; the command is then its last arguments.
    pub host: Option<&'static dyn Host>,
    /// What the agent is told besides its task.
    pub prompt: PromptWish,
    /// Goes on with the session of the agent's last run.
    pub resume: bool,
    /// What the agent is told in that session.
    pub message: Option<String>,
    /// How an agent is made that is made for it.
    pub made: SpawnOptions,
    /// Ends where a limit of the clone would have it wait.
    pub no_wait: bool,
    /// Where its answer goes.
    pub output: OutputWish,
}

/// For whom a command is to work.
pub enum RunTarget {
    /// For an agent that this task makes.
    Task(Box<TaskDraft>),
    /// For the agent that goes by this.
    Agent(String),
}

/// A run that only needs doing.
pub struct RunPlan {
    worker: Worker,
    inputs: AgentInputs,
    /// How long the command may take; a host and a person's shell take as long as they take.
    limit: Option<Duration>,
    enforcement: Enforcement,
    /// What holds in this clone, read once.
    limits: Limits,
    /// What its processes may take.
    bounds: TreeBounds,
    options: RunOptions,
}

impl RunPlan {
    /// The agent host that it starts by its recipe.
    pub fn host(&self) -> Option<&'static dyn Host> {
        self.inputs.host
    }
}

enum Worker {
    New(Box<SpawnPlan>),
    Known(Box<Agent>),
}

/// Reads and checks everything; changes nothing.
///
/// # Errors
/// Those of [`spawn::plan`] for a task; `agent-unknown`, `agent-state`, `recursion-refused`,
/// `sandbox-unavailable`, `usage` for no command and for a placeholder that the task leaves empty;
/// `agent-type-unknown`, `roster-invalid`, `output-outside`, `output-exists`, `prompt-exposed`.
pub fn plan(
    ctx: &Ctx,
    target: RunTarget,
    command: Vec<OsString>,
    mut options: RunOptions,
) -> Result<RunPlan> {
    // What it answers is needed once the agent is found.
    let asked = ctx.kernel()?.ask(options.sandbox);
    let limits = admission::load(ctx)?;
    options.prompt.most_cost = limits.get(Limit::Cost).map(|micro_usd| micro_usd as f64 / 1e6);
    let bounds = TreeBounds::of(&limits);
    // Who insists on the sandbox insists on its limits as well; others get a warning when the
    // command starts.
    if let Some(why) = bounds.obstacle().filter(|_| options.sandbox.insists()) {
        return Err(Error::new(Code::SandboxUnavailable, why));
    }
    let wishes = |options, session, enforcement: &Enforcement| RunRequest {
        options,
        session,
        fenced: matches!(enforcement, Enforcement::Fenced(_)),
    };
    let (worker, inputs, enforcement) = match target {
        RunTarget::Task(_) if options.resume => {
            let what = "--resume goes on with an agent's session, and a task has none yet";
            return Err(Error::new(Code::Usage, what));
        }
        RunTarget::Task(draft) => {
            let enforcement = asked.answer()?;
            let mut made = options.made.clone();
            // Only such a sandbox can mount them.
            if !matches!(&enforcement, Enforcement::Fenced(level) if level.namespaces == Namespaces::Processes)
            {
                made.layered_by_default = Layering::Off;
            }
            let plan = spawn::plan(ctx, *draft, &made)?;
            let wishes = wishes(&options, None, &enforcement);
            let inputs = AgentInputs::of_spawn(ctx, &plan, command, wishes)?;
            (Worker::New(Box::new(plan)), inputs, enforcement)
        }
        RunTarget::Agent(who) => {
            authority::require_no_recursion(&ctx.env)?;
            let mut agent = lookup::agent(ctx, &ctx.ledger(), &who)?;
            require_startable(&agent)?;
            let mut session = None;
            if options.resume {
                // The session of a run that was killed is in its log alone until its end is recorded.
                agent = crash_recovery::run_at_rest(ctx, agent)?;
                let (host, id) = last_session(ctx, &agent, options.host)?;
                (options.host, session) = (Some(host), Some(id));
            }
            let place = directory_of(ctx, &agent)?;
            let enforcement = asked.answer()?;
            let wishes = wishes(&options, session.as_deref(), &enforcement);
            let inputs = AgentInputs::of_agent(ctx, (&agent, place), command, wishes)?;
            (Worker::Known(Box::new(agent)), inputs, enforcement)
        }
    };
    let task = inputs.task();
    require_words(&inputs.command)?;
    command_line::require_filled(&inputs.command, task)?;
    Ok(RunPlan {
        worker,
        limit: { options.limit.or(task.timeout) }.or_else(|| {
            // A host decides itself when it is done, and a person at a terminal does, too.
            let is_open_ended = options.host.is_some() || options.terminal;
            (!is_open_ended).then_some(Duration::from_secs(DEFAULT_LIMIT))
        }),
        inputs,
        enforcement,
        limits,
        bounds,
        options,
    })
}

/// The agent of an earlier attempt; `None` where that did not come as far as making it, or where the agent was
/// rejected or discarded.
///
/// # Errors
/// Those of the ledger.
pub fn earlier(ctx: &Ctx, id: AgentId) -> Result<Option<Agent>> {
    let agents = ctx.ledger().agents()?;
    // What was merged is gone on with as well: a task that is run again finds that its work has
    // landed.
    let usable =
        |agent: &Agent| agent.id == id && (agent.state.is_live() || agent.state == State::Merged);
    Ok(agents.into_iter().find(usable))
}

impl RunPlan {
    /// The agent that the command works for, or that will be made for it.
    pub fn agent_id(&self) -> AgentId {
        match &self.worker {
            Worker::New(spawn) => spawn.id,
            Worker::Known(agent) => agent.id,
        }
    }
}

/// Whether [`RunOptions::resume`] finds a session of this host to go on with.
///
/// # Errors
/// Those of the ledger.
pub fn has_session(ctx: &Ctx, agent: &Agent, host: &'static dyn Host) -> Result<bool> {
    Ok(host.resumes() && find_session(ctx, agent, Some(host))?.is_some())
}

/// As [`find_session`], where there must be one.
fn last_session(
    ctx: &Ctx,
    agent: &Agent,
    asked: Option<&'static dyn Host>,
) -> Result<(&'static dyn Host, String)> {
    // Before the row is read: whatever it says, this host cannot.
    if let Some(host) = asked.filter(|host| !host.resumes()) {
        let message = format!("{} does not go on with a session", host.name());
        return Err(Error::new(Code::Usage, message));
    }
    if let Some(found) = find_session(ctx, agent, asked)? {
        return Ok(found);
    }
    // Of one that goes on it is told when it ends.
    liveness::require_no_run(ctx, agent)?;
    let id = agent.id.short();
    let by = asked.map_or(String::new(), |host| format!(" by {}", host.name()));
    let message = format!("no run of agent {id}{by} told of a session to go on with");
    Err(Error::new(Code::AgentState, message)
        .hint(format!("to start a new one, run git agent run {id} --host <host>")))
}

/// The last session that a run of the agent named, and its host: the one that is asked for, or any. A run that was cut off before
/// its host named one leaves what there was before.
fn find_session(
    ctx: &Ctx,
    agent: &Agent,
    asked: Option<&'static dyn Host>,
) -> Result<Option<(&'static dyn Host, String)>> {
    let (mut at_work, mut last) = (None, None);
    for event in ctx.ledger().events(agent.spawn_commit)? {
        // The id of a session stands in the end of a run, and its host in the beginning.
        match event.what {
            What::Started(started) => at_work = hosts::of_command(&started.command),
            // The newest one that told its session counts; a run that ended without one leaves the
            // one before.
            What::Exited(exited) => last = at_work.zip(exited.session.id).or(last),
            _ => continue,
        }
        let is_other = |host: &dyn Host| asked.is_some_and(|asked| asked.name() != host.name());
        at_work = at_work.filter(|host| host.resumes() && !is_other(*host));
    }
    Ok(last)
}

fn require_words(command: &[OsString]) -> Result<&OsString> {
    let name = command.first().filter(|name| !name.is_empty());
    name.ok_or_else(|| Error::new(Code::Usage, "there is no command to run"))
}

/// A name without a slash must be on the path. Any other is looked up where the command runs, which need
/// not exist yet. Planning does not ask: what would be run can be shown where it is not installed.
fn require_command(ctx: &Ctx, command: &[OsString]) -> Result<()> {
    let name = require_words(command)?;
    // A path is found or not by the command itself, in its own directory.
    let elsewhere = Path::new(name).components().count() != 1;
    let here = || ctx.env.search.iter().any(|place| place.join(name).is_file());
    // Without a `PATH` the system looks in directories of its own, which are not known here.
    if elsewhere || ctx.env.search.is_empty() || here() {
        Ok(())
    } else {
        let error = not_found(&name.to_string_lossy());
        let hosts: Vec<_> = hosts::installed(&ctx.env.search).map(Host::name).collect();
        let error = match hosts::of_command(&name.to_string_lossy()) {
            Some(_) if !hosts.is_empty() => {
                error.hint(format!("hosts that are installed: {}", hosts.join(", ")))
            }
            _ => error,
        };
        Err(error.hint("to see where it is looked for, run echo \"$PATH\""))
    }
}

fn require_startable(agent: &Agent) -> Result<()> {
    if agent.state == State::Spawning {
        let id = agent.id.short();
        let what = format!("agent {id} is half made and cannot be started");
        return Err(Error::new(Code::AgentState, what)
            .hint("to finish it or take it apart, run git agent doctor --fix"));
    }
    agent.may(Move::Start).map_err(|error| match agent.state {
        State::Discarded => error.remedy("to bring it back", Remedy::Reopen(agent.id.short())),
        _ => error,
    })
}

/// Where an agent works: its worktree, as git knows it, or the repository's root.
fn directory_of(ctx: &Ctx, agent: &Agent) -> Result<PathBuf> {
    if agent.isolation == Some(Isolation::Shared) {
        return ctx.repo.root();
    }
    worktree::require_linked(&ctx.repo, agent.id, Code::AgentState)?;
    worktree::require_whole(&ctx.repo, agent)?;
    let name = layout::worktree_name(agent.id);
    let own = ctx.repo.worktree(&name);
    own.map(|worktree| worktree.path).filter(|path| path.is_dir()).ok_or_else(|| {
        match lookup::require_worktree_here(ctx, agent) {
            Err(elsewhere) => elsewhere,
            Ok(()) => worktree::gone(agent),
        }
    })
}

// What a run would do: `git-agent.run-plan/2`.

/// The answer of `run --dry-run`. Absent means not applicable.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "schema", rename = "git-agent.run-plan/2")]
pub struct RunOutline {
    /// The agent's id; absent for one that the run would make.
    pub agent_id: Option<String>,
    /// The first eight hex digits of the id.
    pub short_id: Option<String>,
    /// Where the command would run, absolute; absent for an agent that the run would make.
    pub worktree_abspath: Option<String>,
    /// The program and its arguments, with their placeholders.
    pub command: Vec<String>,
    /// The same as one line for a shell.
    pub command_line: String,
    /// How the command would get its prompt: `stdin`, or `words` when the command names it.
    pub prompt_on: &'static str,
    /// How long it might take, in milliseconds; absent without a time limit.
    pub timeout_ms: Option<u64>,
    /// The file for the answer, absolute; for an agent that the run would make, as it would be now.
    pub output_file: Option<String>,
    /// What the caller should know.
    pub warnings: Vec<String>,
}

impl RunPlan {
    /// What the plan would do.
    ///
    /// # Errors
    /// `run-active`; those of [`spawn::preview`].
    pub fn outline(&mut self, ctx: &Ctx) -> Result<RunOutline> {
        match &mut self.worker {
            Worker::Known(agent) => liveness::require_no_run(ctx, agent)?,
            Worker::New(plan) => spawn::preview(ctx, std::slice::from_mut(&mut **plan))?,
        }
        let inputs = &self.inputs;
        let known = match &self.worker {
            Worker::Known(agent) => Some(agent.id),
            Worker::New(_) => None,
        };
        let directory = inputs.place.directory.to_string_lossy();
        let words = inputs.command.iter().map(|word| word.to_string_lossy());
        let mut warnings = match &self.worker {
            Worker::New(spawn) => spawn.warnings.clone(),
            Worker::Known(_) => Vec::new(),
        };
        warnings.extend(inputs.warnings.iter().cloned());
        Ok(RunOutline {
            worktree_abspath: known.is_some().then(|| directory.into_owned()),
            agent_id: known.map(|id| id.to_string()),
            short_id: known.map(|id| id.short()),
            command_line: shell_line(words.clone()),
            command: words.map(|word| word.into_owned()).collect(),
            prompt_on: if command_line::name_prompt(&inputs.command) { "words" } else { "stdin" },
            timeout_ms: { self.limit }.and_then(|limit| u64::try_from(limit.as_millis()).ok()),
            output_file: inputs
                .output
                .as_ref()
                .map(|output| output.path().to_string_lossy().into_owned()),
            warnings,
        })
    }
}
