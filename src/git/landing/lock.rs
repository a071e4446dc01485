//! Holding a worktree's index as git does: by an `index.lock` beside it, created only
//! where there is none.
//!
//! Git writes the new index into that file. Ours says only whose it is, and the new index comes from elsewhere:
//! so a lock that a killed landing left is told from one of git's, and the next landing may clear it.

use super::{ATTEMPTS, Checkout, PAUSE};
use crate::error::{IoContext, Result};
use crate::git::Repo;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// What stands in a lock of ours.
const MARK: &[u8] = b"git-agent landing\n";

/// The right to write an index, until this is dropped.
#[must_use = "the lock is released when this is dropped"]
pub(super) struct IndexLock(PathBuf);

impl Drop for IndexLock {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

impl Repo {
    /// The worktrees whose index a landing has, or one that was killed had.
    ///
    /// # Errors
    /// `io`.
    pub fn locked_by_landings(&self) -> Result<Vec<Checkout>> {
        let every = self.every_checkout()?.into_iter();
        Ok(every.filter(Checkout::is_locked_by_landing).collect())
    }
}

impl Checkout {
    /// Waits while another process has the index, and clears what a killed landing left, which the caller's lock
    /// for landings proves. `None` where the file system has no links. `scratch` is an unused name on it.
    ///
    /// # Errors
    /// `lock-timeout`, `io`.
    pub(super) fn lock_index(&self, scratch: &Path) -> Result<Option<IndexLock>> {
        let path = self.lock_path();
        let made = fs::write(scratch, MARK).at("could not write", scratch);
        let locked = made.and_then(|()| self.link_lock(scratch, &path));
        let _ = fs::remove_file(scratch);
        Ok(locked?.then(|| IndexLock(path)))
    }

    fn link_lock(&self, scratch: &Path, path: &Path) -> Result<bool> {
        for _ in 0..ATTEMPTS {
            match fs::hard_link(scratch, path) {
                Ok(()) => return Ok(true),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(_) => return Ok(false),
            }
            if !self.clear_left_lock()? {
                std::thread::sleep(PAUSE);
            }
        }
        Err(self.locked_out())
    }

    /// Whether a landing has the index, or one that was killed had it.
    pub fn is_locked_by_landing(&self) -> bool {
        fs::read(self.lock_path()).is_ok_and(|text| text == MARK)
    }

    /// Removes the lock that a killed landing left, for a caller that keeps other landings away; `false` where there
    /// is none.
    ///
    /// # Errors
    /// `io`.
    pub fn clear_left_lock(&self) -> Result<bool> {
        if !self.is_locked_by_landing() {
            return Ok(false);
        }
        let path = self.lock_path();
        fs::remove_file(&path).at("could not remove", &path)?;
        Ok(true)
    }

    pub(super) fn lock_path(&self) -> PathBuf {
        self.git_dir.join("index.lock")
    }
}
