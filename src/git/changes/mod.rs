//! Which paths differ, and how: the index from HEAD, a worktree from both, a commit from its parents.
//!
//! Four sources, one answer, `domain`'s `Change`:
//!
//! - `staged`: our own reader of the index, which skips every directory whose tree the index's TREE
//!   extension already names (libgit2 compares all entries: 29 ms against 5 at 15,000 files);
//! - `status`: the user's `git status`, because only that git knows its filters, its ignore rules and
//!   its file system monitor;
//! - `glance`: the same, for repeated looks at many worktrees: what the index proves unchanged
//!   is passed over, and git is asked about the rest alone;
//! - `history`: commits, one by one.
//!
//! `walk` finds in a worktree what its index cannot prove to be unchanged, `plain` tells of those files what needs no git,
//! `touched` names the files; `index::write_tree` makes the tree that `git write-tree` would make of an index.
//!
//! Index and commits go through one walk, `compare`, that skips equal subtrees and takes several
//! parents: a path counts as changed when it differs from all of them, so that a merge is not blamed
//! for what it merged. Deliberately absent: rename detection (both sides of a rename count), and
//! everything that an index can hide from `git status` (assume-unchanged, skip-worktree), which is for `verify`
//! to see through.

mod compare;
pub mod gitlinks;
mod glance;
pub mod ignore;
mod index;
mod plain;
mod staged;
mod walk;

pub(in crate::git) use crate::domain::paths::change::Content;
use crate::domain::{ChangeKind, Oid};
use crate::git::changes::index::known_tree;
use crate::git::core::tree::{self, FILE};
use std::ops::Range;

pub use glance::{Glance, Touched, glance, touched};
pub use ignore::Spellings;
pub use index::{CHECKSUM, hash_at_end};
pub(in crate::git) use index::{Edits, Index, Rewritten, StatData, Written, stat_data};
pub(in crate::git) use plain::{NextContent, PlainFiles};
pub(in crate::git) use staged::{Asked, own_in_merge, passed_over, status, uncover};
pub use staged::{Staging, all_worktree_changes, worktree_changes};
pub(in crate::git) use walk::{Listed, TouchedEntries, Walk, names_may_differ};

/// A directory on the new side.
#[derive(Clone, Debug)]
enum Directory {
    /// There is none.
    Absent,
    /// A tree object.
    Tree(Oid),
    /// One that is checked, with all that is below it.
    CheckedTree(Oid),
    /// Entries of the index, and its cached tree if it has one.
    Index { entries: Range<usize>, cached: Option<usize> },
}

/// One name in a directory of the new side.
#[derive(Clone, Debug)]
enum Item {
    File(Content),
    Directory {
        /// The tree, where it is known without looking inside.
        oid: Option<Oid>,
        directory: Directory,
    },
}

/// How one file became another; `None` when it did not.
fn kind_of(old: Option<Content>, new: Option<Content>) -> Option<ChangeKind> {
    Some(match (old, new) {
        (None, None) => return None,
        (None, Some(_)) => ChangeKind::Added,
        (Some(_), None) => ChangeKind::Deleted,
        (Some((old_mode, _)), Some((new_mode, _)))
            if file_type(old_mode) != file_type(new_mode) =>
        {
            ChangeKind::TypeChanged
        }
        (Some((_, old)), Some((_, new))) if old != new => ChangeKind::Modified,
        (Some((old, _)), Some((new, _))) if old != new => ChangeKind::ModeChanged,
        _ => return None,
    })
}

fn file_type(mode: u32) -> u32 {
    mode & 0o170_000
}

/// The mode that git compares by, whatever an old or foreign tree says (git's `canon_mode`).
pub(in crate::git) fn canonical_mode(mode: u32) -> u32 {
    match file_type(mode) {
        0o100_000 if mode & 0o100 != 0 => tree::EXECUTABLE,
        0o100_000 => tree::FILE,
        tree::SYMLINK => tree::SYMLINK,
        tree::DIRECTORY => tree::DIRECTORY,
        _ => tree::GITLINK,
    }
}

// What an index holds, as plain values: for those who try its reader with any bytes.

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
        edits.paths.insert(path.to_vec(), Some((FILE, Oid::EMPTY_BLOB)));
        let new = (!self.index.bars(path)).then(|| self.index.rewritten(0, &edits))?;
        new.map(Rewritten::into_file)
    }
}
