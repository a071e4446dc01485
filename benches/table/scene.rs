//! Repositories to measure in, and the agents in them.

use crate::support::agents::{self, TASK, Worker};
use crate::support::repository::{clone, count_files};
use std::path::{Path, PathBuf};

/// A clone with a checkout, one without, and a task beside them.
pub(crate) struct Scene {
    pub(crate) name: String,
    pub(crate) main: PathBuf,
    pub(crate) bare: PathBuf,
    pub(crate) task: PathBuf,
    /// Where one worktree at a time comes and goes.
    pub(crate) spot: PathBuf,
}

impl Scene {
    pub(crate) fn clone(dir: &Path, name: &str, origin: &Path) -> Scene {
        let [main, bare] = [("main", "--no-bare"), ("bare", "--bare")]
            .map(|(to, option)| clone(dir, to, option, origin));
        let task = dir.join("task.toml");
        std::fs::write(&task, TASK).expect("write");
        let files = count_files(&main) as f64;
        Scene {
            name: format!("{name}, {:.1}k files", files / 1e3),
            main,
            bare,
            task,
            spot: dir.join("spot"),
        }
    }

    pub(crate) fn spawn(&self, count: usize) -> Vec<Worker> {
        agents::spawn(&self.main, &self.task, count)
    }

    /// An agent with a bundle, a commit and something beyond.
    pub(crate) fn worker(&self, number: usize) -> Worker {
        let worker = self.spawn(1).remove(0);
        worker.work_on(number);
        worker
    }
}

/// `Repository::worktree`, which checks out as well.
pub(crate) fn checkout_by_libgit2(repository: &str, worktree: &str) {
    let repository = git2::Repository::open(repository).expect("a repository");
    let worktree = Path::new(worktree);
    let added = repository.worktree("spot", worktree, None);
    added.expect("libgit2 adds it");
}
