//! Moving a worktree along when few paths differ, without a tour of two trees and a new look at every entry.
//!
//! ```text
//! index.lock ─> look ─> a new index, beside ─> new files in the place of old ones ─> others gone ─> rename ─> unlock
//! ```
//!
//! Files that are their blobs' bytes are written here (`plain_files`), beside the old ones, and renamed over them. Where one
//! is made by a filter or with other line ends, git writes them all (`git checkout-index`), once the old ones are gone. A
//! file that appeared meanwhile makes either fail. What goes was looked at right before, and is reached through directories
//! alone, never through a symlink. Until the rename of the index, that says what it said, so a kill leaves files that are missing
//! or new; the next attempt takes both for what they are (`interrupted`). What fails, as on a full disk, is undone.

use super::Checkout;
use super::by_git::LONGEST;
use super::interrupted::LandingNote;
use super::precheck::{Above, IndexSnapshot, Precheck, stat_at};
use super::steps::{PathState, PathStep, Steps};
use crate::domain::Oid;
use crate::domain::paths::path::directories;
use crate::error::{Code, Error, IoContext, Result};
use crate::git::changes::{Rewritten, StatData};
use crate::git::files::lock_file::LockFile;
use crate::git::files::untrusted;
use crate::git::objects::blob_name;
use crate::git::{Repo, core::command, core::pool};
use rustix::fs::{AtFlags, unlinkat};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::mpsc::{self, Receiver};

/// What became of an attempt to move a worktree along without a tour of git's.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::git) enum FastCheckout {
    /// Index and files are where they should be.
    Moved,
    /// Nothing has moved: git has to try, or to say what is in the way.
    LeftToGit,
}

use FastCheckout::{LeftToGit, Moved};

impl Checkout {
    /// Moves index and files. `scratch` is a name on the same file system that is not in use.
    ///
    /// # Errors
    /// `lock-timeout`, `git-missing`, `io`.
    pub(super) fn fast_checkout(
        &self,
        repo: &Repo,
        trees: (Oid, Oid),
        scratch: &Path,
        (note, reached): (&mut LandingNote, &dyn Fn(&str)),
    ) -> Result<FastCheckout> {
        // The lock comes before the look: what is seen under it stays true of the index until the rename.
        let lock = self.lock_index()?;
        reached("locked");
        let looked = self.look(repo, trees, scratch);
        let carried = looked.and_then(|looked| match looked {
            Some((steps, look)) => {
                // What is free and has an old side was removed by a person.
                let free = of(&steps, &look, &[PathState::Free]).into_iter();
                let removed = free.filter(|step| step.old.is_some());
                let removed: Vec<_> = removed.map(|step| step.path.as_slice()).collect();
                note.add_missing(&removed)?;
                self.carry_looked(repo, &steps, &look, scratch, lock, reached)
            }
            None => Ok(LeftToGit),
        });
        // Renamed away where all went well; what is left of it otherwise has no use.
        let _ = fs::remove_file(scratch);
        carried
    }

    /// Lets an index that holds the tree `old` hold `new`, without looking at a file.
    /// The rest is as in [`Checkout::carry`].
    ///
    /// # Errors
    /// `lock-timeout`, `io`; `repo-corrupt` when a tree is missing.
    pub(in crate::git) fn stage_fast(
        &self,
        repo: &Repo,
        old: Oid,
        new: Oid,
        scratch: &Path,
    ) -> Result<FastCheckout> {
        // What needs no lock comes first, so that the index is locked as briefly as possible.
        let Some(steps) = Steps::between(repo, old, new)? else {
            return Ok(LeftToGit);
        };
        if self.is_special()? {
            return Ok(LeftToGit);
        }
        let _lock = self.lock_index()?;
        let index = self.git_dir.join("index");
        let seen = IndexSnapshot::load(&index)
            .filter(|seen| steps.list.iter().all(|step| seen.fits(step)));
        let Some(seen) = seen else {
            return Ok(LeftToGit);
        };
        let Some(new) = seen.rewritten(&steps.edits()) else {
            return Ok(LeftToGit);
        };
        // The new index is whole before the rename, so a reader of the index sees the old one or
        // the new one.
        let file = File::create(scratch).at("could not write", scratch)?;
        new.write(&file).at("could not write", scratch)?;
        fs::rename(scratch, &index).at("could not write", &index)?;
        Ok(Moved)
    }

    /// Moves along what was looked at. The order makes each moment recoverable: the files move, and only then
    /// does the rename let the index say so. Until then everything is undone from the index that still stands.
    fn carry_looked(
        &self,
        repo: &Repo,
        steps: &Steps,
        look: &Precheck,
        copy: &Path,
        lock: LockFile,
        reached: &dyn Fn(&str),
    ) -> Result<FastCheckout> {
        // 1. What the index is to say, beside the one that stands. A path that is staged already keeps its entry.
        let edits = steps.edits_at(&look.places, |place| place != PathState::AlreadyStaged);
        let is_plain = self.is_plain(repo, steps, look);
        // Attributes decide how git writes other files, so a tour that gets their order right is left to git.
        if steps.has_attributes && !is_plain {
            return Ok(LeftToGit);
        }
        let Some(index) = look.seen.rewritten(&edits) else {
            return Ok(LeftToGit);
        };
        let file = File::create(copy).at("could not write", copy)?;
        // 2. Files. A path that is free is only written: there is nothing to remove.
        let old = of(steps, look, &[PathState::Old]);
        let touched = of(steps, look, &[PathState::Old, PathState::Free]);
        let (new, gone): (Vec<_>, Vec<_>) =
            touched.into_iter().partition(|step| step.new.is_some());
        // The first one that is not what was looked at ends it.
        let remove = |makes_room: bool| {
            let mut old = old.iter().filter(|step| makes_room || step.new.is_none());
            let removed = old
                .try_fold(true, |all, step| Ok::<_, Error>(all && self.remove_looked(look, step)?));
            reached("emptied");
            removed
        };
        let mut stats = BTreeMap::new();
        let written = if is_plain {
            let remove = || remove(false);
            let new = (new.as_slice(), look);
            self.write_plainly(repo, new, (&index, &file, copy), &mut stats, remove)
        } else {
            // Git reads the new index, writes the files that it names, and adds what `stat` says of them (`-u`), so the index
            // is whole before it starts.
            index.write(&file).at("could not write", copy)?;
            // It overwrites nothing, so the old files make room first.
            remove(true).and_then(|removed| {
                if removed {
                    self.write_files(copy, &["-u"], &new, &lock)?;
                }
                Ok(removed)
            })
        };
        // 3. All of it, or none.
        if !matches!(written, Ok(true)) {
            // What was written goes first: the old files may have stood in the same places.
            if is_plain {
                self.remove_written(&new, |path| stats.contains_key(path));
            } else {
                self.remove_made(repo, &new, copy)?;
            }
            // The index that still stands knows the old files. Where something appeared instead git keeps away from it; what
            // follows says what that is.
            let paths: Vec<_> = old.iter().map(|step| step.path.clone()).collect();
            if self.write_files(&self.git_dir.join("index"), &[], &old, &lock).is_err()
                && let Err(because) = self.write_missing(&paths)
                && paths.iter().any(|path| self.stat(path).is_none())
            {
                let failed = || Error::new(Code::GitFailed, "not all files could be written");
                return Err(self.not_moved_back(written.err().unwrap_or_else(failed), &because));
            }
            return match written {
                // Git would fail as well, and half way.
                Err(error) if error.code() != Code::GitFailed => Err(error),
                _ => Ok(LeftToGit),
            };
        }
        // Also above a file that was gone already, as git does. Not earlier: an undo would have to make them again.
        for step in gone {
            self.remove_empty_above(&step.path);
        }
        reached("written");
        // 4. The rename is the moment of truth. The lock is held across it, and goes last.
        let index = self.git_dir.join("index");
        fs::rename(copy, &index).at("could not write", &index)?;
        reached("indexed");
        drop(lock);
        Ok(Moved)
    }

    /// Writes the new files, lets the others be removed and, beside, writes the index that counts them; `false` where something was in
    /// the way. `stats` gets what was written, so that the caller can undo it.
    ///
    /// An index ends with a checksum of all before it, which for a large one takes as long as writing the files. Two threads
    /// therefore share the work. This one writes the files and sends the `stat` of each; the other hashes the index from its
    /// beginning and waits wherever the next entry is one of those files. Both go in the order of the paths, so the
    /// channel never has to be searched, and neither waits for the other in a circle: the sender never blocks. Where this
    /// thread gives up, its end of the channel closes, the other one hashes on with what it knows, and its result is dropped.
    fn write_plainly(
        &self,
        repo: &Repo,
        new: (&[&PathStep], &Precheck),
        (index, file, copy): (&Rewritten<'_>, &File, &Path),
        stats: &mut BTreeMap<Vec<u8>, StatData>,
        remove: impl FnOnce() -> Result<bool>,
    ) -> Result<bool> {
        let (tell, told) = mpsc::channel();
        let write = || -> Result<bool> {
            let tell = tell;
            let is_written = self.write_plain_files(repo, new, |path, stat| {
                stats.insert(path.to_vec(), stat);
                // The other thread hears everything, or nothing matters any more.
                let _ = tell.send((path.to_vec(), stat));
            })?;
            // Closed before the index is written: the other thread is to end while this one writes.
            drop(tell);
            if !is_written || !remove()? {
                return Ok(false);
            }
            let written = index.write_content(file, |path| stats.get(path).copied());
            written.at("could not write", copy)?;
            Ok(true)
        };
        let (checksum, written) = pool::beside(|| index.checksum(in_turn(told)), write);
        let is_written = written?;
        let mut file = file;
        file.write_all(&checksum).at("could not write", copy)?;
        Ok(is_written)
    }

    /// Removes a file; `false` where it is not what the index remembers any more, or what was read.
    fn remove_looked(&self, look: &Precheck, step: &PathStep) -> Result<bool> {
        let Some(Above::There(directory, name)) = self.open_above(&step.path) else {
            return Ok(false);
        };
        // The directory was opened once and name and stat are taken in it, so a directory that is
        // exchanged for a symlink meanwhile changes nothing.
        let stat = stat_at(&directory, name).flatten();
        if !stat.is_some_and(|stat| look.is_old(&step.path, &stat)) {
            return Ok(false);
        }
        match unlinkat(&directory, name, AtFlags::empty()) {
            // Between the look and the removal another program removed it or put a directory in its place:
            // that is a change like any other.
            Err(Errno::NOENT | Errno::ISDIR) => Ok(false),
            removed => {
                let place = self.top.join(OsStr::from_bytes(&step.path));
                let removed = removed.map_err(io::Error::from);
                removed.at("could not remove", place)?;
                Ok(true)
            }
        }
    }

    pub(super) fn remove(&self, path: &[u8], flags: AtFlags) -> rustix::io::Result<()> {
        match self.open_above(path) {
            Some(Above::There(directory, name)) => unlinkat(&directory, name, flags),
            _ => Err(Errno::NOENT),
        }
    }

    /// Removes the directories above a path as far as there is nothing in them.
    pub(super) fn remove_empty_above(&self, path: &[u8]) {
        for directory in directories(path) {
            // The first directory that is not empty ends it, because those above it hold at least
            // that one.
            if self.is_current(directory) || self.remove(directory, AtFlags::REMOVEDIR).is_err() {
                break;
            }
        }
    }

    /// Whether the caller stands there. Git leaves such a directory as well (`the_original_cwd` in its setup.c): in one that is
    /// removed, a shell can start nothing.
    fn is_current(&self, directory: &[u8]) -> bool {
        // Of a landing that removes many files, no other directory is opened for this.
        let here = rustix::process::getcwd(Vec::new()).unwrap_or_default();
        if !here.as_bytes().ends_with(directory) {
            return false;
        }
        let (Ok(here), Some(there)) = (rustix::fs::stat("."), self.stat(directory)) else {
            return false;
        };
        (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)
    }

    /// Lets git write the files of an index where there are none.
    fn write_files(
        &self,
        index: &Path,
        options: &[&str],
        steps: &[&PathStep],
        lock: &LockFile,
    ) -> Result<()> {
        if steps.is_empty() {
            return Ok(());
        }
        let mut command = self.git();
        command
            .env("GIT_INDEX_FILE", index)
            .args(["checkout-index", "--quiet"])
            .args(options)
            .args(["-z", "--stdin"]);
        let paths: Vec<_> = steps.iter().map(|step| step.path.clone()).collect();
        // The child holds the lock as well, so it stays locked if this process is killed while git
        // still writes.
        command::feed_paths_with(command, &paths, lock.shared()?).map(drop)
    }

    /// Removes the files that were written here, as they were left, and the directories that were made for them. That they are
    /// as they were left is told from their content: a file that is changed right after it was written keeps its times.
    fn remove_written(&self, new: &[&PathStep], is_written: impl Fn(&[u8]) -> bool) {
        let (written, rest): (Vec<&PathStep>, Vec<&PathStep>) =
            new.iter().partition(|step| is_written(&step.path));
        for step in &written {
            let path = Path::new(OsStr::from_bytes(&step.path));
            let found = untrusted::content(&self.top, path, LONGEST);
            let found = found.and_then(|(_, bytes)| blob_name(&bytes).ok());
            if found.is_some() && found == step.new.map(|(_, blob)| blob) {
                let _ = self.remove(&step.path, AtFlags::empty());
            }
        }
        // Directories were made for the one that failed, too, which is the first of those that were not written.
        let made = written.into_iter().chain(rest.into_iter().take(1));
        for step in made.filter(|step| step.old.is_none()) {
            self.remove_empty_above(&step.path);
        }
    }

    /// The same for files that git wrote, if only the beginning of each: what is not the beginning of the file that git
    /// makes of the blob appeared meanwhile, and stays.
    fn remove_made(&self, repo: &Repo, new: &[&PathStep], copy: &Path) -> Result<()> {
        for step in new {
            if self.remove_begun(repo, &step.path, step.new, copy)? && step.old.is_none() {
                self.remove_empty_above(&step.path);
            }
        }
        Ok(())
    }
}

/// What is known of files by their paths, where both are told and asked in the order of the paths: so one message ahead is
/// all that has to be kept. It waits for a path that has not been told yet, until the other end closes.
fn in_turn(told: Receiver<(Vec<u8>, StatData)>) -> impl FnMut(&[u8]) -> Option<StatData> {
    let mut next = None;
    move |path| {
        while next.as_ref().is_none_or(|(told, _): &(Vec<u8>, _)| told.as_slice() < path) {
            next = Some(told.recv().ok()?);
        }
        next.take_if(|(told, _)| told == path).map(|(_, stat)| stat)
    }
}

fn of<'s>(steps: &'s Steps, look: &Precheck, places: &[PathState]) -> Vec<&'s PathStep> {
    let list = steps.list.iter().zip(&look.places);
    let those = list.filter(|(_, place)| places.contains(place));
    those.map(|(step, _)| step).collect()
}
