//! What is known of a warm worktree, in the file by which it is claimed.

use serde::{Deserialize, Serialize};

/// A warm worktree that is whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotRecord {
    /// The commit that its files and its index are those of, in hex.
    pub commit: String,
    /// The tree of that commit, in hex.
    pub tree: String,
    /// What was set up in it: a hash of the settings that said so.
    pub setup: String,
    /// Whether set-up wrote down where the worktree is, so that it has to stay there.
    pub pinned: bool,
    /// Whether set-up left something that git does not ignore.
    pub leftovers: bool,
    /// The tree of all files that git does not ignore, in hex, where that is not `tree`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made: Option<String>,
    /// Directories that no tree can hold, as repositories of their own are, each with a NUL after it; empty where there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub apart: String,
}

impl SlotRecord {
    /// One line of JSON.
    pub fn to_bytes(&self) -> Vec<u8> {
        // Strings and flags always serialize.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reads it back; `None` for a slot that is not whole.
    pub fn from_bytes(bytes: &[u8]) -> Option<SlotRecord> {
        serde_json::from_slice(bytes).ok()
    }
}
