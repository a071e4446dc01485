//! `hooks`: whether the git hooks of agents' worktrees are as they should be, and putting them right.

use crate::domain::agent::{Agent, State};
use crate::domain::id::AgentId;
use crate::error::{Code, Error, Result};
use crate::git::version::{self, Version};
use crate::ops::{Ctx, lookup};
use crate::store::hooks::inspect::{Inspection, inspect};
use crate::store::hooks::{self, Route, Site};
use crate::store::ledger::Ledger;
use crate::store::{layout, lock};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// The answer of `hooks`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HooksReport {
    /// The format's name and version.
    pub schema: &'static str,
    /// One entry for each agent that has a worktree here.
    pub agents: Vec<AgentHooks>,
}

/// The hooks of one agent's worktree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AgentHooks {
    /// The agent's id.
    pub agent_id: String,
    /// Whether everything is as it should be.
    pub ok: bool,
    /// `config` or `directory`; null when nothing leads git to the hooks.
    pub route: Option<&'static str>,
    /// The version of the shims that this program writes.
    pub version: u32,
    /// Where the shims are.
    pub directory: String,
    /// What is wrong.
    pub problems: Vec<ProblemReport>,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProblemReport {
    /// A stable word.
    pub code: &'static str,
    /// A sentence.
    pub message: String,
}

impl HooksReport {
    /// Whether every agent's hooks are as they should be.
    pub fn is_ok(&self) -> bool {
        self.agents.iter().all(|agent| agent.ok)
    }
}

/// Puts the hooks of a new worktree in place, by the route that this git follows.
///
/// # Errors
/// Those of [`hooks::install`], `lock-timeout`.
pub(super) fn install(
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

/// Looks at the hooks of one agent's worktree; `None` when it has none here.
///
/// # Errors
/// `git-failed` when a configuration file cannot be read.
pub fn inspection(ctx: &Ctx, agent: &Agent, git: Option<Version>) -> Result<Option<Inspection>> {
    match worktree(ctx, agent) {
        Some(worktree) => inspect(&site(ctx, &agent.id.short(), &worktree), git).map(Some),
        None => Ok(None),
    }
}

/// Looks at the hooks of one agent, or of all that have a worktree here.
///
/// # Errors
/// `agent-unknown`, `agent-ambiguous`, `agent-state` for an agent without a worktree here.
pub fn status(ctx: &Ctx, who: Option<&str>) -> Result<HooksReport> {
    let git = this_git(ctx);
    let mut agents = Vec::new();
    for agent in chosen(ctx, who)? {
        let Some(found) = inspection(ctx, &agent, git)? else {
            continue;
        };
        let problems = found.problems.iter().map(|problem| ProblemReport {
            code: problem.code(),
            message: problem.to_string(),
        });
        agents.push(AgentHooks {
            agent_id: agent.id.to_string(),
            ok: found.problems.is_empty(),
            route: found.route.map(Route::as_str),
            version: hooks::VERSION,
            directory: layout::hooks_dir(ctx.repo.common_dir(), &agent.id.short())
                .to_string_lossy()
                .into_owned(),
            problems: problems.collect(),
        });
    }
    Ok(HooksReport {
        schema: "git-agent.hooks/1",
        agents,
    })
}

/// Writes the hooks anew and looks at the result.
///
/// # Errors
/// As [`status`], and those of installing.
pub fn repair(ctx: &Ctx, who: Option<&str>) -> Result<HooksReport> {
    let git = this_git(ctx);
    for agent in chosen(ctx, who)? {
        if let Some(worktree) = worktree(ctx, &agent) {
            install(ctx, agent.id, &worktree, git)?;
        }
    }
    status(ctx, who)
}

fn chosen(ctx: &Ctx, who: Option<&str>) -> Result<Vec<Agent>> {
    let ledger = Ledger::new(&ctx.repo);
    let Some(who) = who else {
        let mut agents = ledger.agents()?;
        agents.retain(|agent| agent.state != State::Spawning && worktree(ctx, agent).is_some());
        return Ok(agents);
    };
    let agent = lookup::agent(ctx, &ledger, who)?;
    if worktree(ctx, &agent).is_none() {
        return Err(Error::new(
            Code::AgentState,
            format!("agent {} has no worktree here", agent.id.short()),
        ));
    }
    Ok(vec![agent])
}

/// The agent's worktree while git knows it.
fn worktree(ctx: &Ctx, agent: &Agent) -> Option<PathBuf> {
    let admin = ctx.repo.admin_dir(&layout::worktree_name(agent.id));
    if admin.is_dir() {
        lookup::worktree(&ctx.repo, agent)
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

fn this_git(ctx: &Ctx) -> Option<Version> {
    version::ask(&ctx.env.directory).ok()?.answer()
}
