//! Submodules that hold work: a commit of the repository names a commit of theirs, and none of their files.

use super::{Source, git};
use crate::error::Result;
use crate::git::changes::Index;
use crate::git::command;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

/// The submodules with files that are in no commit of theirs, by the copy of the index once that is up to date.
/// Where there is no submodule nothing is asked.
///
/// # Errors
/// `git-missing`, `git-failed`.
pub(super) fn holding_work(source: &Source<'_>) -> Result<Vec<Vec<u8>>> {
    let index = fs::read(source.index).ok().and_then(Index::parse);
    let names: Vec<Vec<u8>> = match index {
        Some(index) => index.submodules().map(<[u8]>::to_vec).collect(),
        // Split or sparse: only git can read it.
        None => by_git(source)?,
    };
    if names.is_empty() {
        return Ok(names);
    }
    let mut differ = git(source);
    differ
        .env("GIT_LITERAL_PATHSPECS", "1")
        // The submodule's own configuration could say that it hides what is new.
        .args(["-c", "status.showUntrackedFiles=normal"])
        .args([
            "diff-files",
            "-z",
            "--name-only",
            "--ignore-submodules=none",
        ])
        .arg("--")
        .args(names.iter().map(|name| OsStr::from_bytes(name)));
    let differ = command::successful(differ)?;
    let mut found: Vec<_> = command::names(&differ).map(<[u8]>::to_vec).collect();
    found.extend(names.into_iter().filter(|name| is_squatted(source, name)));
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// Whether files are in the place of a submodule that is not there: git lists none of them.
fn is_squatted(source: &Source<'_>, name: &[u8]) -> bool {
    let place = source.worktree.join(OsStr::from_bytes(name));
    let is_there = fs::symlink_metadata(place.join(".git")).is_ok();
    !is_there && fs::read_dir(place).is_ok_and(|mut entries| entries.next().is_some())
}

fn by_git(source: &Source<'_>) -> Result<Vec<Vec<u8>>> {
    let mut list = git(source);
    list.args(["ls-files", "-z", "--format=%(objectmode) %(path)"]);
    let listed = command::successful(list)?;
    let links = command::names(&listed).filter_map(|line| line.strip_prefix(b"160000 "));
    Ok(links.map(<[u8]>::to_vec).collect())
}
