//! `run`: a command works for an agent, and what became of it is recorded.
//!
//! ```text
//! task.toml ─> SpawnPlan ─┐
//! id ─> Agent ────────────┴─> RunPlan ─> Stage ─> warden ─> Outcome ─> VerifyReport ─> RunReport
//! ```
//!
//! [`plan`] reads and decides, [`execute`] does. The steps, each named for the tests that stop the
//! process there:
//!
//! 1. `locked`: the agent's `live.lock` is ours, and what an earlier run could not record is recorded.
//! 2. `prepared`: logs, spool and a private directory for temporary files are there.
//! 3. `started`: the row says so. From here on requests to end this process end the command first.
//! 4. `launched`: the command works below a warden, which holds the lock as well.
//! 5. `ended`: nothing of the command is left, and the outcome is noted in the lock's file.
//! 6. `exited`: the row says so.
//! 7. `verified`: a command that succeeded was judged.
//!
//! When we are killed, the warden hears of it and ends the command with all that it started; until then
//! the lock stays taken. A row that says `started` and not `exited` while nobody holds the lock is
//! therefore a dead run; the next run or `doctor --fix` completes it from the warden's note.
//! A run that fails takes nothing back: worktree and row stay as they are.

mod execute;
pub(in crate::ops) mod record;
mod report;
mod stage;
mod words;

pub use execute::{Echo, execute};
pub use report::RunReport;

pub use crate::proc::launch::launch;
pub use crate::proc::warden::{Order, keep};

use crate::domain::agent::{Agent, Move, State};
use crate::domain::event::Isolation;
use crate::domain::run::{DEFAULT_LIMIT, SandboxWish};
use crate::domain::task::{Task, TaskDraft, TaskOptions};
use crate::error::{Code, Error, Result};
use crate::ops::spawn::{self, SpawnOptions, SpawnPlan};
use crate::ops::{Ctx, recursion, show};
use crate::proc::launch::not_found;
use crate::store::ledger::Ledger;
use crate::store::{fsx, layout, roles};
use crate::wire::task_file;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The steps, in order, under the names given to [`crate::ops::ctx::Seams::reached`].
pub const STEPS: [&str; 7] = [
    "locked", "prepared", "started", "launched", "ended", "exited", "verified",
];

/// What the caller asked for besides agent and command.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunOptions {
    /// How long the command may take; replaces the task's own.
    pub limit: Option<Duration>,
    /// How strictly it is fenced in.
    pub sandbox: SandboxWish,
    /// Leaves the verdict out.
    pub no_verify: bool,
}

/// For whom a command is to work.
pub enum Target {
    /// For an agent that this task makes.
    Task(Box<TaskDraft>),
    /// For the agent that goes by this.
    Agent(String),
}

/// A run that only needs doing.
pub struct RunPlan {
    worker: Worker,
    task: Option<Task>,
    command: Vec<OsString>,
    limit: Duration,
    options: RunOptions,
}

enum Worker {
    New(Box<SpawnPlan>),
    Known(Box<Agent>),
}

/// Reads and checks everything; changes nothing.
///
/// # Errors
/// Those of [`spawn::plan`] for a task; `agent-unknown`, `agent-state`, `recursion-refused`,
/// `sandbox-unavailable`, `command-not-found`, `usage` for a placeholder that the task leaves empty.
pub fn plan(
    ctx: &Ctx,
    target: Target,
    command: Vec<OsString>,
    options: RunOptions,
) -> Result<RunPlan> {
    require_sandbox(options.sandbox)?;
    require_command(ctx, &command)?;
    let (worker, task) = match target {
        Target::Task(draft) => {
            let plan = spawn::plan(ctx, *draft, &SpawnOptions::default())?;
            let task = plan.task.clone();
            (Worker::New(Box::new(plan)), Some(task))
        }
        Target::Agent(who) => {
            recursion::require_no_recursion(&ctx.env)?;
            let agent = show::find(ctx, &Ledger::new(&ctx.repo), &who)?;
            require_startable(ctx, &agent)?;
            let task = task_of(ctx, &agent)?;
            (Worker::Known(Box::new(agent)), task)
        }
    };
    words::require_filled(&command, task.as_ref())?;
    let own = task.as_ref().and_then(|task| task.timeout);
    Ok(RunPlan {
        worker,
        limit: options
            .limit
            .or(own)
            .unwrap_or(Duration::from_secs(DEFAULT_LIMIT)),
        task,
        command,
        options,
    })
}

fn require_sandbox(wish: SandboxWish) -> Result<()> {
    match wish {
        SandboxWish::Auto | SandboxWish::Off => Ok(()),
        SandboxWish::Require | SandboxWish::Strict => Err(Error::new(
            Code::SandboxUnavailable,
            "this version has no sandbox",
        )
        .hint("to run without one, run git agent run --sandbox off …")),
    }
}

/// A name without a slash must be on the path. Any other is looked up where the command runs, which need
/// not exist yet.
fn require_command(ctx: &Ctx, command: &[OsString]) -> Result<()> {
    let Some(name) = command.first().filter(|name| !name.is_empty()) else {
        return Err(Error::new(Code::Usage, "there is no command to run"));
    };
    let elsewhere = Path::new(name).components().count() != 1;
    let here = || {
        ctx.env
            .search
            .iter()
            .any(|place| place.join(name).is_file())
    };
    match elsewhere || ctx.env.search.is_empty() || here() {
        true => Ok(()),
        false => Err(not_found(&name.to_string_lossy())
            .hint("to see where it is looked for, run echo \"$PATH\"")),
    }
}

fn require_startable(ctx: &Ctx, agent: &Agent) -> Result<()> {
    if agent.state == State::Spawning {
        let id = agent.id.short();
        return Err(Error::new(
            Code::AgentState,
            format!("agent {id} is half made and cannot be started"),
        )
        .hint("to finish it or take it apart, run git agent doctor --fix"));
    }
    agent.may(Move::Start)?;
    directory_of(ctx, agent).map(drop)
}

/// Where an agent works: its worktree, as git knows it, or the repository's root.
fn directory_of(ctx: &Ctx, agent: &Agent) -> Result<PathBuf> {
    if agent.isolation == Some(Isolation::Shared) {
        return ctx.repo.root();
    }
    let name = layout::worktree_name(agent.id);
    let worktrees = ctx.repo.worktrees()?;
    let own = worktrees.into_iter().find(|one| one.name == name);
    own.map(|worktree| worktree.path)
        .filter(|path| path.is_dir())
        .ok_or_else(|| {
            let id = agent.id.short();
            Error::new(
                Code::AgentState,
                format!("the worktree of agent {id} is not in this clone"),
            )
            .hint(format!(
                "to see what there is of it, run git agent show {id}"
            ))
        })
}

/// The task as it was given at spawn; `None` where that copy is gone, which costs the run its time limit
/// and the host's model.
fn task_of(ctx: &Ctx, agent: &Agent) -> Result<Option<Task>> {
    let path = layout::agent_dir(ctx.repo.common_dir(), agent.id).join("task.toml");
    let (Some(bytes), Some(base)) = (fsx::load_if_there(&path)?, &agent.base) else {
        return Ok(None);
    };
    let roles = roles::load(&ctx.repo, base.oid)?;
    let draft = task_file::parse(&path.display().to_string(), &bytes);
    let (task, _) = draft.check(&roles, TaskOptions::default())?;
    Ok(Some(task))
}
