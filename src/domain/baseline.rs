//! What a worktree held before its agent began to work: the changes that `[setup]` and the repository's
//! `post-checkout` hook made. They are no work of the agent's as long as they are as they were.

use super::oid::Oid;
use std::collections::BTreeMap;

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
