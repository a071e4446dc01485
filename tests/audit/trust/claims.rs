use super::{line, shown, unite_with};
use crate::support::agent::{agent_command, describe, json_of};
use crate::support::{git_in, git_output};
use crate::verify::{Agent, refused};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Dated after everything that is said here.
const LATER: &str = "20991231T235959.000000Z-000-dead";

fn merged(agent: &Agent, commit: &str, into: &str) -> String {
    line(agent, LATER, "merged", json!({"commit": commit, "into": into}))
}

fn discarded(agent: &Agent) -> String {
    let tip = agent.git(&["rev-parse", "HEAD"]);
    line(agent, LATER, "discarded", json!({"tip": tip}))
}

/// Everything that may be claimed about an agent that is at work.
fn claims(agent: &Agent) -> Vec<(&'static str, Vec<String>)> {
    let main = agent.repo.git(["rev-parse", "main"]);
    let tip = agent.git(&["rev-parse", "HEAD"]);
    let own = format!("refs/heads/{}", agent.branch);
    vec![
        ("merged", vec![merged(agent, &main, "refs/heads/main")]),
        ("merged", vec![merged(agent, &tip, &own)]),
        ("merged", vec![merged(agent, &tip, "refs/heads/other")]),
        ("merged", vec![merged(agent, &main.replace(|_: char| true, "1"), "refs/heads/gone")]),
        ("discarded", vec![discarded(agent)]),
        ("merged", vec![merged(agent, &main, "refs/heads/main"), discarded(agent)]),
    ]
}

fn gc(agent: &Agent, arguments: &[&str]) -> (String, String) {
    let report = agent.repo.agent_json(&[&["gc"], arguments].concat());
    let item = &report["agents"][0];
    let text = |key: &str| item[key].as_str().unwrap_or_default().to_owned();
    (text("action"), text("why"))
}

fn assert_alive(agent: &Agent, when: &str) {
    assert!(agent.worktree.join("src/two.rs").exists(), "{when}");
    let branch = format!("refs/heads/{}", agent.branch);
    agent.repo.git(["rev-parse", "--verify", "--quiet", &branch]);
    let prompt = format!(".git/agents/{}/prompt.md", &agent.id[..8]);
    assert!(agent.repo.path().join(prompt).exists(), "{when}: the prompt");
}

#[test]
fn f14_a_claim_removes_no_agent_that_is_at_work() {
    for index in 0..6 {
        let agent = Agent::new();
        agent.write("src/two.rs", "pub fn two() {}\n");
        agent.commit("two");
        agent.write("src/three.rs", "pub fn three() {}\n");
        agent.repo.git(["branch", "other", &agent.branch]);
        agent.repo.write("README.md", "# Moved on\n");
        agent.repo.commit_all("main moves");
        let (claim, lines) = claims(&agent).swap_remove(index);
        unite_with(&agent, &lines);
        let when = format!("{claim} {index}");

        let report = shown(&agent);
        assert_eq!(
            (&report["state"], &report["claimed_state"]),
            (&json!("idle"), &json!(claim)),
            "{when}"
        );
        let listed = agent.repo.agent_json(&["list"]);
        assert_eq!(listed["agents"][0]["claimed_state"], claim, "{when}");
        let text = describe(&agent.repo.agent(&["list"]));
        assert!(text.contains(&format!("idle (claimed {claim})")), "{text}");
        let text = describe(&agent.repo.agent(&["show", &agent.id]));
        assert!(text.contains("hint: "), "{text}");

        for arguments in
            [&["--yes"][..], &["--yes", "--older-than=0s"], &["--yes", "--expire-salvage=0s"]]
        {
            let (action, why) = gc(&agent, arguments);
            assert_eq!(action, "keep", "{when}: {why}");
            assert!(why.contains("nothing here proves"), "{when}: {why}");
            assert_alive(&agent, &when);
        }
        let output = agent.repo.agent(&["doctor", "--fix"]);
        assert_alive(&agent, &describe(&output));
        agent.repo.spawn();
        assert_alive(&agent, "another spawn");

        // What the agent does goes on, and lands.
        let landed = agent.repo.agent_json(&["merge", &agent.id, "--squash"]);
        assert_eq!(landed["outcome"], "merged", "{when}");
        let report = shown(&agent);
        assert_eq!((&report["state"], &report["claimed_state"]), (&json!("merged"), &Value::Null));
        agent.repo.agent_json(&["gc", "--yes"]);
        assert!(!agent.worktree.exists(), "{when}");
    }
}

#[test]
fn f14_a_claimed_rejection_is_not_old_enough() {
    let agent = Agent::new();
    agent.write("src/two.rs", "pub fn two() {}\n");
    agent.commit("two");
    let done = line(&agent, "20260101T000000.000000Z-000-dead", "done", json!({"summary": "x"}));
    let rejected =
        line(&agent, "20260101T000001.000000Z-000-dead", "rejected", json!({"reason": "x"}));
    unite_with(&agent, &[done, rejected]);
    let (action, _) = gc(&agent, &["--yes", "--older-than=0s"]);
    assert_eq!(action, "keep");
    assert_alive(&agent, "rejected");
}

#[test]
fn f14_a_claim_about_a_branch_alone_is_proved_too() {
    let agent = Agent::new();
    agent.write("src/two.rs", "pub fn two() {}\n");
    agent.commit("two");
    let claim = discarded(&agent);
    let path = agent.worktree.to_str().expect("UTF-8");
    agent.repo.git(["worktree", "remove", "--force", "--force", path]);
    unite_with(&agent, &[claim]);
    let (action, why) = gc(&agent, &["--yes"]);
    assert_eq!(action, "keep", "{why}");
    agent.repo.git(["rev-parse", "--verify", "--quiet", &agent.branch]);
    let report = agent.repo.agent_json(&["discard", &agent.id]);
    assert_eq!((&report["state"], &report["claimed_state"]), (&json!("discarded"), &Value::Null));
}

/// A clone of the repository in which the agent was spawned, with its branch and its row.
fn clone_of(agent: &Agent) -> PathBuf {
    let clone = agent.repo.path().with_file_name("clone");
    let main = agent.repo.path();
    git_in(&main, ["clone", "--quiet", ".", clone.to_str().expect("UTF-8")]);
    for refspec in ["+refs/notes/agents:refs/notes/agents", "+refs/agents/keep:refs/agents/keep"] {
        git_in(&clone, ["fetch", "--quiet", "origin", refspec]);
    }
    let branch = format!("refs/heads/{0}:refs/heads/{0}", agent.branch);
    git_in(&clone, ["fetch", "--quiet", "origin", &branch]);
    clone
}

#[test]
fn f14_a_landing_elsewhere_counts_once_its_branch_is_here() {
    for method in ["--squash", "--no-ff"] {
        let agent = Agent::of_task(
            "role = \"edit-local\"\ntask = \"Add a second function to the library.\"\n\
             [scope]\nwhitelist = [\"src/**\"]\n[bundle]\nrequired = false\n",
        );
        agent.write("src/two.rs", "pub fn two() {}\n");
        agent.commit("two");
        assert_eq!(agent.verify(&[])["verdict"], "accept");
        let clone = clone_of(&agent);
        let mut command = agent_command(&clone);
        command.args(["merge", &agent.id, method, "--format=json"]);
        assert_eq!(json_of(command)["outcome"], "merged");
        std::fs::write(clone.join("src/two.rs"), "pub fn two() {}\npub fn more() {}\n")
            .expect("written");
        git_in(&clone, ["commit", "--quiet", "-am", "goes on"]);

        let from = clone.to_str().expect("UTF-8");
        agent.repo.git(["remote", "add", "origin", from]);
        agent.repo.git([
            "fetch",
            "--quiet",
            "origin",
            "+refs/notes/agents:refs/notes/origin/agents",
            "+refs/agents/keep:refs/agents/remote/origin/keep",
        ]);
        agent.repo.git(["update-ref", "-d", "refs/remotes/origin/main"]);
        agent.repo.agent_json(&["unite", "origin"]);
        assert_eq!(shown(&agent)["claimed_state"], "merged", "{method}");
        assert_eq!(gc(&agent, &["--yes"]).0, "keep");

        agent.repo.git(["fetch", "--quiet", "origin", "main:refs/remotes/origin/main"]);
        let report = shown(&agent);
        assert_eq!(
            (&report["state"], &report["claimed_state"]),
            (&json!("merged"), &Value::Null),
            "{method}"
        );
        agent.write("src/late.rs", "not committed\n");
        let (action, why) = gc(&agent, &["--yes"]);
        assert_eq!(action, "keep", "{why}");
        std::fs::remove_file(agent.worktree.join("src/late.rs")).expect("removed");
        assert_eq!(gc(&agent, &["--yes"]).0, "removed", "{method}");
        assert!(!agent.worktree.exists());
    }
}

#[test]
fn f14_what_was_committed_after_the_landing_is_kept() {
    let agent = Agent::new();
    agent.write("src/two.rs", "pub fn two() {}\n");
    agent.commit("two");
    agent.repo.agent_json(&["merge", &agent.id]);
    agent.write("src/three.rs", "pub fn three() {}\n");
    agent.commit("three");
    let (action, why) = gc(&agent, &["--yes"]);
    assert_eq!(action, "keep", "{why}");
    assert!(why.contains("refs/heads/main does not hold"), "{why}");
    let output = git_output(&agent.worktree, ["log", "-1", "--format=%s"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "three");
    // It lands with the next landing.
    agent.repo.agent_json(&["merge", &agent.id]);
    let landed = agent.repo.git(["ls-tree", "--name-only", "main", "src/"]);
    assert!(landed.contains("src/three.rs"), "{landed}");
    refused(&agent.repo.agent(&["merge", &agent.id]), "agent-state", 3);
}
