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
//! `walk` finds in a worktree what its index cannot prove to be unchanged, `by_content` tells of those files what needs no git,
//! `touched` names the files; `index_tree` makes the tree that `git write-tree` would make of an index.
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
mod index_tree;
mod plain_index;
mod staged;
mod walk;

pub use glance::{Glance, glance};
pub use glance::{Touched, touched};
pub use ignore::Spellings;
pub(in crate::git) use index::{Edits, Index, Rewritten, StatData, Written, stat_data};
pub use plain_index::PlainIndex;
pub use staged::Staging;
pub use staged::worktree_changes;
pub(in crate::git) use staged::{Asked, own_in_merge, status};
pub(in crate::git) use walk::{Listed, TouchedEntries, Walk, names_may_differ};

use super::tree;
pub(in crate::git) use crate::domain::baseline::Content;
use crate::domain::change::ChangeKind;

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
