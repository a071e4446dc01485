//! `hooks`: whether the git hooks of agents' worktrees are as they should be, and putting them right.

use crate::agents::upkeep::hooks::{inspection, install, linked_worktree, this_git};
use crate::agents::who::authority::require_orchestrator;
use crate::agents::{Ctx, who::lookup};
use crate::domain::{Agent, State};
use crate::error::{Code, Error, Result};
use crate::store::hooks::Route;
use crate::store::{files::layout, hooks};
use serde::Serialize;

/// The answer of `hooks`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "schema", rename = "git-agent.hooks/1")]
pub struct HooksReport {
    /// One entry for each agent that has a worktree here.
    pub agents: Vec<AgentHooks>,
}

/// The hooks of one agent's worktree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AgentHooks {
    /// The agent's id.
    pub agent_id: String,
    /// The first eight hex digits of the id.
    pub short_id: String,
    /// Whether everything is as it should be.
    pub ok: bool,
    /// `config` or `directory`; null when nothing leads git to the hooks.
    pub route: Option<&'static str>,
    /// The version of the shims that this program writes.
    pub version: u32,
    /// Where the shims are.
    pub directory: String,
    /// What is wrong.
    pub problems: Vec<HookProblemReport>,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HookProblemReport {
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
        let problems = found.problems.iter().map(|problem| HookProblemReport {
            code: problem.code(),
            message: problem.to_string(),
        });
        agents.push(AgentHooks {
            agent_id: agent.id.to_string(),
            short_id: agent.id.short(),
            ok: found.problems.is_empty(),
            route: found.route.map(Route::as_str),
            version: hooks::VERSION,
            directory: layout::hooks_dir(ctx.repo.common_dir(), &agent.id.short())
                .to_string_lossy()
                .into_owned(),
            problems: problems.collect(),
        });
    }
    Ok(HooksReport { agents })
}

/// Writes the hooks anew and looks at the result.
///
/// # Errors
/// As [`status`], and those of installing; `orchestrator-only` inside the sandbox, which keeps them from being written.
pub fn repair(ctx: &Ctx, who: Option<&str>) -> Result<HooksReport> {
    if ctx.env.fenced {
        require_orchestrator(ctx)?;
    }
    let git = this_git(ctx);
    for agent in chosen(ctx, who)? {
        if let Some(worktree) = linked_worktree(ctx, &agent) {
            install(ctx, agent.id, &worktree, git)?;
        }
    }
    status(ctx, who)
}

fn chosen(ctx: &Ctx, who: Option<&str>) -> Result<Vec<Agent>> {
    let ledger = ctx.ledger();
    let Some(who) = who else {
        let mut agents = ledger.agents()?;
        agents.retain(|agent| {
            // Its hooks are installed by the spawn that is under way.
            agent.state != State::Spawning && linked_worktree(ctx, agent).is_some()
        });
        return Ok(agents);
    };
    let agent = lookup::agent(ctx, &ledger, who)?;
    if linked_worktree(ctx, &agent).is_none() {
        lookup::require_worktree_here(ctx, &agent)?;
        let what = format!("agent {} has no worktree here", agent.id.short());
        return Err(Error::new(Code::AgentState, what));
    }
    Ok(vec![agent])
}
