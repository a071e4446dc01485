//! A verdict stands while all that it names is as it was.

use super::row;
use crate::verify::Agent;
use serde_json::Value;

fn verdict(agent: &Agent) -> Value {
    let row = row(&agent.repo);
    match (&row["verdict"], &row["verdict_stale"]) {
        (_, Value::Bool(true)) => "stale".into(),
        (verdict, _) => verdict.clone(),
    }
}

#[test]
fn a_verdict_on_uncommitted_work_stands_until_a_byte_changes() {
    let agent = Agent::new();
    assert_eq!(verdict(&agent), Value::Null);
    agent.write("src/two.rs", "pub fn two() {}\n");
    agent.verify(&[]);
    assert_eq!(verdict(&agent), "accept");
    agent.write("src/two.rs", "pub fn six() {}\n");
    assert_eq!(verdict(&agent), "stale");
    agent.write("src/two.rs", "pub fn two() {}\n");
    assert_eq!(verdict(&agent), "accept");
    // Committing just what was judged changes nothing that was said of it.
    agent.repo.agent_json(&["commit", &agent.id, "-m", "two"]);
    assert_eq!(verdict(&agent), "accept");
    agent.write("src/three.rs", "pub fn three() {}\n");
    assert_eq!(verdict(&agent), "stale");
}

#[test]
fn a_commit_of_the_agent_makes_it_stale_and_one_on_the_target_does_not() {
    let agent = Agent::new();
    agent.write("src/two.rs", "pub fn two() {}\n");
    agent.commit("two");
    agent.verify(&[]);
    assert_eq!(verdict(&agent), "accept");
    agent.repo.write("NOTES.md", "moved on\n");
    agent.repo.commit_all("main moves on");
    assert_eq!(verdict(&agent), "accept");
    agent.git(&["commit", "--quiet", "--allow-empty", "--no-verify", "-m", "more"]);
    assert_eq!(verdict(&agent), "stale");
}

#[test]
fn a_rejection_for_the_landing_alone_is_stale_once_the_target_moves() {
    let agent = Agent::new();
    agent.write("src/lib.rs", "pub fn agents() {}\n");
    agent.commit("the agent's");
    agent.repo.write("src/lib.rs", "pub fn mains() {}\n");
    agent.repo.commit_all("main's");
    agent.verify(&[]);
    let row = row(&agent.repo);
    assert_eq!(
        (&row["verdict"], &row["findings"]),
        (&"reject".into(), &serde_json::json!(["merge.conflict"]))
    );
    assert_eq!(verdict(&agent), "reject");
    agent.repo.git(["reset", "--quiet", "--hard", "HEAD^"]);
    assert_eq!(verdict(&agent), "stale");
}

#[test]
fn a_landing_of_another_agent_leaves_verdicts_as_they_are() {
    let agent = Agent::new();
    agent.write("src/two.rs", "pub fn two() {}\n");
    agent.verify(&[]);
    let words =
        ["spawn", "-m", "Add another one.", "--scope=src/**", "--no-bundle", "--name=other"];
    let other = agent.repo.agent_json(&words);
    let place = other["worktree_abspath"].as_str().expect("a place");
    std::fs::write(format!("{place}/src/other.rs"), "").expect("written");
    agent.repo.agent_json(&["merge", "other"]);
    let listed = agent.repo.agent_json(&["list"]);
    let row = &listed["agents"][0];
    assert_eq!((&row["verdict"], row.get("verdict_stale")), (&"accept".into(), None));
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
    assert_eq!(row["verdict"], "reject");
    assert_eq!(row["findings"][0], "scope.not-in-whitelist");
}

#[test]
fn what_landed_keeps_its_verdict() {
    let agent = Agent::new();
    agent.write("src/two.rs", "pub fn two() {}\n");
    agent.repo.agent_json(&["merge", &agent.id]);
    let row = row(&agent.repo);
    assert_eq!((&row["state"], &row["verdict"]), (&"merged".into(), &"accept".into()));
    assert_eq!(row.get("ahead"), None);
}
