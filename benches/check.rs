//! `git agent check --staged` against `git diff --cached --name-only`, as whole processes, alternating,
//! in an agent's worktree of any repository: `cargo bench --bench check -- <repository> [rounds]`.
//!
//! Prints medians in milliseconds and their ratio with nothing staged, with one file staged and with a
//! new file in every directory. The clone is made beside the system's temporary files (`TMPDIR`).

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a bench reads its arguments and prints"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const TASK: &str = "role = \"edit-local\"\ntask = \"Add a file here and there and see what it costs.\"\n\
    [scope]\nwhitelist = [\"**/check-bench.txt\"]\n";

fn main() {
    // Cargo adds `--bench` of its own.
    let mut arguments = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with("--"));
    let Some(repository) = arguments.next() else {
        println!("usage: cargo bench --bench check -- <repository> [rounds]");
        return;
    };
    let rounds = arguments.next().and_then(|word| word.parse().ok());
    let rounds = rounds.unwrap_or(41);
    let dir = tempfile::tempdir().expect("temporary directory");
    let clone = dir.path().join("clone");
    git(
        dir.path(),
        &["clone", "--quiet", "--shared", &repository, path(&clone)],
    );
    let worktree = spawn(&clone, dir.path());
    let files = listed(&worktree, &["ls-files"]).len();
    println!("{files} files, {rounds} rounds");
    measure("nothing staged", &worktree, rounds);
    stage(&worktree, Path::new(""));
    measure("one file", &worktree, rounds);
    for directory in listed(&worktree, &["ls-tree", "-r", "-d", "--name-only", "HEAD"]) {
        stage(&worktree, Path::new(&directory));
    }
    git(&worktree, &["add", "--all"]);
    measure("a file everywhere", &worktree, rounds);
}

fn measure(name: &str, worktree: &Path, rounds: usize) {
    let theirs = || time("git", worktree, &["diff", "--cached", "--name-only"]);
    let ours = || {
        time(
            env!("CARGO_BIN_EXE_git-agent"),
            worktree,
            &["check", "--staged"],
        )
    };
    // The first round of each warms the cache.
    theirs();
    ours();
    let mut times: (Vec<_>, Vec<_>) = (0..rounds).map(|_| (theirs(), ours())).unzip();
    times.0.sort();
    times.1.sort();
    let (theirs, ours) = (times.0[rounds / 2], times.1[rounds / 2]);
    println!(
        "{name:18} git diff --cached {:6.2} ms, check --staged {:6.2} ms, ratio {:.2}",
        theirs.as_secs_f64() * 1e3,
        ours.as_secs_f64() * 1e3,
        ours.as_secs_f64() / theirs.as_secs_f64()
    );
}

fn time(program: &str, directory: &Path, words: &[&str]) -> Duration {
    let start = Instant::now();
    let status = Command::new(program)
        .current_dir(directory)
        .args(words)
        .stdout(Stdio::null())
        .status();
    let time = start.elapsed();
    // Whether all is in scope is not the question here.
    assert!(status.expect("starts").code().is_some_and(|code| code < 2));
    time
}

fn stage(worktree: &Path, directory: &Path) {
    let file = directory.join("check-bench.txt");
    std::fs::write(worktree.join(&file), "new\n").expect("written");
    if directory.as_os_str().is_empty() {
        git(worktree, &["add", path(&file)]);
    }
}

fn spawn(clone: &Path, scratch: &Path) -> PathBuf {
    let task = scratch.join("task.toml");
    std::fs::write(&task, TASK).expect("written");
    let output = Command::new(env!("CARGO_BIN_EXE_git-agent"))
        .current_dir(clone)
        .args(["spawn", "--format=json", path(&task)])
        .output()
        .expect("starts");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    PathBuf::from(report["worktree_abspath"].as_str().expect("a worktree"))
}

fn listed(directory: &Path, words: &[&str]) -> Vec<String> {
    let output = Command::new("git")
        .current_dir(directory)
        .args(words)
        .output();
    let output = output.expect("git starts").stdout;
    String::from_utf8_lossy(&output)
        .lines()
        .map(str::to_owned)
        .collect()
}

fn path(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn git(directory: &Path, words: &[&str]) {
    let status = Command::new("git")
        .current_dir(directory)
        .args(words)
        .status();
    assert!(status.expect("git starts").success(), "git {words:?}");
}
