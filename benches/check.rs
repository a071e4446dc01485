//! `git agent check --staged` against `git diff --cached --name-only`, as whole processes, alternating,
//! in an agent's worktree of any repository: `cargo bench --bench check -- <repository> [rounds]`.
//!
//! Prints medians in milliseconds and their ratio with nothing staged, with one file staged and with a
//! new file in every directory. The clone is made beside the system's temporary files (`TMPDIR`).

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    reason = "a bench reads its arguments, prints, and may panic"
)]

mod support;

use std::path::Path;
use std::time::Duration;
use support::agents::spawn;
use support::clock::{medians, milliseconds, time};
use support::repository::{clone, count_files};
use support::{AGENT, arguments, git, text};

const TASK: &str = "role = \"edit-local\"\ntask = \"Add a file here and there and see what it costs.\"\n\
    [scope]\nwhitelist = [\"**/check-bench.txt\"]\n";

fn main() {
    let mut arguments = arguments().into_iter();
    let Some(repository) = arguments.next() else {
        println!("usage: cargo bench --bench check -- <repository> [rounds]");
        return;
    };
    let rounds = arguments.next().and_then(|word| word.parse().ok());
    let rounds = rounds.unwrap_or(41);
    let dir = tempfile::tempdir().expect("temporary directory");
    let clone = clone(dir.path(), "clone", "--no-bare", Path::new(&repository));
    let task = dir.path().join("task.toml");
    std::fs::write(&task, TASK).expect("written");
    let worktree = spawn(&clone, &task, 1).remove(0).worktree;
    let files = count_files(&worktree);
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
    let [theirs, ours]: [Duration; 2] = medians(rounds, |_| {
        [
            time(worktree, &["git", "diff", "--cached", "--name-only"]),
            time(worktree, &[AGENT, "check", "--staged"]),
        ]
    });
    println!(
        "{name:18} git diff --cached {:6.2} ms, check --staged {:6.2} ms, ratio {:.2}",
        milliseconds(theirs),
        milliseconds(ours),
        ours.as_secs_f64() / theirs.as_secs_f64()
    );
}

fn stage(worktree: &Path, directory: &Path) {
    let file = directory.join("check-bench.txt");
    std::fs::write(worktree.join(&file), "new\n").expect("written");
    if directory.as_os_str().is_empty() {
        git(worktree, &["add", text(&file)]);
    }
}

fn listed(directory: &Path, words: &[&str]) -> Vec<String> {
    let output = git(directory, words).stdout;
    String::from_utf8_lossy(&output).lines().map(str::to_owned).collect()
}
