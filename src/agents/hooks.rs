//! The git hooks of an agent's worktree: what they should be, and whether they are.

use crate::agents::ctx::Ctx;
use crate::agents::worktree;
use crate::domain::agent::Agent;
use crate::domain::id::AgentId;
use crate::error::Result;
use crate::git::program::version::{self, Version};
use crate::store::hooks::inspect::{Inspection, inspect};
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
    let _spawns = lock::hold(ctx.repo.common_dir(), layout::SPAWN_LOCK)?;
    // Not found by its path, the program is looked for on PATH.
    let program = ctx.env.program.as_deref().unwrap_or(Path::new("git-agent"));
    hooks::install(
        &site(ctx, &agent.short(), worktree),
        program,
        Route::for_git(git),
    )
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
    version::ask(&ctx.env.directory).ok()?.answer()
}
