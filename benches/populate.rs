//! Populating a worktree against `git worktree add`, alternating, on any repository:
//! `cargo bench --bench populate -- <repository> [rounds]`.
//!
//! Prints medians in milliseconds and their ratio, once with a clean main worktree to copy from and
//! once without any. The clones are made beside the system's temporary files (`TMPDIR`).

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a bench reads its arguments and prints"
)]

use git_agent::domain::oid::Oid;
use git_agent::git::Repo;
use git_agent::git::populate::{Request, populate};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

fn main() {
    // Cargo adds `--bench` of its own.
    let mut arguments = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with("--"));
    let Some(repository) = arguments.next() else {
        println!("usage: cargo bench --bench populate -- <repository> [rounds]");
        return;
    };
    let rounds = arguments
        .next()
        .and_then(|word| word.parse().ok())
        .unwrap_or(7);
    let dir = tempfile::tempdir().expect("temporary directory");
    for (name, options) in [
        ("with a source", &[][..]),
        ("without a source", &["--bare"][..]),
    ] {
        let clone = dir
            .path()
            .join(if options.is_empty() { "main" } else { "bare" });
        let mut words = vec!["clone", "--quiet", "--shared"];
        words.extend(options);
        git(
            dir.path(),
            &[&words[..], &[&repository, path(&clone)]].concat(),
        );
        let git_time = || time_git(&clone);
        let (theirs, ours) = alternate(rounds, git_time, || time_ours(&clone));
        let ratio = ours.as_secs_f64() / theirs.as_secs_f64();
        println!(
            "{name}: git worktree add {:.0} ms, populate {:.0} ms, ratio {ratio:.2}",
            theirs.as_secs_f64() * 1e3,
            ours.as_secs_f64() * 1e3,
        );
    }
}

fn alternate(
    rounds: usize,
    mut theirs: impl FnMut() -> Duration,
    mut ours: impl FnMut() -> Duration,
) -> (Duration, Duration) {
    // The first round of each warms the cache.
    theirs();
    ours();
    let mut times: (Vec<_>, Vec<_>) = (0..rounds).map(|_| (theirs(), ours())).unzip();
    times.0.sort();
    times.1.sort();
    (times.0[rounds / 2], times.1[rounds / 2])
}

fn time_git(repo: &Path) -> Duration {
    let worktree = worktree_of(repo);
    let start = Instant::now();
    git(
        repo,
        &["worktree", "add", "--quiet", "--detach", path(&worktree)],
    );
    let time = start.elapsed();
    remove(repo, &worktree);
    time
}

fn time_ours(path_of_repo: &Path) -> Duration {
    let worktree = worktree_of(path_of_repo);
    let words = [
        "worktree",
        "add",
        "--quiet",
        "--detach",
        "--no-checkout",
        path(&worktree),
    ];
    git(path_of_repo, &words);
    let start = Instant::now();
    let repo = Repo::open(path_of_repo).expect("open");
    let admin_dir = repo.common_dir().join("worktrees/linked");
    let _ = std::fs::remove_file(admin_dir.join("index"));
    let head = repo.resolve_commit("HEAD").expect("HEAD");
    let commit: Oid = head.commit;
    let request = Request {
        repo: &repo,
        worktree: &worktree,
        admin_dir: &admin_dir,
        commit,
        threads: 0,
    };
    populate(&request).expect("populate");
    let time = start.elapsed();
    remove(path_of_repo, &worktree);
    time
}

fn worktree_of(repo: &Path) -> PathBuf {
    repo.with_file_name("linked")
}

fn remove(repo: &Path, worktree: &Path) {
    git(repo, &["worktree", "remove", "--force", path(worktree)]);
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
