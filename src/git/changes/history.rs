//! Commits and what each of them changed.

use crate::domain::change::Change;
use crate::domain::oid::Oid;
use crate::error::Result;
use crate::git::Repo;
use crate::git::history::shallow::{Shallow, incomplete};
use crate::git::repo::{failed, from_git2, to_git2};

impl Repo {
    /// What one commit changed: how it differs from its parent, for a merge from all of its parents,
    /// and for a first commit from nothing.
    ///
    /// # Errors
    /// `history-incomplete` for a commit at which a shallow clone ends; `repo-corrupt` when the commit, a
    /// parent or a tree is missing.
    pub fn commit_changes(&self, commit: Oid) -> Result<Vec<Change>> {
        if self.shallow_ends()?.contains(&commit) {
            return Err(incomplete(&format!("the parents of commit {commit}")));
        }
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
    /// `history-incomplete` when what a shallow clone lacks could change the answer; `git-failed`,
    /// `repo-corrupt` when history cannot be walked.
    pub fn commits_between(&self, hidden: &[Oid], tip: Oid) -> Result<Vec<Oid>> {
        let roots: Vec<Oid> = hidden.iter().copied().chain([tip]).collect();
        if let Some(shallow) = self.shallow_below(&roots)? {
            return self.proven_between(&shallow, hidden, tip, &roots);
        }
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

    /// As [`Repo::commits_between`] in a shallow clone, by git, which knows where it ends.
    fn proven_between(
        &self,
        shallow: &Shallow,
        hidden: &[Oid],
        tip: Oid,
        roots: &[Oid],
    ) -> Result<Vec<Oid>> {
        let mut command = self.plumbing();
        command
            .args(["rev-list", "--topo-order", "--reverse", &tip.to_hex()])
            .args(hidden.iter().map(|hidden| format!("^{hidden}")));
        let output = self.listed(command)?;
        let lines = output.split(|&byte| byte == b'\n');
        let oid = |line| Oid::from_hex(std::str::from_utf8(line).ok()?);
        let commits: Vec<Oid> = lines.filter_map(oid).collect();
        if !shallow.proves_range(&commits.iter().copied().collect(), roots) {
            return Err(incomplete(&format!("what {tip} has to itself begins")));
        }
        Ok(commits)
    }
}
