//! A verdict stands while all that it names is as it was.

use super::row;
use crate::verify::Agent;
use serde_json::Value;

fn verdict(agent: &Agent) -> Value {
    row(&agent.repo)["verdict"].clone()
}

#[test]
fn a_verdict_on_uncommitted_work_stands_until_a_byte_changes() {
    let agent = Agent::new();
    assert_eq!(verdict(&agent), "none");
    agent.write("src/two.rs", "pub fn two() {}\n");
    agent.verify(&[]);
    assert_eq!(verdict(&agent), "accepted");
    agent.write("src/two.rs", "pub fn six() {}\n");
    assert_eq!(verdict(&agent), "stale");
    agent.write("src/two.rs", "pub fn two() {}\n");
    assert_eq!(verdict(&agent), "accepted");
    agent.write("src/three.rs", "pub fn three() {}\n");
    assert_eq!(verdict(&agent), "stale");
}

#[test]
fn a_commit_on_either_side_makes_it_stale() {
    let agent = Agent::new();
    agent.write("src/two.rs", "pub fn two() {}\n");
    agent.commit("two");
    agent.verify(&[]);
    assert_eq!(verdict(&agent), "accepted");
    agent.repo.write("NOTES.md", "moved on\n");
    agent.repo.commit_all("main moves on");
    assert_eq!(verdict(&agent), "stale");
    agent.verify(&[]);
    assert_eq!(verdict(&agent), "accepted");
    agent.git(&[
        "commit",
        "--quiet",
        "--allow-empty",
        "--no-verify",
        "-m",
        "more",
    ]);
    assert_eq!(verdict(&agent), "stale");
}

#[test]
fn another_bundle_makes_it_stale() {
    let agent = Agent::new();
    agent.write("src/two.rs", "pub fn two() {}\n");
    agent.verify(&[]);
    agent.write(".agent/review.md", "on second thoughts\n");
    assert_eq!(verdict(&agent), "stale");
}

#[test]
fn a_rejection_names_its_findings() {
    let agent = Agent::new();
    agent.write("docs/a.md", "out of scope\n");
    agent.verify(&[]);
    let row = row(&agent.repo);
    assert_eq!(row["verdict"], "rejected");
    assert_eq!(row["verdict_findings"][0], "scope.not-in-whitelist");
}

#[test]
fn what_landed_keeps_its_verdict() {
    let agent = Agent::new();
    agent.write("src/two.rs", "pub fn two() {}\n");
    agent.repo.agent_json(&["merge", &agent.id]);
    let row = row(&agent.repo);
    assert_eq!(
        (&row["state"], &row["verdict"]),
        (&"merged".into(), &"accepted".into())
    );
    assert_eq!(row.get("ahead"), None);
}
