use super::{Hub, agent, branch_of, json, row, spawn};
use crate::support::agent::describe;
use crate::support::git_in;
use std::path::Path;

/// That `sync` ends with 4 and these words, and with 0 and a warning where it is not essential.
fn refused(clone: &Path, words: &[&str]) {
    let output = agent(clone, &["sync"]);
    let said = describe(&output);
    assert_eq!(output.status.code(), Some(4), "{said}");
    for word in words {
        assert!(said.contains(word), "{word}: {said}");
    }
    let output = agent(clone, &["sync", "--best-effort"]);
    let said = describe(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("warning:"), "{said}");
}

#[test]
fn each_layer_that_refuses_is_named_and_nothing_is_tried_for_ever() {
    let cases: [(&str, &str, &[&str]); 3] = [
        (
            "pre-receive",
            "echo 'no notes here' >&2; exit 1",
            &["a hook of the server", "no notes here"],
        ),
        (
            "update",
            "echo 'GH013: Repository rule violations found' >&2; exit 1",
            &["a rule of the host", "GH013"],
        ),
        (
            "pre-receive",
            "echo 'quota exceeded: 1 of 1 MiB' >&2; exit 1",
            &["the storage of the server", "quota exceeded"],
        ),
    ];
    let hub = Hub::new(1);
    let clone = &hub.clones[0];
    row(clone, "a");
    for (hook, script, words) in cases {
        hub.hook(hook, script);
        refused(clone, words);
        std::fs::remove_file(hub.bare.join("hooks").join(hook)).expect("removed");
    }
    git_in(&hub.bare, ["config", "receive.hideRefs", "refs/notes"]);
    refused(clone, &["receive.hideRefs"]);
    git_in(&hub.bare, ["config", "--unset", "receive.hideRefs"]);
    // A ref that arrives and is not shown proves nothing.
    git_in(&hub.bare, ["config", "uploadpack.hideRefs", "refs/notes"]);
    refused(clone, &["hides such refs"]);
    git_in(&hub.bare, ["config", "--unset", "uploadpack.hideRefs"]);
    // None of this is in the way of what is only ever added to.
    git_in(&hub.bare, ["config", "receive.denyNonFastForwards", "true"]);
    git_in(&hub.bare, ["config", "receive.denyDeletes", "true"]);
    let output = agent(clone, &["sync"]);
    assert!(output.status.success(), "{}", describe(&output));
}

#[test]
fn a_remote_that_is_not_there_is_named() {
    let hub = Hub::new(1);
    let clone = &hub.clones[0];
    row(clone, "a");
    git_in(clone, ["config", "remote.origin.url", "/nowhere/at/all"]);
    refused(clone, &["error[remote-unreachable]", "git ls-remote origin"]);
    for (words, hint) in [
        (&["sync", "elsewhere"][..], "git remote add elsewhere <url>"),
        (&["sync", "/tmp/x.git"], "git remote add hub /tmp/x.git"),
    ] {
        let output = agent(clone, words);
        assert_eq!(output.status.code(), Some(2), "{}", describe(&output));
        assert!(describe(&output).contains(hint), "{}", describe(&output));
    }
}

#[test]
fn a_branch_that_was_rewritten_is_not_forced() {
    let hub = Hub::new(1);
    let clone = &hub.clones[0];
    let spawned = spawn(clone, &[]);
    let branch = branch_of(&spawned);
    json(clone, &["sync"]);
    let main = hub.remote_tip("refs/heads/main");
    let tree = git_in(&hub.bare, ["rev-parse", "main^{tree}"]);
    let other = git_in(
        &hub.bare,
        [
            "-c",
            "user.name=x",
            "-c",
            "user.email=x",
            "commit-tree",
            "-p",
            &main,
            "-m",
            "other",
            &tree,
        ],
    );
    git_in(&hub.bare, ["update-ref", &branch, &other]);
    let report = json(clone, &["sync"]);
    assert_eq!(report["branches"][0]["state"], "refused", "{report:#}");
    let warning = report["warnings"][0].as_str().expect("a warning");
    let (_, advised) = warning.split_once("run ").expect("advice");
    let mut shell = crate::support::isolated("sh", clone);
    let output = shell.args(["-c", advised]).output().expect("starts");
    assert!(describe(&output).contains("other"), "{}", describe(&output));
    assert_eq!(hub.remote_tip(&branch), other);
}

#[test]
fn settings_that_cannot_be_meant_are_refused() {
    let hub = Hub::new(1);
    let clone = &hub.clones[0];
    for (key, value) in [
        ("agent.sync", "ledger prompts"),
        ("agent.refPrefix", "refs/heads"),
        ("agent.refPrefix", "a..b"),
        ("agent.refPrefix", "main"),
        ("agent.refPrefix", "refs/heads/main/agents"),
    ] {
        git_in(clone, ["config", key, value]);
        let output = agent(clone, &["sync"]);
        assert_eq!(output.status.code(), Some(2), "{}", describe(&output));
        assert!(describe(&output).contains(key), "{}", describe(&output));
        git_in(clone, ["config", "--unset", key]);
    }
}

#[test]
fn a_row_that_names_a_branch_of_the_user_pushes_nothing() {
    let hub = Hub::new(2);
    let [one, hostile] = [0, 1].map(|n| hub.clones[n].clone());
    let spawned = spawn(&hostile, &[]);
    let commit = spawned["spawn_commit"].as_str().expect("an oid");
    let branch = spawned["branch"].as_str().expect("a branch");
    let row = git_in(&hostile, ["notes", "--ref=agents", "show", commit]);
    let forged = row.replace(branch, "main");
    git_in(&hostile, ["notes", "--ref=agents", "add", "-f", "-m", &forged, commit]);
    git_in(&hostile, ["push", "--quiet", "origin", "refs/notes/agents"]);
    git_in(&one, ["commit", "--quiet", "--allow-empty", "-m", "not for the remote yet"]);
    let before = hub.remote_tip("refs/heads/main");
    let report = json(&one, &["sync"]);
    assert_eq!(report["branches"], serde_json::json!([]), "{report:#}");
    assert_eq!(hub.remote_tip("refs/heads/main"), before);
}

#[test]
fn an_agent_cannot_reach_a_remote_with_the_keys_of_the_user() {
    let hub = Hub::new(1);
    let clone = &hub.clones[0];
    let spawned = spawn(clone, &[]);
    let worktree = spawned["worktree_abspath"].as_str().expect("a path");
    let claiming = ["run", "any", "--claim=x", "--sync=origin", "--", "true"];
    for words in [&["sync"][..], &claiming] {
        let output = agent(Path::new(worktree), words);
        let said = describe(&output);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.contains("error[orchestrator-only]"), "{said}");
    }
    assert_eq!(hub.remote_tip("refs/notes/agents"), "");
    assert_eq!(hub.remote_tip("refs/agents/claim/x"), "");
}

#[test]
fn a_ref_that_stands_in_the_way_of_ours_is_named_and_not_waited_for() {
    let hub = Hub::new(1);
    let clone = &hub.clones[0];
    row(clone, "a");
    for stone in ["refs/notes/agents/below", "refs/notes"] {
        git_in(&hub.bare, ["update-ref", stone, "main"]);
        let name = format!("git push origin --delete {stone}");
        refused(clone, &["cannot have refs/notes/agents", &name]);
        git_in(&hub.bare, ["update-ref", "-d", stone]);
    }
    let task = super::claims::task(&hub);
    for stone in
        [&super::claims::CLAIM.replace("/task-1", ""), &format!("{}/x", super::claims::CLAIM)]
    {
        git_in(&hub.bare, ["update-ref", stone, "main"]);
        let (code, said) = super::claims::work(clone, &task, super::claims::WORK);
        assert_eq!(code, Some(4), "{said}");
        assert!(said.contains(&format!("has {stone}, so")), "{said}");
        git_in(&hub.bare, ["update-ref", "-d", stone]);
    }
    assert_eq!(super::claims::work(clone, &task, super::claims::WORK).0, Some(0));
}
