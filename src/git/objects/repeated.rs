//! Walks over trees that an agent or a remote wrote.

use crate::domain::oid::Oid;
use crate::error::{Code, Error, Result};
use crate::git::Repo;
use crate::git::tree::Entry;
use std::collections::HashSet;

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
