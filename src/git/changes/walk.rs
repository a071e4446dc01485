//! The walk over a worktree that finds what its index cannot prove to be unchanged.
//!
//! Every file is compared with what the index remembers of it, as git does, but with the strictest of git's
//! settings: what passes here would pass there, and every doubt is left to git, which looks into the file. The
//! directories are known from the index, so several threads can look at one each.

use super::index::{Index, Written};
use super::plain::PlainFiles;
use crate::domain::paths::path::split_once;
use crate::error::Result;
use crate::git::{Repo, core::pool};
use crate::system;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, openat, statat};
use rustix::io::Errno;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::Path;

/// So many suspects are worth naming to git; where there are more it is asked about everything.
const MOST_SUSPECTS: usize = 200;

/// Directories that a thread takes at a time.
const CHUNK: usize = 4;

/// Settings under which a name on the disk may be another one in the index.
const OTHER_NAMES: [&str; 2] = ["core.ignoreCase", "core.precomposeUnicode"];

/// Whether a name on the disk may be another one in the index, so that only git can compare them.
///
/// # Errors
/// Those of [`Repo::config_bool`].
pub(in crate::git) fn names_may_differ(repo: &Repo) -> Result<bool> {
    // Where a name on the disk may be spelled in another way than in the index, comparing bytes
    // would find every file unknown.
    for setting in OTHER_NAMES {
        if repo.config_bool(setting)? == Some(true) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A worktree to walk over.
pub(in crate::git) struct Walk<'a> {
    /// Its top.
    pub(in crate::git) top: &'a Path,
    /// What it is compared with.
    pub(in crate::git) written: &'a Written,
    /// A directory that is passed over, unless something in it is tracked.
    pub(in crate::git) besides: Option<&'a str>,
    /// How many threads walk.
    pub(in crate::git) threads: usize,
}

/// What only git can tell about, each path once.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::git) struct TouchedEntries {
    /// Tracked files that may have changed, and those that are gone.
    pub(in crate::git) tracked: Vec<Vec<u8>>,
    /// Names that the index does not know, without anything below them.
    pub(in crate::git) unknown: Vec<Vec<u8>>,
    /// Directories in the place of a tracked file or submodule.
    pub(in crate::git) swapped: Vec<Vec<u8>>,
}

impl TouchedEntries {
    /// Whether the index proves everything.
    pub(in crate::git) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes out the tracked files whose content shows that they are what the index holds, and gives them.
    pub(in crate::git) fn take_unchanged(
        &mut self,
        repo: &Repo,
        top: &Path,
        index: &Index,
        settings: &Path,
    ) -> Vec<Vec<u8>> {
        let is_tracked = |path: &[u8]| index.find(path).is_some();
        let mut files = PlainFiles::new(repo, top, settings, &is_tracked);
        let unchanged = self.tracked.extract_if(.., |path| files.proves(index, path));
        unchanged.collect()
    }

    fn len(&self) -> usize {
        self.tracked.len() + self.unknown.len() + self.swapped.len()
    }

    fn add(&mut self, other: TouchedEntries) {
        self.tracked.extend(other.tracked);
        self.unknown.extend(other.unknown);
        self.swapped.extend(other.swapped);
    }
}

/// What the index knows under one name of a directory.
enum Tracked {
    File(usize),
    Directory,
}

/// A directory that the index knows.
struct IndexedDirectory<'i> {
    /// Its path; empty for the top, else ending in a slash.
    path: &'i [u8],
    /// What is below it.
    entries: Range<usize>,
    /// When its names were seen, and no other name, for a walk that comes later.
    listed: Option<&'i mut Option<Listed>>,
}

/// What tells a list of names from one that came after it: device, inode, and the time of the last change.
pub(in crate::git) type Listed = [i128; 4];

impl Walk<'_> {
    /// Looks into every directory that the index knows; `None` when git has to: something cannot be read, a
    /// file took the place of a directory, a repository is inside, or there are too many suspects.
    ///
    /// # Errors
    /// Only a bug.
    pub(in crate::git) fn suspects(&self) -> Result<Option<TouchedEntries>> {
        self.suspects_beyond(None)
    }

    /// As [`Walk::suspects`], but for those directories whose names are as an earlier walk with the same index saw them: their
    /// files are not compared again. `listed` is empty before the first walk.
    ///
    /// # Errors
    /// Only a bug.
    pub(in crate::git) fn suspects_since(
        &self,
        listed: &mut Vec<Option<Listed>>,
    ) -> Result<Option<TouchedEntries>> {
        self.suspects_beyond(Some(listed))
    }

    fn suspects_beyond(
        &self,
        listed: Option<&mut Vec<Option<Listed>>>,
    ) -> Result<Option<TouchedEntries>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let Ok(top) = rustix::fs::open(self.top, flags, Mode::empty()) else {
            return Ok(None);
        };
        let Some(found) = directories(&self.written.index) else {
            return Ok(None);
        };
        let mut listed = listed.map(|listed| {
            listed.resize(found.len(), None);
            listed.iter_mut()
        });
        let directory = |(path, entries)| IndexedDirectory {
            path,
            entries,
            listed: listed.as_mut().and_then(Iterator::next),
        };
        let mut directories: Vec<_> = found.into_iter().map(directory).collect();
        let shares = pool::share(&mut directories, CHUNK, self.threads, |chunks| {
            let mut found = TouchedEntries::default();
            while let Some(chunk) = chunks.next() {
                for directory in chunk {
                    let looked = self.look(&top, directory, &mut found);
                    if looked.is_none() || found.len() > MOST_SUSPECTS {
                        // The others need not go on, either.
                        while chunks.next().is_some() {}
                        return Ok(None);
                    }
                }
            }
            Ok(Some(found))
        })?;
        let mut all = TouchedEntries::default();
        for share in shares {
            match share {
                Some(share) => all.add(share),
                None => return Ok(None),
            }
        }
        // Whichever thread found them.
        for paths in [&mut all.tracked, &mut all.unknown, &mut all.swapped] {
            paths.sort_unstable();
        }
        // Each thread has counted its own alone.
        Ok((all.len() <= MOST_SUSPECTS).then_some(all))
    }

    fn look(
        &self,
        top: &OwnedFd,
        directory: &mut IndexedDirectory<'_>,
        found: &mut TouchedEntries,
    ) -> Option<()> {
        let path = directory.path;
        let mut tracked = names(&self.written.index, directory.entries.clone(), path.len());
        match (open(top, path), &mut directory.listed) {
            (Ok(handle), None) => self.compare(&handle, path, &mut tracked, found)?,
            (Ok(handle), Some(seen)) => {
                let before = seen.take();
                // The time is taken before the names: a change while they are read shows as another time
                // in the next walk.
                let now = listed(&handle)?;
                if before == Some(now) {
                    **seen = before;
                    return Some(());
                }
                let others = found.unknown.len() + found.swapped.len();
                self.compare(&handle, path, &mut tracked, found)?;
                // Only times before that of the index tell this list from a later one. Other names are listed again.
                let is_all = others == found.unknown.len() + found.swapped.len();
                let [.., seconds, nanoseconds] = now;
                let is_old = is_all && self.written.is_after(seconds, nanoseconds);
                **seen = Some(now).filter(|_| is_old);
            }
            // All of its files are gone then, and are named below.
            (Err(Errno::NOENT), _) => {}
            (Err(_), _) => return None,
        }
        // A directory that is gone is looked at by itself.
        let is_file = |known: &Option<Tracked>| matches!(known, Some(Tracked::File(_)));
        let gone = tracked
            .into_iter()
            .filter(|(_, known)| is_file(known))
            .map(|(name, _)| [path, name].concat());
        found.tracked.extend(gone);
        Some(())
    }

    /// Compares what is in a directory with what the index knows of it, which is used up.
    fn compare(
        &self,
        handle: &OwnedFd,
        path: &[u8],
        tracked: &mut [(&[u8], Option<Tracked>)],
        found: &mut TouchedEntries,
    ) -> Option<()> {
        let mut last = tracked.len();
        system::each_name(handle, |name, file_type| {
            let bytes = name.to_bytes();
            let is_directory = file_type == FileType::Directory;
            let known = position(tracked, bytes, last).and_then(|at| {
                last = at;
                tracked.get_mut(at)?.1.take()
            });
            match (bytes, known) {
                (b"." | b"..", _) => {}
                (b".git", None) if path.is_empty() => {}
                // A repository inside, or one that is tracked: git has rules of its own for both.
                (b".git", _) => return None,
                (_, Some(Tracked::Directory)) if is_directory => {}
                // A file or a link in the place of a directory: what became of everything below it,
                // git tells.
                (_, Some(Tracked::Directory)) => return None,
                (_, Some(Tracked::File(_))) if is_directory => {
                    found.swapped.push([path, bytes].concat());
                }
                (_, Some(Tracked::File(entry))) => {
                    let stat = statat(handle, name, AtFlags::SYMLINK_NOFOLLOW).ok();
                    let both = self.written.index.entries.get(entry).zip(stat);
                    if !both.is_some_and(|(entry, stat)| self.written.proves_to_git(entry, &stat)) {
                        found.tracked.push([path, bytes].concat());
                    }
                }
                (_, None) => {
                    let path = [path, bytes].concat();
                    let besides = self.besides.map(str::as_bytes);
                    if !is_directory || besides != Some(&path) {
                        found.unknown.push(path);
                    }
                }
            }
            Some(())
        })
    }
}

/// Where a name stands among those that the index knows. File systems often list names in the order in which they were made,
/// or the other way round, so those beside the `last` one are tried first.
fn position(tracked: &[(&[u8], Option<Tracked>)], name: &[u8], last: usize) -> Option<usize> {
    let is_there = |at: &usize| tracked.get(*at).is_some_and(|(known, _)| *known == name);
    let beside = [last.wrapping_sub(1), last + 1].into_iter().find(is_there);
    beside.or_else(|| { tracked }.binary_search_by(|(known, _)| (*known).cmp(name)).ok())
}

/// Opens a directory of the worktree, which no symlink may stand for.
fn open(top: &OwnedFd, path: &[u8]) -> rustix::io::Result<OwnedFd> {
    // With the slash at its end, a symlink would be followed.
    let name = match path {
        [name @ .., b'/'] => name,
        _ => b".",
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    openat(top, name, flags, Mode::empty())
}

/// When a directory was changed last.
fn listed(directory: &OwnedFd) -> Option<Listed> {
    let stat = fstat(directory).ok()?;
    Some([wide(stat.st_dev)?, wide(stat.st_ino)?, wide(stat.st_ctime)?, wide(stat.st_ctime_nsec)?])
}

/// A number as every system has it.
fn wide(number: impl TryInto<i128>) -> Option<i128> {
    number.try_into().ok()
}

/// Every directory that the index knows, and its entries; `None` when it names something that no worktree can hold.
fn directories(index: &Index) -> Option<Vec<(&[u8], Range<usize>)>> {
    let end = index.entries.len();
    let mut found = vec![(&b""[..], 0..end)];
    // Those that what comes next may be in: where they are found, and their paths.
    let mut open = vec![(0, &b""[..])];
    for (at, entry) in index.entries.iter().enumerate() {
        let path = index.path(entry);
        while let Some((left, _)) = open.pop_if(|(_, directory)| !path.starts_with(directory)) {
            found.get_mut(left)?.1.end = at;
        }
        let mut rest = open.last().map_or(0, |(_, directory)| directory.len());
        for name in path.get(rest..)?.split(|&byte| byte == b'/') {
            if matches!(name, b"" | b"." | b".." | b".git") {
                // No index of git's has such names, and one that has would lead the walk out of the
                // worktree.
                return None;
            }
            rest += name.len() + 1;
            if let Some(directory) = path.get(..rest) {
                open.push((found.len(), directory));
                found.push((directory, at..end));
            }
        }
    }
    Some(found)
}

/// The names in one directory, sorted. `skip` is the length of its path with the final slash.
fn names(index: &Index, entries: Range<usize>, skip: usize) -> Vec<(&[u8], Option<Tracked>)> {
    let mut names = Vec::new();
    let mut at = entries.start;
    while let Some(entry) = index.entries.get(at).filter(|_| at < entries.end) {
        let rest = index.path(entry).get(skip..).unwrap_or_default();
        let Some((name, _)) = split_once(rest, b'/') else {
            names.push((rest, Some(Tracked::File(at))));
            at += 1;
            continue;
        };
        names.push((name, Some(Tracked::Directory)));
        at += index.below(at..entries.end, skip, name).max(1);
    }
    // A directory stands where its name with a slash belongs.
    names.sort_unstable_by_key(|(name, _)| *name);
    names
}
