use super::level;
use crate::support::TestRepo;
use crate::support::agent::{TASK, agent_command, describe};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Output;

/// A directory outside of every worktree that holds what a package manager would link.
fn store(repo: &TestRepo) -> PathBuf {
    let store = repo.path().with_file_name("store");
    fs::create_dir_all(&store).expect("made");
    fs::write(store.join("index.js"), "original\n").expect("written");
    store
}

fn run(repo: &TestRepo, id: &str, script: &str) -> Output {
    let mut command = agent_command(&repo.path());
    command.args(["run", "--no-verify", "--sandbox=require", id, "--", "sh", "-ec", script]);
    command.output().expect("starts")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).expect("readable")
}

#[test]
fn what_the_set_up_linked_is_written_in_one_worktree_alone() {
    if level().is_none() {
        return;
    }
    let repo = TestRepo::with_commit();
    let index = store(&repo).join("index.js");
    let setup = format!(
        "{TASK}\n[setup]\nrun = [\"mkdir -p node_modules/a; ln '{0}' node_modules/index.js; ln '{0}' node_modules/a/two.js\"]\n",
        index.display()
    );
    let agents = [repo.spawn_task(&setup, &[]), repo.spawn_task(&setup, &[])];
    let worktrees = agents
        .each_ref()
        .map(|agent| PathBuf::from(agent["worktree_abspath"].as_str().expect("a path")));
    assert_eq!(fs::metadata(&index).expect("there").nlink(), 1);
    let id = agents[0]["agent_id"].as_str().expect("an id");
    let output = run(&repo, id, "echo POISON > node_modules/index.js");
    assert!(output.status.success(), "{}", describe(&output));
    assert_eq!(read(&worktrees[0].join("node_modules/index.js")), "POISON\n");
    assert_eq!(read(&index), "original\n");
    for name in ["node_modules/index.js", "node_modules/a/two.js"] {
        assert_eq!(read(&worktrees[1].join(name)), "original\n");
    }
}

#[test]
fn what_was_linked_later_is_not_written_either() {
    let repo = TestRepo::with_commit();
    if level().is_none() {
        return;
    }
    let agent = repo.spawn();
    let worktree = PathBuf::from(agent["worktree_abspath"].as_str().expect("a path"));
    let index = store(&repo).join("index.js");
    fs::hard_link(&index, worktree.join("linked.js")).expect("linked");
    fs::hard_link(worktree.join("README.md"), index.with_file_name("README.md")).expect("linked");
    let readme = read(&worktree.join("README.md"));
    let id = agent["agent_id"].as_str().expect("an id");
    let output = run(&repo, id, "echo POISON | tee linked.js README.md");
    assert!(output.status.success(), "{}", describe(&output));
    assert_eq!(read(&worktree.join("linked.js")), "POISON\n");
    assert_eq!(read(&index), "original\n");
    assert_eq!(read(&index.with_file_name("README.md")), readme);
}
