//! Commits and what each of them changed.

use crate::domain::change::Change;
use crate::domain::oid::Oid;
use crate::error::Result;
use crate::git::Repo;
use crate::git::repo::{failed, from_git2, to_git2};

impl Repo {
    /// What one commit changed: how it differs from its parent, for a merge from all of its parents,
    /// and for a first commit from nothing.
    ///
    /// # Errors
    /// `repo-corrupt` when the commit, a parent or a tree is missing.
    pub fn commit_changes(&self, commit: Oid) -> Result<Vec<Change>> {
        let commit = self.read_commit(commit)?;
        let parents: Vec<Oid> = commit
            .parents
            .iter()
            .map(|parent| Ok(self.read_commit(*parent)?.tree))
            .collect::<Result<_>>()?;
        self.tree_changes(&parents, commit.tree)
    }

    /// The commits that can be reached from `tip` and from none of `hidden`, parents first.
    ///
    /// # Errors
    /// `git-failed`, `repo-corrupt` when history cannot be walked.
    pub fn commits_between(&self, hidden: &[Oid], tip: Oid) -> Result<Vec<Oid>> {
        let fail = |error| failed(&format!("could not walk the history of {tip}"), error);
        let mut walk = self.inner.revwalk().map_err(fail)?;
        walk.set_sorting(git2::Sort::TOPOLOGICAL | git2::Sort::REVERSE)
            .map_err(fail)?;
        walk.push(to_git2(tip)?).map_err(fail)?;
        for commit in hidden {
            walk.hide(to_git2(*commit)?).map_err(fail)?;
        }
        walk.map(|oid| oid.map(from_git2).map_err(fail)).collect()
    }
}
