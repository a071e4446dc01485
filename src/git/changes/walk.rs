//! The walk over a worktree that finds what its index cannot prove to be unchanged.
//!
//! Every file is compared with what the index remembers of it, as git does, but with the strictest of git's
//! settings: what passes here would pass there, and every doubt is left to git, which looks into the file. The
//! directories are known from the index, so several threads can look at one each.

use super::index::{Entry, Index, Written};
use crate::error::Result;
use crate::git::{Repo, pool};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, statat};
use rustix::io::Errno;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::thread;

/// So many suspects are worth naming to git; where there are more it is asked about everything.
const MOST_SUSPECTS: usize = 200;

/// Directories that a thread takes at a time.
const CHUNK: usize = 4;

/// More threads than this only fight for the disk.
const MOST_THREADS: usize = 4;

/// Settings under which a name on the disk may be another one in the index.
const OTHER_NAMES: [&str; 2] = ["core.ignoreCase", "core.precomposeUnicode"];

/// How many threads walk where one worktree alone is looked at.
pub(in crate::git) fn threads() -> usize {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    processors.min(MOST_THREADS)
}

/// Whether a name on the disk may be another one in the index, so that only git can compare them.
///
/// # Errors
/// Those of [`Repo::config_bool`].
pub(in crate::git) fn names_may_differ(repo: &Repo) -> Result<bool> {
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
    /// KnownNames that the index does not know, without anything below them.
    pub(in crate::git) unknown: Vec<Vec<u8>>,
    /// Directories in the place of a tracked file or submodule.
    pub(in crate::git) swapped: Vec<Vec<u8>>,
}

impl TouchedEntries {
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
    Directory(Range<usize>),
}

/// A directory that the index knows.
struct Directory<'i> {
    /// Its path; empty for the top, else ending in a slash.
    path: &'i [u8],
    names: Vec<(&'i [u8], Tracked)>,
}

impl Walk<'_> {
    /// Looks into every directory that the index knows; `None` when git has to: something cannot be read, a
    /// file took the place of a directory, a repository is inside, or there are too many suspects.
    ///
    /// # Errors
    /// Only a bug.
    pub(in crate::git) fn suspects(&self) -> Result<Option<TouchedEntries>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let Ok(top) = rustix::fs::open(self.top, flags, Mode::empty()) else {
            return Ok(None);
        };
        let Some(mut directories) = directories(&self.written.index) else {
            return Ok(None);
        };
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
        Ok((all.len() <= MOST_SUSPECTS).then_some(all))
    }

    fn look(
        &self,
        top: &OwnedFd,
        directory: &mut Directory<'_>,
        found: &mut TouchedEntries,
    ) -> Option<()> {
        let path = directory.path;
        let mut tracked = KnownNames::new(std::mem::take(&mut directory.names));
        match open(top, path) {
            Ok(handle) => self.compare(handle, path, &mut tracked, found)?,
            Err(Errno::NOENT) => {}
            Err(_) => return None,
        }
        // A directory that is gone is looked at by itself.
        let gone =
            { tracked.0.iter() }.filter(|(_, known)| matches!(known, Some(Tracked::File(_))));
        let gone = gone.map(|(name, _)| [path, name].concat());
        found.tracked.extend(gone);
        Some(())
    }

    /// Compares what is in a directory with what the index knows of it, which is used up.
    fn compare(
        &self,
        handle: OwnedFd,
        path: &[u8],
        tracked: &mut KnownNames<'_>,
        found: &mut TouchedEntries,
    ) -> Option<()> {
        let mut directory = Dir::new(handle).ok()?;
        while let Some(entry) = directory.read() {
            let entry = entry.ok()?;
            let name = entry.file_name();
            let bytes = name.to_bytes();
            let is_directory = entry.file_type() == FileType::Directory;
            match (bytes, tracked.take(bytes)) {
                (b"." | b"..", _) => {}
                (b".git", None) if path.is_empty() => {}
                (b".git", _) => return None,
                (_, Some(Tracked::Directory(_))) if is_directory => {}
                (_, Some(Tracked::Directory(_))) => return None,
                (_, Some(Tracked::File(_))) if is_directory => {
                    found.swapped.push([path, bytes].concat());
                }
                (_, Some(Tracked::File(entry))) => {
                    let handle = directory.fd().ok()?;
                    let stat = statat(handle, name, AtFlags::SYMLINK_NOFOLLOW).ok();
                    if !stat.is_some_and(|stat| {
                        self.written
                            .proves_to_git(&self.written.index.entries[entry], &stat)
                    }) {
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
        }
        Some(())
    }
}

/// The names that the index knows in one directory, sorted, until each is met.
struct KnownNames<'i>(Vec<(&'i [u8], Option<Tracked>)>);

impl<'i> KnownNames<'i> {
    fn new(names: Vec<(&'i [u8], Tracked)>) -> KnownNames<'i> {
        let names = { names.into_iter() }.map(|(name, known)| (name, Some(known)));
        let mut names: Vec<_> = names.collect();
        names.sort_unstable_by_key(|(name, _)| *name);
        KnownNames(names)
    }

    fn take(&mut self, name: &[u8]) -> Option<Tracked> {
        let at = { &self.0 }.binary_search_by(|(known, _)| (*known).cmp(name));
        at.ok().and_then(|at| self.0[at].1.take())
    }
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

/// Every directory that the index knows; `None` when it names something that no worktree can hold.
fn directories(index: &Index) -> Option<Vec<Directory<'_>>> {
    let mut directories = Vec::new();
    let mut waiting = vec![(&b""[..], 0..index.entries.len())];
    while let Some((path, entries)) = waiting.pop() {
        let names = names(index, entries, path.len());
        for (name, known) in &names {
            let is_odd = matches!(*name, b"" | b"." | b".." | b".git") || name.contains(&0);
            if is_odd {
                return None;
            }
            if let Tracked::Directory(entries) = known {
                let first = index.path(&index.entries[entries.start]);
                let path = first.get(..path.len() + name.len() + 1)?;
                waiting.push((path, entries.clone()));
            }
        }
        directories.push(Directory { path, names });
    }
    Some(directories)
}

/// The names in one directory. `skip` is the length of its path with the final slash.
fn names(index: &Index, entries: Range<usize>, skip: usize) -> Vec<(&[u8], Tracked)> {
    let all = &index.entries;
    let mut names = Vec::new();
    let mut at = entries.start;
    while at < entries.end {
        let rest = index.path(&all[at]).get(skip..).unwrap_or_default();
        let Some(slash) = rest.iter().position(|&byte| byte == b'/') else {
            names.push((rest, Tracked::File(at)));
            at += 1;
            continue;
        };
        let is_below = |entry: &Entry| {
            let path = index.path(entry);
            path.get(skip..skip + slash + 1) == Some(&rest[..=slash])
        };
        let length = all[at..entries.end].partition_point(is_below).max(1);
        names.push((&rest[..slash], Tracked::Directory(at..at + length)));
        at += length;
    }
    names
}
