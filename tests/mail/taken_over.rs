//! The configuration of the older kit, taken over into the settings of the repository, and what those say of messages.

use crate::support::TestRepo;
use crate::support::agent::describe;

const CONFIG: &str = include_str!("../../fixtures/kit/messenger-config.yaml");
const SETTINGS: &str = ".config/git-agent.toml";

fn settings(repo: &TestRepo) -> String {
    std::fs::read_to_string(repo.path().join(SETTINGS)).expect("settings")
}

#[test]
fn types_priorities_and_retention_are_taken_over_once() {
    let repo = TestRepo::with_commit();
    repo.write("_bmad/core/messenger/messenger-config.yaml", CONFIG);
    repo.write(SETTINGS, "[checks]\ncommands = [\"true\"]\n");
    repo.commit_all("the kit");
    let dry = repo.agent_json(&["init", "--from-kit", "--dry-run"]);
    assert!(dry["proposal"]["file"].as_str().expect("a file").contains("[messages]"), "{dry}");
    assert!(!settings(&repo).contains("messages"));
    let report = repo.agent_json(&["init", "--from-kit"]);
    assert_eq!(report["proposal"]["is_written"], true);
    let written = settings(&repo);
    assert!(
        written.starts_with("[checks]") && written.contains("handoff = \"critical\""),
        "{written}"
    );
    let again = repo.agent(&["init", "--from-kit"]);
    assert_eq!(again.status.code(), Some(3), "{}", describe(&again));
    assert_eq!(settings(&repo), written);
    // What is not committed does not count yet.
    let send = |more: &[&str]| {
        let arguments = ["send", "--type=notify", "--from=a", "--to=b", "--payload", "message=x"];
        repo.agent(&[&arguments[..], more, &["--format=json"]].concat())
    };
    let priority = |more: &[&str]| -> String {
        let output = send(more);
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        report["priority"].as_str().expect("a priority").to_owned()
    };
    assert_eq!(priority(&[]), "low");
    repo.commit_all("taken over");
    assert_eq!(priority(&[]), "medium");
    assert_eq!(priority(&["--priority=critical"]), "critical");
    let review = [
        "send",
        "--type=review",
        "--from=a",
        "--to=b",
        "--payload",
        "artifact_path=x",
        "review_type=code",
    ];
    let lacking = repo.agent(&review);
    let said = String::from_utf8_lossy(&lacking.stderr);
    assert!(said.contains("needs files_changed"), "{}", describe(&lacking));
    repo.agent_json(&[&review[..], &["files_changed=a.rs"]].concat());
    // An agent's own HEAD says nothing of it.
    let agent = repo.spawn();
    let worktree = agent["worktree_abspath"].as_str().expect("a worktree");
    std::fs::write(std::path::Path::new(worktree).join(SETTINGS), "[messages]\nnotify = \"low\"\n")
        .expect("written");
    assert_eq!(priority(&[]), "medium");
}

#[test]
fn retention_is_that_of_the_repository_unless_it_is_named() {
    let repo = TestRepo::with_commit();
    repo.write(SETTINGS, "[messages]\nactive = 1\n");
    repo.commit_all("settings");
    for text in ["one", "two", "three"] {
        let message = format!("message={text}");
        repo.agent_json(&["send", "--type=notify", "--from=a", "--to=user", "--payload", &message]);
    }
    repo.agent_json(&["receive", "--agent=user", "--ack=later"]);
    let expire = |more: &[&str]| {
        let report = repo.agent_json(&[&["inbox", "--expire", "--dry-run"][..], more].concat());
        report["archived"].as_array().map_or(0, Vec::len)
    };
    assert_eq!(expire(&[]), 2);
    assert_eq!(expire(&["--active=3"]), 0);
}

#[test]
fn what_cannot_be_taken_over_is_named_and_nothing_is_written() {
    for (config, wanted) in [
        (None, "there is no messenger-config.yaml"),
        (Some("types:\n\t- handoff\n"), "line 2: a tab"),
        (Some("types: {handoff: {priority: high}}\n"), "line 1"),
    ] {
        let repo = TestRepo::with_commit();
        if let Some(config) = config {
            repo.write("messenger-config.yaml", config);
        }
        let output = repo.agent(&["init", "--from-kit"]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(wanted), "{}", describe(&output));
        assert!(!repo.path().join(SETTINGS).exists());
    }
    let repo = TestRepo::with_commit();
    repo.write(SETTINGS, "[messages]\nhandoff = \"urgent\"\nrequire = [\"poll.x\"]\nactive = 0\n");
    repo.commit_all("settings");
    let output =
        repo.agent(&["send", "--type=notify", "--from=a", "--to=b", "--payload", "message=x"]);
    let said = String::from_utf8_lossy(&output.stderr);
    for wanted in ["`urgent` is no priority", "`poll.x` names no field", "`active` is 0"] {
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
}
