//! The git hooks of an agent's worktree: what they should be, and whether they are.

pub(crate) mod managers;

use crate::agents::ctx::Ctx;
use crate::agents::{clone, worktree};
use crate::domain::agent::Agent;
use crate::domain::id::AgentId;
use crate::error::Result;
use crate::git::program::{self, Version};
use crate::store::hooks::inspect::{Inspection, Problem, inspect};
use crate::store::hooks::{self, CommitHooks, Route, Site};
use crate::store::{layout, lock};
use std::path::{Path, PathBuf};

/// Puts the hooks of a new worktree in place, by the route that this git follows.
///
/// # Errors
/// Those of [`hooks::install`], `lock-timeout`.
pub(crate) fn install(
    ctx: &Ctx,
    agent: AgentId,
    worktree: &Path,
    git: Option<Version>,
) -> Result<()> {
    // Hooks are written by spawns as well, and to the same files of git's configuration.
    let _spawns = lock::hold(ctx.repo.common_dir(), layout::SPAWN_LOCK)?;
    // Not found by its path, the program is looked for on PATH.
    let program = ctx.env.program.as_deref().unwrap_or(Path::new("git-agent"));
    hooks::install(
        &site(ctx, &agent.short(), worktree),
        program,
        Route::for_git(git),
    )
}

/// Writes the hooks anew where time has passed over them: the repository got a hook of a new name, or this program another
/// version or place. What an agent did to them stays, for `doctor` to find.
///
/// # Errors
/// Those of [`inspect`] and [`install`].
pub(crate) fn refresh(ctx: &Ctx, agent: &Agent) -> Result<()> {
    // An agent's clone has hooks of its own.
    let Some(worktree) = linked_worktree(ctx, agent).filter(|_| !clone::is_one(ctx, agent.id))
    else {
        return Ok(());
    };
    let found = inspect(&site(ctx, &agent.id.short(), &worktree), None)?;
    let is_old = |problem: &Problem| !problem.is_tampering();
    // Where anything was tampered with, nothing is written anew: that would hide it.
    if found.problems.is_empty() || !found.problems.iter().all(is_old) {
        return Ok(());
    }
    install(ctx, agent.id, &worktree, this_git(ctx))
}

/// Writes the hooks for a commit of ours in the agent's worktree to a new directory.
///
/// # Errors
/// Those of [`hooks::for_commit`].
pub(crate) fn for_commit(
    ctx: &Ctx,
    agent: AgentId,
    worktree: &Path,
    directory: &Path,
) -> Result<CommitHooks> {
    let program = ctx.env.program.as_deref().unwrap_or(Path::new("git-agent"));
    hooks::for_commit(&site(ctx, &agent.short(), worktree), program, directory)
}

/// Whether the repository has hooks of its own that a commit of ours in the agent's worktree runs.
///
/// # Errors
/// Those of [`hooks::has_own`].
pub(crate) fn has_own(ctx: &Ctx, agent: AgentId, worktree: &Path) -> Result<bool> {
    hooks::has_own(&site(ctx, &agent.short(), worktree))
}

/// Looks at the hooks of one agent's worktree; `None` when it has none here.
///
/// # Errors
/// `git-failed` when a configuration file cannot be read.
pub fn inspection(ctx: &Ctx, agent: &Agent, git: Option<Version>) -> Result<Option<Inspection>> {
    match linked_worktree(ctx, agent) {
        Some(worktree) => inspect(&site(ctx, &agent.id.short(), &worktree), git).map(Some),
        None => Ok(None),
    }
}

/// The agent's worktree while git knows it.
pub(crate) fn linked_worktree(ctx: &Ctx, agent: &Agent) -> Option<PathBuf> {
    let admin = worktree::admin_dir(&ctx.repo, agent.id);
    if admin.is_dir() {
        worktree::find(&ctx.repo, agent)
    } else {
        None
    }
}

fn site<'a>(ctx: &'a Ctx, short_id: &'a str, worktree: &'a Path) -> Site<'a> {
    Site {
        repo: &ctx.repo,
        short_id,
        worktree,
        home: ctx.env.home.as_deref(),
    }
}

pub(crate) fn this_git(ctx: &Ctx) -> Option<Version> {
    program::ask_version(&ctx.env.directory).ok()?.answer()
}
