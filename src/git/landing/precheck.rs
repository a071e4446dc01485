//! Looking at exactly the paths of a landing, to tell whether it would overwrite uncommitted work.
//!
//! The rules are those of `git read-tree -m -u` for two trees ("Two Tree Merge" in its manual), read strictly:
//! the index holds the old content and the file is that by all of its stat data, or the index holds the new
//! content already. A file that only seems changed, and one that a killed landing wrote, is shown to git on a
//! copy of the index. Every other doubt is one, and git's own rehearsal says what it is about.

use super::Checkout;
use super::steps::{PathState, PathStep, Steps};
use crate::domain::Oid;
use crate::domain::paths::path::split_name;
use crate::error::{Error, IoContext, Result};
use crate::git::changes::{Content, Edits, Rewritten, StatData, Written, stat_data};
use crate::git::files::separate::TICK;
use crate::git::files::untrusted;
use crate::git::{Repo, core::command, core::pool};
use crate::system;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, statat};
use rustix::io::Errno;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Settings under which a worktree is not simply what its index says.
const SPECIAL: [&str; 4] =
    ["core.sparseCheckout", "core.splitIndex", "index.sparse", "core.ignoreCase"];

/// An index that says nothing but which path holds what.
pub(super) struct IndexSnapshot(Written);

impl IndexSnapshot {
    /// `None` when git has to read it.
    pub(super) fn load(file: &Path) -> Option<IndexSnapshot> {
        // Flags such as assume-unchanged make git pass over a file, which the rules below do not
        // express.
        let written = Written::load(file).filter(|written| !written.index.is_flagged)?;
        Some(IndexSnapshot(written))
    }

    /// Whether a step can begin from what the index holds.
    pub(super) fn fits(&self, step: &PathStep) -> bool {
        self.content(&step.path) == step.old && !self.0.index.bars(&step.path)
    }

    /// What it holds at a path.
    pub(super) fn content(&self, path: &[u8]) -> Option<Content> {
        self.0.index.find(path).map(|entry| entry.content)
    }

    pub(super) fn rewritten(&self, edits: &Edits) -> Option<Rewritten<'_>> {
        self.0.index.rewritten(self.0.time.0, edits)
    }

    /// Whether a file at a path is what it remembers.
    fn proves(&self, path: &[u8], stat: &Stat) -> bool {
        let entry = self.0.index.find(path);
        entry.is_some_and(|entry| self.0.proves(entry, stat))
    }
}

/// An index, and what stands at each step.
pub(super) struct Precheck {
    pub(super) seen: IndexSnapshot,
    pub(super) places: Vec<PathState>,
    /// The stat data of files that were read, because the index proves nothing about them.
    pub(super) compared: BTreeMap<Vec<u8>, StatData>,
    /// Whether all files are their blobs' bytes, once that was asked.
    pub(super) is_plain: OnceCell<bool>,
}

impl Precheck {
    /// Whether a file still is what was looked at.
    pub(super) fn is_old(&self, path: &[u8], stat: &Stat) -> bool {
        match self.compared.get(path) {
            // What was read is compared with the stat data of that reading: the index proves
            // nothing about such a file, or it would not have been read.
            Some(compared) => stat_data(stat) == *compared,
            None => self.seen.proves(path, stat),
        }
    }
}

impl Checkout {
    /// Looks at what going from one tree to another does, without changing anything; `None` in any doubt. `copy` is where a
    /// copy of the index may go.
    ///
    /// # Errors
    /// `git-missing`, `io`; `repo-corrupt` when a tree is missing.
    pub(super) fn look(
        &self,
        repo: &Repo,
        (old, new): (Oid, Oid),
        copy: &Path,
    ) -> Result<Option<(Steps, Precheck)>> {
        let index = self.git_dir.join("index");
        // An index that is a link or missing is for git to judge.
        if self.is_special()? || !fs::symlink_metadata(&index).is_ok_and(|file| file.is_file()) {
            return Ok(None);
        }
        let load = || IndexSnapshot::load(&index);
        // Both read much and need nothing of each other.
        let (seen, steps) = pool::beside(load, || Steps::between(repo, old, new));
        let (Some(seen), Some(steps)) = (seen, steps?) else {
            return Ok(None);
        };
        let look = self.look_at(repo, &steps, seen, copy)?;
        Ok(look.map(|look| (steps, look)))
    }

    fn look_at(
        &self,
        repo: &Repo,
        steps: &Steps,
        seen: IndexSnapshot,
        copy: &Path,
    ) -> Result<Option<Precheck>> {
        let index = self.git_dir.join("index");
        let Some(mut look) = self.look_by(seen, steps) else {
            return Ok(None);
        };
        let is_known =
            !look.places.contains(&PathState::Unknown) && self.has_attributes_of(&look, steps);
        // Reading a few files here is cheaper than letting git refresh the whole index, so that is
        // tried first.
        if is_known || self.compare_contents(repo, steps, &mut look, copy)? {
            return Ok(Some(look));
        }
        // Most builds of git compare no part of a second, and take a file that was replaced within one for the one before: what has no
        // stat data is read.
        match look.seen.rewritten(&steps.old_at(&look.places)) {
            Some(index) => fs::write(copy, index.into_file()).at("could not write", copy)?,
            None => drop(copy_with_time(&index, copy)?),
        }
        if !self.refresh_copy(copy)? {
            return Ok(None);
        }
        let look = IndexSnapshot::load(copy).and_then(|seen| self.look_by(seen, steps));
        match look.filter(|look| self.has_attributes_of(look, steps)) {
            Some(look) if look.places.contains(&PathState::Unknown) => {
                self.recognise(look, steps, copy)
            }
            look => Ok(look),
        }
    }

    /// Tells the files that are as the landing would write them. What is to be deleted is no such file.
    fn recognise(
        &self,
        mut look: Precheck,
        steps: &Steps,
        copy: &Path,
    ) -> Result<Option<Precheck>> {
        // The copy is given the new content for the doubtful paths. If git then finds a file
        // unchanged, that file holds what the landing would write: a killed landing wrote it.
        let edits = steps.edits_at(&look.places, |place| place == PathState::Unknown);
        let Some(index) = look.seen.rewritten(&edits) else {
            return Ok(None);
        };
        fs::write(copy, index.into_file()).at("could not write", copy)?;
        if !self.refresh_copy(copy)? {
            return Ok(None);
        }
        let Some(after) = IndexSnapshot::load(copy) else {
            return Ok(None);
        };
        for (step, place) in steps.list.iter().zip(&mut look.places) {
            if *place == PathState::Unknown {
                if !self.holds(&after, &step.path) {
                    return Ok(None);
                }
                *place = PathState::New;
            }
        }
        Ok(Some(look))
    }

    fn look_by(&self, seen: IndexSnapshot, steps: &Steps) -> Option<Precheck> {
        let place = |step| self.place(&seen, step);
        let places = steps.list.iter().map(place).collect::<Option<_>>()?;
        Some(Precheck { seen, places, compared: BTreeMap::new(), is_plain: OnceCell::new() })
    }

    /// Whether the attributes on disk are those of the index, by which `read-tree` writes files; `checkout-index`
    /// goes by those on disk.
    fn has_attributes_of(&self, look: &Precheck, steps: &Steps) -> bool {
        let seen = &look.seen;
        let files = steps.attributes_files();
        let mut tracked = files.iter().filter(|file| seen.content(file).is_some());
        tracked.all(|file| self.holds(seen, file))
    }

    /// `None` where git would refuse, or might.
    fn place(&self, seen: &IndexSnapshot, step: &PathStep) -> Option<PathState> {
        // A file in the place of one of its directories, or the reverse, stands in the index.
        if step.new.is_some() && seen.0.index.bars(&step.path) {
            return None;
        }
        let entry = seen.0.index.find(&step.path);
        let content = entry.map(|entry| entry.content);
        // Both sides can be absent; then the file on disk still matters, because it is untracked.
        if content == step.new && content.is_some() {
            return Some(PathState::AlreadyStaged);
        }
        // Something else is staged. Git refuses that, and names it.
        if content != step.old && content != step.new {
            return None;
        }
        match self.open_above(&step.path)? {
            Above::Missing => Some(PathState::Free),
            Above::There(directory, name) => match stat_at(&directory, name)? {
                None => Some(PathState::Free),
                Some(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => None,
                Some(stat) => Some(match entry {
                    Some(entry) if seen.0.proves(entry, &stat) => PathState::Old,
                    // Taken out of the index, and left where it is.
                    None if step.new.is_none() => return None,
                    _ => PathState::Unknown,
                }),
            },
        }
    }

    /// Whether the file at a path is what this index remembers.
    pub(super) fn holds(&self, seen: &IndexSnapshot, path: &[u8]) -> bool {
        self.stat(path).is_some_and(|stat| seen.proves(path, &stat))
    }

    /// The stat data of what is at a path.
    pub(super) fn stat(&self, path: &[u8]) -> Option<Stat> {
        match self.open_above(path)? {
            Above::There(directory, name) => stat_at(&directory, name)?,
            Above::Missing => None,
        }
    }

    /// Opens the directory that a path is in, never through a symlink; `None` when something else is in its
    /// place.
    pub(super) fn open_above<'p>(&self, path: &'p [u8]) -> Option<Above<'p>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let top = rustix::fs::open(&self.top, flags, Mode::empty()).ok()?;
        let Some((directory, name)) = split_name(path) else {
            return Some(Above::There(top, path));
        };
        match system::open_directory(top.as_fd(), directory) {
            Ok(directory) => Some(Above::There(directory, name)),
            Err(Errno::NOENT) => Some(Above::Missing),
            Err(_) => None,
        }
    }

    /// Lets git look into the files whose stat data differ from a copy of the index, and note what it finds.
    pub(super) fn refresh_copy(&self, copy: &Path) -> Result<bool> {
        // Only an index that is later than the files proves what it remembers of them, and landing again
        // right after a kill, or moving files back, is faster than that.
        std::thread::sleep(TICK * 2);
        let mut command = self.git();
        command
            .env("GIT_INDEX_FILE", copy)
            // Written in any case, so that it is.
            .args(["update-index", "-q", "--refresh", "--force-write-index"]);
        let output = command::finish(&mut command)?;
        // It ends with 1 where files differ.
        Ok(output.status.code().is_some_and(|code| code <= 1))
    }

    /// Whether something about this worktree, or a monitor of its index, is for git alone to know.
    pub(super) fn is_special(&self) -> Result<bool> {
        let own = Repo::open_git_dir(&self.git_dir)?;
        for key in SPECIAL {
            if own.config_bool(key)? == Some(true) {
                return Ok(true);
            }
        }
        let monitor = own.config_string("core.fsmonitor")?;
        let monitored = monitor.is_some_and(|value| value != "false");
        let set = |key| Ok::<_, Error>(own.config_string(key)?.is_some());
        let partial = set("extensions.partialClone")? || set("core.sharedRepository")?;
        let hooks = match own.config_string("core.hooksPath")? {
            // Git expands the user's directory; which one that is, this layer does not know.
            Some(path) if path.starts_with('~') => return Ok(true),
            Some(path) => self.top.join(path),
            None => own.common_dir().join("hooks"),
        };
        // Only git runs this hook, and a hook that watches the index has to hear of each new one.
        const HOOK: &str = "post-index-change";
        let watched = hooks.join(HOOK).exists() || Repo::name_hook(&own.settings("hook.")?, HOOK);
        Ok(monitored || partial || watched)
    }
}

/// Where a path is.
pub(super) enum Above<'p> {
    /// The directory above it, and its name there.
    There(OwnedFd, &'p [u8]),
    /// Some directory above it does not exist.
    Missing,
}

/// `None` when that is unknown, `Some(None)` when nothing is there.
pub(super) fn stat_at(directory: &OwnedFd, name: &[u8]) -> Option<Option<Stat>> {
    match statat(directory, OsStr::from_bytes(name), AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Some(Some(stat)),
        Err(Errno::NOENT) => Some(None),
        Err(_) => None,
    }
}

/// Copies an index; the copy looks as old as the index, which is given open.
pub(in crate::git) fn copy_with_time(index: &Path, copy: &Path) -> Result<File> {
    untrusted::copy_as_old(index, copy, untrusted::LONGEST_INDEX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::core::command;

    #[test]
    fn a_step_fits_where_the_index_holds_its_old_side_and_room_for_its_path() {
        let top = tempfile::tempdir().expect("a directory");
        let git = |words: &[&str]| command::run(top.path(), words).expect("git");
        git(&["init", "--quiet"]);
        std::fs::create_dir(top.path().join("src")).expect("made");
        std::fs::write(top.path().join("src/lib.rs"), "one\n").expect("written");
        git(&["add", "src/lib.rs"]);
        let snapshot = IndexSnapshot::load(&top.path().join(".git/index")).expect("read");
        let there = snapshot.content(b"src/lib.rs");
        let check = |path: &str, old, expected| {
            let path = path.as_bytes().to_vec();
            let step = PathStep { path, old, new: None };
            assert_eq!(snapshot.fits(&step), expected, "{step:?}");
        };
        check("src/lib.rs", there, true);
        check("src/lib.rs", None, false);
        check("src/two.rs", None, true);
        check("src/two.rs", there, false);
        // A directory stands there, and a file stands above.
        check("src", None, false);
        check("src/lib.rs/two", None, false);
    }
}
