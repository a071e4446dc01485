//! Agents that would start agents.

use super::ctx::Env;
use super::home::Home;
use crate::domain::id::AgentId;
use crate::error::{Code, Error, Result};

/// Refuses a spawn from inside an agent whose policy does not allow it, be it told by the environment
/// or by the directory. Gives the agent that asks, where one does: it is the parent of what it spawns.
///
/// # Errors
/// `recursion-refused`, also when the agent or its policy cannot be read.
pub fn require_no_recursion(env: &Env) -> Result<Option<AgentId>> {
    match Home::find(env, &[&env.directory]) {
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
pub(super) fn require_may_spawn(home: &Home) -> Result<()> {
    if home.policy.may_spawn {
        return Ok(());
    }
    Err(Error::new(
        Code::RecursionRefused,
        format!("agent {} may not spawn agents", home.agent.id.short()),
    )
    .hint("to ask for help instead, write it into handoffs.md and finish"))
}
