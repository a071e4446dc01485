//! Files in places that an agent can write, opened as data.
//!
//! Beneath a directory that was chosen by us no link is followed, nothing but a regular file is opened, opening
//! never waits, and no more is read than a limit. What is anything else counts as absent.

use crate::domain::value::shell;
use crate::error::{Code, Error, IoContext, Result};
use crate::git::core::tree::{EXECUTABLE, FILE, SYMLINK};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, mkdirat, openat, readlinkat, renameat, statat, symlinkat,
    unlinkat,
};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Component, Path, PathBuf};
use walkdir::WalkDir;

/// How deep below its top a tree of files is read.
const DEEPEST: usize = 8;

/// How many files of a tree are read.
pub(in crate::git) const MOST: usize = 10_000;

/// So much of a file is compared at a time, in bytes.
const PIECE: usize = 1 << 16;

/// Opens a regular file; `relative` is a path of plain names below `top`. `None` when there is none that can be read.
pub fn open(top: &Path, relative: &Path) -> Option<File> {
    open_sized(top, relative).map(|(file, _)| file)
}

/// As [`open`], with how long the file is.
fn open_sized(top: &Path, relative: &Path) -> Option<(File, u64)> {
    let (parent, name) = place(top, relative, false).ok()?;
    let (file, metadata) = open_in(&parent, name)?;
    Some((file, metadata.len()))
}

fn open_in(parent: impl AsFd, name: &OsStr) -> Option<(File, Metadata)> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // A FIFO is opened without waiting for its other end.
    let file = openat(parent, name, flags | OFlags::NONBLOCK, Mode::empty()).ok()?;
    let file = File::from(file);
    let metadata = file.metadata().ok()?;
    // The type is asked of the open file, not of the name, which may lead elsewhere by now.
    metadata.is_file().then_some((file, metadata))
}

/// The directory that a path is in, made where it is absent and `is_made` asks for that, and its name there.
fn place<'a>(top: &Path, relative: &'a Path, is_made: bool) -> Result<(OwnedFd, &'a OsStr), Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::DIRECTORY;
    let (parents, name) = relative.parent().zip(relative.file_name()).ok_or(Errno::INVAL)?;
    let top = openat(CWD, top, flags, Mode::empty())?;
    let parent = parents.components().try_fold(top, |directory, part| {
        // `..` and absolute parts would lead out of the top.
        let Component::Normal(name) = part else {
            return Err(Errno::INVAL);
        };
        // Opened one name at a time: `O_NOFOLLOW` holds for the last part of a path alone.
        match openat(&directory, name, flags, Mode::empty()) {
            Err(Errno::NOENT) if is_made => {
                mkdirat(&directory, name, Mode::RWXU)?;
                openat(&directory, name, flags, Mode::empty())
            }
            opened => opened,
        }
    })?;
    Ok((parent, name))
}

/// Copies what a commit can hold of a path to the same path below `to`: a regular file of at most `limit` bytes, or a symlink.
/// Gives what kind of file is there; nothing is there where a symlink stands in the place of a directory above it.
///
/// # Errors
/// For a file that cannot be read, or that becomes another one meanwhile.
pub(in crate::git) fn copy_below(
    top: &Path,
    relative: &Path,
    to: &Path,
    limit: u64,
) -> io::Result<Option<FileType>> {
    let place_of = |top, is_made| place(top, relative, is_made);
    let found = place_of(top, false)
        .and_then(|(parent, name)| Ok((statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)?, parent)));
    let (found, parent) = match found {
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
        found => found?,
    };
    let kind = FileType::from_raw_mode(found.st_mode);
    let is_kept = matches!(kind, FileType::RegularFile | FileType::Symlink);
    if !is_kept {
        return Ok(Some(kind));
    }
    let (copies, name) = place_of(to, true)?;
    if kind == FileType::Symlink {
        let target = readlinkat(&parent, name, Vec::new())?;
        symlinkat(target.as_c_str(), &copies, name)?;
        return Ok(Some(kind));
    }
    let other = || io::Error::other("it changes while it is read");
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = File::from(openat(&parent, name, flags, Mode::empty())?);
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(other());
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode((metadata.mode() & 0o100) | 0o600);
    let mut copy = File::from(openat(&copies, name, flags, mode)?);
    if io::copy(&mut file.take(limit + 1), &mut copy)? > limit {
        return Err(other());
    }
    Ok(Some(kind))
}

/// Adds to the end of a regular file that is there; `relative` is as in [`open`].
///
/// # Errors
/// When something else is in its place, or it cannot be written.
pub fn append(top: &Path, relative: &Path, content: &[u8]) -> io::Result<()> {
    let (directory, name) = place(top, relative, false)?;
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // A FIFO that no process reads cannot be opened then.
    let file = openat(&directory, name, flags | OFlags::NONBLOCK, Mode::empty())?;
    let mut file = File::from(file);
    if !file.metadata()?.is_file() {
        return Err(io::Error::from(io::ErrorKind::NotFound));
    }
    file.write_all(content)
}

/// Writes a file below a directory as git writes a ref: into its `.lock` file, which takes the place of what is there.
///
/// # Errors
/// Also where a symlink stands in the place of a directory above it, and where there is such a lock already.
pub fn replace(top: &Path, relative: &Path, content: &[u8]) -> io::Result<()> {
    let (parent, name) = place(top, relative, false)?;
    let lock = [name.as_bytes(), b".lock"].concat();
    let lock = OsStr::from_bytes(&lock);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = openat(&parent, lock, flags, Mode::from_raw_mode(0o644))?;
    let written = File::from(file).write_all(content);
    let replaced = written.and_then(|()| Ok(renameat(&parent, lock, &parent, name)?));
    if replaced.is_err() {
        let _ = unlinkat(&parent, lock, AtFlags::empty());
    }
    replaced
}

/// Removes a file or a link; `relative` is as in [`open`].
///
/// # Errors
/// When there is none, or it is a directory.
pub fn remove(top: &Path, relative: &Path) -> io::Result<()> {
    let (parent, name) = place(top, relative, false)?;
    Ok(unlinkat(&parent, name, AtFlags::empty())?)
}

/// Reads a regular file of at most `limit` bytes; `relative` is as in [`open`]. `None` when there is none, or it is
/// longer.
pub fn read(top: &Path, relative: &Path, limit: u64) -> Option<Vec<u8>> {
    let (file, length) = open_sized(top, relative)?;
    read_all(file, length, limit)
}

fn read_all(file: File, length: u64, limit: u64) -> Option<Vec<u8>> {
    // With room for all of it, it is read at once. It may grow meanwhile.
    let room = length.min(limit) + 1;
    let mut content = Vec::with_capacity(usize::try_from(room).unwrap_or(0));
    // One byte more than the limit tells a file that is too long from one that is just as long.
    file.take(limit + 1).read_to_end(&mut content).ok()?;
    (content.len() as u64 <= limit).then_some(content)
}

/// Reads what a commit can hold of a path: the mode and the bytes of a regular file, or of a symlink the place it leads to;
/// otherwise as [`read`].
pub(in crate::git) fn content(top: &Path, relative: &Path, limit: u64) -> Option<(u32, Vec<u8>)> {
    let (parent, name) = place(top, relative, false).ok()?;
    // Asked first, because it fails for anything but a symlink, and opening a symlink here would
    // fail.
    if let Ok(target) = readlinkat(&parent, name, Vec::new()) {
        return Some((SYMLINK, target.into_bytes()));
    }
    let (file, metadata) = open_in(&parent, name)?;
    let mode = match metadata.mode() & 0o100 {
        0 => FILE,
        _ => EXECUTABLE,
    };
    Some((mode, read_all(file, metadata.len(), limit)?))
}

/// As [`open`], for a file by its path: what leads to its directory is trusted.
pub fn open_at(path: &Path) -> Option<File> {
    // `O_NOFOLLOW` holds for the last part alone.
    open_in(CWD, path.as_os_str()).map(|(file, _)| file)
}

/// As [`read`], for a file as in [`open_at`].
pub fn read_at(path: &Path, limit: u64) -> Option<Vec<u8>> {
    let (file, metadata) = open_in(CWD, path.as_os_str())?;
    read_all(file, metadata.len(), limit)
}

/// Whether the file of an object is there and does not begin as deflated data does (RFC 1950): a power loss leaves no or other bytes.
pub(in crate::git) fn is_lost_object(path: &Path) -> bool {
    let Some(mut file) = open_at(path) else {
        return false;
    };
    let mut header = [0; 2];
    match file.read_exact(&mut header) {
        Ok(()) => header[0] & 0x0f != 8 || u16::from_be_bytes(header) % 31 != 0,
        Err(error) => error.kind() == io::ErrorKind::UnexpectedEof,
    }
}

/// Whether two directories hold the same regular file at a path, which is as in [`open`]. Any doubt is a no. A few pages are read at a
/// time: room for all of an index takes longer than reading it.
pub fn are_equal(tops: [&Path; 2], relative: &Path) -> bool {
    let [Some((one, length)), Some((two, other))] = tops.map(|top| open_sized(top, relative))
    else {
        return false;
    };
    length == other && have_same_bytes([one, two]).unwrap_or(false)
}

fn have_same_bytes([one, two]: [File; 2]) -> io::Result<bool> {
    let mut buffers = [[0; PIECE]; 2];
    let [left, right] = &mut buffers;
    let (mut one, mut two) = (one, two);
    loop {
        let length = one.read(left)?;
        if length == 0 {
            return Ok(two.read(right)? == 0);
        }
        let Some((left, right)) = left.get(..length).zip(right.get_mut(..length)) else {
            return Ok(false);
        };
        match two.read_exact(right) {
            Ok(()) if left == right => {}
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => return Err(error),
            _ => return Ok(false),
        }
    }
}

/// Copies a regular file of at most `limit` bytes, opened as in [`open_at`]. The copy looks as old as what it is copied
/// from: of an index, a file that was written in the same moment is then still looked into. Gives what was copied, open.
///
/// # Errors
/// `io`, also for anything but such a file; `disk-full`.
pub fn copy_as_old(from: &Path, to: &Path, limit: u64) -> Result<File> {
    let file = open_at(from).ok_or_else(|| not_copied(from, limit))?;
    copy_open_as_old(&file, from, to, limit)?;
    Ok(file)
}

/// As [`copy_as_old`], of a file that was opened at `from`.
///
/// # Errors
/// As [`copy_as_old`].
pub fn copy_open_as_old(file: &File, from: &Path, to: &Path, limit: u64) -> Result<()> {
    // The time is that of before the copy: a write meanwhile leaves the copy older than its entries
    // at worst, and git then reads the files.
    let metadata = file.metadata().at("could not read", from)?;
    let mut copy = File::create(to).at("could not write", to)?;
    // It may grow while it is read.
    let copied = io::copy(&mut file.take(limit + 1), &mut copy).at("could not write", to)?;
    if copied > limit {
        return Err(not_copied(from, limit));
    }
    let dated = metadata.modified().and_then(|modified| copy.set_modified(modified));
    let moded = dated.and_then(|()| copy.set_permissions(metadata.permissions()));
    moded.at("could not write", to)
}

fn not_copied(from: &Path, limit: u64) -> Error {
    let shown = from.display();
    let what = format!("could not copy {shown}: it is no regular file of at most {limit} bytes");
    let word = shell::path(from);
    Error::new(Code::Io, what).hint(format!("to see what it is, run ls -l {word}"))
}

/// The names in a directory, sorted; none where it cannot be listed.
pub fn names(top: &Path) -> Vec<OsString> {
    let entries = fs::read_dir(top).into_iter().flatten();
    let mut names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
    names.sort_unstable();
    names
}

/// The regular files below a directory, relative to it and sorted. Links are left out, with what they lead to.
pub fn files(top: &Path) -> Vec<PathBuf> {
    files_except(top, "")
}

/// As [`files`], without what is below one of the names in the directory.
pub fn files_except(top: &Path, left_out: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![PathBuf::new()];
    while let Some(directory) = open.pop() {
        let Ok(entries) = fs::read_dir(top.join(&directory)) else {
            continue;
        };
        for entry in entries.flatten() {
            let path = directory.join(entry.file_name());
            if path == Path::new(left_out) {
                continue;
            }
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && path.components().count() < DEEPEST => open.push(path),
                Ok(kind) if kind.is_file() && found.len() < MOST => found.push(path),
                _ => {}
            }
        }
    }
    found.sort_unstable();
    found
}

/// The longest pointer, `HEAD` or reason for a lock, in bytes.
const LONGEST_TEXT: u64 = 1 << 16;

/// The longest ref file, and the longest reflog, configuration file and list of alternates that is looked at.
const LONGEST_LOG: u64 = 1 << 28;

/// The longest index that is looked at: that of ten million files.
pub(in crate::git) const LONGEST_INDEX: u64 = 1 << 30;

/// What libgit2 and git read of a git dir as soon as it is opened, or when a commit or the index is asked for.
const OPENED: [(&str, u64); 7] = [
    ("HEAD", LONGEST_TEXT),
    ("commondir", LONGEST_TEXT),
    ("gitdir", LONGEST_TEXT),
    ("MERGE_HEAD", LONGEST_TEXT),
    ("index", LONGEST_INDEX),
    ("config.worktree", LONGEST_LOG),
    ("logs/HEAD", LONGEST_LOG),
];

/// What they read of the directory that worktrees share.
const OPENED_SHARED: [(&str, u64); 9] = [
    ("config", LONGEST_LOG),
    ("packed-refs", LONGEST_INDEX),
    ("shallow", LONGEST_LOG),
    ("info/grafts", LONGEST_LOG),
    ("info/attributes", LONGEST_LOG),
    ("info/exclude", LONGEST_LOG),
    ("objects/info/alternates", LONGEST_LOG),
    ("objects/info/commit-graph", LONGEST_PACK),
    ("objects/info/packs", LONGEST_LOG),
];

/// No pack is longer than a disk.
const LONGEST_PACK: u64 = u64::MAX;

/// The text of a small file, such as `HEAD` or the `.git` file of a worktree; `None` as for [`read`].
pub fn text(top: &Path, relative: &str) -> Option<String> {
    let bytes = read(top, Path::new(relative), LONGEST_TEXT)?;
    String::from_utf8(bytes).ok()
}

/// The lines of a reflog; none where it cannot be read.
pub fn log(top: &Path, relative: &Path) -> Vec<u8> {
    read(top, relative, LONGEST_LOG).unwrap_or_default()
}

/// Checks that nothing in a git dir keeps the reader waiting: libgit2 and git open these files, and the branch that
/// `HEAD` names, whatever they are.
///
/// # Errors
/// `repo-corrupt`, naming the file.
pub fn require_openable(git_dir: &Path) -> Result<()> {
    OPENED.iter().try_for_each(|(name, limit)| require_regular(&git_dir.join(name), *limit))?;
    let common_dir = match text(git_dir, "commondir") {
        Some(common_dir) => git_dir.join(common_dir.trim_end()),
        None => git_dir.to_owned(),
    };
    require_shared(&common_dir)?;
    let head = text(git_dir, "HEAD").unwrap_or_default();
    // A detached HEAD names no file.
    match head.strip_prefix("ref: ").map(str::trim_end) {
        Some(branch) => require_regular(&common_dir.join(branch), LONGEST_TEXT),
        None => Ok(()),
    }
}

/// As [`require_openable`], for the directory that worktrees share, with its packs.
fn require_shared(common_dir: &Path) -> Result<()> {
    OPENED_SHARED
        .iter()
        .try_for_each(|(name, limit)| require_regular(&common_dir.join(name), *limit))?;
    let packs = fs::read_dir(common_dir.join("objects/pack"));
    for pack in packs.into_iter().flatten().flatten() {
        // Most packs are plain files, which the listing tells at no cost; only the others are
        // looked at.
        if !pack.file_type().is_ok_and(|kind| kind.is_file()) {
            require_regular(&pack.path(), LONGEST_PACK)?;
        }
    }
    Ok(())
}

/// Checks that a file, if there is one, is a regular file or a directory, and not longer than a limit.
///
/// # Errors
/// `repo-corrupt`, naming the file.
pub(in crate::git) fn require_regular(path: &Path, limit: u64) -> Result<()> {
    // Git follows a link here.
    let what = match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() && metadata.len() > limit => {
            format!("is longer than {limit} bytes")
        }
        Ok(metadata) if !metadata.is_file() && !metadata.is_dir() => {
            "is neither a file nor a directory".to_owned()
        }
        _ => return Ok(()),
    };
    let word = shell::path(path);
    let what = format!("{} {what}", path.display());
    Err(Error::new(Code::RepoCorrupt, what).hint(format!("to see what it is, run ls -l {word}")))
}

/// Whether this is the device by which an upper directory says that nothing is there.
pub(super) fn is_whiteout_device(found: &Metadata) -> bool {
    found.file_type().is_char_device() && found.rdev() == 0
}

/// As [`require_regular`], for a file of a worktree, which may be an upper directory: opening what says there that a file is gone fails
/// at once.
///
/// # Errors
/// `file-too-long`, naming the file, its length and the limit; `repo-corrupt` for what is no file.
pub(in crate::git) fn require_file(path: &Path, limit: u64) -> Result<()> {
    if fs::symlink_metadata(path).is_ok_and(|found| is_whiteout_device(&found)) {
        return Ok(());
    }
    let length = fs::metadata(path).map_or(0, |metadata| metadata.len());
    if length <= limit || !path.is_file() {
        return require_regular(path, limit);
    }
    let shown = path.display();
    let what = format!("{shown} is {length} bytes long, and the limit is {limit} bytes");
    Err(Error::new(Code::FileTooLong, what)
        .hint(format!(
            "to go on, move it out of the worktree: mv {} <elsewhere>",
            shell::path(path)
        ))
        .hint("to leave such files out, name them in a .gitignore"))
}

/// Checks that a loose ref can be read: it is absent, or a file of a sensible length.
///
/// # Errors
/// `repo-corrupt`, naming the file.
pub(in crate::git) fn require_ref(path: &Path) -> Result<()> {
    require_regular(path, LONGEST_TEXT)
}

/// Checks that a directory of refs can be listed: below it is no link to a directory, which git and libgit2 follow, and
/// nothing that keeps a reader waiting.
///
/// # Errors
/// `repo-corrupt`, naming the file.
pub(in crate::git) fn require_listable(refs: &Path) -> Result<()> {
    for entry in WalkDir::new(refs).into_iter().flatten() {
        let path = entry.path();
        if entry.path_is_symlink() && path.is_dir() {
            let what = format!(
                "{} is a link to a directory, so listing the refs may never end",
                path.display()
            );
            let shown = shell::path(path);
            return Err(Error::new(Code::RepoCorrupt, what)
                .hint(format!("to see where it leads, run ls -l {shown}"))
                .hint(format!("to remove it, run rm {shown}")));
        }
        if !entry.file_type().is_dir() {
            require_ref(path)?;
        }
    }
    Ok(())
}

/// Whether a directory has a file somewhere below it. What cannot be read may be one; no link is followed.
pub(crate) fn has_files(directory: &Path) -> bool {
    let mut entries = WalkDir::new(directory).into_iter();
    entries.any(|entry| entry.map_or(true, |entry| !entry.file_type().is_dir()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_equal_where_every_byte_is() {
        let directory = tempfile::tempdir().expect("made");
        let tops = ["one", "two"].map(|name| directory.path().join(name));
        let are_equal = |contents: [&[u8]; 2]| {
            for (top, content) in tops.iter().zip(contents) {
                fs::create_dir_all(top).expect("made");
                fs::write(top.join("index"), content).expect("written");
            }
            are_equal([&tops[0], &tops[1]], Path::new("index"))
        };
        let long = vec![7; 2 * PIECE + 1];
        assert!(are_equal([b"", b""]));
        assert!(are_equal([&long, &long]));
        for at in [0, PIECE - 1, PIECE, 2 * PIECE] {
            let mut other = long.clone();
            other[at] = 8;
            assert!(!are_equal([&long, &other]), "{at}");
        }
        assert!(!are_equal([&long, &long[..2 * PIECE]]));
        assert!(!are_equal([b"", b"a"]));
        fs::remove_file(tops[1].join("index")).expect("removed");
        assert!(!super::are_equal([&tops[0], &tops[1]], Path::new("index")));
    }
}
