//! `verify` against what it cannot do without, as whole processes, on any repository:
//! `cargo bench --bench verify -- <repository> [rounds]`.
//!
//! A clone gets an agent with a committed and an uncommitted change, and a base branch that moved on.
//! Prints medians in milliseconds: `git merge-tree --write-tree` plus `git status` in the agent's
//! worktree; `verify` of a state that it has not seen; `verify` of one that it has.

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    reason = "a bench reads its arguments, prints, and may panic"
)]

mod support;

use std::path::{Path, PathBuf};
use std::time::Duration;
use support::agents::{TASK, Worker, spawn};
use support::clock::{medians, milliseconds, time};
use support::repository::clone;
use support::{AGENT, arguments, git};

fn main() {
    let mut arguments = arguments().into_iter();
    let Some(repository) = arguments.next() else {
        println!("usage: cargo bench --bench verify -- <repository> [rounds]");
        return;
    };
    let rounds: usize = arguments.next().and_then(|word| word.parse().ok()).unwrap_or(11);
    let dir = tempfile::tempdir().expect("temporary directory");
    let scene = Scene::build(dir.path(), Path::new(&repository));
    let times = medians(rounds, |round| {
        // Another content each time: a state that was never judged.
        scene.worker.write("bench/uncommitted", &round.to_string());
        [scene.time_git(), scene.time_verify(), scene.time_verify()]
    });
    let [git, fresh, known] = times.map(milliseconds);
    println!("git merge-tree + git status {git:.1} ms");
    println!("verify, unseen state {fresh:.1} ms, ratio {:.2}", fresh / git);
    println!("verify, known state {known:.1} ms, ratio {:.2}", known / git);
}

struct Scene {
    main: PathBuf,
    worker: Worker,
}

impl Scene {
    fn build(dir: &Path, repository: &Path) -> Scene {
        let main = clone(dir, "main", "--no-bare", repository);
        let task = dir.join("task.toml");
        std::fs::write(&task, TASK).expect("write");
        let worker = spawn(&main, &task, 1).remove(0);
        worker.work(0);
        let base = ["commit", "--quiet", "--allow-empty"];
        let moves = ["--message=the base moves"];
        git(&main, &[&base[..], &moves].concat());
        Scene { main, worker }
    }

    fn time_git(&self) -> Duration {
        let merge = ["git", "merge-tree", "--write-tree", "HEAD"];
        let merge = [&merge[..], &[&self.worker.branch]].concat();
        let status = ["git", "--no-optional-locks", "status"];
        let status = [&status[..], &["--porcelain", "-uall"]].concat();
        time(&self.main, &merge) + time(&self.worker.worktree, &status)
    }

    fn time_verify(&self) -> Duration {
        time(&self.main, &[AGENT, "verify", &self.worker.id])
    }
}
