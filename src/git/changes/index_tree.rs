//! The tree of an index, made as `git write-tree` makes it.
//!
//! Like git, this believes the trees that the index names for directories in which nothing was changed, and
//! makes those of the others from their entries. Wherever git would refuse, or something is out of the
//! ordinary, there is no answer, and git is to be asked.

use super::compare::{Directory, Item};
use super::index::Index;
use crate::domain::oid::Oid;
use crate::error::Result;
use crate::git::Repo;
use crate::git::tree::{DIRECTORY, Entry, GITLINK};
use crate::git::untrusted;
use std::collections::BTreeMap;
use std::path::Path;

/// Directories nested deeper than this are left to git.
const MAX_DEPTH: usize = 256;

impl Repo {
    /// The tree of the index file at `path`, with the tree objects that it needs; `None` when only git can
    /// tell. What was written by then does no harm.
    ///
    /// # Errors
    /// `disk-full`, `repo-read-only`, `git-failed`.
    pub(in crate::git) fn index_tree(&self, path: &Path) -> Result<Option<Oid>> {
        match untrusted::read_at(path, untrusted::LONGEST_INDEX).and_then(Index::parse) {
            Some(index) => self.tree_of(&index),
            None => Ok(None),
        }
    }

    /// As [`Repo::index_tree`] for an index that was read already.
    ///
    /// # Errors
    /// As [`Repo::index_tree`].
    pub(in crate::git) fn tree_of(&self, index: &Index) -> Result<Option<Oid>> {
        if index.is_flagged {
            return Ok(None);
        }
        let (oid, top) = index.top();
        self.directory_tree(index, oid, &top, 0, MAX_DEPTH)
    }

    /// The tree of one directory; `skip` is the length of its path with the final slash.
    fn directory_tree(
        &self,
        index: &Index,
        known: Option<Oid>,
        directory: &Directory,
        skip: usize,
        levels: usize,
    ) -> Result<Option<Oid>> {
        if let Some(known) = known {
            return Ok(Some(known).filter(|tree| self.has_object(*tree)));
        }
        let Directory::Index { entries, cached } = directory else {
            return Ok(None);
        };
        if levels == 0 {
            return Ok(None);
        }
        let mut names: BTreeMap<&[u8], Entry> = BTreeMap::new();
        for (name, item) in index.level(entries.clone(), *cached, skip) {
            let content = match &item {
                Item::File((mode, oid)) => {
                    let is_there = *mode == GITLINK || self.has_object(*oid);
                    Some((*mode, *oid)).filter(|_| is_there && !oid.is_zero())
                }
                Item::Directory { oid, directory } => {
                    let below = skip + name.len() + 1;
                    self.directory_tree(index, *oid, directory, below, levels - 1)?
                        .map(|oid| (DIRECTORY, oid))
                }
            };
            let is_odd = matches!(name, b"" | b"." | b".." | b".git") || name.contains(&0);
            let Some((mode, oid)) = content.filter(|_| !is_odd) else {
                return Ok(None);
            };
            let entry = Entry {
                mode,
                name: name.to_owned(),
                oid,
            };
            // A file and a directory of one name.
            if names.insert(name, entry).is_some() {
                return Ok(None);
            }
        }
        self.write_tree(names.into_values().collect()).map(Some)
    }
}
