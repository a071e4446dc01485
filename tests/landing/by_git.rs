//! Landings that git moves the files of, because a file takes the place of a directory or more than a few differ.

use super::stops::age;
use super::{answer, require_sound, run};
use crate::support::agent::{TASK, agent_command, describe};
use crate::support::{TestRepo, git_in, git_output, isolated, snapshot};
use crate::verify::{Agent, refused};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

/// An agent whose work swaps files and directories and does to other files whatever can be done to them; its branch holds it.
fn ready(attributes: &str) -> Agent {
    let repo = TestRepo::with_commit();
    repo.write("src/file", "a file\n");
    repo.write("src/dir/deep/one", "below a directory\n");
    for number in 0..20 {
        repo.write(&format!("src/n{number}.txt"), format!("before {number}\n"));
    }
    repo.commit_all("more files");
    fs::write(repo.path().join(".git/info/attributes"), attributes).expect("written");
    repo.git(["rm", "--quiet", "--cached", "-r", "."]);
    repo.git(["reset", "--quiet", "--hard"]);
    let agent = Agent::spawned_in(repo, TASK);
    let source = agent.worktree.join("src");
    fs::remove_file(source.join("file")).expect("removed");
    agent.write("src/file/below", "a directory now\n");
    fs::remove_dir_all(source.join("dir")).expect("removed");
    agent.write("src/dir", "a file now\n");
    for number in 0..19 {
        agent.write(&format!("src/n{number}.txt"), format!("after\n{number}\n"));
    }
    fs::remove_file(source.join("n19.txt")).expect("removed");
    fs::set_permissions(source.join("lib.rs"), PermissionsExt::from_mode(0o755)).expect("set");
    symlink("lib.rs", source.join("link")).expect("a link");
    agent.write("src/large.txt", "x\n".repeat(1 << 19));
    age(&source.join("large.txt"));
    agent.commit("every kind");
    agent.verify(&[]);
    agent
}

/// What git says of the files, and every file but those of git.
fn state(top: &Path) -> (String, Vec<(String, Vec<u8>)>) {
    let status = git_in(top, ["status", "--porcelain", "--untracked-files=all"]);
    let files = snapshot(top).into_iter();
    let files = files.map(|(path, bytes)| (path.to_string_lossy().into_owned(), bytes));
    let files = files.filter(|(path, _)| !path.contains("/.git/") && !path.starts_with(".git/"));
    (status, files.collect())
}

fn check_unwritable(attributes: &str) {
    let agent = ready(attributes);
    let top = agent.repo.path();
    // None of them is in the landing's way, and all stay as they are.
    fs::remove_file(top.join("src/n1.txt")).expect("removed");
    agent.repo.write("README.md", "mine\n");
    agent.repo.write("src/mine.txt", "mine\n");
    let before = state(&top);
    let program = agent_command(&top);
    let output = isolated("sh", &top)
        .args(["-c", "trap '' XFSZ; ulimit -f 512; exec \"$0\" \"$@\""])
        .arg(program.get_program())
        .args(["merge", &agent.id])
        .output()
        .expect("starts");
    refused(&output, "io", 4);
    let said = describe(&output);
    assert!(said.contains("src/large.txt"), "{said}");
    assert!(!said.contains("could not be moved back"), "{said}");
    assert_eq!(state(&top), before);
    agent.repo.git(["checkout", "README.md"]);
    fs::remove_file(top.join("src/mine.txt")).expect("removed");
    answer(&agent, "merge", &[]);
    require_sound(&agent);
}

#[test]
fn files_move_back_where_one_cannot_be_written() {
    check_unwritable("");
}

#[test]
fn files_with_other_line_ends_move_back_as_well() {
    check_unwritable("*.txt text eol=crlf\n");
}

#[test]
fn what_a_kill_leaves_the_next_landing_completes() {
    let agent = ready("*.txt text eol=crlf\n");
    let top = agent.repo.path();
    // As a git that was killed before it wrote the index, and before some of the files.
    fs::copy(top.join(".git/index"), top.join(".git/killed")).expect("copied");
    let mut killed = isolated("git", &top);
    killed.env("GIT_INDEX_FILE", ".git/killed");
    let status = killed.args(["read-tree", "-m", "-u", "main", &agent.branch]);
    assert!(status.status().expect("starts").success());
    fs::remove_file(top.join(".git/killed")).expect("there");
    git_output(&top, ["checkout", "--", "src/n2.txt", "src/n3.txt"]);
    fs::remove_file(top.join("src/n4.txt")).expect("removed");

    // What was written since stays, and is all that is named.
    agent.repo.write("src/n5.txt", "mine\n");
    let before = state(&top);
    let output = run(&agent, "merge", &[]);
    refused(&output, "target-dirty", 3);
    let said = describe(&output);
    assert!(said.contains("  src/n5.txt\n") && !said.contains("src/n6.txt"), "{said}");
    assert_eq!(state(&top), before);
    fs::remove_file(top.join("src/n5.txt")).expect("removed");
    answer(&agent, "merge", &[]);
    require_sound(&agent);
}

#[test]
fn a_symlink_in_the_place_of_a_directory_is_not_replaced() {
    let repo = TestRepo::with_commit();
    repo.write("src/sub/d", "d\n");
    repo.write("src/sub/e", "e\n");
    repo.commit_all("a directory");
    let agent = Agent::spawned_in(repo, TASK);
    agent.write("src/sub/d", "changed\n");
    agent.commit("a file in it");
    agent.verify(&[]);
    let top = agent.repo.path();
    let elsewhere = top.with_file_name("elsewhere");
    fs::rename(top.join("src/sub"), &elsewhere).expect("moved");
    symlink(&elsewhere, top.join("src/sub")).expect("a link");
    for options in [&[][..], &["--no-ff"], &["--squash"]] {
        let output = run(&agent, "merge", options);
        refused(&output, "target-dirty", 3);
        assert!(describe(&output).contains("  src/sub\n"), "{}", describe(&output));
    }
    assert!(!agent.repo.agent(&["train", &agent.id]).status.success());
    assert_eq!(fs::read_link(top.join("src/sub")).expect("a link"), elsewhere);
    fs::remove_file(top.join("src/sub")).expect("removed");
    fs::rename(&elsewhere, top.join("src/sub")).expect("moved back");
    answer(&agent, "merge", &[]);
    require_sound(&agent);
    // Taking it back moves the files as well.
    fs::rename(top.join("src/sub"), &elsewhere).expect("moved");
    symlink(&elsewhere, top.join("src/sub")).expect("a link");
    assert!(!agent.repo.agent(&["undo"]).status.success());
    assert_eq!(fs::read_link(top.join("src/sub")).expect("a link"), elsewhere);
}
