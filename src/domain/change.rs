//! What was done to one path, however it was found out: in the index, in a worktree or in a commit.
//!
//! Renames and copies are never guessed at: a rename is a deletion and an addition, so both of its
//! sides are judged.

use std::fmt;

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

/// What was done to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChangeKind {
    /// It was not there before.
    Added,
    /// Other content; in a worktree perhaps only another mode.
    Modified,
    /// It is gone.
    Deleted,
    /// The same content with another executable bit.
    ModeChanged,
    /// A file became a symlink or a submodule, or the other way round.
    TypeChanged,
    /// It is in the worktree, and git neither tracks nor ignores it.
    Untracked,
    /// Asked about before anything is done.
    Named,
}

impl ChangeKind {
    /// The word used in texts and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            ChangeKind::Added => "added",
            ChangeKind::Modified => "modified",
            ChangeKind::Deleted => "deleted",
            ChangeKind::ModeChanged => "mode changed",
            ChangeKind::TypeChanged => "type changed",
            ChangeKind::Untracked => "untracked",
            ChangeKind::Named => "named",
        }
    }
}

impl fmt::Display for ChangeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
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
