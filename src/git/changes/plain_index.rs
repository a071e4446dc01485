//! What an index holds, as plain values: for those who try its reader with any bytes.

use super::Content;
use super::compare::{Directory, Item};
use super::index::{Edits, Index, Rewritten, known_tree};
use crate::domain::oid::Oid;
use crate::git::tree::FILE;

/// An index that was read, with all that is made of one.
#[derive(Debug)]
pub struct PlainIndex {
    index: Index,
}

impl PlainIndex {
    /// Reads an index file; `None` when it is malformed or for git alone to read.
    pub fn parse(file: &[u8]) -> Option<PlainIndex> {
        let index = Index::parse(file.to_vec())?;
        Some(PlainIndex { index })
    }

    /// The paths in git's order, each with what a commit would hold of it: without those that only intend to be added,
    /// and with no object's name for one in conflict.
    pub fn entries(&self) -> impl Iterator<Item = (&[u8], Content)> {
        self.index.contents()
    }

    /// The tree that its cached trees give all of it.
    pub fn tree(&self) -> Option<Oid> {
        self.index.top().0
    }

    /// As [`PlainIndex::tree`] of an index file that is read through a buffer, without keeping its entries; `None` where that
    /// does not tell.
    pub fn known_tree(file: &[u8]) -> Option<Oid> {
        known_tree(file, file.len() as u64)
    }

    /// How many bytes reading it took.
    pub fn size(&self) -> usize {
        self.index.size()
    }

    /// How many files are met on the way through every directory.
    pub fn walked(&self) -> usize {
        let (_, top) = self.index.top();
        let mut open = vec![(0, top)];
        let mut files = 0;
        while let Some((skip, directory)) = open.pop() {
            let Directory::Index { entries, cached } = directory else {
                continue;
            };
            for (name, item) in self.index.level(entries, cached, skip) {
                match item {
                    Item::File(_) => files += 1,
                    Item::Directory { directory, .. } => {
                        open.push((skip + name.len() + 1, directory));
                    }
                }
            }
        }
        files
    }

    /// The file of this index with one more entry, or with another content of that path; `None` where git has to
    /// write it.
    pub fn with(&self, path: &[u8]) -> Option<Vec<u8>> {
        let mut edits = Edits::default();
        edits
            .paths
            .insert(path.to_vec(), Some((FILE, Oid::EMPTY_BLOB)));
        let new = { !self.index.bars(path) }.then(|| self.index.rewritten(0, &edits))?;
        new.map(Rewritten::into_file)
    }
}
