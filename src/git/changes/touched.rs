//! Which files of a worktree may differ from its commit, without asking git about any of them.
//!
//! For a caller to whom it is enough that every one of them is of a certain kind. What became of a file, and
//! whether git ignores it, stays open, so no process is started.

use super::index::Written;
use super::walk::{Walk, names_may_differ, threads};
use crate::domain::change::{Change, ChangeKind};
use crate::error::Result;
use crate::git::Repo;
use crate::git::ignore::Rules;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use walkdir::WalkDir;

/// So many new files are judged one by one; where there are more, git is faster.
const MOST_FILES: usize = 1000;

/// What is staged, every tracked file that its index does not prove to be unchanged, and every other file but those that
/// [`Rules::without`] leaves out. `None` where only git can tell: beside what a walk cannot judge, where a symlink or a
/// repository is among them.
///
/// # Errors
/// `repo-corrupt`; those of reading `HEAD`.
pub fn touched(repo: &Repo, rules: &Rules) -> Result<Option<Vec<Change>>> {
    let Some(top) = repo.workdir() else {
        return Ok(None);
    };
    let trees = repo.parent_trees(&[])?;
    let Some(written) = Written::load(&repo.git_dir().join("index")) else {
        return Ok(None);
    };
    if written.index.is_flagged || trees.len() != 1 || names_may_differ(repo)? {
        return Ok(None);
    }
    let (oid, all) = written.index.top();
    let mut changes = repo.compare(&trees, oid, all, Some(&written.index))?;
    let walk = Walk {
        top,
        written: &written,
        besides: rules.never(),
        threads: threads(),
    };
    let Some(found) = walk.suspects()?.filter(|found| found.swapped.is_empty()) else {
        return Ok(None);
    };
    let Some(new) = files_below(top, &found.unknown) else {
        return Ok(None);
    };
    let is_link = |path: &Vec<u8>| {
        let place = top.join(OsStr::from_bytes(path));
        fs::symlink_metadata(place).is_ok_and(|metadata| metadata.is_symlink())
    };
    if found.tracked.iter().any(is_link) {
        return Ok(None);
    }
    let of_kind = |kind| {
        move |path| Change {
            path,
            kind,
            link: None,
        }
    };
    changes.extend(found.tracked.into_iter().map(of_kind(ChangeKind::Modified)));
    changes.extend(new.into_iter().map(of_kind(ChangeKind::Untracked)));
    Ok(Some(changes))
}

/// The files at these paths and below them.
fn files_below(top: &Path, paths: &[Vec<u8>]) -> Option<Vec<Vec<u8>>> {
    let mut files = Vec::new();
    for path in paths {
        for entry in WalkDir::new(top.join(OsStr::from_bytes(path))).follow_root_links(false) {
            let entry = entry.ok()?;
            let is_git = entry.file_name().eq_ignore_ascii_case(".git");
            if entry.path_is_symlink() || is_git || files.len() == MOST_FILES {
                return None;
            }
            if !entry.file_type().is_dir() {
                let inside = entry.path().strip_prefix(top).ok()?;
                files.push(inside.as_os_str().as_bytes().to_vec());
            }
        }
    }
    Some(files)
}
