//! Small files and blobs of ours: the note by which a half-made spawn is found, what warm worktrees are, what was
//! kept of the user's files, what a worktree held before its agent began.

use crate::domain::Oid;
use crate::domain::paths::change::{Baseline, Content, Difference};
use crate::wire::output::path_text::PathText;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;
use std::path::PathBuf;

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
    /// The absolute path of a shared agent's bundle below the root.
    #[serde(default)]
    pub shared_bundle: Option<String>,
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

// What is written down of a file of the user before it is changed or moved, so that it can be put back.

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
        list.split(|&byte| byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok())
    }
}

// What is known of a warm worktree, in the file by which it is claimed.

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

// What a worktree held before its agent began, as the blob that its `spawned` event names:
// `git-agent.baseline/1`. It names objects and does not hold them: a file that `[setup]` brought may be a secret.

/// The schema's name and version.
pub const SCHEMA: &str = "git-agent.baseline/1";

#[derive(Serialize, Deserialize)]
struct JournalDocument {
    schema: String,
    changes: Vec<JournalChange>,
}

/// One change; each side is `<octal mode> <object>`, absent where nothing is.
#[skip_serializing_none]
#[derive(Serialize, Deserialize)]
struct JournalChange {
    path: PathText,
    old: Option<String>,
    new: Option<String>,
}

/// The bytes of the blob: one line of JSON, the same for the same changes.
pub fn to_bytes(baseline: &Baseline) -> Vec<u8> {
    let text = |(mode, oid): Content| format!("{mode:o} {oid}");
    let changes = baseline.differences().map(|difference| JournalChange {
        path: PathText::from(difference.path.as_slice()),
        old: difference.old.map(text),
        new: difference.new.map(text),
    });
    let document = JournalDocument { schema: SCHEMA.to_owned(), changes: changes.collect() };
    // Texts and lists of them always serialize.
    let mut bytes = serde_json::to_vec(&document).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

/// Reads the blob; `None` when it is none of a version we know.
pub fn from_bytes(bytes: &[u8]) -> Option<Baseline> {
    let document: JournalDocument = serde_json::from_slice(bytes).ok()?;
    // A baseline that is half understood would blame the agent for files that were there before it.
    if document.schema != SCHEMA {
        return None;
    }
    let differences = document.changes.into_iter().map(|change| {
        Some(Difference {
            path: change.path.to_bytes(),
            // One side that cannot be read makes the whole unreadable: a difference that is left
            // out would pass for the agent's own.
            old: side(change.old)?,
            new: side(change.new)?,
        })
    });
    let differences: Option<Vec<_>> = differences.collect();
    differences.map(Baseline::of)
}

fn side(text: Option<String>) -> Option<Option<Content>> {
    let Some(text) = text else {
        return Some(None);
    };
    let (mode, oid) = text.split_once(' ')?;
    let mode = u32::from_str_radix(mode, 8).ok()?;
    Some(Some((mode, Oid::from_hex(oid)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let oid = Oid::from_bytes([0xab; 20]);
        let baseline = Baseline::of([
            Difference {
                path: b"package-lock.json".to_vec(),
                old: Some((0o100_644, oid)),
                new: Some((0o100_755, oid)),
            },
            Difference { path: b"made\xff".to_vec(), old: None, new: Some((0o120_000, oid)) },
            Difference { path: b"gone".to_vec(), old: Some((0o100_644, oid)), new: None },
        ]);
        let bytes = to_bytes(&baseline);
        assert_eq!(from_bytes(&bytes), Some(baseline));
        let text = String::from_utf8(bytes).expect("JSON");
        assert!(
            text.starts_with(
                r#"{"schema":"git-agent.baseline/1","changes":[{"path":"gone","old":"100644 abab"#
            ),
            "{text}"
        );
        let later = text.replace("baseline/1", "baseline/2");
        assert_eq!(from_bytes(later.as_bytes()), None);
    }
}
