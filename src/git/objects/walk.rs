//! Walks over the trees of a repository.

use crate::domain::oid::Oid;
use crate::domain::path::RepoPath;
use crate::error::{Code, Error, Result};
use crate::git::Repo;
use crate::git::tree::{DIRECTORY, Entry};
use std::collections::HashSet;
use std::ops::ControlFlow;

// Walks over trees that an agent or a remote wrote.

/// So many names are read whatever they are: that takes a second.
const ALWAYS: usize = 1_000_000;

/// Beyond that, each directory may stand in so many places.
const PLACES: usize = 16;

/// Reads the trees of one walk, and notices where a few of them stand for more paths than any memory holds: a tree of 64
/// entries that all lead to the next such tree is written in a moment, and has 64 to the power of its depth paths.
#[derive(Debug, Default)]
pub(in crate::git) struct RepeatedTrees {
    seen: HashSet<Oid>,
    /// Names in directories that differ.
    distinct: usize,
    /// Names in all of them.
    read: usize,
}

impl RepeatedTrees {
    /// The entries of a tree.
    ///
    /// # Errors
    /// Those of [`Repo::read_tree`]; `file-too-long` where the walk would not end.
    pub(in crate::git) fn read(&mut self, repo: &Repo, oid: Oid) -> Result<Vec<Entry>> {
        let entries = repo.read_tree(oid)?;
        self.read += entries.len();
        if self.seen.insert(oid) {
            self.distinct += entries.len();
        }
        if self.read > ALWAYS && self.read / PLACES > self.distinct {
            let what = format!(
                "tree {oid} and others stand in so many places that their paths cannot be listed"
            );
            return Err(Error::new(Code::FileTooLong, what)
                .hint(format!("to see what it holds, run git ls-tree {oid}")));
        }
        Ok(entries)
    }
}

// Walks over the files of a tree.

/// What a walk does with a tree's paths.
pub trait Visitor {
    /// Whether to look into a directory.
    fn enters(&mut self, directory: &RepoPath) -> bool;

    /// Comes to a tracked path that is no directory; `Break` ends the walk.
    fn visit(&mut self, path: &RepoPath) -> ControlFlow<()>;
}

impl Repo {
    /// Leads a visitor through the tracked paths of a tree, in git's order. Entries that no worktree can
    /// hold (`.git`, `..`) are passed over.
    ///
    /// # Errors
    /// `repo-corrupt` when a tree is missing.
    pub fn walk_tracked(&self, tree: Oid, visitor: &mut impl Visitor) -> Result<()> {
        let mut trees = RepeatedTrees::default();
        self.walk(&mut trees, tree, &mut Vec::new(), visitor)
            .map(|_| ())
    }

    fn walk(
        &self,
        trees: &mut RepeatedTrees,
        tree: Oid,
        prefix: &mut Vec<u8>,
        visitor: &mut impl Visitor,
    ) -> Result<ControlFlow<()>> {
        for entry in trees.read(self, tree)? {
            let length = prefix.len();
            prefix.extend_from_slice(&entry.name);
            let next = match RepoPath::parse(prefix) {
                Err(_) => ControlFlow::Continue(()),
                Ok(path) if entry.mode != DIRECTORY => visitor.visit(&path),
                Ok(directory) if visitor.enters(&directory) => {
                    prefix.push(b'/');
                    self.walk(trees, entry.oid, prefix, visitor)?
                }
                Ok(_) => ControlFlow::Continue(()),
            };
            prefix.truncate(length);
            if next.is_break() {
                return Ok(next);
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}
