//! Merging work on top of a stack, without a child where the two do not touch each other.
//!
//! The answer is git's where both sides have one merge base and have only added and changed files since, so that there is
//! no rename to look for, and where no path of one side is a path of the other or lies below one. Everything else is
//! left to git.
//!
//! Neither the commits of a stack nor its changes are read again for each merge. A stack has the merge base with work
//! that its target has, unless that work has commits of its own in common with work in the stack. What a stack changed
//! since then is known from the merge before.

use super::{Merge, MergeResult};
use crate::domain::oid::Oid;
use crate::error::Result;
use crate::git::Repo;
use crate::git::files::pruned::retry_if_pruned;
use crate::git::repo::{failed, from_git2, to_git2};
use git2::build::TreeUpdateBuilder;
use git2::{Delta, FileMode};
use std::collections::{BTreeMap, HashMap};

/// The files that one side added or changed.
type Written = BTreeMap<Vec<u8>, (git2::Oid, FileMode)>;

/// Work, by number, merged in order into a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stack {
    /// The commit on top.
    pub commit: Oid,
    /// Its tree.
    pub tree: Oid,
    /// Whose work it has.
    pub members: Vec<usize>,
}

/// Merges work into stacks on one target.
pub struct StackMerger<'r> {
    repo: &'r Repo,
    works: Vec<StackWork>,
    last: Option<LastStack>,
}

/// A commit that is to be merged.
struct StackWork {
    commit: Oid,
    /// How it differs from the target; `None` where git has to be asked.
    fork: Option<Fork>,
    /// The other works that have commits in common with it that the target lacks.
    related: Vec<usize>,
}

/// What was written since a merge base.
struct Fork {
    base_tree: git2::Oid,
    written: Written,
}

/// The stack that was made last.
struct LastStack {
    tree: Oid,
    base_tree: git2::Oid,
    written: Written,
}

impl<'r> StackMerger<'r> {
    /// For these commits, on stacks that begin at this target.
    ///
    /// # Errors
    /// `git-failed`, `repo-corrupt`.
    pub fn new(repo: &'r Repo, target: Oid, commits: &[Oid]) -> Result<StackMerger<'r>> {
        let is_certain = repo.shows_all_history();
        let mut works = Vec::with_capacity(commits.len());
        let mut owners: HashMap<Oid, Vec<usize>> = HashMap::new();
        for (at, commit) in commits.iter().enumerate() {
            let mut fork = None;
            if is_certain {
                fork = repo.fork(target, *commit)?;
                for own in repo.commits_between(&[target], *commit)? {
                    owners.entry(own).or_default().push(at);
                }
            }
            works.push(StackWork {
                commit: *commit,
                fork,
                related: Vec::new(),
            });
        }
        for shared in owners.values().filter(|owners| owners.len() > 1) {
            for one in shared {
                let others = shared.iter().filter(|other| *other != one);
                works[*one].related.extend(others);
            }
        }
        for work in &mut works {
            work.related.sort_unstable();
            work.related.dedup();
        }
        Ok(StackMerger {
            repo,
            works,
            last: None,
        })
    }

    /// As [`Repo::merge`] of that work into the stack.
    ///
    /// # Errors
    /// As [`Repo::merge`].
    pub fn merge(&mut self, below: &Stack, work: usize) -> Result<Merge> {
        match self.merge_disjoint(below, work)? {
            Some(tree) => Ok(Merge {
                result: MergeResult::Clean { tree },
                approximate: false,
            }),
            None => self.repo.merge(below.commit, self.works[work].commit),
        }
    }

    /// The merged tree; `None` where git has to be asked.
    ///
    /// # Errors
    /// `git-failed`, `repo-corrupt`.
    pub fn merge_disjoint(&mut self, below: &Stack, work: usize) -> Result<Option<Oid>> {
        let work = &self.works[work];
        let is_related = |member: &usize| work.related.binary_search(member).is_ok();
        let anew;
        let fork = if below.members.iter().any(is_related) {
            anew = self.repo.fork(below.commit, work.commit)?;
            &anew
        } else {
            &work.fork
        };
        let Some(fork) = fork else {
            return Ok(None);
        };
        let last = self.last.take();
        let is_last =
            |last: &LastStack| last.tree == below.tree && last.base_tree == fork.base_tree;
        let mut written = match last.filter(is_last) {
            Some(last) => last.written,
            None => match self.repo.written(fork.base_tree, to_git2(below.tree)?)? {
                Some(written) => written,
                None => return Ok(None),
            },
        };
        if meets(&written, &fork.written) {
            return Ok(None);
        }
        let mut update = TreeUpdateBuilder::new();
        for (path, (oid, mode)) in &fork.written {
            update.upsert(path.as_slice(), *oid, *mode);
        }
        let ours = self.repo.inner.find_tree(to_git2(below.tree)?);
        let ours = ours.map_err(|error| failed("could not merge", error))?;
        let made = retry_if_pruned(|| update.create_updated(&self.repo.inner, &ours));
        // What cannot be written here is refused by git with its reason.
        let Ok(tree) = made.map(from_git2) else {
            return Ok(None);
        };
        written.extend(fork.written.clone());
        self.last = Some(LastStack {
            tree,
            base_tree: fork.base_tree,
            written,
        });
        Ok(Some(tree))
    }
}

impl Repo {
    /// Whether the objects here are all that git would see, as they are.
    fn shows_all_history(&self) -> bool {
        let replaced = self.inner.references_glob("refs/replace/*");
        let is_replaced = replaced.map_or(true, |mut replaced| replaced.next().is_some());
        let has_grafts = self.common_dir().join("info/grafts").exists();
        !(self.is_shallow() || self.is_partial() || is_replaced || has_grafts)
    }

    /// What a commit wrote since its merge base with another one; `None` where there is not one merge base, or it did more
    /// than write files.
    fn fork(&self, ours: Oid, theirs: Oid) -> Result<Option<Fork>> {
        let (ours, theirs) = (to_git2(ours)?, to_git2(theirs)?);
        let Ok(bases) = self.inner.merge_bases(ours, theirs) else {
            return Ok(None);
        };
        let [base] = bases[..] else {
            return Ok(None);
        };
        let tree = |oid| {
            let commit = self.inner.find_commit(oid);
            let tree = commit.map(|commit| commit.tree_id());
            tree.map_err(|error| failed("could not merge", error))
        };
        let base_tree = tree(base)?;
        let written = self.written(base_tree, tree(theirs)?)?;
        Ok(written.map(|written| Fork { base_tree, written }))
    }

    /// What one side wrote; `None` where it did anything else.
    fn written(&self, base: git2::Oid, side: git2::Oid) -> Result<Option<Written>> {
        let tree = |oid| self.inner.find_tree(oid);
        let diff = tree(base).and_then(|base| {
            let side = tree(side)?;
            self.inner.diff_tree_to_tree(Some(&base), Some(&side), None)
        });
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
    other.keys().any(|path| {
        let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        let mut above = slashes.map(|(at, _)| &path[..at]);
        let below = [path.as_slice(), b"/"].concat();
        let next = one.range(below.clone()..).next();
        one.contains_key(path)
            || above.any(|above| one.contains_key(above))
            || next.is_some_and(|(next, _)| next.starts_with(&below))
    })
}
