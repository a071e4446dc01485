//! The walk over directories that differ.
//!
//! The new side is a tree or what the index holds, the old sides are trees. A directory whose tree is
//! that of any old side is left at once: nothing in it can differ from all of them. What remains is
//! compared name by name, one level at a time, with a list of open directories instead of recursion, so
//! that no depth of nesting is too much.

use super::index::Index;
use super::{Content, Directory, Item, canonical_mode, kind_of};
use crate::domain::{Change, Oid};
use crate::error::{Code, Error, Result};
use crate::git::Repo;
use crate::git::core::tree;
use crate::git::history::gained::{Shallow, incomplete_history};
use crate::git::objects::{RepeatedTrees, malformed};
use crate::git::repo::{failed, from_git2, to_git2};
use std::collections::BTreeMap;

/// A path as long as this, in bytes, cannot be opened (`PATH_MAX`).
const LONGEST_PATH: usize = 4096;

/// A directory that differs, or may.
struct OpenDirectory {
    /// Its path; empty for the top, else ending in `/`.
    prefix: Vec<u8>,
    /// The tree of each old side; `None` where it has no such directory.
    old: Vec<Option<Oid>>,
    new: Directory,
}

/// What stands under one name on all sides.
#[derive(Default)]
struct SidesOfName {
    old: Vec<Option<Content>>,
    new: Option<Item>,
}

impl Repo {
    /// How a tree differs from all of `old` at once, ordered by path. Without an old one, everything
    /// in it was added.
    ///
    /// # Errors
    /// `repo-corrupt` when a tree or a symlink's blob is missing.
    pub fn tree_changes(&self, old: &[Oid], new: Oid) -> Result<Vec<Change>> {
        self.compare(old, Some(new), Directory::Tree(new), None)
    }

    /// As [`Repo::tree_changes`] of a tree by anyone's hand, of which all that differs is sound: trees that git reads in one way alone, files
    /// that are here and are files, paths that a worktree can have. What git checks of a push is no more, and it checks nothing of what was
    /// written here.
    ///
    /// # Errors
    /// `repo-corrupt` where it is not.
    pub fn sound_changes(&self, old: &[Oid], new: Oid) -> Result<Vec<Change>> {
        self.compare(old, Some(new), Directory::CheckedTree(new), None)
    }

    /// The paths at which two trees differ, ordered.
    ///
    /// # Errors
    /// As [`Repo::tree_changes`].
    pub fn changed_paths<C: FromIterator<Vec<u8>>>(&self, old: Oid, new: Oid) -> Result<C> {
        Ok(self.tree_changes(&[old], new)?.into_iter().map(|change| change.path).collect())
    }

    /// As [`Repo::tree_changes`] for any new side; `index` is what [`Directory::Index`] refers to.
    pub(super) fn compare(
        &self,
        old: &[Oid],
        oid: Option<Oid>,
        new: Directory,
        index: Option<&Index>,
    ) -> Result<Vec<Change>> {
        let old: Vec<Option<Oid>> = match old {
            [] => vec![Some(Oid::EMPTY_TREE)],
            trees => trees.iter().copied().map(Some).collect(),
        };
        let mut changes = Vec::new();
        let mut open = Vec::new();
        if oid.is_none() || !old.contains(&oid) {
            open.push(OpenDirectory { prefix: Vec::new(), old, new });
        }
        let mut trees = RepeatedTrees::default();
        while let Some(directory) = open.pop() {
            // git reads no tree that is nested deeper than 2048 (`core.maxTreeDepth`), and each level takes two bytes.
            if let Directory::CheckedTree(tree) = directory.new
                && directory.prefix.len() >= LONGEST_PATH
            {
                let what = format!("tree {tree} is nested deeper than a path can be long");
                return Err(Error::new(Code::RepoCorrupt, what));
            }
            for (name, sides) in self.names(&mut trees, &directory, index)? {
                let mut path = directory.prefix.clone();
                path.extend_from_slice(&name);
                let change = self.file_change(&path, &sides)?;
                if let (Directory::CheckedTree(tree), Some(_), Some(Item::File((mode, oid)))) =
                    (&directory.new, &change, &sides.new)
                {
                    self.require_file(*tree, &path, (*mode, *oid))?;
                }
                changes.extend(change);
                open.extend(below(path, &sides));
            }
        }
        // Directories come from a stack, so the paths were met in no order.
        changes.sort_unstable();
        Ok(changes)
    }

    /// Every name in a directory, on any side.
    fn names(
        &self,
        trees: &mut RepeatedTrees,
        open: &OpenDirectory,
        index: Option<&Index>,
    ) -> Result<BTreeMap<Vec<u8>, SidesOfName>> {
        let mut names: BTreeMap<Vec<u8>, SidesOfName> = BTreeMap::new();
        let sides = open.old.len();
        for (side, tree) in open.old.iter().enumerate() {
            let Some(tree) = tree else { continue };
            for entry in trees.read(self, *tree)? {
                let old = &mut names.entry(entry.name).or_default().old;
                old.resize(side, None);
                old.push(Some((canonical_mode(entry.mode), entry.oid)));
            }
        }
        match (&open.new, index) {
            (Directory::Tree(tree) | Directory::CheckedTree(tree), _) => {
                let entries = trees.read(self, *tree)?;
                let is_checked = matches!(open.new, Directory::CheckedTree(_));
                if is_checked && !tree::is_well_formed(&entries) {
                    return Err(malformed(*tree));
                }
                let below = if is_checked { Directory::CheckedTree } else { Directory::Tree };
                for entry in entries {
                    let mode = canonical_mode(entry.mode);
                    let item = match mode {
                        tree::DIRECTORY => {
                            Item::Directory { oid: Some(entry.oid), directory: below(entry.oid) }
                        }
                        _ => Item::File((mode, entry.oid)),
                    };
                    names.entry(entry.name).or_default().new = Some(item);
                }
            }
            (Directory::Index { entries, cached }, Some(index)) => {
                for (name, item) in index.level(entries.clone(), *cached, open.prefix.len()) {
                    names.entry(name.to_owned()).or_default().new = Some(item);
                }
            }
            _ => {}
        }
        for name in names.values_mut() {
            name.old.resize(sides, None);
        }
        Ok(names)
    }

    /// Fails unless a file of a tree is here, is a file, and has a path that the system can open.
    fn require_file(&self, tree: Oid, path: &[u8], (mode, oid): Content) -> Result<()> {
        if path.len() >= LONGEST_PATH {
            let what = format!("tree {tree} has a file whose path has {} bytes", path.len());
            return Err(Error::new(Code::RepoCorrupt, what));
        }
        if mode == tree::GITLINK || self.is_blob(oid) {
            return Ok(());
        }
        Err(malformed(tree).because(format!("its file {oid} is missing or is no file")))
    }

    /// What happened to the file at `path`, if there is or was one that differs from all old sides.
    fn file_change(&self, path: &[u8], sides: &SidesOfName) -> Result<Option<Change>> {
        let as_file =
            |content: &Option<Content>| content.filter(|(mode, _)| *mode != tree::DIRECTORY);
        let new = match sides.new {
            Some(Item::File(content)) => Some(content),
            _ => None,
        };
        // Equal to one old side is enough: of a merge, what comes from either parent was not
        // changed by it.
        if sides.old.iter().any(|old| as_file(old) == new) {
            return Ok(None);
        }
        // What kind of change it is goes by the first parent.
        let Some(kind) = kind_of(sides.old.first().and_then(as_file), new) else {
            return Ok(None);
        };
        let link = match new {
            // An entry that only git can tell about has no name here.
            Some((tree::SYMLINK, blob)) if !blob.is_zero() => Some(self.read_blob(blob)?),
            _ => None,
        };
        Ok(Some(Change { path: path.to_owned(), kind, link }))
    }
}

/// The directory under a name, if what is below it can differ from all old sides.
fn below(mut path: Vec<u8>, sides: &SidesOfName) -> Option<OpenDirectory> {
    let old: Vec<Option<Oid>> = sides
        .old
        .iter()
        .map(|content| content.and_then(|(mode, oid)| (mode == tree::DIRECTORY).then_some(oid)))
        .collect();
    let new = match &sides.new {
        Some(Item::Directory { oid, directory }) => {
            if oid.is_some() && old.contains(oid) {
                return None;
            }
            directory.clone()
        }
        // Nothing here, and nothing there either.
        _ if old.contains(&None) => return None,
        _ => Directory::Absent,
    };
    path.push(b'/');
    Some(OpenDirectory { prefix: path, old, new })
}

// Commits and what each of them changed.

impl Repo {
    /// What one commit changed: how it differs from its parent, for a merge from all of its parents,
    /// and for a first commit from nothing.
    ///
    /// # Errors
    /// `history-incomplete` for a commit at which a shallow clone ends; `repo-corrupt` when the commit, a
    /// parent or a tree is missing.
    pub fn commit_changes(&self, commit: Oid) -> Result<Vec<Change>> {
        // Where a shallow clone ends, the commit looks like a first one, and all of its tree would
        // count as changed.
        if self.shallow_ends()?.contains(&commit) {
            return Err(incomplete_history(&format!("the parents of commit {commit}")));
        }
        let commit = self.read_commit(commit)?;
        let parents: Vec<Oid> =
            commit.parents.iter().map(|parent| self.tree_of(*parent)).collect::<Result<_>>()?;
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
        self.require_readable_history(&roots)?;
        let fail = |error| failed(&format!("could not walk the history of {tip}"), error);
        let mut walk = self.inner.revwalk().map_err(fail)?;
        walk.set_sorting(git2::Sort::TOPOLOGICAL | git2::Sort::REVERSE).map_err(fail)?;
        walk.push(to_git2(tip)?).map_err(fail)?;
        for commit in hidden {
            walk.hide(to_git2(*commit)?).map_err(fail)?;
        }
        walk.map(|oid| oid.map(from_git2).map_err(fail)).collect()
    }

    /// The newest commits that can be reached from `tip`, by their dates and at most `limit`; a shallow clone has those before its end.
    ///
    /// # Errors
    /// `git-failed`.
    pub fn newest_commits(&self, tip: Oid, limit: usize) -> Result<Vec<Oid>> {
        self.require_readable_history(&[tip])?;
        let fail = |error| failed(&format!("could not walk the history of {tip}"), error);
        let mut walk = self.inner.revwalk().map_err(fail)?;
        // In this order git walks no further than it is asked.
        walk.set_sorting(git2::Sort::TIME).map_err(fail)?;
        walk.push(to_git2(tip)?).map_err(fail)?;
        let is_shallow = self.is_shallow();
        let newest = walk.take_while(|oid| oid.is_ok() || !is_shallow).take(limit);
        newest.map(|oid| oid.map(from_git2).map_err(fail)).collect()
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
        // A commit beyond the end may be one of `hidden`, and then some of these would not count.
        if !shallow.proves_range(&commits.iter().copied().collect(), roots) {
            return Err(incomplete_history(&format!("what {tip} has to itself begins")));
        }
        Ok(commits)
    }
}
