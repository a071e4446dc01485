use super::tampering::verify;
use crate::support::agent::describe;
use crate::support::{TestRepo, git_in, signing};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

const LEDGER: &str = "refs/notes/agents";

/// The events without a good signature: the kind, and what is wrong.
fn unsigned(answer: &Value) -> Vec<[&str; 2]> {
    let events = answer["signatures"]["unsigned"].as_array().expect("a list");
    events
        .iter()
        .map(|event| ["event", "signature"].map(|key| event[key].as_str().expect("a text")))
        .collect()
}

/// An agent that was spawned before events were signed, and Ada, who signs from now on.
fn scene() -> (TestRepo, Value, String) {
    let repo = TestRepo::with_commit();
    let agent = repo.spawn();
    signing::set_up(&repo);
    repo.git(["config", "agent.sign", "true"]);
    let id = agent["agent_id"].as_str().expect("an id").to_owned();
    (repo, agent, id)
}

#[test]
fn events_are_signed_as_git_signs_and_all_others_are_named() {
    let (repo, agent, id) = scene();
    // The agent's own configuration does not decide it.
    let worktree = Path::new(agent["worktree_abspath"].as_str().expect("a path"));
    repo.git(["config", "extensions.worktreeConfig", "true"]);
    git_in(worktree, ["config", "--worktree", "agent.sign", "false"]);
    repo.agent_json(&["done", &id, "-m", "It is done"]);
    // Git itself trusts it.
    repo.git(["verify-commit", LEDGER]);
    let signed = repo.git(["rev-parse", LEDGER]);
    signing::sign_as(&repo, "eve");
    repo.agent_json(&["defer", &id, "-m", "Not today"]);

    let by_ada = json!([{"signer": "ada@example.com", "events": 1}]);
    let found = verify(&repo, &[]);
    assert_eq!(found["verdict"], "accept", "{found}");
    assert_eq!(found["signatures"]["signed"], by_ada);
    let mut expected =
        vec![["spawning", "missing"], ["spawned", "missing"], ["deferred", "untrusted"]];
    assert_eq!(unsigned(&found), expected);
    let tip = repo.git(["rev-parse", LEDGER]);
    assert_eq!(found["signatures"]["unsigned"][2]["commit"], tip);
    assert_eq!(verify(&repo, &["--signed"])["verdict"], "reject");
    let text = describe(&repo.agent(&["ledger", "verify"]));
    for told in [
        "1 event signed by ada@example.com",
        "2 events without a signature (spawning, spawned)",
        "1 event signed by a key that git does not trust (deferred)",
    ] {
        assert!(text.contains(told), "{told}: {text}");
    }

    // An event that is made up where another clone writes fits into the row, and is united with it.
    let spawn = agent["spawn_commit"].as_str().expect("a commit");
    let body = repo.git(["notes", "--ref=agents", "show", spawn]);
    let last = body.lines().last().expect("a line");
    let theirs = "refs/notes/origin/agents";
    repo.git(["update-ref", theirs, &signed]);
    let forged = body.replace(last, &last.replace("Not today", "Never"));
    let file = repo.path().with_file_name("body");
    fs::write(&file, forged).expect("write");
    let file = file.display().to_string();
    repo.git(["notes", "--ref=origin/agents", "add", "--force", "-F", &file, spawn]);
    repo.agent_json(&["unite", "origin"]);
    let found = verify(&repo, &[]);
    assert_eq!(found["verdict"], "accept", "{found}");
    assert_eq!(found["signatures"]["signed"], by_ada);
    expected.push(["deferred", "missing"]);
    let mut all = unsigned(&found);
    all.sort_unstable();
    expected.sort_unstable();
    assert_eq!(all, expected, "{found}");

    // A relative list begins at the top of the worktree.
    let list = repo.git(["config", "gpg.ssh.allowedSignersFile"]);
    std::fs::copy(list, repo.path().join(".git/signers")).expect("copied");
    repo.git(["config", "gpg.ssh.allowedSignersFile", ".git/signers"]);
    assert_eq!(verify(&repo, &[])["signatures"]["signed"], by_ada);

    // Without a list no key is trusted, and what is signed still differs from what is not.
    repo.git(["config", "--unset", "gpg.ssh.allowedSignersFile"]);
    let found = verify(&repo, &[]);
    assert_eq!(found["signatures"]["signed"], json!([]));
    let untrusted = unsigned(&found).into_iter();
    assert_eq!(untrusted.filter(|[_, what]| *what == "untrusted").count(), 2);
    // Only where signatures are wanted they are looked at.
    repo.git(["config", "agent.sign", "false"]);
    assert!(verify(&repo, &[]).get("signatures").is_none());
}

#[test]
fn a_signer_that_fails_refuses_the_event_and_loses_nothing() {
    let (repo, agent, id) = scene();
    let state = || {
        let refs =
            repo.git(["for-each-ref", "--format=%(refname) %(objectname)", LEDGER, "refs/heads"]);
        (refs, repo.git(["worktree", "list", "--porcelain"]))
    };
    let before = state();
    let refused = |arguments: &[&str], code: &str, status: i32| {
        let output = repo.agent(&[arguments, &["--format=json"]].concat());
        assert_eq!(output.status.code(), Some(status), "{}", describe(&output));
        let error: Value = serde_json::from_slice(&output.stderr).expect("JSON");
        assert_eq!(error["error"]["code"], code, "{error}");
        assert_eq!(state(), before, "{arguments:?}");
        error.to_string()
    };
    signing::sign_as(&repo, "nobody");
    let error = refused(&["done", &id, "-m", "It is done"], "commit-refused", 3);
    assert!(error.contains("agent.sign is set, and git could not sign the event"), "{error}");
    assert!(error.contains("keys/nobody"), "{error}");
    refused(&["spawn", &repo.task_file(crate::support::agent::TASK)], "commit-refused", 3);
    refused(&["discard", &id], "commit-refused", 3);
    let worktree = Path::new(agent["worktree_abspath"].as_str().expect("a path"));
    assert!(worktree.join("README.md").exists());
    let closed = repo.path().join(".git/agents/closed");
    assert!(!closed.exists(), "a refused event closes nothing");
    repo.git(["config", "agent.sign", "perhaps"]);
    refused(&["done", &id], "usage", 2);
    repo.git(["config", "agent.sign", "true"]);
    signing::sign_as(&repo, "ada");
    repo.agent_json(&["done", &id]);
    repo.agent_json(&["discard", &id]);
    repo.git(["verify-commit", LEDGER]);
}
