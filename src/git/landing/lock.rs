//! Holding a worktree's index as git does, by an `index.lock` beside it.
//!
//! Git never takes that lock for us: a git that was killed would leave one that tells nothing. It works on a copy, while
//! this process holds the lock ([`super::super::lock_file`]), and the copy becomes the index.

use super::{ATTEMPTS, Checkout, PAUSE, precheck};
use crate::error::{IoContext, Result};
use crate::git::command;
use crate::git::files::lock_file::{LockFile, is_same_file};
use crate::git::files::untrusted;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The index of a worktree while this process holds it, and a copy on which git works.
#[must_use]
pub(in crate::git) struct OwnIndex<'c> {
    checkout: &'c Checkout,
    lock: LockFile,
    copy: PathBuf,
    /// The copy before git wrote it; `None` where there is no index yet. It stays open, so that no other file can get its
    /// inode number: a git that writes the copy twice would else give it back.
    before: Option<File>,
}

impl Checkout {
    /// Waits while another process has the index, and clears the lock that a dead process of ours left.
    ///
    /// # Errors
    /// `lock-timeout`, `io`.
    pub(in crate::git) fn lock_index(&self) -> Result<LockFile> {
        let path = self.lock_path();
        for _ in 0..ATTEMPTS {
            if let Some(lock) = LockFile::take(self.common_dir(), &path)? {
                return Ok(lock);
            }
            std::thread::sleep(PAUSE);
        }
        Err(self.locked_out())
    }

    /// Holds the index and copies it.
    ///
    /// # Errors
    /// As [`Checkout::lock_index`].
    pub(in crate::git) fn own_index(&self) -> Result<OwnIndex<'_>> {
        let lock = self.lock_index()?;
        let copy = lock.beside();
        let mut own = OwnIndex {
            checkout: self,
            lock,
            copy,
            before: None,
        };
        let index = self.git_dir.join("index");
        if index.exists() {
            precheck::copy_with_time(&index, &own.copy)?;
            own.before = untrusted::open_at(&own.copy);
        }
        Ok(own)
    }

    pub(super) fn lock_path(&self) -> PathBuf {
        self.git_dir.join("index.lock")
    }

    /// The directory that the repository's worktrees share.
    pub(super) fn common_dir(&self) -> &Path {
        let above = self.git_dir.parent();
        match above.filter(|above| above.ends_with("worktrees")) {
            Some(worktrees) => worktrees.parent().unwrap_or(&self.git_dir),
            None => &self.git_dir,
        }
    }
}

impl OwnIndex<'_> {
    /// A git command on the worktree and the copy. The lock is held until it is dead as well.
    ///
    /// # Errors
    /// `io`.
    pub(in crate::git) fn git(&self) -> Result<Command> {
        let mut command = self.checkout.git();
        command.env("GIT_INDEX_FILE", &self.copy);
        command.stdin(self.lock.shared()?);
        Ok(command)
    }

    /// As [`OwnIndex::git`], which is given paths on its standard input.
    ///
    /// # Errors
    /// Those of git.
    pub(in crate::git) fn feed(&self, arguments: &[&str], paths: &[Vec<u8>]) -> Result<()> {
        let mut command = self.git()?;
        command.args(arguments);
        command::feed_paths_with(command, paths, self.lock.shared()?)
    }

    /// The copy.
    pub(super) fn copy(&self) -> &Path {
        &self.copy
    }

    /// Makes the copy the index, if git wrote it.
    ///
    /// # Errors
    /// `io`.
    pub(in crate::git) fn publish(self) -> Result<()> {
        let is_written = match &self.before {
            // Git never writes into an index: it makes another file and renames that.
            Some(before) => !is_same_file(before, &self.copy),
            None => self.copy.exists(),
        };
        if !is_written {
            return Ok(());
        }
        let index = self.checkout.git_dir.join("index");
        fs::rename(&self.copy, &index).at("could not write", &index)
    }
}

impl Drop for OwnIndex<'_> {
    fn drop(&mut self) {
        match fs::remove_file(&self.copy) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                tracing::debug!(?error, "a copy of an index stays");
            }
            _ => {}
        }
    }
}
