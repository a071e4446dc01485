//! `show`, `log` and `path`: one agent.

use super::agent_report::{AgentReport, Reporter};
use super::event_report::{self, EventReport};
use crate::domain::agent::Agent;
use crate::domain::event::Isolation;
use crate::error::{Code, Error, IoContext, Result};
use crate::ops::standing::{self, Standing};
use crate::ops::{Ctx, lookup};
use crate::store::layout;
use crate::store::ledger::Ledger;
use crate::store::policy;
use crate::wire::policy::Policy;
use serde::Serialize;
use std::fs;

/// The answer of `show`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShowReport {
    /// The format's name and version.
    pub schema: &'static str,
    /// The agent.
    #[serde(flatten)]
    pub agent: AgentReport,
    /// Where its work stands.
    #[serde(flatten)]
    pub standing: Standing,
    /// The globs it may touch; absent while it is being made, null where what binds it is not in this clone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub whitelist: Option<Option<Vec<String>>>,
    /// The globs it must not touch; absent and null as the whitelist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub denylist: Option<Option<Vec<String>>>,
    /// Commands that `verify` runs; absent and null as the whitelist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checks: Option<Option<Vec<String>>>,
    /// What happened, oldest first.
    pub events: Vec<EventReport>,
}

/// The answer of `log`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LogReport {
    /// The format's name and version.
    pub schema: &'static str,
    /// The agent's id.
    pub agent_id: String,
    /// What happened, oldest first.
    pub events: Vec<EventReport>,
}

/// The call that a host's agent tool takes, ready to paste.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Invocation {
    /// The agent type.
    pub subagent_type: String,
    /// What the host shows.
    pub description: String,
    /// The whole prompt.
    pub prompt: String,
    /// `worktree`; absent when shared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub isolation: Option<&'static str>,
}

/// The answer of `path`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PathReport {
    /// The format's name and version.
    pub schema: &'static str,
    /// The agent's id.
    pub agent_id: String,
    /// The worktree, absolute.
    pub worktree_abspath: String,
}

/// One agent with its scope and its events.
///
/// # Errors
/// `agent-unknown`, `agent-ambiguous`, and those of the ledger.
pub fn show(ctx: &Ctx, who: &str) -> Result<ShowReport> {
    let ledger = Ledger::new(&ctx.repo);
    let agent = lookup::agent(ctx, &ledger, who)?;
    let policy = policy::if_here(&ctx.repo, &agent)?;
    let said = |select: fn(&Policy) -> &Vec<String>| {
        agent.policy.map(|_| policy.as_ref().map(select).cloned())
    };
    Ok(ShowReport {
        schema: "git-agent.show/1",
        standing: standing::of(ctx, &agent)?,
        agent: Reporter::new(ctx)?.agent(&agent),
        whitelist: said(|policy| &policy.whitelist),
        denylist: said(|policy| &policy.denylist),
        checks: said(|policy| &policy.checks),
        events: events(&ledger, &agent)?,
    })
}

/// One agent's events.
///
/// # Errors
/// As [`show`].
pub fn log(ctx: &Ctx, who: &str) -> Result<LogReport> {
    let ledger = Ledger::new(&ctx.repo);
    let agent = lookup::agent(ctx, &ledger, who)?;
    Ok(LogReport {
        schema: "git-agent.log/1",
        agent_id: agent.id.to_string(),
        events: events(&ledger, &agent)?,
    })
}

/// The call that starts the agent in a host.
///
/// # Errors
/// As [`show`]; `agent-state` when its prompt is gone, `bug` when the prompt lost its ban on git.
pub fn invocation(ctx: &Ctx, who: &str) -> Result<Invocation> {
    let ledger = Ledger::new(&ctx.repo);
    let agent = lookup::agent(ctx, &ledger, who)?;
    let path = layout::agent_dir(ctx.repo.common_dir(), agent.id).join("prompt.md");
    if !path.exists() {
        return Err(Error::new(
            Code::AgentState,
            format!("the prompt of agent {} is not in this clone", agent.id),
        )
        .hint("to give the task to a new agent, run git agent spawn <task.toml>"));
    }
    let prompt = fs::read_to_string(&path).at("could not read", &path)?;
    if !prompt.contains(crate::domain::prompt::GIT_BAN) {
        return Err(Error::bug(format!(
            "{} does not say `{}`",
            path.display(),
            crate::domain::prompt::GIT_BAN
        )));
    }
    let policy = policy::if_here(&ctx.repo, &agent)?;
    let subagent_type = policy.map(|policy| policy.subagent_type).or(agent.role);
    Ok(Invocation {
        subagent_type: subagent_type.unwrap_or_default(),
        isolation: (agent.isolation == Some(Isolation::Worktree)).then_some("worktree"),
        description: agent.description.unwrap_or_default(),
        prompt,
    })
}

/// Where an agent works.
///
/// # Errors
/// As [`show`]; `agent-state` for an agent without a worktree.
pub fn path(ctx: &Ctx, who: &str) -> Result<PathReport> {
    let ledger = Ledger::new(&ctx.repo);
    let agent = lookup::agent(ctx, &ledger, who)?;
    match agent.worktree {
        Some(worktree) => Ok(PathReport {
            schema: "git-agent.path/1",
            agent_id: agent.id.to_string(),
            worktree_abspath: worktree,
        }),
        None => Err(Error::new(
            Code::AgentState,
            format!("agent {} is shared and has no worktree", agent.id),
        )),
    }
}

fn events(ledger: &Ledger<'_>, agent: &Agent) -> Result<Vec<EventReport>> {
    let events = ledger.events(agent.spawn_commit)?;
    Ok(events.iter().map(event_report::event).collect())
}
