//! Which files of a worktree may differ from its commit, asking git about few of them or none.
//!
//! For a caller to whom it is enough that every one of them is of a certain kind. What became of a file, and
//! whether git ignores it, stays open until that is asked about some, so that nearly always no process is started.

use super::index::Written;
use super::status::{Asked, status};
use super::walk::{Walk, names_may_differ};
use crate::domain::change::{Change, ChangeKind};
use crate::error::Result;
use crate::git::Repo;
use crate::git::changes::ignore::Rules;
use crate::git::files::untrusted;
use crate::git::pool::threads;
use crate::git::worktree::view::WorktreeView;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use walkdir::WalkDir;

/// So many files below one name are judged one by one; where there are more, git is faster.
const MOST_FILES: usize = 200;

/// What may differ in a worktree.
pub struct Touched<'a> {
    repo: &'a Repo,
    top: &'a Path,
    rules: &'a Rules,
    /// What is staged, and every tracked file that its index does not prove to be unchanged.
    pub tracked: Vec<Change>,
    /// Names that the index does not know, ignored ones too; without those below them and without what
    /// [`Rules::without`] leaves out.
    pub unknown: Vec<Vec<u8>>,
}

/// Looks at the worktree that a repository was opened from; `None` where only git can tell.
///
/// # Errors
/// `repo-corrupt`; those of reading `HEAD`.
pub fn touched<'a>(repo: &'a Repo, rules: &'a Rules) -> Result<Option<Touched<'a>>> {
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
    let mut tracked = repo.compare(&trees, oid, all, Some(&written.index))?;
    let walk = Walk {
        top,
        written: &written,
        besides: rules.never(),
        threads: threads(),
    };
    let Some(mut found) = walk.suspects()?.filter(|found| found.swapped.is_empty()) else {
        return Ok(None);
    };
    found.take_unchanged(repo, top, &written.index);
    let is_link = |path: &Vec<u8>| {
        let place = top.join(OsStr::from_bytes(path));
        fs::symlink_metadata(place).is_ok_and(|metadata| metadata.is_symlink())
    };
    if found.tracked.iter().any(is_link) {
        return Ok(None);
    }
    tracked.extend(found.tracked.into_iter().map(|path| Change {
        path,
        kind: ChangeKind::Modified,
        link: None,
    }));
    Ok(Some(Touched {
        repo,
        top,
        rules,
        tracked,
        unknown: found.unknown,
    }))
}

impl Touched<'_> {
    /// The files at an unknown name and below it, as if none were ignored; `None` where there are many, or where a
    /// symlink or a repository is among them.
    pub fn files_at(&self, name: &[u8]) -> Option<Vec<Change>> {
        let mut files = Vec::new();
        for entry in WalkDir::new(self.top.join(OsStr::from_bytes(name))).follow_root_links(false) {
            let entry = entry.ok()?;
            let is_git = entry.file_name().eq_ignore_ascii_case(".git");
            if entry.path_is_symlink() || is_git || files.len() == MOST_FILES {
                return None;
            }
            if !entry.file_type().is_dir() {
                let inside = entry.path().strip_prefix(self.top).ok()?;
                files.push(Change {
                    path: inside.as_os_str().as_bytes().to_vec(),
                    kind: ChangeKind::Untracked,
                    link: None,
                });
            }
        }
        Some(files)
    }

    /// What git lists at these names, which leaves out what is ignored. `scratch` is a directory for temporary files.
    ///
    /// # Errors
    /// `git-missing`, `git-failed`, `io`.
    pub fn listed(&self, names: &[Vec<u8>], scratch: &Path) -> Result<Vec<Change>> {
        let admin_dir = self.repo.git_dir();
        untrusted::require_openable(admin_dir)?;
        let view = WorktreeView::make(self.repo, admin_dir, self.top, scratch)?;
        let prepared = || {
            let mut git = view.git();
            self.rules.configure(&mut git);
            git
        };
        let asked = Asked {
            paths: names,
            links: None,
        };
        status(self.top, view.index(), &prepared, asked, scratch)
    }
}
