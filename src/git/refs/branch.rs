//! Branches of agents: made only where there is none, removed only where they are as expected.

use super::Tip;
use crate::domain::oid::Oid;
use crate::error::{Code, Error, Result};
use crate::git::Repo;
use crate::git::files::untrusted;
use crate::git::objects::Identity;
use crate::git::repo::failed;
use std::collections::HashSet;

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
    } else if !git2::Reference::is_valid_name(&full) || matches!(short, "" | "HEAD") {
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
    /// Checks that a branch of that name can be made.
    ///
    /// # Errors
    /// `branch-exists` when it is there, when a part of the name is itself a branch (`agent` blocks
    /// `agent/x`), or when it is itself a part of one.
    pub fn require_free_branch(&self, full_name: &str) -> Result<()> {
        self.require_free_directories(full_name)?;
        if self.tip(full_name)? != Tip::Absent {
            return Err(taken(format!("{full_name} exists already")));
        }
        if self.has_refs_below(full_name)? {
            return Err(taken(format!("there are branches below {full_name}/")));
        }
        Ok(())
    }

    /// The full name of the ref that a branch follows; `None` for a branch that follows none, and for
    /// what is no branch.
    pub fn upstream_name(&self, full_name: &str) -> Option<String> {
        let name = self.inner.branch_upstream_name(full_name).ok()?;
        name.as_str().ok().map(str::to_owned)
    }

    /// The names of the remotes, `origin` first.
    ///
    /// # Errors
    /// `git-failed` when the configuration cannot be read.
    pub fn remotes(&self) -> Result<Vec<String>> {
        let remotes = self.inner.remotes();
        let remotes = remotes.map_err(|error| failed("could not list the remotes", error))?;
        let names = remotes.iter().filter_map(|name| name.ok().flatten());
        let mut names: Vec<String> = names.map(str::to_owned).collect();
        names.sort_by_key(|name| name != "origin");
        Ok(names)
    }

    /// Checks that listing these refs, named as a directory such as `refs/heads`, comes to an end: below it is no link
    /// to a directory, which git and libgit2 follow, and nothing that keeps a reader waiting.
    ///
    /// # Errors
    /// `repo-corrupt`, naming the file.
    pub fn require_listable(&self, refs: &str) -> Result<()> {
        untrusted::require_listable(&self.common_dir().join(refs))
    }

    /// The full names of the local branches.
    ///
    /// # Errors
    /// `git-failed` when the refs cannot be listed.
    pub fn local_branches(&self) -> Result<HashSet<String>> {
        self.require_listable("refs/heads")?;
        let what = "could not list the branches";
        let mut refs =
            { self.inner.references_glob("refs/heads/*") }.map_err(|error| failed(what, error))?;
        let names = refs.names().filter_map(|name| name.ok().map(str::to_owned));
        Ok(names.collect())
    }

    /// The copies of a branch that were fetched from remotes, that of `origin` first: each one's full name and where
    /// it is.
    ///
    /// # Errors
    /// `git-failed` when the configuration cannot be read.
    pub fn fetched_branches(&self, full_name: &str) -> Result<Vec<(String, Oid)>> {
        let Some(short) = full_name.strip_prefix("refs/heads/") else {
            return Ok(Vec::new());
        };
        let mut copies = Vec::new();
        for remote in self.remotes()? {
            let copy = format!("refs/remotes/{remote}/{short}");
            if let Tip::At(oid) = self.tip(&copy)? {
                copies.push((copy, oid));
            }
        }
        Ok(copies)
    }

    /// Makes a branch at `target`; gives `false`, and changes nothing, when the name is taken.
    ///
    /// No upstream is configured: that would rewrite the shared config file, over which simultaneous
    /// spawns race.
    ///
    /// # Errors
    /// `branch-exists` when a part of the name is itself a branch, and those of [`Repo::create_ref`].
    pub fn create_branch(
        &self,
        full_name: &str,
        target: Oid,
        who: &Identity,
        reason: &str,
    ) -> Result<bool> {
        self.require_free_directories(full_name)?;
        self.create_ref(full_name, target, who, reason)
    }

    fn require_free_directories(&self, full_name: &str) -> Result<()> {
        let directories = full_name
            .match_indices('/')
            .skip(2)
            .map(|(end, _)| &full_name[..end]);
        for directory in directories {
            if self.tip(directory)? != Tip::Absent {
                return Err(taken(format!(
                    "{full_name} cannot be made while {directory} is a branch"
                )));
            }
        }
        Ok(())
    }
}

fn taken(message: String) -> Error {
    Error::new(Code::BranchExists, message).hint("to choose another name, pass --branch <name>")
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
