//! Writing the new files of a landing without git, where each is its blob's bytes.
//!
//! Starting `git checkout-index` for a handful of files reads and writes the whole index, which in a large worktree takes
//! several times as long as the rest. Where a filter, a line end or an encoding may be asked for, git writes the files.

use super::Checkout;
use super::precheck::{Above, IndexSnapshot, Precheck, stat_at};
use super::steps::{Step, Steps};
use crate::domain::oid::Oid;
use crate::error::{IoContext, Result};
use crate::git::Repo;
use crate::git::changes::{Content, StatData, stat_data};
use crate::git::populate::are_plain;
use crate::git::tree::{EXECUTABLE, SYMLINK};
use rustix::fs::{AtFlags, Mode, OFlags, fstat, mkdirat, openat, statat, symlinkat, unlinkat};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

/// What a step finds, or what it leaves.
type Side = fn(&Step) -> Option<Content>;

impl Checkout {
    /// Whether every file of the steps is its blob's bytes, by the attributes of before and of after. It is looked up once.
    pub(super) fn is_plain(&self, repo: &Repo, steps: &Steps, look: &Precheck) -> bool {
        let is_plain = || self.has_plain_files(repo, steps, &look.seen);
        *look.is_plain.get_or_init(is_plain)
    }

    fn has_plain_files(&self, repo: &Repo, steps: &Steps, seen: &IndexSnapshot) -> bool {
        // Settings of an agent's worktree are not to be read.
        if self.view.is_some() {
            return false;
        }
        let sides: &[Side] = if steps.has_attributes {
            &[|step| step.old, |step| step.new]
        } else {
            // A path has the same attributes before and after.
            &[|step| step.new.or(step.old)]
        };
        sides.iter().all(|side| {
            let files = steps.list.iter();
            let files = files.filter_map(|step| Some((step.path.as_slice(), side(step)?)));
            let attributes = self.attributes_above(steps, seen, *side);
            let files = files.collect();
            attributes.is_some_and(|attributes| are_plain(repo, &self.top, &attributes, &files))
        })
    }

    /// The files of attributes above the steps; `None` where one is there that the index does not know.
    fn attributes_above(
        &self,
        steps: &Steps,
        seen: &IndexSnapshot,
        side: Side,
    ) -> Option<BTreeMap<Vec<u8>, Content>> {
        let mut found = BTreeMap::new();
        for path in steps.attributes_files() {
            // An attributes file that is itself among the steps counts as the side that is asked
            // about; the index knows one side only.
            let content = match steps.list.iter().find(|step| step.path == path) {
                Some(step) => side(step),
                None => match seen.content(&path) {
                    // An untracked file of attributes is obeyed by git as well, but the index says
                    // nothing about its content.
                    None if !self.is_free(&path) => return None,
                    content => content,
                },
            };
            found.extend(content.map(|content| (path, content)));
        }
        Some(found)
    }

    fn is_free(&self, path: &[u8]) -> bool {
        match self.open_above(path) {
            Some(Above::Missing) => true,
            Some(Above::There(directory, name)) => matches!(stat_at(&directory, name), Some(None)),
            None => false,
        }
    }

    /// Writes files where nothing is, and says what the index is to keep of each that is `written`; `false` where something
    /// appeared in their place.
    ///
    /// # Errors
    /// `repo-corrupt`, `io`, `disk-full`; the files before the one that failed are there then.
    pub(super) fn write_plain_files(
        &self,
        repo: &Repo,
        steps: &[&Step],
        mut written: impl FnMut(&[u8], StatData),
    ) -> Result<bool> {
        for step in steps {
            if let Some((mode, blob)) = step.new {
                let Some(stat) = self.write_plain(repo, &step.path, mode, blob)? else {
                    return Ok(false);
                };
                written(&step.path, stat);
            }
        }
        Ok(true)
    }

    fn write_plain(
        &self,
        repo: &Repo,
        path: &[u8],
        mode: u32,
        blob: Oid,
    ) -> Result<Option<StatData>> {
        let content = match blob {
            // The empty blob need not exist as an object: git knows it without one.
            Oid::EMPTY_BLOB => Vec::new(),
            blob => repo.read_blob(blob)?,
        };
        let made = self.make_above(path).map_err(io::Error::from);
        let written = made.and_then(|(directory, name)| {
            if mode == SYMLINK {
                symlinkat(content.as_slice(), &directory, name)?;
                Ok(statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW)?)
            } else {
                write_file(&directory, name, mode, &content)
            }
        });
        match written.as_ref().map_err(io::Error::kind) {
            // Something appeared here after the look. It may be the user's, so it stays, and git
            // says what it is.
            Err(ErrorKind::AlreadyExists | ErrorKind::NotADirectory) => Ok(None),
            _ => {
                let stat = written.at("could not write", self.top.join(OsStr::from_bytes(path)))?;
                Ok(Some(stat_data(&stat)))
            }
        }
    }

    /// Makes the directories above a path that are not there, and opens the last of them, never through a symlink; gives
    /// the name in it too.
    fn make_above<'p>(&self, path: &'p [u8]) -> rustix::io::Result<(OwnedFd, &'p [u8])> {
        // The usual case costs one call. Directories are made one by one only where one is missing.
        if let Some(Above::There(directory, name)) = self.open_above(path) {
            return Ok((directory, name));
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut directory = rustix::fs::open(&self.top, flags, Mode::empty())?;
        let mut rest = path;
        while let Some(slash) = rest.iter().position(|&byte| byte == b'/') {
            let (name, flags) = (&rest[..slash], flags | OFlags::NOFOLLOW);
            directory = match openat(&directory, name, flags, Mode::empty()) {
                Err(Errno::NOENT) => {
                    mkdirat(&directory, name, Mode::from_raw_mode(0o777))?;
                    // It is opened without following links: another process may have replaced what
                    // was just made.
                    openat(&directory, name, flags, Mode::empty())?
                }
                opened => opened?,
            };
            rest = &rest[slash + 1..];
        }
        Ok((directory, rest))
    }
}

/// Writes a file that must not exist; nothing is left of one that could not be written.
fn write_file(
    directory: &OwnedFd,
    name: &[u8],
    mode: u32,
    content: &[u8],
) -> io::Result<rustix::fs::Stat> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // The umask takes its bits from these, as with git.
    let bits = if mode == EXECUTABLE { 0o777 } else { 0o666 };
    let mut file = File::from(openat(directory, name, flags, Mode::from_raw_mode(bits))?);
    let written = file.write_all(content);
    let stat = written.and_then(|()| fstat(&file).map_err(io::Error::from));
    if stat.is_err() {
        // The caller counts only whole files as written, and would leave this one.
        let _ = unlinkat(directory, name, AtFlags::empty());
    }
    stat
}
