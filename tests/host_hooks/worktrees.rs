use super::{Agent, agent, assert_allowed, denied, hook, write_call};
use crate::support::agent::{TASK, describe};
use crate::support::git_in;
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

fn create(directory: &Path, name: &str) -> Output {
    let call = json!({"hook_event_name": "WorktreeCreate", "cwd": directory, "name": name});
    hook(directory, "worktree-create", &call)
}

/// The one line of an answer, which must be an absolute path.
fn made(output: &Output) -> PathBuf {
    assert!(output.status.success(), "{}", describe(output));
    let text = String::from_utf8_lossy(&output.stdout);
    let path = PathBuf::from(text.strip_suffix('\n').expect("a line"));
    assert!(path.is_absolute() && path.is_dir(), "{text}");
    path
}

fn remove(directory: &Path, path: &Path) -> Output {
    let call =
        json!({"hook_event_name": "WorktreeRemove", "cwd": directory, "worktree_path": path});
    hook(directory, "worktree-remove", &call)
}

#[test]
fn a_host_gets_a_plain_worktree_and_gives_it_back() {
    let Agent { repo, .. } = agent();
    let main = repo.path();
    let path = made(&create(&main, "bold-otter"));
    assert_eq!(path, main.join(".claude/worktrees/bold-otter"));
    assert_eq!(
        git_in(&path, ["branch", "--show-current"]),
        "worktree-bold-otter"
    );
    assert_eq!(git_in(&path, ["status", "--porcelain"]), "");
    assert_eq!(repo.git(["status", "--porcelain"]), "");
    let listed = repo.git(["worktree", "list", "--porcelain"]);
    let entry = listed
        .split("\n\n")
        .find(|entry| entry.contains("bold-otter"));
    assert!(!entry.expect("listed").contains("locked"), "{listed}");
    assert_eq!(
        made(&create(&main, "bold-otter")),
        path,
        "asked twice, made once"
    );
    assert_allowed(
        &hook(&path, "pre-tool", &write_call(&path, "README.md")),
        "no agent",
    );

    assert_allowed(&remove(&main, &path), "clean");
    assert!(!path.exists());
    assert_eq!(repo.git(["branch", "--list", "worktree-*"]), "");
    assert_allowed(&remove(&main, &path), "gone already");
    assert_eq!(repo.git(["fsck", "--strict", "--no-progress"]), "");
}

#[test]
fn nothing_is_lost_when_a_host_is_done() {
    let agent = agent();
    let main = agent.repo.path();
    let path = made(&create(&main, "work"));
    fs::write(path.join("new.txt"), "work").expect("written");
    assert_eq!(
        remove(&main, &path).status.code(),
        Some(4),
        "untracked work"
    );
    assert!(path.join("new.txt").exists());
    git_in(&path, ["add", "."]);
    git_in(&path, ["commit", "--quiet", "-m", "work"]);
    assert_allowed(&remove(&main, &path), "committed work");
    assert!(!path.exists());
    assert_eq!(
        agent
            .repo
            .git(["log", "-1", "--format=%s", "worktree-work"]),
        "work"
    );

    for kept in [&agent.worktree, &main] {
        remove(&main, kept);
        assert!(kept.join("README.md").exists());
    }
    // Neither the lock alone keeps an agent's worktree.
    let path = agent.worktree.to_str().expect("UTF-8");
    agent.repo.git(["worktree", "unlock", path]);
    assert_allowed(&remove(&main, &agent.worktree), "an agent's");
    assert!(agent.worktree.join(".agent/spec.md").exists());
}

#[test]
fn a_name_of_an_agent_is_that_agents_worktree() {
    let agent = agent();
    let main = agent.repo.path();
    let named = agent.repo.spawn_task(TASK, &["--name", "parser"]);
    let named = PathBuf::from(named["worktree_abspath"].as_str().expect("one"));
    let id8 = &agent.id[..8];
    assert_eq!(made(&create(&main, id8)), agent.worktree);
    assert_eq!(
        made(&create(&main, &format!("agent-{id8}"))),
        agent.worktree
    );
    assert_eq!(made(&create(&main, "parser")), named);
    let part = made(&create(&main, &agent.id[..6]));
    assert_ne!(
        part, agent.worktree,
        "a part of an id is a name like any other"
    );
}

#[test]
fn impossible_worktrees_are_refused_and_leave_nothing() {
    let agent = agent();
    let main = agent.repo.path();
    let refused = |output: Output, code: &str| {
        assert_eq!(output.status.code(), Some(4), "{}", describe(&output));
        assert!(output.stdout.is_empty());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(&format!("error[{code}]")), "{said}");
    };
    let ours = ["verify-0123abcd", "agent-0123abcd"];
    for name in ["..", "../x", "/tmp/x", "", "-x", "a b"]
        .iter()
        .chain(&ours)
    {
        refused(create(&main, name), "path-invalid");
    }
    refused(
        hook(&main, "worktree-create", &json!({"cwd": main})),
        "usage",
    );
    refused(create(&agent.worktree, "nested"), "recursion-refused");
    agent.repo.git(["branch", "worktree-taken"]);
    refused(create(&main, "taken"), "branch-exists");
    agent.repo.write(".claude/worktrees/full/file", "x");
    refused(create(&main, "full"), "path-exists");
    assert!(main.join(".claude/worktrees/full/file").exists());
    let branches = agent.repo.git(["branch", "--list", "worktree-*"]);
    assert_eq!(branches.trim(), "worktree-taken");
    denied(
        &hook(
            &agent.worktree,
            "pre-tool",
            &json!({"tool_name": "EnterWorktree"}),
        ),
        "enter",
    );
}
