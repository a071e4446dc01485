//! The worktree that check commands run in, beside the agents' own.

use crate::agents::ctx::Ctx;
use crate::agents::untrusted;
use crate::error::{Code, Error, Result};
use crate::git::Repo;
use crate::git::worktree::belongs_to;
use crate::hosts::WORKTREE_DIR;
use crate::store::{layout, lock, trash};
use std::fs;
use std::path::{Path, PathBuf};

/// Where the check commands of one agent run.
pub(crate) struct CheckWorktree {
    pub(crate) name: String,
    /// The worktree.
    pub(crate) path: PathBuf,
    /// Its admin directory.
    pub(crate) admin_dir: PathBuf,
}

impl CheckWorktree {
    /// That of the agent with these first eight digits, whether anything is there or not.
    pub(crate) fn of(ctx: &Ctx, short_id: &str) -> Result<CheckWorktree> {
        let name = layout::verify_worktree_name(short_id);
        Ok(CheckWorktree {
            path: ctx.repo.root()?.join(WORKTREE_DIR).join(&name),
            admin_dir: ctx.repo.admin_dir(&name),
            name,
        })
    }

    /// Whether nothing is there but what a verify made: an admin directory with our lock, and the directory
    /// that it alone claims. One that was killed early left a directory that holds no more than the
    /// way to an admin directory that never was.
    pub(crate) fn is_ours(&self, repo: &Repo) -> bool {
        let is_linked = belongs_to(&self.path, &self.admin_dir);
        match repo.worktree(&self.name) {
            Some(linked) => {
                let is_elsewhere = belongs_to(&linked.path, &self.admin_dir);
                linked.lock_reason.as_deref() == Some(layout::VERIFY_LOCK_REASON)
                    && (is_linked || !is_there(&self.path) && !is_elsewhere)
            }
            None => !is_there(&self.admin_dir) && self.is_bare(is_linked),
        }
    }

    /// Whether its HEAD is not where the verify put it: the worktree was used since.
    pub(crate) fn has_moved(&self) -> bool {
        let head = untrusted::text(&self.admin_dir, "HEAD").unwrap_or_default();
        let log = untrusted::log(&self.admin_dir, Path::new("logs/HEAD"));
        head.starts_with("ref: ") || String::from_utf8_lossy(&log).lines().count() > 1
    }

    /// Whether the directory is absent, or holds nothing but a `.git` file that leads to our place.
    fn is_bare(&self, is_linked: bool) -> bool {
        let Ok(metadata) = fs::symlink_metadata(&self.path) else {
            return true;
        };
        let is_empty = || {
            let mut entries = fs::read_dir(&self.path).into_iter().flatten();
            entries.all(|entry| entry.is_ok_and(|entry| is_linked && entry.file_name() == ".git"))
        };
        metadata.is_dir() && is_empty()
    }

    /// Removes what is there, which the caller knows to be ours, and the directories above that were made for
    /// it alone. The caller holds the lock of spawns, which make the same parents.
    pub(crate) fn remove(&self, common_dir: &Path) -> Result<()> {
        for directory in [&self.path, &self.admin_dir] {
            if is_there(directory) {
                trash::remove(common_dir, directory)?;
            }
        }
        // Others are not empty.
        for directory in self.path.ancestors().skip(1).take(2) {
            let _ = fs::remove_dir(directory);
        }
        Ok(())
    }

    /// Removes what a killed verify left.
    pub(crate) fn make_way(&self, repo: &Repo) -> Result<()> {
        let _spawns = lock::hold(repo.common_dir(), layout::SPAWN_LOCK)?;
        if self.is_ours(repo) && !self.has_moved() {
            self.remove(repo.common_dir())
        } else {
            Err(self.taken())
        }
    }

    fn taken(&self) -> Error {
        Error::new(
            Code::PathExists,
            format!(
                "the check commands would run in {}, and what is there was not made for them",
                self.path.display()
            ),
        )
        .because("only what a verify itself left there is removed")
        .hint(format!(
            "to move it out of the way, run git worktree move -f -f {} <elsewhere>",
            self.path.display()
        ))
        .hint("to see whose it is, run git worktree list --verbose")
    }
}

fn is_there(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}
