//! Files, directories and symlinks in each other's place, with `git add --all` as the witness.

use super::Agent;
use crate::support::{git_in, git_output};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// What the worktree is made of before each case.
fn start() -> Agent {
    let repo = crate::support::TestRepo::with_commit();
    for name in ["src/a/x.rs", "src/a/deep/y.rs", "src/b/x.rs", "src/f"] {
        repo.write(name, "content\n");
    }
    symlink("b", repo.path().join("src/l")).expect("linked");
    repo.commit_all("more");
    Agent::spawned_in(repo, crate::support::agent::TASK)
}

/// The tree that git makes of everything, in an index of its own.
fn tree_of_git(agent: &Agent) -> String {
    let index = agent.repo.path().with_file_name("witness");
    let git = |arguments: &[&str]| {
        let output = crate::support::isolated("git", &agent.worktree)
            .env("GIT_INDEX_FILE", &index)
            .args(arguments)
            .output()
            .expect("starts");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    git(&["read-tree", "HEAD"]);
    git(&["add", "--all"]);
    let tree = git(&["write-tree"]);
    fs::remove_file(index).expect("removed");
    tree
}

#[test]
fn what_took_the_place_of_something_else_is_judged_committed_and_discarded() {
    type Replace = fn(&Path);
    let cases: [(&str, Replace); 6] = [
        ("a directory by a symlink", |src| {
            fs::remove_dir_all(src.join("a")).expect("removed");
            symlink("b", src.join("a")).expect("linked");
        }),
        ("a directory by a dangling symlink", |src| {
            fs::remove_dir_all(src.join("a")).expect("removed");
            symlink("nowhere", src.join("a")).expect("linked");
        }),
        ("a directory in a directory by a symlink", |src| {
            fs::remove_dir_all(src.join("a/deep")).expect("removed");
            symlink("../b", src.join("a/deep")).expect("linked");
            fs::write(src.join("a/new.rs"), "new\n").expect("written");
        }),
        ("a directory by a file", |src| {
            fs::remove_dir_all(src.join("a")).expect("removed");
            fs::write(src.join("a"), "a file\n").expect("written");
        }),
        ("a file by a directory", |src| {
            fs::remove_file(src.join("f")).expect("removed");
            fs::create_dir_all(src.join("f/g")).expect("made");
            fs::write(src.join("f/g/h"), "below\n").expect("written");
        }),
        ("a symlink by a directory", |src| {
            fs::remove_file(src.join("l")).expect("removed");
            fs::create_dir(src.join("l")).expect("made");
            fs::write(src.join("l/x.rs"), "below\n").expect("written");
        }),
    ];
    for (name, replace) in cases {
        let agent = start();
        replace(&agent.worktree.join("src"));
        let expected = tree_of_git(&agent);
        let report = agent.verify(&[]);
        assert_eq!(report["verdict"], "accept", "{name}: {report}");
        assert_eq!(report["tree"], expected.as_str(), "{name}");
        let diff = agent.repo.agent(&["diff", &agent.id]);
        assert!(diff.status.success(), "{name}");
        agent.repo.agent_json(&["commit", &agent.id, "-m", "replace"]);
        assert_eq!(agent.git(&["rev-parse", "HEAD^{tree}"]), expected, "{name}");
        assert_eq!(agent.git(&["status", "--porcelain"]), "", "{name}");

        let agent = start();
        replace(&agent.worktree.join("src"));
        agent.repo.agent_json(&["discard", &agent.id]);
        let salvage = agent.repo.git([
            "log",
            "-1",
            "--format=%T",
            "--grep=^Salvage: work",
            "refs/agents/keep",
        ]);
        assert_eq!(salvage, expected, "{name}: all of it is kept");
    }
}

#[test]
fn a_symlink_that_git_ignores_hides_no_deletion() {
    let agent = start();
    fs::write(agent.repo.path().join(".git/info/exclude"), "/.agent/\nlink\n").expect("written");
    let repo = agent.repo;
    repo.write("src/link/x.rs", "content\n");
    repo.git(["add", "--force", "src/link/x.rs"]);
    repo.git(["commit", "--quiet", "-m", "a tracked directory that is ignored"]);
    let agent = Agent::spawned_in(repo, crate::support::agent::TASK);
    fs::remove_dir_all(agent.worktree.join("src/link")).expect("removed");
    symlink("b", agent.worktree.join("src/link")).expect("linked");
    let expected = tree_of_git(&agent);
    let judged = agent.verify(&[]);
    let tree = judged["tree"].as_str().expect("a tree");
    assert_eq!(agent.git(&["diff-tree", "-r", &expected, tree]), "");
}

#[test]
fn out_of_scope_it_is_rejected_and_no_failure_of_ours() {
    let repo = crate::support::TestRepo::with_commit();
    repo.write("docs/a/x", "content\n");
    repo.write("docs/b/x", "content\n");
    repo.commit_all("documents");
    let agent = Agent::spawned_in(repo, crate::support::agent::TASK);
    fs::remove_dir_all(agent.worktree.join("docs/a")).expect("removed");
    symlink("b", agent.worktree.join("docs/a")).expect("linked");
    let outside = "scope.not-in-whitelist";
    assert_eq!(agent.codes(), [outside, outside]);
    let output = git_output(&agent.worktree, ["status", "--porcelain"]);
    assert!(output.status.success());
    assert_eq!(git_in(&agent.worktree, ["diff", "--cached"]), "");
}
