//! What was done to one path, however it was found out: in the index, in a worktree or in a commit.
//!
//! Renames and copies are never guessed at: a rename is a deletion and an addition, so both of its
//! sides are judged.

use crate::domain::named::named;

/// A path that differs, and how.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Change {
    /// The path from the top of the worktree, as git has it. Not a [`RepoPath`] yet: a commit made by
    /// hand can hold names that are none, and those are to be judged, not lost.
    ///
    /// [`RepoPath`]: super::path::RepoPath
    pub path: Vec<u8>,
    /// What was done to it.
    pub kind: ChangeKind,
    /// Where the path points afterwards, if it is a symlink then.
    pub link: Option<Vec<u8>>,
}

named! {
    /// What was done to a path.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum ChangeKind {
        /// It was not there before.
        Added = "added",
        /// Other content; in a worktree perhaps only another mode.
        Modified = "modified",
        /// It is gone.
        Deleted = "deleted",
        /// The same content with another executable bit.
        ModeChanged = "mode changed",
        /// A file became a symlink or a submodule, or the other way round.
        TypeChanged = "type changed",
        /// It is in the worktree, and git neither tracks nor ignores it.
        Untracked = "untracked",
        /// Asked about before anything is done.
        Named = "named",
    }
}

impl Change {
    /// A path that was asked about.
    pub fn named(path: impl Into<Vec<u8>>) -> Change {
        Change {
            path: path.into(),
            kind: ChangeKind::Named,
            link: None,
        }
    }
}
