//! What stands in the way of a worktree that has to move: untracked files, changed files, and changed
//! files that git was told to pass over.

use super::{ATTEMPTS, Checkout, PAUSE, precheck};
use crate::domain::paths::path::directories;
use crate::domain::{Change, ChangeKind, Quoted, value::shell};
use crate::error::{Code, Error, ErrorFacts, IoContext, Remedy, Result};
use crate::git::WorktreeLayer;
use crate::git::changes::{Asked, passed_over, status};
use crate::git::core::command;
use crate::git::files::lock_file::{LockFile, is_same_file};
use crate::git::files::untrusted;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

impl Checkout {
    /// What git does not track and would have to make room for the changes, ignored or not.
    pub(super) fn in_the_way(&self, changes: &[Change], index: &Path) -> Result<Vec<Vec<u8>>> {
        let is_there = |place: &&[u8]| self.metadata(place).is_some();
        let is_added = |kind| matches!(kind, ChangeKind::Added | ChangeKind::TypeChanged);
        let added = changes.iter().filter(|change| is_added(change.kind));
        // Git takes a symlink that leads to the same files for the directory, finds them unchanged, and removes the link.
        let above: BTreeSet<_> =
            changes.iter().flat_map(|change| directories(&change.path)).collect();
        let above =
            above.into_iter().filter(|place| self.metadata(place).is_some_and(|it| !it.is_dir()));
        // Listing untracked files is a tour of the worktree. Most landings add no path at which
        // something is, and need none.
        let occupied: BTreeSet<&[u8]> =
            added.map(|change| change.path.as_slice()).filter(is_there).chain(above).collect();
        if occupied.is_empty() {
            return Ok(Vec::new());
        }
        // Without an exclude option git lists ignored files too, and those are the ones that it
        // would overwrite.
        let command = self.git_on(index, ["ls-files", "--others", "-z"]);
        let listed = command::successful(command)?;
        let blocks = |other: &&[u8]| {
            // A file in an untracked directory blocks the path that needs the directory's
            // place.
            let mut places = directories(other).chain([*other]);
            places.any(|place| occupied.contains(place))
        };
        let others = command::names(&listed);
        Ok(others.filter(blocks).map(<[u8]>::to_vec).collect())
    }

    fn metadata(&self, path: &[u8]) -> Option<fs::Metadata> {
        fs::symlink_metadata(self.top.join(OsStr::from_bytes(path))).ok()
    }

    /// The refusal that names those of the paths with uncommitted changes, also where git was told to pass
    /// over them.
    pub(super) fn dirty(&self, paths: &BTreeSet<Vec<u8>>, said: &str) -> Result<Error> {
        let hidden: BTreeSet<_> = self.passed_over()?.into_iter().collect();
        let hidden: BTreeSet<_> = hidden.intersection(paths).cloned().collect();
        let index = self.git_dir.join("index");
        let changed = status(&self.top, &index, &|| self.git(), Asked::default(), self.room())?;
        let changed = changed.into_iter().map(|change| change.path);
        let mut named: BTreeSet<_> = changed.filter(|path| paths.contains(path)).collect();
        named.extend(hidden.iter().cloned());
        if named.is_empty() {
            // With unmerged paths git moves nothing, wherever those are.
            named = self.unmerged()?;
            if !named.is_empty() {
                let error = self.blocked(&Vec::from_iter(named), said);
                let top = shell::path(&self.top);
                return Ok(error
                    .hint(format!("to say that one is resolved, run git -C {top} add -- <path>")));
            }
        }
        let error = self.blocked(&Vec::from_iter(named), said);
        Ok(if hidden.is_empty() {
            error
        } else {
            error.hint(format!(
                "to see which of them git was told to pass over, run git -C {} ls-files -v",
                shell::path(&self.top)
            ))
        })
    }

    /// Lets git look again at what it was told to pass over, where something is there.
    pub(super) fn uncover(&self, own: &OwnIndex<'_>) -> Result<()> {
        let paths = self.passed_over()?;
        // The two flags need two commands: git applies one of them to the paths that it reads.
        for flag in ["--no-assume-unchanged", "--no-skip-worktree"] {
            own.feed(&["update-index", flag, "-z", "--stdin"], &paths)?;
        }
        Ok(())
    }

    /// Paths of which the index holds what a merge could not unite.
    fn unmerged(&self) -> Result<BTreeSet<Vec<u8>>> {
        let mut git = self.git();
        git.args(["ls-files", "--unmerged", "-z"]);
        let listed = command::successful(git)?;
        // `mode oid stage<tab>path`, once for each stage.
        let paths = command::names(&listed)
            .filter_map(|entry| entry.splitn(2, |&byte| byte == b'\t').nth(1));
        Ok(paths.map(<[u8]>::to_vec).collect())
    }

    /// Tracked paths marked assume-unchanged or skip-worktree at which there is something.
    fn passed_over(&self) -> Result<Vec<Vec<u8>>> {
        passed_over(self.git(), &self.top)
    }

    /// The same error, with what shows the status of this worktree.
    pub(in crate::git) fn with_status(&self, error: Error, why: &str) -> Error {
        // The files of a layered worktree are there for a command of its agent alone.
        let is_layered = || WorktreeLayer::directory(&self.git_dir).is_some_and(|it| it.exists());
        match self.agent().filter(|_| is_layered()) {
            Some(id) => error.remedy(why, Remedy::StatusInside(id.to_owned())),
            None => {
                error.hint(format!("{why}, run git -C {} status --ignored", shell::path(&self.top)))
            }
        }
    }

    pub(super) fn blocked(&self, paths: &[Vec<u8>], said: &str) -> Error {
        let top = self.top.display();
        let names: String = paths.iter().map(|path| format!("  {}\n", Quoted(path))).collect();
        let error = Error::new(
            Code::TargetDirty,
            format!("changed or untracked files in {top} are in the way"),
        );
        let error = self.with_status(error, "to see them all before you move or commit them");
        let error = if names.is_empty() {
            error
        } else {
            error.detail(names).facts(ErrorFacts { paths: paths.to_vec(), ..ErrorFacts::default() })
        };
        if said.is_empty() { error } else { error.because(said.to_owned()) }
    }
}

// Holding a worktree's index as git does, by an `index.lock` beside it.
//
// Git never takes that lock for us: a git that was killed would leave one that tells nothing. It works on a copy, while
// this process holds the lock ([`super::super::lock_file`]), and the copy becomes the index.

/// The index of a worktree while this process holds it, and a copy on which git works.
#[must_use]
pub(in crate::git) struct OwnIndex<'c> {
    checkout: &'c Checkout,
    lock: LockFile,
    copy: PathBuf,
    /// The copy before git wrote it; `None` where there is no index yet. It stays open, so that no other file can get its
    /// inode number: a git that writes the copy twice would else give it back.
    before: Option<File>,
}

impl Checkout {
    /// Waits while another process has the index, and clears the lock that a dead process of ours left.
    ///
    /// # Errors
    /// `lock-timeout`, `io`.
    pub(in crate::git) fn lock_index(&self) -> Result<LockFile> {
        let path = self.lock_path();
        for _ in 0..ATTEMPTS {
            if let Some(lock) = LockFile::take(self.common_dir(), &path)? {
                return Ok(lock);
            }
            std::thread::sleep(PAUSE);
        }
        Err(self.locked_out())
    }

    /// Holds the index and copies it.
    ///
    /// # Errors
    /// As [`Checkout::lock_index`].
    pub(in crate::git) fn own_index(&self) -> Result<OwnIndex<'_>> {
        let lock = self.lock_index()?;
        let copy = lock.beside();
        let mut own = OwnIndex { checkout: self, lock, copy, before: None };
        let index = self.git_dir.join("index");
        if index.exists() {
            precheck::copy_with_time(&index, &own.copy)?;
            own.before = untrusted::open_at(&own.copy);
        }
        Ok(own)
    }

    pub(super) fn lock_path(&self) -> PathBuf {
        self.git_dir.join("index.lock")
    }

    /// The directory that the repository's worktrees share.
    pub(super) fn common_dir(&self) -> &Path {
        let above = self.git_dir.parent();
        match above.filter(|above| above.ends_with("worktrees")) {
            Some(worktrees) => worktrees.parent().unwrap_or(&self.git_dir),
            None => &self.git_dir,
        }
    }
}

impl OwnIndex<'_> {
    /// A git command on the worktree and the copy. The lock is held until it is dead as well.
    ///
    /// # Errors
    /// `io`.
    pub(in crate::git) fn git(&self) -> Result<Command> {
        let mut command = self.checkout.git();
        command.env("GIT_INDEX_FILE", &self.copy);
        command.stdin(self.lock.shared()?);
        Ok(command)
    }

    /// As [`OwnIndex::git`], which is given paths on its standard input.
    ///
    /// # Errors
    /// Those of git.
    pub(in crate::git) fn feed(&self, arguments: &[&str], paths: &[Vec<u8>]) -> Result<()> {
        let mut command = self.git()?;
        command.args(arguments);
        command::feed_paths_with(command, paths, self.lock.shared()?).map(drop)
    }

    /// The copy.
    pub(super) fn copy(&self) -> &Path {
        &self.copy
    }

    /// Makes the copy the index, if git wrote it.
    ///
    /// # Errors
    /// `io`.
    pub(in crate::git) fn publish(self) -> Result<()> {
        let is_written = match &self.before {
            // Git never writes into an index: it makes another file and renames that.
            Some(before) => !is_same_file(before, &self.copy),
            None => self.copy.exists(),
        };
        // An index that git did not write stays as it is, with its time: that time decides which
        // entries are racy.
        if !is_written {
            return Ok(());
        }
        let index = self.checkout.git_dir.join("index");
        fs::rename(&self.copy, &index).at("could not write", &index)
    }
}

impl Drop for OwnIndex<'_> {
    fn drop(&mut self) {
        // This runs while the lock is still held, since fields are dropped after it, so no other
        // process uses the same name yet.
        match fs::remove_file(&self.copy) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                tracing::debug!(?error, "a copy of an index stays");
            }
            _ => {}
        }
    }
}
