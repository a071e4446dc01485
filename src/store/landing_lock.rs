//! The lock that landings hold, and what it says about the lock file of the ref that is being moved.
//!
//! A branch is written by git, too, so the age of its `.lock` file proves nothing: a hook may take its
//! time. A landing therefore notes which file it holds, by device, inode and time, in the file that it has
//! locked; once that one is free, a file of which this is still true was left by a killed landing.

use super::lock::{self, Guard};
use super::{fsx, layout};
use crate::error::{IoContext, Result};
use crate::git::Repo;
use crate::git::landing::Checkout;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

/// The right to land, until this is dropped.
#[must_use = "the lock is released when this is dropped"]
#[derive(Debug)]
pub struct LandingLock(Guard);

impl LandingLock {
    /// Waits for other landings, and clears what a killed one left.
    ///
    /// # Errors
    /// Those of [`lock::hold`].
    pub fn hold(repo: &Repo) -> Result<LandingLock> {
        let held = LandingLock(lock::hold(repo.common_dir(), layout::LANDING_LOCK)?);
        held.clear(repo)?;
        Ok(held)
    }

    /// Says that this process holds the lock file of a ref.
    ///
    /// # Errors
    /// `disk-full`, `io`.
    pub fn note(&self, repo: &Repo, refname: &str) -> Result<()> {
        let Some(identity) = identity(&repo.ref_lock_path(refname)) else {
            return Ok(());
        };
        let path = self.0.path();
        fs::write(path, format!("{refname} {identity}\n")).at("could not write", path)
    }

    /// Removes the lock file that a killed landing left; `false` when there is none.
    ///
    /// # Errors
    /// Those of [`Repo::clear_lock`].
    pub fn clear(&self, repo: &Repo) -> Result<bool> {
        let Some((refname, identity)) = noted(self.0.path())? else {
            return Ok(false);
        };
        let parking = layout::tmp_dir(repo.common_dir());
        repo.clear_lock(&refname, &parking, |path| {
            self::identity(path).as_ref() == Some(&identity)
        })
    }
}

/// The ref whose lock file a killed landing left. Writes nothing; `None` also during a landing.
///
/// # Errors
/// `io`.
pub fn left_over(repo: &Repo) -> Result<Option<String>> {
    let path = layout::agents_dir(repo.common_dir()).join(layout::LANDING_LOCK);
    let Some((refname, identity)) = noted(&path)? else {
        return Ok(None);
    };
    let is_left = self::identity(&repo.ref_lock_path(&refname)) == Some(identity);
    Ok((is_left && is_free(repo)).then_some(refname))
}

/// The worktrees whose index a killed landing left locked. Writes nothing; none also during a landing.
///
/// # Errors
/// `io`.
pub fn left_indexes(repo: &Repo) -> Result<Vec<Checkout>> {
    let mut left = repo.locked_by_landings()?;
    if !left.is_empty() && !is_free(repo) {
        left.clear();
    }
    Ok(left)
}

/// Whether no landing is under way: the holder of the lock is at work.
fn is_free(repo: &Repo) -> bool {
    lock::hold_for(repo.common_dir(), layout::LANDING_LOCK, Duration::ZERO).is_ok()
}

fn noted(path: &Path) -> Result<Option<(String, String)>> {
    let text = fsx::load_if_there(path)?.unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let noted = text.trim_end().split_once(' ');
    Ok(noted.map(|(refname, identity)| (refname.to_owned(), identity.to_owned())))
}

/// What tells a file from every other one that ever had its name.
fn identity(path: &Path) -> Option<String> {
    let file = fs::symlink_metadata(path).ok()?;
    let (dev, ino) = (file.dev(), file.ino());
    Some(format!(
        "{dev} {ino} {}.{:09}",
        file.mtime(),
        file.mtime_nsec()
    ))
}
