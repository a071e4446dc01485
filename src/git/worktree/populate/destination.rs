//! The new worktree as a place to write to.
//!
//! Every file is created exclusively and without following a link, and symlinks are made after
//! everything else, so no path below the root leads through a symlink while content is written, not
//! even on a file system that takes `A` and `a` for one name. A file is created in its directory, which is
//! open: the kernel takes up to a sixth of the time of a small file to walk a long path to it.
//!
//! Every file's modification time is set two seconds before the index was begun. Git takes an entry
//! for racy, and reads the file again, when its time is not below the index's own; a file stamped
//! this way is never racy, and any later edit moves its time to the present, so none is missed.

use crate::domain::paths::path::split_name;
use crate::error::{Code, Error, IoContext, Result};
use gix::bstr::BStr;
use gix::index::entry::{Mode, Stat};
use rustix::fs::{AtFlags, OFlags, Timespec, Timestamps, UTIME_OMIT};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// How far back a file's modification time is set.
// Git as it is usually built compares whole seconds, so less than one would leave every entry racy.
const STEP_BACK_SECONDS: i64 = 2;

/// The root of a worktree that is being filled.
pub(super) struct Destination {
    root: OwnedFd,
    path: PathBuf,
    stamp: Timestamps,
}

impl Destination {
    /// Opens the directory at `path`. `now` is a file just created on the index's file system: its
    /// time is the one that git will compare with.
    ///
    /// # Errors
    /// `io` when the directory cannot be opened.
    pub(super) fn open(path: &Path, now: &File) -> Result<Destination> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
        let root = rustix::fs::open(path, flags, rustix::fs::Mode::empty())
            .map_err(|errno| failed("could not open the worktree", path, errno))?;
        // Of the file system and not of this machine's clock, which may differ from a server's.
        let now = now.metadata().at("could not read the clock of", path)?;
        let seconds = now.mtime() - STEP_BACK_SECONDS;
        let time = |seconds, nanoseconds| Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
        Ok(Destination {
            root,
            path: path.to_owned(),
            stamp: Timestamps {
                last_access: time(0, UTIME_OMIT),
                last_modification: time(seconds, 0),
            },
        })
    }

    /// The root.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Where an entry is.
    pub(super) fn absolute(&self, path: &[u8]) -> PathBuf {
        self.path.join(OsStr::from_bytes(path))
    }

    /// Makes a directory whose parent exists.
    ///
    /// # Errors
    /// `path-exists` when something other than a directory is there, else `disk-full` or `io`.
    pub(super) fn create_directory(&self, path: &[u8]) -> Result<()> {
        match rustix::fs::mkdirat(&self.root, path, rustix::fs::Mode::from_raw_mode(0o777)) {
            Ok(()) => Ok(()),
            // Names that differ only by case are one directory on some file systems.
            Err(Errno::EXIST) if self.is_directory(path) => Ok(()),
            Err(errno) => Err(self.failed("could not make the directory", path, errno)),
        }
    }

    /// Opens a directory, to create files in it; the root where the path is empty.
    ///
    /// # Errors
    /// `io`.
    pub(super) fn open_directory(&self, path: &[u8]) -> Result<OwnedFd> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
        let name = if path.is_empty() { b"." } else { path };
        rustix::fs::openat(&self.root, name, flags, rustix::fs::Mode::empty())
            .map_err(|errno| self.failed("could not open the directory", path, errno))
    }

    /// Creates a file that must not exist, open for reading and writing, executable if `mode` says so. `directory` is the one
    /// that the path is in.
    ///
    /// # Errors
    /// `path-exists` when something is there, as on a file system that takes two names of the tree
    /// for one; else `disk-full` or `io`.
    pub(super) fn create_file(&self, directory: &OwnedFd, path: &[u8], mode: Mode) -> Result<File> {
        let flags =
            OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let bits = if mode == Mode::FILE_EXECUTABLE { 0o777 } else { 0o666 };
        rustix::fs::openat(directory, file_name(path), flags, rustix::fs::Mode::from_raw_mode(bits))
            .map(File::from)
            .map_err(|errno| self.failed("could not create", path, errno))
    }

    /// Creates a file with this content and gives what the index records of it.
    ///
    /// # Errors
    /// As [`Destination::create_file`].
    pub(super) fn write_file(
        &self,
        directory: &OwnedFd,
        path: &[u8],
        mode: Mode,
        content: &[u8],
    ) -> Result<Stat> {
        let mut file = self.create_file(directory, path, mode)?;
        file.write_all(content).map_err(|error| self.io_error("could not write", path, error))?;
        self.seal(&file, path)
    }

    /// Ends a file: steps its time back and gives what the index records of it.
    ///
    /// # Errors
    /// `io`.
    pub(super) fn seal(&self, file: &File, path: &[u8]) -> Result<Stat> {
        // The time goes back before the stat is read: the status time changes with it, and the
        // index must hold the last one.
        rustix::fs::futimens(file, &self.stamp)
            .map_err(|errno| self.failed("could not set the time of", path, errno))?;
        gix::index::fs::Metadata::from_file(file)
            .map_err(|error| Error::io(self.what("could not read back", path), error))
            .and_then(|metadata| self.stat(&metadata, path))
    }

    /// As [`Destination::seal`] for something written by name; a symlink is not followed.
    ///
    /// # Errors
    /// `io`.
    pub(super) fn seal_by_name(&self, path: &[u8]) -> Result<Stat> {
        rustix::fs::utimensat(&self.root, path, &self.stamp, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|errno| self.failed("could not set the time of", path, errno))?;
        gix::index::fs::Metadata::from_path_no_follow(&self.absolute(path))
            .map_err(|error| Error::io(self.what("could not read back", path), error))
            .and_then(|metadata| self.stat(&metadata, path))
    }

    /// Makes a symlink and gives what the index records of it.
    ///
    /// # Errors
    /// As [`Destination::create_file`].
    pub(super) fn create_symlink(&self, target: &[u8], path: &[u8]) -> Result<Stat> {
        rustix::fs::symlinkat(target, &self.root, path)
            .map_err(|errno| self.failed("could not create the symlink", path, errno))?;
        self.seal_by_name(path)
    }

    /// Takes away a file that turned out to be wrong.
    ///
    /// # Errors
    /// `io`.
    pub(super) fn remove_file(&self, directory: &OwnedFd, path: &[u8]) -> Result<()> {
        rustix::fs::unlinkat(directory, file_name(path), AtFlags::empty())
            .map_err(|errno| self.failed("could not remove", path, errno))
    }

    /// An I/O error about a path of the worktree.
    pub(super) fn io_error(&self, what: &str, path: &[u8], error: std::io::Error) -> Error {
        Error::io(self.what(what, path), error)
    }

    fn is_directory(&self, path: &[u8]) -> bool {
        rustix::fs::statat(&self.root, path, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|stat| {
            rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Directory
        })
    }

    fn stat(&self, metadata: &gix::index::fs::Metadata, path: &[u8]) -> Result<Stat> {
        Stat::from_fs(metadata).map_err(|error| {
            Error::new(Code::Io, self.what("could not read back", path)).because(error)
        })
    }

    fn what(&self, what: &str, path: &[u8]) -> String {
        format!("{what} {} in {}", BStr::new(path), self.path.display())
    }

    fn failed(&self, what: &str, path: &[u8], errno: Errno) -> Error {
        if errno == Errno::EXIST {
            return Error::new(Code::PathExists, self.what(what, path))
                .because("something of that name, perhaps in another case, is there already");
        }
        self.io_error(what, path, errno.into())
    }
}

/// The last name of a path.
pub(super) fn file_name(path: &[u8]) -> &[u8] {
    split_name(path).map_or(path, |(_, name)| name)
}

fn failed(what: &str, path: &Path, errno: Errno) -> Error {
    Error::io(format!("{what} {}", path.display()), errno.into())
}
