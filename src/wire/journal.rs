//! The note by which a half-made spawn is found.

use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

/// Everything a spawn may have made before it was stopped.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpawnJournal {
    /// The agent's id.
    pub agent: String,
    /// The spawn commit, in hex.
    pub spawn_commit: String,
    /// The branch it wanted, full name; a suffix may have been added.
    pub branch: Option<String>,
    /// The absolute path of the worktree.
    pub worktree: Option<String>,
    /// The warm worktree that it took over: the name of its admin directory.
    pub slot: Option<String>,
    /// The worktree that was there before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopted: Option<AdoptedJournal>,
    /// What the agent will be allowed to change; absent for one that may change nothing.
    pub scope: Option<JournalScope>,
}

/// A worktree while it changes from one admin directory to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdoptedJournal {
    /// The name of the admin directory that it had.
    pub admin: String,
    /// The first commit of the agent's branch, in hex.
    pub tip: String,
    /// The directory of the bundle, relative to the worktree. It was not there before.
    pub bundle: String,
}

/// A scope while the ledger does not name its policy yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalScope {
    /// The globs it may touch.
    pub whitelist: Vec<String>,
    /// The globs it must not touch.
    pub denylist: Vec<String>,
}

impl SpawnJournal {
    /// One line of JSON.
    pub fn to_bytes(&self) -> Vec<u8> {
        // Strings always serialize.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reads it back; `None` when it was cut off while being written, before anything else was made.
    pub fn from_bytes(bytes: &[u8]) -> Option<SpawnJournal> {
        serde_json::from_slice(bytes).ok()
    }
}
