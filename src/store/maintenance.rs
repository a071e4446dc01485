//! Starting git's own maintenance, which libgit2 never does.
//!
//! An append leaves five loose objects. `git gc --auto` knows when that is too many, but asking it
//! every time would cost more than the append, so it is asked only when there is reason to.

use super::layout;
use crate::domain::oid::Oid;
use crate::git::{Repo, command};
use std::os::unix::process::CommandExt;
use std::process::Stdio;

/// git's default for `gc.auto`: that many loose objects are too many.
const DEFAULT_LIMIT: u64 = 6700;

/// What keeps `git gc` from locking refs and the commit-graph, so that it packs objects alone: if it is killed, nothing
/// proves that its locks are left over.
const NO_LOCKS: [&str; 4] = [
    "gc.packRefs=false",
    "gc.reflogExpire=never",
    "gc.reflogExpireUnreachable=never",
    "gc.writeCommitGraph=false",
];

/// After a commit was written: starts `git gc --auto` in the background when git would start it itself.
///
/// git estimates the number of loose objects by one of its 256 directories, `objects/17` (builtin/gc.c:
/// `too_many_loose_objects`). That directory is looked at only when the commit itself fell into it:
/// one append in 256, free of supervised for the others. Maintenance that cannot start is no error.
pub(super) fn after_append(repo: &Repo, commit: Oid) {
    if commit.as_bytes()[0] != 0x17 {
        return;
    }
    let limit = match repo.config_string("gc.auto") {
        Ok(None) => DEFAULT_LIMIT,
        Ok(Some(value)) => value.trim().parse().unwrap_or(0),
        Err(_) => return,
    };
    let common_dir = repo.common_dir();
    let loose = std::fs::read_dir(common_dir.join("objects/17")).map_or(0, Iterator::count);
    if limit == 0 || loose as u64 <= limit.div_ceil(256) {
        return;
    }
    let mut git_dir = std::ffi::OsString::from("--git-dir=");
    git_dir.push(common_dir);
    let _ = command::git(&layout::agents_dir(common_dir))
        .arg(git_dir)
        .args(NO_LOCKS.iter().flat_map(|setting| ["-c", setting]))
        .args(["gc", "--auto", "--quiet"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // Its own group, so that an interrupt from the terminal does not reach it.
        .process_group(0)
        .spawn();
}
