//! What was done to one path, however it was found out: in the index, in a worktree or in a commit.
//!
//! Renames and copies are never guessed at: a rename is a deletion and an addition, so both of its
//! sides are judged.

use crate::domain::value::named::named;
use crate::domain::value::oid::Oid;
use std::collections::BTreeMap;

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
        Change { path: path.into(), kind: ChangeKind::Named, link: None }
    }
}

// Conflict markers that a merge left in a text, as `git diff --check` knows them.

/// How long git's markers are unless the attribute `conflict-marker-size` says otherwise.
const MARKER_SIZE: usize = 7;

/// Git takes a file with a NUL among its first bytes for a binary one (`xdiff-interface.c`).
const LOOKED_AT: usize = 8000;

/// The number, from 1, of the line on which the first conflict begins: a line of `<` that a line of `=` and a line of
/// `>` follow. `None` for a text without one and for a binary file. A line of `=` alone is a heading somewhere.
pub fn first_conflict(content: &[u8]) -> Option<usize> {
    if content.iter().take(LOOKED_AT).any(|byte| *byte == 0) {
        return None;
    }
    let (mut begun, mut is_divided) = (None, false);
    for (index, line) in content.split_inclusive(|&byte| byte == b'\n').enumerate() {
        match marker(line) {
            // A second beginning before an end takes the place of the first, as the first cannot be
            // closed any more.
            Some(b'<') => (begun, is_divided) = (Some(index + 1), false),
            Some(b'=') => is_divided = begun.is_some(),
            Some(b'>') if is_divided => return begun,
            _ => {}
        }
    }
    None
}

/// The character of the marker that a line is: so many of it, and then white space.
fn marker(line: &[u8]) -> Option<u8> {
    let (marker, rest) = line.split_at_checked(MARKER_SIZE)?;
    let first = *marker.first()?;
    let is_marker = marker.iter().all(|byte| *byte == first);
    let is_ended = rest.first().is_some_and(u8::is_ascii_whitespace);
    (is_marker && is_ended).then_some(first)
}

// What a worktree held before its agent began to work: the changes that `[setup]` and the repository's
// `post-checkout` hook made. They are no work of the agent's as long as they are as they were.

/// What a path holds: its mode as git writes it, and its object.
pub type Content = (u32, Oid);

/// A path at which two trees differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The path.
    pub path: Vec<u8>,
    /// What the first tree holds there, if anything.
    pub old: Option<Content>,
    /// What the second tree holds there, if anything.
    pub new: Option<Content>,
}

/// The changes that were there before the agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Baseline(BTreeMap<Vec<u8>, Difference>);

impl Baseline {
    /// Of these changes, each path once.
    pub fn of(differences: impl IntoIterator<Item = Difference>) -> Baseline {
        let by_path = |difference: Difference| (difference.path.clone(), difference);
        Baseline(differences.into_iter().map(by_path).collect())
    }

    /// The changes, ordered by path.
    pub fn differences(&self) -> impl Iterator<Item = &Difference> {
        self.0.values()
    }

    /// Whether a change is one of these and no more than it.
    pub fn holds(&self, difference: &Difference) -> bool {
        self.0.get(&difference.path) == Some(difference)
    }

    /// Whether one of these changes is at a path.
    pub fn is_at(&self, path: &[u8]) -> bool {
        self.0.contains_key(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conflict_has_three_markers_in_order() {
        let check = |text: &str, expected: Option<usize>| {
            assert_eq!(first_conflict(text.as_bytes()), expected, "{text}");
        };
        check("a\n<<<<<<< main\nb\n=======\nc\n>>>>>>> work\n", Some(2));
        check("<<<<<<< main\r\n=======\r\n>>>>>>> work\r\n", Some(1));
        check("<<<<<<< a\n||||||| base\n=======\n>>>>>>> b\n", Some(1));
        check("<<<<<<< a\n<<<<<<< b\n=======\n>>>>>>> c\n", Some(2));
        check("Title\n=======\ntext\n", None);
        check("=======\n<<<<<<< a\n>>>>>>> b\n", None);
        check("<<<<<<< a\n>>>>>>> b\n=======\n", None);
        check(" <<<<<<< a\n =======\n >>>>>>> b\n", None);
        check("<<<<<<<<< a\n=========\n>>>>>>>>> b\n", None);
        check("<<<<<<< a\n=======\n>>>>>>> b\n\0", None);
        check("", None);
    }
}
