//! Submodules that hold work: a commit of the repository names a commit of theirs, and none of their files.

use super::{Source, git};
use crate::error::Result;
use crate::git::changes::gitlinks;

/// The submodules with files that are in no commit of theirs, by the copy of the index once that is up to date, or by
/// what is `known` of it. Where there is no submodule nothing is asked.
///
/// # Errors
/// `git-missing`, `git-failed`.
pub(super) fn holding_work(
    source: &Source<'_>,
    known: Option<Vec<Vec<u8>>>,
) -> Result<Vec<Vec<u8>>> {
    let names = match known.or_else(|| gitlinks::of_index(source.index)) {
        Some(names) => names,
        None => gitlinks::listed(git(source))?,
    };
    let room = source.view.room();
    let mut found = gitlinks::holding_work(source.worktree, &names, room);
    found.sort_unstable();
    found.dedup();
    Ok(found)
}
