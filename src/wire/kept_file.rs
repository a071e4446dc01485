//! What is written down of a file of the user before it is changed or moved, so that it can be put back.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A file before and after we changed it; `None` where there was none.
#[derive(Serialize, Deserialize)]
pub struct FileCopy {
    /// What was in it.
    pub before: Option<Vec<u8>>,
    /// What we left in it.
    pub after: Option<Vec<u8>>,
}

impl FileCopy {
    /// The form in which it is kept.
    pub fn to_bytes(&self) -> Vec<u8> {
        // Bytes always serialize.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// The copy that these bytes hold; `None` for anything else.
    pub fn from_bytes(bytes: &[u8]) -> Option<FileCopy> {
        serde_json::from_slice(bytes).ok()
    }
}

/// A file that was moved out of a worktree: one line of a list of such files.
#[derive(Serialize, Deserialize)]
pub struct MovedFile {
    /// Its path in the worktree.
    pub path: Vec<u8>,
    /// How long it is, in bytes.
    pub size: u64,
    /// Its permissions.
    pub mode: u32,
    /// Where it is now, absolute.
    pub place: PathBuf,
}

impl MovedFile {
    /// The line, between line feeds: what a power loss cut short ends at the one that the next line begins with.
    pub fn to_line(&self) -> String {
        // Bytes, numbers and a path that is ours always serialize.
        let text = serde_json::to_string(self).unwrap_or_default();
        format!("\n{text}\n")
    }

    /// The files of a list; lines that are cut short are passed over.
    pub fn read_list(list: &[u8]) -> impl Iterator<Item = MovedFile> {
        list.split(|&byte| byte == b'\n')
            .filter_map(|line| serde_json::from_slice(line).ok())
    }
}
