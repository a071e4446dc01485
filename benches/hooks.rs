//! What the hooks of an agent's worktree add to a commit, alternating with the same commit without them:
//! `cargo bench --bench hooks -- [files] [rounds]`.
//!
//! Prints medians in milliseconds: installing the hooks, `git commit --no-verify`, where only `reference-transaction` runs, and
//! `git commit`, where all of them do. The repository is made for the purpose, beside the system's
//! temporary files (`TMPDIR`).

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a bench reads its arguments and prints"
)]

use git_agent::git::Repo;
use git_agent::store::hooks::{Route, Site, install};
use git_agent::store::layout;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const TASK: &str = r#"role = "edit-local"
task = "Change one file of the library again and again."
[scope]
whitelist = ["src/**"]
"#;

fn main() {
    // Cargo adds `--bench` of its own.
    let mut arguments = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with("--"))
        .filter_map(|word| word.parse().ok());
    let files = arguments.next().unwrap_or(10_000);
    let rounds = arguments.next().unwrap_or(15);
    let dir = tempfile::tempdir().expect("temporary directory");
    let worktree = make_agent(dir.path(), files);
    println!(
        "installing: {:.1} ms",
        milliseconds(time_install(&worktree, rounds))
    );
    for (name, options) in [
        ("reference-transaction", &["--no-verify"][..]),
        ("all hooks", &[]),
    ] {
        let (with, without) = alternate(
            rounds,
            || time_commit(&worktree, &[], options),
            || time_commit(&worktree, &["-c", "core.hooksPath=/dev/null"], options),
        );
        println!(
            "{name}, {files} files: commit {:.1} ms, without {:.1} ms, added {:.1} ms",
            milliseconds(with),
            milliseconds(without),
            milliseconds(with) - milliseconds(without),
        );
    }
}

/// What a spawn spends on its hooks, but for asking git for its version, which it does meanwhile.
fn time_install(worktree: &Path, rounds: usize) -> Duration {
    let repo = Repo::open(worktree).expect("open");
    let name = repo.current_worktree_name().expect("linked");
    let site = Site {
        repo: &repo,
        short_id: layout::agent_of_worktree(&name).expect("an agent's"),
        worktree,
        home: None,
    };
    let program = Path::new(env!("CARGO_BIN_EXE_git-agent"));
    let mut times: Vec<_> = (0..rounds)
        .map(|_| {
            let start = Instant::now();
            install(&site, program, Route::Directory).expect("installed");
            start.elapsed()
        })
        .collect();
    times.sort();
    times[rounds / 2]
}

/// A repository of that many files with one agent; gives the agent's worktree.
fn make_agent(directory: &Path, files: usize) -> PathBuf {
    let repo = directory.join("repo");
    git(
        directory,
        &["init", "--quiet", "--initial-branch=main", "repo"],
    );
    for number in 0..files {
        let path = repo.join(format!("src/{:03}/{number}.rs", number / 100));
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("directories");
        std::fs::write(path, format!("// {number}\n")).expect("write");
    }
    git(&repo, &["add", "--all"]);
    git(&repo, &["commit", "--quiet", "--message=first"]);
    let task = directory.join("task.toml");
    std::fs::write(&task, TASK).expect("write");
    let status = Command::new(env!("CARGO_BIN_EXE_git-agent"))
        .current_dir(&repo)
        .args(["spawn", "--format=json", "--path"])
        .arg(directory.join("linked"))
        .arg(&task)
        .stdout(std::process::Stdio::null())
        .status();
    assert!(status.expect("git-agent starts").success());
    directory.join("linked")
}

fn alternate(
    rounds: usize,
    mut one: impl FnMut() -> Duration,
    mut other: impl FnMut() -> Duration,
) -> (Duration, Duration) {
    // The first round of each warms the cache.
    one();
    other();
    let mut times: (Vec<_>, Vec<_>) = (0..rounds).map(|_| (one(), other())).unzip();
    times.0.sort();
    times.1.sort();
    (times.0[rounds / 2], times.1[rounds / 2])
}

fn time_commit(worktree: &Path, before: &[&str], options: &[&str]) -> Duration {
    let path = worktree.join("src/000/0.rs");
    let text = std::fs::read_to_string(&path).expect("read");
    std::fs::write(&path, format!("{text}// more\n")).expect("write");
    git(worktree, &["add", "src/000/0.rs"]);
    let words = [before, &["commit", "--quiet", "--message=work"], options].concat();
    let start = Instant::now();
    git(worktree, &words);
    start.elapsed()
}

fn git(directory: &Path, words: &[&str]) {
    let status = Command::new("git")
        .current_dir(directory)
        .args(["-c", "user.name=A", "-c", "user.email=a@example.com"])
        .args(words)
        .status();
    assert!(status.expect("git starts").success(), "git {words:?}");
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
