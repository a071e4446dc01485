//! Merging changes that do not touch each other, without a child.
//!
//! The answer is git's where both sides have one merge base and have only added and changed files since, so that there is
//! no rename to look for, and where no path of one side is a path of the other or lies below one. Everything else is
//! left to git.

use crate::domain::oid::Oid;
use crate::error::Result;
use crate::git::Repo;
use crate::git::pruned::retry_if_pruned;
use crate::git::repo::{failed, from_git2, to_git2};
use git2::build::TreeUpdateBuilder;
use git2::{Delta, FileMode, Tree};
use std::collections::BTreeMap;

/// The files that one side added or changed.
type Written = BTreeMap<Vec<u8>, (git2::Oid, FileMode)>;

impl Repo {
    /// The tree of merging `theirs` into `ours`; `None` where git has to be asked.
    ///
    /// # Errors
    /// `git-failed`, `repo-corrupt`.
    pub fn merge_disjoint(&self, ours: Oid, theirs: Oid) -> Result<Option<Oid>> {
        // What git would see in the place of objects is git's to say.
        let replaced = self.inner.references_glob("refs/replace/*");
        let is_replaced = replaced.map_or(true, |mut replaced| replaced.next().is_some());
        let has_grafts = self.common_dir().join("info/grafts").exists();
        if self.is_shallow() || self.is_partial() || is_replaced || has_grafts {
            return Ok(None);
        }
        let fail = |error| failed("could not merge", error);
        let (ours, theirs) = (to_git2(ours)?, to_git2(theirs)?);
        let Ok(bases) = self.inner.merge_bases(ours, theirs) else {
            return Ok(None);
        };
        let [base] = bases[..] else {
            return Ok(None);
        };
        let tree = |oid| {
            let commit = self.inner.find_commit(oid);
            commit.and_then(|commit| commit.tree()).map_err(fail)
        };
        let (base, ours, theirs) = (tree(base)?, tree(ours)?, tree(theirs)?);
        let (Some(mine), Some(other)) =
            (self.written(&base, &ours)?, self.written(&base, &theirs)?)
        else {
            return Ok(None);
        };
        if meets(&mine, &other) || meets(&other, &mine) {
            return Ok(None);
        }
        let mut update = TreeUpdateBuilder::new();
        for (path, (oid, mode)) in other {
            update.upsert(path, oid, mode);
        }
        let made = retry_if_pruned(|| update.create_updated(&self.inner, &ours));
        // What cannot be written here is refused by git with its reason.
        Ok(made.ok().map(from_git2))
    }

    /// What one side wrote; `None` where it did anything else.
    fn written(&self, base: &Tree<'_>, side: &Tree<'_>) -> Result<Option<Written>> {
        let diff = self.inner.diff_tree_to_tree(Some(base), Some(side), None);
        let diff = diff.map_err(|error| failed("could not compare two trees", error))?;
        let files = diff.deltas().map(|delta| {
            let file = delta.new_file();
            let is_written = matches!(delta.status(), Delta::Added | Delta::Modified);
            let is_file = matches!(
                file.mode(),
                FileMode::Blob | FileMode::BlobExecutable | FileMode::Link
            );
            let path = file.path_bytes().filter(|_| is_written && is_file)?;
            Some((path.to_owned(), (file.id(), file.mode())))
        });
        Ok(files.collect())
    }
}

/// Whether a path of one is a path of the other or lies below one.
fn meets(one: &Written, other: &Written) -> bool {
    let is_there = |path: &[u8]| other.contains_key(path);
    one.keys().any(|path| {
        let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        let mut above = slashes.map(|(at, _)| &path[..at]);
        is_there(path) || above.any(is_there)
    })
}
