//! What the hooks of an agent's worktree add to a commit, alternating with the same commit without them:
//! `cargo bench --bench hooks -- [files] [rounds]`.
//!
//! Prints medians in milliseconds: installing the hooks, `git commit --no-verify`, where only `reference-transaction` runs, and
//! `git commit`, where all of them do. The repository is made for the purpose, beside the system's
//! temporary files (`TMPDIR`).

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    reason = "a bench reads its arguments, prints, and may panic"
)]

mod support;

use git_agent::git::Repo;
use git_agent::store::files::layout;
use git_agent::store::hooks::{Route, Site, install};
use std::path::{Path, PathBuf};
use std::time::Duration;
use support::agents::spawn;
use support::clock::{median_of, medians, milliseconds, time};
use support::repository::{clone, generate};
use support::{AGENT, arguments, git};

const TASK: &str = r#"role = "edit-local"
task = "Change one file of the library again and again."
[scope]
whitelist = ["src/**"]
"#;

/// What is changed again and again.
const FILE: &str = "src/0/0/0.txt";

fn main() {
    let mut arguments = arguments().into_iter().filter_map(|word| word.parse().ok());
    let files = arguments.next().unwrap_or(10_000);
    let rounds = arguments.next().unwrap_or(15);
    let dir = tempfile::tempdir().expect("temporary directory");
    let worktree = make_agent(dir.path(), files);
    println!("installing: {:.1} ms", milliseconds(time_install(&worktree, rounds)));
    for (name, options) in [("reference-transaction", &["--no-verify"][..]), ("all hooks", &[])] {
        let [with, without] = medians(rounds, |_| {
            [
                time_commit(&worktree, &[], options),
                time_commit(&worktree, &["-c", "core.hooksPath=/dev/null"], options),
            ]
        });
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
    median_of(rounds, |_| {
        install(&site, Path::new(AGENT), Route::Directory).expect("installed");
    })
}

/// A repository of that many files with one agent; gives the agent's worktree.
fn make_agent(directory: &Path, files: usize) -> PathBuf {
    let origin = directory.join("origin");
    generate(&origin, files);
    let repo = clone(directory, "repo", "--no-bare", &origin);
    let task = directory.join("task.toml");
    std::fs::write(&task, TASK).expect("write");
    spawn(&repo, &task, 1).remove(0).worktree
}

fn time_commit(worktree: &Path, before: &[&str], options: &[&str]) -> Duration {
    let path = worktree.join(FILE);
    let text = std::fs::read_to_string(&path).expect("read");
    std::fs::write(&path, format!("{text}more\n")).expect("write");
    git(worktree, &["add", FILE]);
    let words = [&["git"], before, &["commit", "--quiet", "--message=work"], options].concat();
    time(worktree, &words)
}
