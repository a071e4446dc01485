//! Branches of agents: made only where there is none, removed only while nobody has moved them.

use super::Repo;
use super::repo::{failed, from_git2, to_git2};
use crate::domain::oid::Oid;
use crate::error::{Code, Error, Result};
use std::time::Duration;

/// The longest full ref name we make; file systems end at 255 bytes for a part of it.
const LONGEST_NAME: usize = 255;

/// Checks a branch name and gives the full ref name.
///
/// The characters allowed are those that no shell, no URL and no file system treats specially; git
/// itself allows more.
///
/// # Errors
/// `branch-invalid`, naming the rule.
pub fn full_name(branch: &str) -> Result<String> {
    let short = branch.strip_prefix("refs/heads/").unwrap_or(branch);
    let full = format!("refs/heads/{short}");
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'/' | b'-');
    let rule = if !short.bytes().all(allowed) {
        Some("it may hold only letters, digits, `_`, `.`, `/` and `-`")
    } else if short.starts_with(['-', '.', '/']) {
        Some("it must not begin with `-`, `.` or `/`")
    } else if full.len() > LONGEST_NAME {
        Some("it is too long")
    } else if !git2::Reference::is_valid_name(&full) || short.is_empty() {
        Some("git check-ref-format refuses it")
    } else {
        None
    };
    match rule {
        None => Ok(full),
        Some(rule) => Err(Error::new(
            Code::BranchInvalid,
            format!("`{branch}` cannot name a branch: {rule}"),
        )),
    }
}

impl Repo {
    /// Where a ref points, peeled through symbolic refs; `None` when there is no such ref.
    ///
    /// # Errors
    /// `git-failed` when the ref cannot be read.
    pub fn ref_target(&self, name: &str) -> Result<Option<Oid>> {
        match self.inner.refname_to_id(name) {
            Ok(oid) => Ok(Some(from_git2(oid))),
            Err(error) if error.code() == git2::ErrorCode::NotFound => Ok(None),
            Err(error) => Err(failed(&format!("could not read {name}"), error)),
        }
    }

    /// Makes a branch at `target`; gives `false`, and changes nothing, when the name is taken.
    ///
    /// No upstream is configured: that would rewrite the shared config file, over which simultaneous
    /// spawns race.
    ///
    /// # Errors
    /// `branch-exists` when a part of the name is itself a branch (`agent` blocks `agent/x`),
    /// `lost-race` when the ref stays locked, `git-failed`.
    pub fn create_branch(&self, full_name: &str, target: Oid, reason: &str) -> Result<bool> {
        self.require_free_directories(full_name)?;
        let target = to_git2(target)?;
        let made = retry_locked(|| self.inner.reference(full_name, target, false, reason));
        match made {
            Ok(_) => Ok(true),
            Err(error) if error.code() == git2::ErrorCode::Exists => Ok(false),
            Err(error) => Err(failed(&format!("could not make {full_name}"), error)),
        }
    }

    /// Removes a branch if it is still at `expected`; gives whether it is gone.
    ///
    /// # Errors
    /// `lost-race` when the ref stays locked, `git-failed`.
    pub fn delete_branch_at(&self, full_name: &str, expected: Oid) -> Result<bool> {
        let what = format!("could not remove {full_name}");
        let fail = |error| failed(&what, error);
        if self.ref_target(full_name)?.is_none() {
            return Ok(true);
        }
        let mut transaction = self.inner.transaction().map_err(fail)?;
        retry_locked(|| transaction.lock_ref(full_name)).map_err(fail)?;
        if self.ref_target(full_name)? != Some(expected) {
            return Ok(false);
        }
        transaction.remove(full_name).map_err(fail)?;
        transaction.commit().map_err(fail)?;
        Ok(true)
    }

    /// Checks that a branch of that name can be made.
    ///
    /// # Errors
    /// `branch-exists` when it is there, or a part of the name is itself a branch.
    pub fn require_free_branch(&self, full_name: &str) -> Result<()> {
        self.require_free_directories(full_name)?;
        if self.ref_target(full_name)?.is_none() {
            return Ok(());
        }
        Err(
            Error::new(Code::BranchExists, format!("{full_name} exists already"))
                .hint("to choose another name, pass --branch <name>"),
        )
    }

    fn require_free_directories(&self, full_name: &str) -> Result<()> {
        let directories = full_name
            .match_indices('/')
            .skip(2)
            .map(|(end, _)| &full_name[..end]);
        for directory in directories {
            if self.ref_target(directory)?.is_some() {
                return Err(Error::new(
                    Code::BranchExists,
                    format!("{full_name} cannot be made while {directory} is a branch"),
                )
                .hint("to choose another name, pass --branch <name>"));
            }
        }
        Ok(())
    }
}

/// Tries again while libgit2 finds a lock file: unlike git, it never waits by itself.
pub(in crate::git) fn retry_locked<T>(
    mut attempt: impl FnMut() -> std::result::Result<T, git2::Error>,
) -> std::result::Result<T, git2::Error> {
    // 1 + 2 + … + 40 ms is 0.8 s, about the second that git itself waits for a ref.
    for milliseconds in 1..=40 {
        match attempt() {
            Err(error) if error.code() == git2::ErrorCode::Locked => {
                std::thread::sleep(Duration::from_millis(milliseconds));
            }
            other => return other,
        }
    }
    attempt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branch_names_are_those_that_every_system_takes() {
        for good in ["agent/x", "a", "refs/heads/a/b.c", "A_1-2"] {
            assert!(full_name(good).is_ok(), "{good}");
        }
        let long = "x".repeat(250);
        for bad in [
            "", "-x", ".x", "/x", "a..b", "a b", "a~1", "x.lock", "a//b", "a/", "ä", &long,
        ] {
            assert!(full_name(bad).is_err(), "{bad}");
        }
    }
}
