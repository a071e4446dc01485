//! What a worktree holds that no commit of it does, for whoever looks at many of them.
//!
//! One walk compares every file with what the index remembers of it, as git does, and notes the names that
//! the index does not know. Nearly always that leaves a handful of paths, and git, which knows its filters
//! and its ignore rules, is asked about those alone, or not at all. A list of 17 worktrees of 13,000 files with
//! one change each takes 0.86 s of processor time instead of the 1.08 s of `git status` in each alone. Every
//! comparison errs towards asking.
//!
//! Whatever is more than plain files is left to git altogether: unmerged or flagged entries, a merge under
//! way, a split or sparse index, a nested repository, more changes than a command line should name.

use super::index::{Entry, Index};
use super::status::status;
#[cfg(doc)]
use super::worktree_changes;
use crate::domain::change::{Change, ChangeKind};
use crate::domain::oid::Oid;
use crate::error::Result;
use crate::git::worktree::belongs_to;
use crate::git::{Repo, command, tree};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, openat, statat};
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// So many paths are named to git; beyond that it is asked about all.
const MOST_PATHS: usize = 200;

/// A worktree to look at.
#[derive(Clone, Copy, Debug)]
pub struct Glance<'a> {
    /// Its top.
    pub top: &'a Path,
    /// Its admin directory.
    pub admin_dir: &'a Path,
    /// A directory at its top that is nobody's work.
    pub besides: Option<&'a str>,
}

/// Everything staged, modified or untracked, ordered by path, as [`worktree_changes`] gives it but for what
/// is untracked in [`Glance::besides`]. The file system monitor is not asked: it would be started for each worktree.
///
/// # Errors
/// `git-missing`, `git-failed`.
pub fn glance(glance: &Glance<'_>) -> Result<Vec<Change>> {
    let paths = suspects(glance).unwrap_or_default();
    if paths.as_ref().is_some_and(Vec::is_empty) {
        return Ok(Vec::new());
    }
    let mut git = command::git(glance.top);
    git.args(["-c", "core.fsmonitor=false"]);
    let mut changes = status(glance.top, git, &paths.unwrap_or_default())?;
    if let Some(besides) = glance.besides {
        changes.retain(|change| {
            change.kind != ChangeKind::Untracked || !is_below(&change.path, besides.as_bytes())
        });
    }
    Ok(changes)
}

fn is_below(path: &[u8], directory: &[u8]) -> bool {
    path.strip_prefix(directory)
        .is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

/// The paths that may differ; `None` when only git can tell.
///
/// # Errors
/// When something cannot be read, of which git may know better.
fn suspects(glance: &Glance<'_>) -> Result<Option<Vec<Vec<u8>>>> {
    // Where the `.git` file leads elsewhere, git will say what is wrong with that.
    if !belongs_to(glance.top, glance.admin_dir) {
        return Ok(None);
    }
    let Some((index, written)) = read_index(glance.admin_dir) else {
        return Ok(None);
    };
    let own = Repo::open_git_dir(glance.admin_dir)?;
    let trees = own.parent_trees(&[])?;
    if index.is_flagged || trees.len() != 1 {
        return Ok(None);
    }
    let (oid, top) = index.top();
    let staged = own.compare(&trees, oid, top, Some(&index))?;
    let mut walk = Walk {
        index: &index,
        written,
        besides: glance.besides.unwrap_or_default().as_bytes(),
        paths: staged.into_iter().map(|change| change.path).collect(),
    };
    let found = walk.everything(glance.top);
    Ok(found.map(|()| walk.paths))
}

/// The index with the time when it was written, in seconds and nanoseconds.
fn read_index(admin_dir: &Path) -> Option<(Index, (i64, i64))> {
    let mut file = File::open(admin_dir.join("index")).ok()?;
    let metadata = file.metadata().ok()?;
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).ok()? + 1);
    file.read_to_end(&mut bytes).ok()?;
    let written = (metadata.mtime(), metadata.mtime_nsec());
    Some((Index::parse(bytes)?, written))
}

/// What the index knows under one name of a directory.
enum Tracked {
    File(usize),
    Directory(Range<usize>),
}

struct Walk<'i> {
    index: &'i Index,
    written: (i64, i64),
    besides: &'i [u8],
    paths: Vec<Vec<u8>>,
}

impl Walk<'_> {
    /// Looks into every directory that the index knows; `None` when git has to.
    fn everything(&mut self, top: &Path) -> Option<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let top = rustix::fs::open(top, flags, Mode::empty()).ok()?;
        let mut open = vec![(Vec::new(), 0..self.index.entries.len())];
        while let Some((prefix, entries)) = open.pop() {
            let name = if prefix.is_empty() {
                &b"."[..]
            } else {
                &prefix
            };
            let flags = flags | OFlags::NOFOLLOW;
            let directory = openat(&top, name, flags, Mode::empty()).ok()?;
            self.directory(&directory, prefix, entries, &mut open)?;
            if self.paths.len() > MOST_PATHS {
                return None;
            }
        }
        Some(())
    }

    /// Compares one directory and adds those below it to `open`. `prefix` ends in a slash below the top.
    fn directory(
        &mut self,
        directory: &OwnedFd,
        prefix: Vec<u8>,
        entries: Range<usize>,
        open: &mut Vec<(Vec<u8>, Range<usize>)>,
    ) -> Option<()> {
        let mut tracked = tracked(self.index, entries, prefix.len());
        for entry in Dir::read_from(directory).ok()? {
            let entry = entry.ok()?;
            let name = entry.file_name();
            let bytes = name.to_bytes();
            let path = [&prefix, bytes].concat();
            match (bytes, tracked.remove(bytes)) {
                (b"." | b"..", _) => {}
                (b".git", None) if prefix.is_empty() => {}
                (b".git", _) => return None,
                (_, Some(Tracked::Directory(range)))
                    if entry.file_type() == FileType::Directory =>
                {
                    open.push(([&path, &b"/"[..]].concat(), range));
                }
                (_, Some(Tracked::File(entry))) => {
                    let stat = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).ok();
                    let entry = &self.index.entries[entry];
                    if !stat.is_some_and(|stat| self.is_unchanged(entry, &stat)) {
                        self.paths.push(path);
                    }
                }
                (_, None) if path == self.besides => {}
                _ => self.paths.push(path),
            }
        }
        let gone = tracked.into_keys().map(|name| [&prefix, name].concat());
        self.paths.extend(gone);
        Some(())
    }

    /// Whether a file is what the index remembers; with the strictest of git's settings, so that every doubt
    /// is one.
    fn is_unchanged(&self, entry: &Entry, stat: &Stat) -> bool {
        let [
            ctime,
            ctime_nano,
            mtime,
            mtime_nano,
            _,
            inode,
            _,
            user,
            group,
            size,
        ] = self.index.stat(entry);
        let (mode, oid) = entry.content;
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile if stat.st_mode & 0o100 != 0 => tree::EXECUTABLE,
            FileType::RegularFile => tree::FILE,
            FileType::Symlink => tree::SYMLINK,
            _ => return false,
        };
        // Written when the index was, or later: its time proves nothing.
        let is_racy = (i64::from(mtime), i64::from(mtime_nano)) >= self.written;
        // So git marks what was racy when it wrote the index.
        let is_marked = size == 0 && oid != Oid::EMPTY_BLOB;
        !is_racy
            && !is_marked
            && kind == mode
            && low(stat.st_ctime) == ctime
            && low(stat.st_ctime_nsec) == ctime_nano
            && low(stat.st_mtime) == mtime
            && low(stat.st_mtime_nsec) == mtime_nano
            && low(stat.st_ino) == inode
            && stat.st_uid == user
            && stat.st_gid == group
            && low(stat.st_size) == size
    }
}

/// The names that the index knows in a directory.
fn tracked(index: &Index, entries: Range<usize>, skip: usize) -> HashMap<&[u8], Tracked> {
    let all = &index.entries;
    let mut names = HashMap::new();
    let mut at = entries.start;
    while at < entries.end {
        let rest = index.path(&all[at]).get(skip..).unwrap_or_default();
        let Some(slash) = rest.iter().position(|&byte| byte == b'/') else {
            names.insert(rest, Tracked::File(at));
            at += 1;
            continue;
        };
        let is_below = |entry: &Entry| {
            let path = index.path(entry);
            path.get(skip..skip + slash + 1) == Some(&rest[..=slash])
        };
        let length = all[at..entries.end].partition_point(is_below).max(1);
        names.insert(&rest[..slash], Tracked::Directory(at..at + length));
        at += length;
    }
    names
}

/// The low 32 bits, which is all that an index keeps.
fn low(number: impl TryInto<i128>) -> u32 {
    let number = number.try_into().unwrap_or_default();
    u32::try_from(number & 0xffff_ffff).unwrap_or_default()
}
