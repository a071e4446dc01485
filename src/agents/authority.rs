//! Agents that would start agents.

use crate::agents::ctx::Ctx;
use crate::agents::ctx::Env;
use crate::agents::current::CurrentAgent;
use crate::domain::agent::Agent;
use crate::domain::id::AgentId;
use crate::error::{Code, Error, Remedy, Result};

/// Refuses a spawn from inside an agent whose policy does not allow it, whether the environment or the
/// directory names that agent. Gives the agent that asks, where one does: it is the parent of what it spawns.
///
/// # Errors
/// `recursion-refused`, also when the agent or its policy cannot be read.
pub fn require_no_recursion(env: &Env) -> Result<Option<AgentId>> {
    match CurrentAgent::find(env, &[&env.directory]) {
        Ok(None) => Ok(None),
        Ok(Some(home)) => {
            require_may_spawn(&home)?;
            Ok(Some(home.agent.id))
        }
        Err(error) => Err(Error::new(
            Code::RecursionRefused,
            "this is inside an agent, and whether it may spawn agents cannot be read",
        )
        .because(error)),
    }
}

/// Refuses what starts agents, unless the policy allows it.
///
/// # Errors
/// `recursion-refused`.
pub(crate) fn require_may_spawn(home: &CurrentAgent) -> Result<()> {
    if home.policy.may_spawn {
        return Ok(());
    }
    Err(Error::new(
        Code::RecursionRefused,
        format!("agent {} may not spawn agents", home.agent.id.short()),
    )
    .hint("to ask for help instead, write it into handoffs.md and finish"))
}

/// Refuses to say how an agent's work ended from inside another agent.
///
/// # Errors
/// As [`require_orchestrator`].
pub(crate) fn require_own(ctx: &Ctx, agent: &Agent) -> Result<()> {
    if CurrentAgent::is_of(&ctx.env, agent) {
        return Ok(());
    }
    require_orchestrator(ctx)
}

/// Refuses decisions from inside an agent: no agent lands, commits or removes work, its own or another's. A person who stands
/// in an agent's worktree, at a terminal, is no agent; the words of a run are, whatever terminal they make for themselves.
///
/// # Errors
/// `orchestrator-only`, also when it cannot be read whose worktree this is.
pub(crate) fn require_orchestrator(ctx: &Ctx) -> Result<()> {
    if ctx.env.at_terminal && ctx.env.agent.is_none() && !ctx.env.fenced {
        return Ok(());
    }
    let root = ctx.repo.main_worktree().ok().flatten();
    let root = root.map_or("<main worktree>".into(), |root| root.display().to_string());
    let refused = |message: String| {
        Error::new(Code::OrchestratorOnly, message).hint(format!(
            "to decide about an agent, do so from the main worktree: cd {root}"
        ))
    };
    match CurrentAgent::find(&ctx.env, &[&ctx.env.directory]) {
        Ok(None) => Ok(()),
        Ok(Some(home)) => Err(refused(format!(
            "this is inside agent {}, which does not decide about agents",
            home.agent.id.short()
        ))),
        Err(error) => Err(refused("this is inside an agent".to_owned()).because(error)),
    }
}

/// Refuses to judge the whole repository from inside a sandbox: a command there sees no branch and no worktree but its
/// own, and would take those of other agents for lost.
///
/// # Errors
/// `orchestrator-only`.
pub(crate) fn require_whole_view(ctx: &Ctx) -> Result<()> {
    if !ctx.env.fenced {
        return Ok(());
    }
    let what = "inside the sandbox only the agent's own branch and worktree are seen";
    Err(Error::new(Code::OrchestratorOnly, what)
        .remedy("to see what is known of all agents", Remedy::Agents))
}
