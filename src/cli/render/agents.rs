//! How agents look: in a table, alone, as a tree.

use crate::cli::style::{BAD, GOOD, WARN};
use crate::domain::agent::State;
use crate::domain::task::DESCRIPTION_CHARS;
use crate::ops::agent_report::AgentReport;
use crate::ops::status::WorkStatus;
use anstyle::Style;

pub(in crate::cli) const NO_AGENTS: &str = "(no agents)\n";

/// The states of agents for which there is something to do, those that a person has to see to first.
pub(in crate::cli) const BY_NEED: [State; 8] = {
    use State::{Done, Failed, Idle, Ready, Rejected, Running, Spawning, Waiting};
    [
        Waiting, Failed, Done, Running, Idle, Ready, Spawning, Rejected,
    ]
};

pub(in crate::cli) fn handle(agent: &AgentReport) -> String {
    handle_of(&agent.short_id, agent.name.as_deref())
}

/// An agent's short id and its name.
pub(in crate::cli) fn handle_of(short_id: &str, name: Option<&str>) -> String {
    match name {
        Some(name) => format!("{short_id} {name}"),
        None => short_id.to_owned(),
    }
}

/// What an agent is to do, with a sign where a row holds but the beginning of it.
pub(in crate::cli) fn task(agent: &AgentReport) -> Option<String> {
    let task = agent.description.as_deref()?;
    let is_cut = task.chars().count() >= DESCRIPTION_CHARS;
    Some(format!("{task}{}", if is_cut { "…" } else { "" }))
}

/// An agent's state, and whether it still has a worktree.
pub(in crate::cli) fn state_of_work(agent: &AgentReport, status: &WorkStatus) -> String {
    let state = state(agent);
    match status.worktree_gone.known() {
        Some(true) => format!("{state}, worktree gone"),
        _ => state,
    }
}

pub(in crate::cli) fn state(agent: &AgentReport) -> String {
    if let Some(claimed) = agent.claimed_state {
        return format!("{} (claimed {claimed})", agent.state);
    }
    let run = agent.run.as_ref().map(|run| run.state);
    match (agent.deferred, run) {
        (true, _) => format!("{} (deferred)", agent.state),
        (false, Some("running")) => format!("{} (at work)", agent.state),
        (false, Some("dead")) => format!("{} (run died)", agent.state),
        _ => agent.state.to_owned(),
    }
}

pub(in crate::cli) fn state_style(state: &str) -> Style {
    match state {
        "done" | "merged" => GOOD,
        "failed" | "rejected" => BAD,
        "spawning" => WARN,
        _ => Style::new(),
    }
}
