//! Files written whole or not at all.

use super::layout;
use crate::domain::value::shell;
use crate::error::{Code, Error, IoContext, Result};
use crate::git::files::descent;
use crate::system;
use rustix::process::Pid;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{BufWriter, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use walkdir::WalkDir;

/// What is added to the name of a file that was set aside.
const ASIDE: &str = ".altered";

/// Distinguishes the temporary files of one process.
static SERIAL: AtomicU32 = AtomicU32::new(0);

/// Replaces `path` by a file with this content: readers see the old one or the new one. Not flushed
/// to the disk: after a power loss it may be empty, like git's own loose objects.
///
/// # Errors
/// `disk-full`, `repo-read-only`, `io`; nothing is left behind.
pub fn write_atomic(path: &Path, content: &[u8]) -> Result<()> {
    write_atomic_by(path, |file| file.write_all(content))
}

/// Writes what a user wants to have in a file of their own naming. What is no file, such as a pipe or `/dev/stdout`, is written into and stays.
/// A link to a file is replaced: an agent could have put one there.
///
/// # Errors
/// As [`write_atomic`].
pub fn write_out(path: &Path, content: &[u8]) -> Result<()> {
    let is_device = fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir());
    // A stream may be led into a file, of which this is the end.
    if !is_device && !matches!(path.to_str(), Some("/dev/stdout" | "/dev/stderr")) {
        return write_atomic(path, content);
    }
    let open = fs::File::options().append(true).open(path);
    open.and_then(|mut file| file.write_all(content)).map_err(|error| not_writable(path, error))
}

/// As [`write_atomic`], with content that is made while it is written.
///
/// # Errors
/// As [`write_atomic`].
pub fn write_atomic_by(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
) -> Result<()> {
    let temporary = write_beside(path, write)?;
    fs::rename(&temporary, path).map_err(|error| {
        let _ = fs::remove_file(&temporary);
        not_writable(path, error)
    })
}

/// Makes `path` with this content unless something is there already; `false` then. Whichever writer wins,
/// the file is complete from the first moment it can be seen.
///
/// # Errors
/// As [`write_atomic`].
pub fn create_atomic(path: &Path, content: &[u8]) -> Result<bool> {
    let temporary = write_beside(path, |file| file.write_all(content))?;
    // A link and not a rename, which would replace what another writer has just made.
    let linked = fs::hard_link(&temporary, path);
    let _ = fs::remove_file(&temporary);
    match linked {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(not_writable(path, error)),
    }
}

/// Makes a directory and those above it.
///
/// # Errors
/// As [`write_atomic`].
pub fn create_dir(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(|error| not_writable(path, error))
}

/// Reads a file that may be absent.
///
/// # Errors
/// `io`.
pub fn load_if_there(path: &Path) -> Result<Option<Vec<u8>>> {
    let mut content = Vec::new();
    let read = open(path).and_then(|mut file| file.read_to_end(&mut content));
    let length = read.at_if_there("could not read", path)?;
    Ok(length.map(|_| content))
}

/// Opens a regular file for reading. Anything else, as a FIFO that would keep its reader waiting, is an error.
///
/// # Errors
/// Those of the file system; `InvalidInput` for anything but a regular file.
pub fn open(path: &Path) -> std::io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let flags = rustix::fs::OFlags::NONBLOCK.bits();
    let file = OpenOptions::new().read(true).custom_flags(flags as i32).open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, "it is no regular file"))
    }
}

/// Whether the users who share the repository read and write private files, too.
static SHARES_PRIVATE: AtomicBool = AtomicBool::new(false);

/// Lets those who share the repository, by the umask of this process, read and write what it writes from now on as private: each runs and
/// discards the agents of all.
pub fn share_private_files() {
    SHARES_PRIVATE.store(true, Ordering::Relaxed);
}

fn private_mode() -> u32 {
    if SHARES_PRIVATE.load(Ordering::Relaxed) { 0o660 } else { 0o600 }
}

/// Opens a regular file of this name for reading and writing, and makes one that its owner alone may read where there is none. A link
/// is not followed.
///
/// # Errors
/// As [`write_atomic`]; `io` for anything but a regular file.
pub fn open_private(path: &Path) -> Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOFOLLOW;
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(private_mode())
        .custom_flags(flags.bits() as i32)
        .open(path);
    let is_regular = |file: &File| file.metadata().is_ok_and(|metadata| metadata.is_file());
    match file {
        Ok(file) if is_regular(&file) => Ok(file),
        Ok(_) => Err(Error::io(
            "could not use a place that is no regular file",
            std::io::ErrorKind::InvalidInput.into(),
        )),
        Err(error) => Err(not_writable(path, error)),
    }
}

/// The end of a regular file as text: this many bytes at the most.
///
/// # Errors
/// As [`open`].
pub fn end_of(path: &Path, most: u64) -> std::io::Result<String> {
    let mut file = open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(most)))?;
    let mut bytes = Vec::new();
    // It may grow meanwhile.
    file.take(most).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Adds to the end of a file, which is made where there is none.
///
/// # Errors
/// As [`write_atomic`].
pub fn append(path: &Path, content: &[u8]) -> Result<()> {
    let opened = OpenOptions::new().create(true).append(true).open(path);
    opened.and_then(|mut file| file.write_all(content)).map_err(|error| not_writable(path, error))
}

/// Replaces `path` by a file that only its owner may read, from the first moment on.
///
/// # Errors
/// As [`write_atomic`].
pub fn write_private(path: &Path, content: &[u8]) -> Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let temporary = unique_name(path);
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(private_mode())
        .open(&temporary)
        .and_then(|mut file| file.write_all(content))
        .and_then(|()| fs::rename(&temporary, path))
        .map_err(|error| {
            let _ = fs::remove_file(&temporary);
            not_writable(path, error)
        })
}

/// Takes a file out of the way and keeps it: it lies beside its place, with `.altered` at the end of its name
/// as often as it takes for that name to be free. Gives its place. What a symbolic link leads to stays where it is.
///
/// # Errors
/// `io`, `repo-read-only`.
pub fn set_aside(path: &Path) -> Result<PathBuf> {
    let mut free = aside(path);
    while fs::symlink_metadata(&free).is_ok() {
        free = aside(&free);
    }
    fs::rename(path, &free).at("could not set aside", path)?;
    Ok(free)
}

/// Where [`set_aside`] puts the first file of a name.
pub fn aside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(ASIDE);
    path.with_file_name(&name)
}

/// The first number that is no name in a directory, as a path.
pub fn free_place(directory: &Path) -> PathBuf {
    let places = (1..).map(|number: u64| directory.join(number.to_string()));
    places
        .into_iter()
        .find(|place| fs::symlink_metadata(place).is_err())
        .unwrap_or_else(|| directory.join("0"))
}

/// A name beside `path` that no other process or thread uses.
pub fn unique_name(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    name.push(format!(".{}-{serial}.tmp", std::process::id()));
    path.with_file_name(name)
}

/// Whether a file name is one that [`unique_name`] gave.
pub fn is_unique_name(name: &OsStr) -> bool {
    maker_of(name).is_some()
}

/// Whether a file name is one that [`unique_name`] gave in a process that is gone, so that nothing will become of the file.
pub fn is_left_over(name: &OsStr) -> bool {
    let maker = maker_of(name).and_then(|number| number.parse().ok());
    maker
        // A number that was given anew only keeps the file a while longer.
        .and_then(Pid::from_raw)
        .is_some_and(|maker| !system::is_alive(maker))
}

/// The number of the process that gave a file its name by [`unique_name`].
fn maker_of(name: &OsStr) -> Option<String> {
    let name = name.to_str()?.strip_suffix(".tmp")?;
    let (process, serial) = name.rsplit_once('.')?.1.split_once('-')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    (is_number(process) && is_number(serial)).then(|| process.to_owned())
}

fn write_beside(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
) -> Result<PathBuf> {
    let temporary = unique_name(path);
    let written = File::create(&temporary).and_then(|file| {
        let mut file = BufWriter::new(file);
        write(&mut file)?;
        file.flush()
    });
    written.map_err(|error| {
        let _ = fs::remove_file(&temporary);
        not_writable(path, error)
    })?;
    Ok(temporary)
}

/// A failed write inside the repository: without permission it is as read-only as a read-only disk.
pub(in crate::store) fn not_writable(path: &Path, error: std::io::Error) -> Error {
    let what = format!("could not write {}", path.display());
    if error.kind() == std::io::ErrorKind::PermissionDenied {
        return Error::new(Code::RepoReadOnly, what)
            .hint(format!("to see who may write there, run ls -ld {}", shell::path(path)))
            .because(error);
    }
    Error::io(what, error)
}

// Removing a directory: renamed away first, so that what bears its name is whole or gone.

/// At how many files is looked to tell what they take of the disk.
const LOOKED_AT: usize = 100_000;

/// The unit in which the system counts what a file takes of the disk, in bytes.
const BLOCK: u64 = 512;

/// Renames a directory into `<common dir>/agents/trash/` and deletes it there. On another file system,
/// where it cannot be renamed, or on one that is full, it is deleted in place. Symlinks are removed, never followed.
///
/// # Errors
/// `io`.
pub fn remove_by_trash(common_dir: &Path, directory: &Path) -> Result<()> {
    match move_to_trash(common_dir, directory)? {
        Some(name) => delete(&layout::trash_dir(common_dir).join(name)),
        None => Ok(()),
    }
}

/// Renames a directory into the trash and gives its name there, to be deleted later.
/// `None` when it is gone at once.
///
/// # Errors
/// `io`.
pub fn move_to_trash(common_dir: &Path, directory: &Path) -> Result<Option<String>> {
    require_unmounted(directory, Code::Io)?;
    let trash = layout::trash_dir(common_dir);
    let name = directory.file_name().unwrap_or_default().to_string_lossy();
    let moved = unique_name(&trash.join(name.as_ref()));
    let renamed = fs::create_dir_all(&trash).and_then(|()| rename_directory(directory, &moved));
    match renamed {
        Ok(()) => {
            let name = moved.file_name().unwrap_or_default();
            Ok(Some(name.to_string_lossy().into_owned()))
        }
        // On a full disk there may be no room even for the trash; deleting makes some.
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::CrossesDevices | ErrorKind::StorageFull | ErrorKind::QuotaExceeded
            ) =>
        {
            delete(directory).map(|()| None)
        }
        Err(error) => Err(error).at("could not move away", directory),
    }
}

/// Refuses a directory in which something is mounted: what that shows is elsewhere, and must not be deleted along.
///
/// # Errors
/// One with this code.
pub fn require_unmounted(directory: &Path, code: Code) -> Result<()> {
    let Some(mount) = system::mount_below(directory) else {
        return Ok(());
    };
    let (shown, word) = (mount.display(), shell::path(&mount));
    Err(Error::new(code, format!("{shown} is a mount of its own"))
        .hint(format!("to take it away, run umount {word}")))
}

/// Renames a directory, also one that its owner may not write; what is anything else is renamed as well.
///
/// # Errors
/// Those of the file system.
pub fn rename_directory(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::rename(from, to).or_else(|error| {
        let is_closed = error.kind() == ErrorKind::PermissionDenied
            && fs::symlink_metadata(from).is_ok_and(|found| found.is_dir());
        if !is_closed {
            return Err(error);
        }
        // Moving a directory changes what it says of the one above, which takes the right to write it.
        fs::set_permissions(from, Permissions::from_mode(0o700))?;
        fs::rename(from, to)
    })
}

/// Deletes what [`move_to_trash`] gave these names. What cannot be deleted stays for the next time.
pub fn empty_trash(common_dir: &Path, names: &[String]) {
    for name in names {
        // A bare file name: nothing outside of the trash is ever deleted.
        if Path::new(name).file_name() == Some(name.as_ref()) {
            let _ = delete(&layout::trash_dir(common_dir).join(name));
        }
    }
}

/// The numbers of which a directory has a file with this extension. One that cannot be read has none.
pub fn numbers_in(directory: &Path, extension: &str) -> BTreeSet<u32> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let number = |name: OsString| {
        let (number, is) = name.to_str()?.split_once('.')?;
        number.parse().ok().filter(|_| is == extension)
    };
    entries.filter_map(|entry| number(entry.file_name())).collect()
}

/// What has lain in the trash since before that moment, in seconds since the epoch: the process that was deleting
/// it is gone.
pub fn left_behind(common_dir: &Path, before: i64) -> Vec<String> {
    use std::os::unix::fs::MetadataExt;
    let entries = fs::read_dir(layout::trash_dir(common_dir));
    // By ctime, which the rename into the trash sets; the time of the last change may be years
    // back.
    let old = |entry: &fs::DirEntry| entry.metadata().is_ok_and(|file| file.ctime() < before);
    let entries = entries.into_iter().flatten().flatten().filter(old);
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// How much of the disk these take, in bytes, as far as their first 100,000 files tell.
pub fn disk_use(places: &[PathBuf]) -> u64 {
    let files = places.iter().flat_map(|place| WalkDir::new(place).into_iter().flatten());
    files.take(LOOKED_AT).map(|file| disk_use_of(&file)).sum()
}

/// How much of the disk the first names below a place take, in bytes, and how many were looked at: `most` where there are more.
pub fn disk_use_of_first(place: &Path, most: usize) -> (u64, usize) {
    let files = WalkDir::new(place).into_iter().flatten().take(most);
    files.fold((0, 0), |(bytes, count), file| (bytes + disk_use_of(&file), count + 1))
}

fn disk_use_of(file: &walkdir::DirEntry) -> u64 {
    use std::os::unix::fs::MetadataExt;
    // What has several names counts a part for each, as the indexes of layered worktrees do.
    file.metadata().map_or(0, |file| {
        let names = if file.is_dir() { 1 } else { file.nlink() };
        file.blocks() * BLOCK / names.max(1)
    })
}

/// Deletes a directory where it is, whatever the modes below it say.
///
/// # Errors
/// `io`.
pub fn remove_tree(directory: &Path) -> Result<()> {
    delete(directory)
}

/// How much an ordinary user can still write to the file system on which a path is, or would be, in bytes.
///
/// # Errors
/// `io`.
pub fn free_space(path: &Path) -> Result<u64> {
    let there = path.ancestors().find(|place| place.exists());
    let there = there.unwrap_or(Path::new("/"));
    let told = rustix::fs::statvfs(there).map_err(std::io::Error::from);
    let told = told.at("could not ask for the free space of", there)?;
    Ok(told.f_bavail.saturating_mul(told.f_frsize))
}

fn delete(doomed: &Path) -> Result<()> {
    descent::remove(doomed).at("could not remove", doomed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_file_keeps_no_reader_waiting() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("fifo");
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(made.expect("mkfifo").success());
        let error = load_if_there(&path).expect_err("no file");
        assert_eq!(error.code(), Code::Io);
        let error = load_if_there(directory.path()).expect_err("no file");
        assert_eq!(error.code(), Code::Io);
        let absent = load_if_there(&directory.path().join("absent"));
        assert_eq!(absent.expect("looked for"), None);
    }
}
