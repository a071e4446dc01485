//! Committing and landing, with git as the judge of what came out.

/// Agents in which something runs, and work after a landing.
mod busy;
/// Files that git moves.
mod by_git;
/// Moving worktrees along.
mod carry;
/// `commit`.
mod commit;
/// Death while committing.
mod commit_kill;
/// Conflicts of an update, left and resolved.
mod conflicts;
/// Plans write nothing.
mod dry_run;
/// Git hooks that have a say in a landing.
mod git_hooks;
/// `merge` of one agent and of all.
mod merge;
/// Where the target moved what the agent changed.
mod moved_on_target;
/// What other tools write on and beside commits.
mod others;
/// The hook `reference-transaction` of the repository.
mod ref_hook;
/// Landings without the spawn commit.
mod replayed;
/// Branches that were rewritten, and work that was taken back, since a landing.
mod rewritten;
/// Work that was built upon another agent's, after that has landed.
mod stacked;
/// States, and what answers say of them.
mod states;
/// Races and deaths.
pub mod stops;
/// `update`.
mod update;

use crate::support::TestRepo;
use crate::support::agent::{agent_command, answer_of, describe};
use crate::verify::Agent;
use serde_json::Value;
use std::process::Output;

/// Runs a verb on an agent from the main worktree.
fn run(agent: &Agent, verb: &str, arguments: &[&str]) -> Output {
    agent_command(&agent.repo.path())
        .args([verb, &agent.id])
        .args(arguments)
        .output()
        .expect("git-agent starts")
}

/// As [`run`], which must succeed.
fn answer(agent: &Agent, verb: &str, arguments: &[&str]) -> Value {
    let output = run(agent, verb, &[arguments, &["--format=json"]].concat());
    assert!(output.status.success(), "{}", describe(&output));
    answer_of(&output)
}

/// An agent with a committed and an uncommitted change, on a `main` that has moved on.
pub fn ready() -> Agent {
    let agent = Agent::new();
    agent.write("src/two.rs", "pub fn two() {}\n");
    agent.commit("two");
    agent.write("src/three.rs", "pub fn three() {}\n");
    agent.write("src/two.rs", "pub fn two() -> u32 {\n    2\n}\n");
    agent.write("src/lib.rs", "pub fn one() -> u32 {\n    11\n}\n");
    agent.repo.write("NOTES.md", "moved on\n");
    agent.repo.commit_all("main moves on");
    agent
}

fn state(agent: &Agent) -> String {
    let shown = agent.repo.agent_json(&["show", &agent.id]);
    shown["state"].as_str().expect("a state").to_owned()
}

/// How many commits that only make an agent a branch holds.
fn spawns_in(repo: &TestRepo, branch: &str) -> usize {
    let subjects = repo.git(["log", "--format=%s", branch]);
    let is_spawn = |line: &&str| line.starts_with("agent: spawn");
    subjects.lines().filter(is_spawn).count()
}

/// No object is missing or broken, and both worktrees are as their branches say.
fn require_sound(agent: &Agent) {
    let repo = &agent.repo;
    let fsck = ["fsck", "--strict", "--no-progress", "--no-dangling"];
    assert_eq!(repo.git(fsck), "");
    assert_eq!(repo.git(["status", "--porcelain"]), "");
    assert_eq!(agent.git(&["status", "--porcelain"]), "");
}
