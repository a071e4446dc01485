//! `spawn`: a task becomes an agent with a worktree, a branch and a row.
//!
//! [`plan`] reads and decides, [`execute`] does. The steps, each named for the tests that stop the
//! process there:
//!
//! 1. `journal`: a file under `agents/spawning` names everything that may follow; its owner holds an OS
//!    lock on it that the kernel drops with the process.
//! 2. `objects`: the spawn commit and the policy.
//! 3. `keep`: the keep chain holds both, whatever happens to the branch.
//! 4. `branch`: create-only.
//! 5. `spawning`: the ledger's first row.
//! 6. `metadata`: the admin directory, published by one rename, locked as `initializing`.
//! 7. `populated`: the files and the index.
//! 8. `files`: the specification, the prompt and a private copy of the task; then `[setup]` runs.
//! 9. `locked`: the worktree has its git hooks, and its lock now names the agent.
//! 10. `spawned`: the ledger says the agent is ready. From here on it is never undone.
//!
//! An error undoes the steps, newest first (`undo`). After a kill the journal is left with no process
//! holding its lock; the next spawn finds it and does the same. What a kill can leave therefore is: the
//! journal, a branch at the spawn commit, a row that is still `spawning`, a temporary or complete admin
//! directory locked as `initializing`, and a partly filled worktree. None of it blocks another spawn. The
//! objects of steps 2 and 3 stay: they are a few hundred bytes, and the keep chain never forgets.

mod adopt;
mod contract;
mod execute;
mod globs;
pub(super) mod named;
mod pipeline;
mod place;
mod plan;
mod report;
mod scope_conflicts;
mod setup;
mod start;

use crate::agents::context::parallel::Queue;
use crate::agents::place::{task_copy, worktree};
use crate::agents::who::authority::{require_no_recursion, require_whole_view};
use crate::agents::work::base_of;
use crate::agents::{
    Ctx, context::parallel, own_changes, stock::layered, upkeep::clone, who::lookup,
};
use crate::domain::{Agent, Isolation, Layering, State, TaskDraft};
use crate::error::{Code, Error, Remedy, Result};
use crate::git::worktree::populate;
use crate::ops::status;
use crate::store::files::briefing;
pub use contract::{SpawnOptions, SpawnPlan};
pub use execute::{execute, preview};
pub(in crate::ops) use globs::{denied, misread, require_matched, unmatched};
pub(crate) use named::{BY_OPTION, parse_name};
pub use pipeline::{handed_on, has_not_begun};
pub use plan::plan;
pub use report::SpawnReport;
pub use start::{ForgeText, Start, of_branch, of_issue, of_pull_request};
use std::sync::mpsc::Sender;

/// The steps, in order, under the names given to [`crate::agents::context::ctx::Seams::reached`].
pub const STEPS: [&str; 10] = [
    "journal",
    "objects",
    "keep",
    "branch",
    "spawning",
    "metadata",
    "populated",
    "files",
    "locked",
    "spawned",
];

// Several spawns at once, each in a thread with a repository of its own.

/// Carries out plans, at most `jobs` at a time, and gives each result as it comes, with the number of its plan. One that
/// fails does not stop the others.
///
/// # Errors
/// The first error of `done`; the spawns under way are finished all the same.
pub fn execute_all(
    ctx: &Ctx,
    plans: Vec<SpawnPlan>,
    jobs: usize,
    done: &mut dyn FnMut(usize, Result<SpawnReport>) -> Result<()>,
) -> Result<()> {
    let several = plans.len() > 1;
    if several {
        // All or none; each asks again under the lock that keeps others from beginning.
        contract::require_room(ctx, &plans.iter().collect::<Vec<_>>(), &[])?;
    }
    let seed = ctx.seed();
    let work = |queue: &Queue<(usize, SpawnPlan)>,
                reports: Sender<(usize, Result<SpawnReport>)>| {
        while let Some((index, plan)) = queue.next() {
            let file = plan.given.file.clone();
            let result = seed.open().and_then(|ctx| execute(&ctx, plan));
            let result = result.map_err(|error| {
                if several {
                    error.detail(format!("the agent of {file} was not made"))
                } else {
                    error
                }
            });
            if reports.send((index, result)).is_err() {
                return;
            }
        }
    };
    parallel::share(plans.into_iter().enumerate().collect(), jobs, work, |reports| {
        let mut outcome = Ok(());
        for (index, report) in reports {
            let told = done(index, report);
            outcome = outcome.and(told);
        }
        outcome
    })
}

// The task of an agent that was spawned before, for another try.

/// The warning for an agent that was told something in confidence and is over.
const FORGOTTEN: &str = "a briefing or a system prompt of the first try was deleted when that agent was merged or discarded; \
                         to give it again, run git agent run <agent> --briefing <text>";

/// The warning for an agent whose worktree is gone, and with it what kind of worktree that was.
const UNKNOWN_PLACE: &str = "the worktree of the first try is gone, and with it whether its spawn had --isolation, --sparse or \
                             --layered, none of which is passed on";

/// The warning for an agent that started from uncommitted changes.
const WITHOUT_CHANGES: &str = "the first try started from uncommitted changes, which this one does not have; \
                               to start from those that are there now, run git agent spawn --with-changes";

/// What another try starts from.
#[derive(Debug)]
pub struct EarlierTask {
    /// The task as it was given.
    pub draft: TaskDraft,
    /// What else was asked for at its spawn.
    pub options: SpawnOptions,
    /// What the caller should know.
    pub warnings: Vec<String>,
}

/// Recalls the task of an agent. Another try starts at `base`, or else from where the branch is now that the first one started
/// from, in a worktree of the same kind.
///
/// # Errors
/// `agent-unknown`, `agent-ambiguous`; `agent-state` for one that is still at work, and where the task is not in this clone or was
/// changed; `base-not-commit` where its branch is gone; `orchestrator-only` in a sandbox; those of the ledger.
pub fn earlier_task(ctx: &Ctx, who: &str, base: Option<&str>) -> Result<EarlierTask> {
    // Before it is said what would let another one be spawned.
    require_no_recursion(&ctx.env)?;
    // The tasks of others are hidden there, and look as if they were gone.
    require_whole_view(ctx)?;
    let agent = lookup::agent(ctx, &ctx.ledger(), who)?;
    agent.require_understood()?;
    let state = status::state(ctx, &agent);
    // One that waits for a permission, or before anything was done, goes on; one that asked and ended may be tried again.
    let goes_on = matches!(agent.state, State::Ready | State::Running) && state == State::Waiting;
    if goes_on || matches!(state, State::Spawning | State::Ready | State::Running) {
        let id = agent.id.short();
        let what = format!("agent {id} is {state} and cannot be tried again");
        let error = Error::new(Code::AgentState, what);
        return Err(if state == State::Running {
            error.remedy("to end it first", Remedy::Stop(id))
        } else {
            error.hint(format!("to end it first, run git agent mark fail {id} -m <reason>"))
        });
    }
    let draft = task_copy::load(ctx, &agent).map_err(|error| match error.code() {
        Code::AgentState if lookup::was_never_ready(ctx, &agent) => {
            let what = format!("the spawn of agent {} failed", agent.id.short());
            lookup::with_failed_spawn(ctx, &agent, Error::new(Code::AgentState, what))
        }
        Code::AgentState => unknown_task(&agent, error.message()),
        _ => error,
    })?;
    let mut warnings = Vec::new();
    if briefing::was_deleted(ctx.repo.common_dir(), agent.id) {
        warnings.push(FORGOTTEN.to_owned());
    }
    let mut options = SpawnOptions {
        base: base.map(str::to_owned),
        name: agent.name.as_ref().map(ToString::to_string),
        succeeds: Some(agent.id),
        parent: agent.parent.map(|parent| parent.to_string()),
        ..SpawnOptions::default()
    };
    if base.is_none() {
        options.start = start::again(ctx, &agent)?;
        if options.start.is_none() {
            options.base = base_again(ctx, &agent)?;
        }
    }
    if own_changes::below(&ctx.repo, &agent)?.is_some() {
        warnings.push(WITHOUT_CHANGES.to_owned());
    }
    if agent.isolation == Some(Isolation::Worktree) {
        let admin = worktree::admin_dir(&ctx.repo, agent.id);
        options.clone = clone::is_one(ctx, agent.id);
        if !admin.exists() {
            warnings.push(UNKNOWN_PLACE.to_owned());
        } else if layered::of(&ctx.repo, agent.id).is_some() {
            options.layered = Some(Layering::Auto);
        } else {
            options.layered = Some(Layering::Off);
            options.cone = populate::cone_directories(&admin);
            options.sparse = options.cone.is_some();
        }
    }
    Ok(EarlierTask { draft, options, warnings })
}

/// The revision that another try of an agent starts from: the branch of the first one, where its work would land, or else its commit.
fn base_again(ctx: &Ctx, agent: &Agent) -> Result<Option<String>> {
    let id = agent.id.short();
    match base_of(ctx, agent, None)? {
        (Some(name), Some(_)) => Ok(Some(name)),
        (Some(name), None) => {
            let what = format!("{name}, which agent {id} started from, is gone");
            Err(Error::new(Code::BaseNotCommit, what)
                .hint(format!("to start elsewhere, run git agent retry {id} --base <rev>")))
        }
        (None, _) => {
            let below = own_changes::below(&ctx.repo, agent)?;
            let oid = below.or(agent.base.as_ref().map(|base| base.oid));
            Ok(oid.map(|oid| oid.to_hex()))
        }
    }
}

fn unknown_task(agent: &Agent, why: &str) -> Error {
    let id = agent.id.short();
    Error::new(Code::AgentState, format!("agent {id} cannot be tried again: {why}"))
        .hint("to start with a task file, run git agent spawn <task.toml>")
}
