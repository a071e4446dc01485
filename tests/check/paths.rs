//! Paths judged before anything is written: by their text, by symlinks, by case.

use super::{Fenced, check_in, summary};
use crate::support::TestRepo;
use crate::support::agent::agent_command;
use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Stdio;

const NONE: [&str; 0] = [];

#[test]
fn paths_start_from_the_current_directory() {
    let agent = Fenced::new();
    let violations = |directory: &str, path: &str| {
        let directory = agent.worktree.join(directory);
        let output = check_in(&directory, &["--format=json", "--path", path]);
        summary(&serde_json::from_slice(&output.stdout).expect("JSON"))
    };
    assert_eq!(violations("", "src/not/yet.rs"), NONE);
    assert_eq!(violations("src", "not/yet.rs"), NONE);
    assert_eq!(violations("src/bin", "../../README.md"), ["README.md named not-in-whitelist"]);
    let inside = agent.worktree.join("src/x.rs");
    assert_eq!(violations("src", inside.to_str().expect("UTF-8")), NONE);
    let out = "../../../../src/lib.rs";
    assert_eq!(violations("", out), [format!("{out} named outside-worktree")]);
    assert_eq!(violations("", "/etc/passwd"), ["/etc/passwd named outside-worktree"]);
    assert_eq!(violations("src", ".."), [" named never"]);
    assert_eq!(violations("", ".git"), [".git named never"]);
}

#[test]
fn symlinks_are_followed_even_where_they_dangle() {
    let agent = Fenced::new();
    let link = |target: &str, name: &str| {
        symlink(target, agent.worktree.join(name)).expect("linked");
    };
    link("../secrets", "src/dir");
    link("/etc", "src/etc");
    link("bin", "src/fine");
    link("loop", "src/loop");
    let check = |path: &str, expected: &[&str]| {
        assert_eq!(agent.violations(&["--path", path]), expected, "{path}");
    };
    check("src/dir/key", &["src/dir/key named denylist"]);
    check("src/dir", &["src/dir named denylist"]);
    check("src/etc/passwd", &["src/etc/passwd named outside-worktree"]);
    check("src/fine/x", &[]);
    check("src/loop/x", &["src/loop/x named outside-worktree"]);
    // The text stays inside, the kernel does not; and the other way round.
    check("src/etc/../lib.rs", &["src/etc/../lib.rs named outside-worktree"]);
    check("src/dir/../src/lib.rs", &[]);
    let report = agent.json(&["--path", "src/dir/key"]);
    assert_eq!(
        report["violations"][0]["detail"],
        "it is also secrets/key: the denylist has `secrets/**`"
    );
}

#[test]
fn another_spelling_of_a_tracked_path_is_that_path() {
    let repo = TestRepo::with_commit();
    repo.write("src/Target/keep", "");
    repo.commit_all("a directory");
    let task = "role = \"edit-local\"\ntask = \"Change what is below the source directory.\"\n\
        [scope]\nwhitelist = [\"src/**\"]\ndenylist = [\"src/Target/**\"]\n";
    let report = repo.spawn_task(task, &[]);
    let worktree = report["worktree_abspath"].as_str().expect("a path");
    let output = check_in(Path::new(worktree), &["--format=json", "--path", "src/target/new"]);
    let report = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(summary(&report), ["src/target/new named denylist"]);
}

#[test]
fn standard_input_takes_paths_as_git_prints_them() {
    let agent = Fenced::new();
    let check = |arguments: &[&str], input: &[u8], expected: &[&str]| {
        let mut child = agent_command(&agent.worktree)
            .args(["check", "--format=json", "--stdin"])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("starts");
        let mut stdin = child.stdin.take().expect("piped");
        stdin.write_all(input).expect("written");
        drop(stdin);
        let output = child.wait_with_output().expect("ends");
        let report = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(summary(&report), expected);
    };
    check(&[], b"", &[]);
    check(&[], b"src/a\n\"b\\nc\"\n", &["b\nc named not-in-whitelist"]);
    check(&["-z"], b"src/a\0\"b\0", &["\"b named not-in-whitelist"]);
    let broken = fs::File::open("/dev/null").expect("opens");
    let output = agent_command(&agent.worktree)
        .args(["check", "--stdin", "--staged"])
        .stdin(broken)
        .output()
        .expect("starts");
    assert_eq!(output.status.code(), Some(2), "two subjects are misuse");
}
