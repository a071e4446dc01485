//! What a worktree held before its agent began, as the blob that its `spawned` event names:
//! `git-agent.baseline/1`. It names objects and does not hold them: a file that `[setup]` brought may be a secret.

use super::path_text::PathText;
use crate::domain::baseline::{Baseline, Content, Difference};
use crate::domain::oid::Oid;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

/// The schema's name and version.
pub const SCHEMA: &str = "git-agent.baseline/1";

#[derive(Serialize, Deserialize)]
struct Document {
    schema: String,
    changes: Vec<Change>,
}

/// One change; each side is `<octal mode> <object>`, absent where nothing is.
#[skip_serializing_none]
#[derive(Serialize, Deserialize)]
struct Change {
    path: PathText,
    old: Option<String>,
    new: Option<String>,
}

/// The bytes of the blob: one line of JSON, the same for the same changes.
pub fn to_bytes(baseline: &Baseline) -> Vec<u8> {
    let text = |(mode, oid): Content| format!("{mode:o} {oid}");
    let changes = baseline.differences().map(|difference| Change {
        path: PathText::from(difference.path.as_slice()),
        old: difference.old.map(text),
        new: difference.new.map(text),
    });
    let document = Document {
        schema: SCHEMA.to_owned(),
        changes: changes.collect(),
    };
    // Texts and lists of them always serialize.
    let mut bytes = serde_json::to_vec(&document).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

/// Reads the blob; `None` when it is none of a version we know.
pub fn from_bytes(bytes: &[u8]) -> Option<Baseline> {
    let document: Document = serde_json::from_slice(bytes).ok()?;
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
            Difference {
                path: b"made\xff".to_vec(),
                old: None,
                new: Some((0o120_000, oid)),
            },
            Difference {
                path: b"gone".to_vec(),
                old: Some((0o100_644, oid)),
                new: None,
            },
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
