//! Moving a worktree along by `git read-tree -m -u`, where `fast_checkout` leaves that to git.
//!
//! Git looks at every path before it touches a file, but it neither undoes what it did when a file cannot be written, as on a
//! full disk, nor completes what a killed git began. Both leave files that the index does not know:
//!
//! - After a failure, files that hold at least the beginning of what the landing brings are removed, and the old ones written
//!   again. That needs no more room than there was before.
//! - After a kill, the next landing stages the files that hold all of it, and git does the rest.

use crate::domain::paths::change::{Content, Difference};
use crate::domain::paths::path::split_once;
use crate::domain::{Change, Oid, value::shell};
use crate::error::{Code, Error, Result};
use crate::git::changes::{StatData, stat_data};
use crate::git::files::separate::wait_for_another_time;
use crate::git::files::untrusted;
use crate::git::landing::interrupted::LandingNote;
use crate::git::landing::steps::Way;
use crate::git::landing::{Checkout, refresh_by};
use crate::git::{Repo, core::command};
use rustix::fs::{AtFlags, FileType, Stat};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::Command;

/// The longest file that is compared with what git makes of a blob, in bytes.
pub(super) const LONGEST: u64 = 1 << 30;

/// What an index holds, by path.
type Staged = BTreeMap<Vec<u8>, Content>;

/// After so many files that cannot be written, no more are tried: each may be a question to a server that does not answer.
const MOST_FAILED: usize = 32;

impl Checkout {
    /// Moves index and files.
    ///
    /// # Errors
    /// As [`Checkout::carry`].
    pub(super) fn carry_by_git(
        &self,
        mut way: Way<'_>,
        note: Option<&mut LandingNote>,
    ) -> Result<()> {
        let own = self.own_index()?;
        // This is git's blind spot: since 2.34 `read-tree -u` overwrites ignored files. A doubt is
        // not an answer yet, because what a killed landing wrote is in the way as well; the
        // rehearsal tells the two apart.
        if self.require_room(&way, own.copy()).is_err() {
            way = self.rehearse(way, own.copy())?;
        }
        // What git writes is told from what was there by its time, so nothing may bear that of now.
        let found = self.found(&way);
        if let Some(note) = note {
            let paths = way.changes.iter().map(|change| change.path.as_slice());
            let missing: Vec<_> = paths.filter(|path| !found.contains_key(*path)).collect();
            note.add_missing(&missing)?;
        }
        wait_for_another_time(found.values());
        let before = stats(&found);
        let mut command = own.git()?;
        let mut output = command::finish(command.args(way.read_tree()))?;
        // A failure that changed no file was a refusal, and it may be mended. A failure that did
        // change files, such as a full disk, is undone below.
        if !output.status.success() && stats(&self.found(&way)) == before {
            // This says which files are in the way, and looks at those that were only touched.
            way = self.rehearse(way, own.copy())?;
            command = own.git()?;
            output = command::finish(command.args(way.read_tree()))?;
        }
        // The index is published only after the files: a kill before leaves an index that still
        // says what was there.
        if output.status.success() {
            return own.publish();
        }
        let error = command::refused(&command, &output);
        match self.move_back(&way, &before, own.copy()) {
            Ok(()) => Err(error),
            Err(because) => Err(self.not_moved_back(error, &because)),
        }
    }

    /// An error after which files are missing that were there before.
    pub(super) fn not_moved_back(&self, error: Error, because: &Error) -> Error {
        error.hint(format!(
            "not all files could be moved back ({because}); to see them, run git -C {} status",
            shell::path(&self.top)
        ))
    }

    /// What is at the changed paths.
    fn found(&self, way: &Way<'_>) -> BTreeMap<Vec<u8>, Stat> {
        let stat = |change: &Change| Some((change.path.clone(), self.stat(&change.path)?));
        way.changes.iter().filter_map(stat).collect()
    }

    /// Lets git go the way without a step, on a copy of the index, and gives what is left of it. The error says what is in the
    /// way.
    pub(super) fn rehearse<'r>(&self, way: Way<'r>, copy: &Path) -> Result<Way<'r>> {
        let Err(error) = self.rehearse_once(&way, copy) else {
            return Ok(way);
        };
        if error.code() == Code::TargetDirty
            && let Some(rest) = self.stage_moved(&way, copy)?
        {
            self.rehearse_once(&rest, copy)?;
            return Ok(rest);
        }
        Err(error)
    }

    fn rehearse_once(&self, way: &Way<'_>, copy: &Path) -> Result<()> {
        self.require_room(way, copy)?;
        let mut rehearsal = self.git_on(copy, way.read_tree());
        rehearsal.arg("--dry-run");
        // The new tree may exist only in scratch objects that have not been stored yet: a dry run
        // stores nothing.
        way.repo().redirect_objects(&mut rehearsal);
        if command::finish(&mut rehearsal)?.status.success() {
            return Ok(());
        }
        // A file that was only touched counts as changed until its content is compared.
        refresh_by(self.git_on(copy, [""; 0]))?;
        let output = command::finish(&mut rehearsal)?;
        if output.status.success() {
            return Ok(());
        }
        let touched = way.changes.iter().map(|change| change.path.clone());
        // Git names at most a few paths and words the rest; the status names each of them.
        let said = String::from_utf8_lossy(&output.stderr);
        Err(self.dirty(&touched.collect(), said.trim())?)
    }

    /// What git's own rehearsal does not see to: untracked files, ignored or not, where one would be added or a directory is needed.
    fn require_room(&self, way: &Way<'_>, index: &Path) -> Result<()> {
        let hidden = self.in_the_way(&way.changes, index)?;
        if hidden.is_empty() { Ok(()) } else { Err(self.blocked(&hidden, "")) }
    }

    /// Stages in a copy of the index what a killed landing wrote and removed, and gives what is left of the way; `None` where
    /// there is no such thing. The copy is of no use after that or an error.
    fn stage_moved<'r>(&self, way: &Way<'r>, copy: &Path) -> Result<Option<Way<'r>>> {
        let (staged, changed) = self.look_into(copy)?;
        let is_there = |path: &[u8]| {
            let found = self.stat(path);
            found.is_some_and(|stat| FileType::from_raw_mode(stat.st_mode) != FileType::Directory)
        };
        // What was staged by hand stays.
        let mut files = way.files()?;
        files.retain(|file| staged.get(&file.path).copied() == file.old);
        let (mut gone, mut written) = (Vec::new(), Vec::new());
        for file in files {
            match (file.new, is_there(&file.path)) {
                (None, false) => gone.push(file),
                (Some(_), true) if file.old.is_none() || changed.contains(&file.path) => {
                    written.push(file);
                }
                _ => {}
            }
        }
        // A directory that gives way to a file goes first.
        let lines: Vec<_> =
            gone.iter().chain(&written).map(|file| index_line(&file.path, file.new)).collect();
        let words = ["update-index", "-z", "--index-info"];
        let is_fed = || command::feed_paths(self.git_on(copy, words), &lines).is_ok();
        if lines.is_empty() || !is_fed() {
            return Ok(None);
        }
        // The copy now says what the landing would have written. A file that still differs from it
        // holds something else, so another program wrote it.
        let (_, other) = self.look_into(copy)?;
        let foreign: Vec<_> = written
            .iter()
            .filter(|file| other.contains(&file.path))
            .map(|file| file.path.clone())
            .collect();
        // If every written file is foreign, there was no killed landing: these are simply the
        // user's changes, and the caller's error names them better. If only some are, a landing was
        // killed and its files were edited since.
        if foreign.is_empty() {
            way.after(gone.iter().chain(&written))
        } else if foreign.len() == written.len() {
            Ok(None)
        } else {
            Err(self.blocked(&foreign, ""))
        }
    }

    /// What an index holds, unmerged paths aside, and which files differ from it, in a copy that then knows the others.
    pub(super) fn look_into(&self, copy: &Path) -> Result<(Staged, BTreeSet<Vec<u8>>)> {
        refresh_by(self.git_on(copy, [""; 0]))?;
        let words = ["diff-files", "--name-only", "-z", "--ignore-submodules=all"];
        let listed = command::successful(self.git_on(copy, words))?;
        let differing = command::names(&listed).map(<[u8]>::to_vec).collect();
        Ok((self.staged(copy)?, differing))
    }

    /// What an index holds, unmerged paths aside.
    fn staged(&self, index: &Path) -> Result<Staged> {
        let listed = command::successful(self.git_on(index, ["ls-files", "--stage", "-z"]))?;
        let entry = |line: &[u8]| {
            let (head, path) = split_once(line, b'\t')?;
            let mut words = std::str::from_utf8(head).ok()?.split(' ');
            let mode = u32::from_str_radix(words.next()?, 8).ok()?;
            let oid = Oid::from_hex(words.next()?)?;
            // The third word is the stage: a path in conflict has up to three entries, and none of
            // them says what the file should be.
            (words.next() == Some("0")).then(|| (path.to_vec(), (mode, oid)))
        };
        Ok(command::names(&listed).filter_map(entry).collect())
    }

    /// Undoes what a git did that failed half way. `before` is what was at the changed paths, and `index` one that says
    /// which attributes they have.
    fn move_back(
        &self,
        way: &Way<'_>,
        before: &BTreeMap<Vec<u8>, StatData>,
        index: &Path,
    ) -> Result<()> {
        let now = stats(&self.found(way));
        let mut files = way.files()?;
        // What bears the same stat data as before was not reached, so it is not touched.
        files.retain(|file| now.get(&file.path) != before.get(&file.path));
        // All new files go before the first old one returns: on a full disk that is what makes
        // room, and a directory may stand where a file was.
        for file in &files {
            self.remove_begun(way.repo(), &file.path, file.new, index)?;
        }
        // A path with an old side that had no file before was deleted by the user, and stays so.
        let was_there = |file: &&Difference| file.old.is_some() && before.contains_key(&file.path);
        for file in files.iter().filter(|file| !was_there(file)) {
            self.remove_empty_above(&file.path);
        }
        let paths: Vec<_> = files.iter().filter(was_there).map(|file| file.path.clone()).collect();
        self.write_missing(&paths)
    }

    /// Writes what the index holds at paths where nothing is. What cannot be written, as where a filter fails, keeps none of the others
    /// from being written.
    ///
    /// # Errors
    /// `git-failed`, the first.
    pub(super) fn write_missing(&self, paths: &[Vec<u8>]) -> Result<()> {
        let mut left: VecDeque<Vec<u8>> = paths.iter().cloned().collect();
        let mut first = Ok(());
        for _ in 0..MOST_FAILED {
            if left.is_empty() {
                break;
            }
            // Without `-f` git writes no file over another one.
            let words = ["checkout-index", "--quiet", "-z", "--stdin"];
            let written = self.git_on(&self.git_dir.join("index"), words);
            let Err(error) = command::feed_paths(written, left.make_contiguous()) else {
                break;
            };
            first = first.and(Err(error));
            // Git goes in this order, and ends at the first that it cannot write.
            left.retain(|path| self.stat(path).is_none());
            left.pop_front();
        }
        first
    }

    /// Removes a file if it holds at least the beginning of what git makes of a blob. Any other appeared meanwhile, and stays.
    pub(super) fn remove_begun(
        &self,
        repo: &Repo,
        path: &[u8],
        content: Option<Content>,
        index: &Path,
    ) -> Result<bool> {
        let Some((_, blob)) = content else {
            return Ok(false);
        };
        Ok(self.is_beginning(repo, path, blob, index)?
            && self.remove(path, AtFlags::empty()).is_ok())
    }

    fn is_beginning(&self, repo: &Repo, path: &[u8], blob: Oid, index: &Path) -> Result<bool> {
        let place = Path::new(OsStr::from_bytes(path));
        // A symlink is compared by its target, which is what its blob holds. It is never followed.
        let found = match fs::read_link(self.top.join(place)) {
            Ok(target) => Some(target.into_os_string().into_vec()),
            Err(_) => untrusted::read(&self.top, place, LONGEST),
        };
        let Some(found) = found else {
            return Ok(false);
        };
        // An empty file is the beginning of everything: it is what a kill right after `open`
        // leaves.
        if repo.read_blob(blob)?.starts_with(&found) {
            return Ok(true);
        }
        // The file may be what a filter or a change of line ends makes of the blob. Git is asked
        // only now, because most files are their blobs' bytes and this starts a process for each.
        let mut filtered = OsString::from("--path=");
        filtered.push(place);
        let mut command = self.git_on(index, ["cat-file", "--filters"]);
        command.arg(filtered).arg(blob.to_hex());
        let output = command::finish(&mut command)?;
        Ok(output.status.success() && output.stdout.starts_with(&found))
    }

    pub(super) fn git_on<W: AsRef<OsStr>>(
        &self,
        index: &Path,
        words: impl IntoIterator<Item = W>,
    ) -> Command {
        let mut command = self.git();
        command.env("GIT_INDEX_FILE", index).args(words);
        command
    }
}

fn stats(found: &BTreeMap<Vec<u8>, Stat>) -> BTreeMap<Vec<u8>, StatData> {
    let stats = found.iter();
    stats.map(|(path, stat)| (path.clone(), stat_data(stat))).collect()
}

/// A line of `git update-index --index-info`, without its end.
pub(in crate::git) fn index_line(path: &[u8], content: Option<Content>) -> Vec<u8> {
    let (mode, oid) = content.unwrap_or((0, Oid::ZERO));
    let line = format!("{mode:o} {oid}\t");
    [line.as_bytes(), path].concat()
}
