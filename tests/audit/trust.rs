//! Rows from elsewhere are claims, and nothing confidential stays behind.

/// What an agent was told leaves the disk with the agent.
mod briefing;
/// That an agent is over is proved before anything is removed.
mod claims;
/// Clocks that are ahead, beginnings that were made up, rows without measure.
mod rows;

use crate::support::agent::describe;
use crate::support::git_output;
use crate::verify::Agent;
use serde_json::{Value, json};

/// A line of the agent's row as a writer elsewhere may make it up, for this second of the ledger's clock.
fn line(agent: &Agent, stamp: &str, event: &str, facts: Value) -> String {
    let id = &agent.id;
    json!({"t": stamp, "a": id, "e": event, "by": "elsewhere", "d": facts}).to_string()
}

/// Adds lines to the agent's row in the copy that was fetched from `origin`, and unites.
fn unite_with(agent: &Agent, lines: &[String]) -> Value {
    let repo = &agent.repo;
    let copy = "refs/notes/origin/agents";
    repo.git(["update-ref", copy, "refs/notes/agents"]);
    let file = repo.path().with_file_name("lines");
    std::fs::write(&file, lines.join("\n")).expect("written");
    let spawn = spawn_commit(agent);
    let file = file.to_str().expect("UTF-8");
    let append = ["notes", "--ref=origin/agents", "append", "-F", file, &spawn];
    let output = git_output(&repo.path(), append);
    assert!(output.status.success(), "{}", describe(&output));
    repo.agent_json(&["unite", "origin"])
}

fn spawn_commit(agent: &Agent) -> String {
    let note = agent.repo.git(["notes", "--ref=agents", "list"]);
    let short = &agent.id[..8];
    let keys = note.lines().filter_map(|line| line.split(' ').nth(1));
    let mut own = keys.filter(|key| key.starts_with(short));
    own.next().expect("a row").to_owned()
}

fn shown(agent: &Agent) -> Value {
    agent.repo.agent_json(&["show", &agent.id])
}

/// The agent's row as git has it.
fn row(agent: &Agent) -> Vec<Value> {
    let note = agent.repo.git(["notes", "--ref=agents", "show", &spawn_commit(agent)]);
    let lines = note.lines().filter_map(|line| serde_json::from_str(line).ok());
    lines.collect()
}
