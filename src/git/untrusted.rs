//! Files in places that an agent can write, opened as data.
//!
//! Beneath a directory that was chosen by us no link is followed, nothing but a regular file is opened, opening
//! never waits, and no more is read than a limit. What is anything else counts as absent.

use rustix::fs::{CWD, Mode, OFlags, openat};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

/// How deep below its top a tree of files is read.
const DEEPEST: usize = 8;

/// How many files of a tree are read.
const MOST: usize = 10_000;

/// Opens a regular file; `relative` is a path of plain names below `top`. `None` when there is none that can be read.
pub fn open(top: &Path, relative: &Path) -> Option<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let (parent, name) = place(top, relative)?;
    // A FIFO is opened without waiting for its other end.
    let file = openat(&parent, name, flags | OFlags::NONBLOCK, Mode::empty()).ok()?;
    let file = File::from(file);
    file.metadata().ok()?.is_file().then_some(file)
}

/// The directory that a path is in, and its name there.
fn place<'a>(top: &Path, relative: &'a Path) -> Option<(OwnedFd, &'a OsStr)> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::DIRECTORY;
    let (parents, name) = (relative.parent()?, relative.file_name()?);
    let top = openat(CWD, top, flags, Mode::empty()).ok()?;
    let parent = parents
        .components()
        .try_fold(top, |directory, part| -> Option<OwnedFd> {
            let Component::Normal(name) = part else {
                return None;
            };
            openat(&directory, name, flags, Mode::empty()).ok()
        })?;
    Some((parent, name))
}

/// Adds to the end of a regular file that is there; `relative` is as in [`open`].
///
/// # Errors
/// When something else is in its place, or it cannot be written.
pub fn append(top: &Path, relative: &Path, content: &[u8]) -> io::Result<()> {
    let absent = || io::Error::from(io::ErrorKind::NotFound);
    let (directory, name) = place(top, relative).ok_or_else(absent)?;
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // A FIFO that no process reads cannot be opened then.
    let file = openat(&directory, name, flags | OFlags::NONBLOCK, Mode::empty())?;
    let mut file = File::from(file);
    if !file.metadata()?.is_file() {
        return Err(absent());
    }
    file.write_all(content)
}

/// Reads a regular file of at most `limit` bytes; `relative` is as in [`open`]. `None` when there is none, or it is
/// longer.
pub fn read(top: &Path, relative: &Path, limit: u64) -> Option<Vec<u8>> {
    let file = open(top, relative)?;
    let mut content = Vec::new();
    // It may grow while it is read.
    file.take(limit + 1).read_to_end(&mut content).ok()?;
    (content.len() as u64 <= limit).then_some(content)
}

/// The names in a directory, sorted; none where it cannot be listed.
pub fn names(top: &Path) -> Vec<OsString> {
    let entries = fs::read_dir(top).into_iter().flatten();
    let mut names: Vec<_> = { entries.flatten() }
        .map(|entry| entry.file_name())
        .collect();
    names.sort();
    names
}

/// The regular files below a directory, relative to it and sorted. Links are left out, with what they lead to.
pub fn files(top: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![PathBuf::new()];
    while let Some(directory) = open.pop() {
        let Ok(entries) = fs::read_dir(top.join(&directory)) else {
            continue;
        };
        for entry in entries.filter_map(Result::ok) {
            let path = directory.join(entry.file_name());
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && path.components().count() < DEEPEST => open.push(path),
                Ok(kind) if kind.is_file() && found.len() < MOST => found.push(path),
                _ => {}
            }
        }
    }
    found.sort();
    found
}
