//! The debug log.

use crate::support::TestRepo;
use crate::support::agent::{TASK, agent_command, describe};
use crate::verify::Agent;
use git_agent::ops::spawn;

fn spawned(level: Option<&str>) -> String {
    let repo = TestRepo::with_commit();
    repo.write("task.toml", TASK);
    let mut command = agent_command(&repo.path());
    command.args(["spawn", "task.toml", "--format=json"]);
    if let Some(level) = level {
        command.env("GIT_AGENT_LOG", level);
    }
    let output = command.output().expect("starts");
    assert!(output.status.success(), "{}", describe(&output));
    serde_json::from_slice::<serde_json::Value>(&output.stdout).expect("one document on stdout");
    String::from_utf8(output.stderr).expect("UTF-8")
}

#[test]
fn every_step_is_a_span() {
    let log = spawned(Some("debug"));
    for step in spawn::STEPS {
        assert!(log.contains(&format!("step{{step=\"{step}\"}}")), "{step} in {log}");
    }
}

#[test]
fn every_git_is_a_line() {
    let agent = Agent::new();
    agent.write("src/two.rs", "pub fn two() {}\n");
    let output = agent_command(&agent.repo.path())
        .args(["verify", &agent.id])
        .env("GIT_AGENT_LOG", "debug")
        .output();
    let output = output.expect("starts");
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(log.contains("\"ls-files\", \"-z\""), "{log}");
}

#[test]
fn nothing_is_logged_unasked() {
    for level in [None, Some(""), Some("warn"), Some("nonsense")] {
        assert!(!spawned(level).contains("step"), "{level:?}");
    }
}
