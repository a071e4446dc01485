//! What git lists, found by a walk of our own: git is asked about the names that the index does not know, and
//! nothing else.
//!
//! What is tracked and in doubt counts as changed. Git looks into it when the copy of the index is brought up to
//! date, so a doubt costs time and never truth.

use super::Source;
use super::listed::Listed;
use crate::error::Result;
use crate::git::changes::{TouchedEntries, Walk, Written, names_may_differ, threads};

/// What differs from the copy of the index, or may; `None` when only git can tell.
///
/// # Errors
/// `git-missing`, `git-failed`.
pub(super) fn list(source: &Source<'_>, written: &Written) -> Result<Option<Listed>> {
    if names_may_differ(source.repo)? {
        return Ok(None);
    }
    let walk = Walk {
        top: source.worktree,
        written,
        besides: source.rules.never(),
        threads: threads(),
    };
    // An index with a flag, a submodule or a mode of its own is more than its files.
    if written.index.is_flagged || written.index.has_submodules() {
        return Ok(None);
    }
    let Some(TouchedEntries {
        tracked,
        unknown,
        swapped,
    }) = walk.suspects()?
    else {
        return Ok(None);
    };
    if !swapped.is_empty() {
        return Ok(None);
    }
    let mut listed = Listed {
        changed: tracked,
        ..Listed::default()
    };
    if !unknown.is_empty() {
        listed.read_untracked(source, Some(&unknown))?;
    }
    Ok(Some(listed))
}
