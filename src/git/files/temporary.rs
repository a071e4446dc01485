//! Directories for temporary files, and removing those that killed processes left.
//!
//! A process that uses such a directory holds a shared OS lock on the directory itself, which the kernel drops when the process
//! ends in any way. So one that can be locked for one process alone is in use by none, however old it is. The place is often
//! `/tmp`, where others write too: what is removed bears a name of ours, is a directory and no link, and belongs to our user.

use super::descent::{self, open_by_force};
use crate::error::{Code, Error, IoContext, Result};
use rustix::fs::CWD;
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// What the name of each begins with.
const PREFIX: &str = "git-agent-tmp-";

/// A directory that only its owner can enter, removed when this is dropped.
#[derive(Debug)]
pub struct TemporaryDirectory {
    path: PathBuf,
    _held: File,
}

impl TemporaryDirectory {
    /// Makes one in a directory; `purpose` becomes part of its name.
    ///
    /// # Errors
    /// `repo-read-only` where the user may not, `io`, `disk-full`.
    pub fn make(place: &Path, purpose: &str) -> Result<TemporaryDirectory> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let process = std::process::id();
        fs::create_dir_all(place).map_err(|error| not_made(place, error))?;
        loop {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = place.join(format!("{PREFIX}{purpose}-{process}-{count}"));
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                // Left by a process of the same number.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                made => made.map_err(|error| not_made(&path, error))?,
            }
            // Another process may look at it between its making and its locking, and remove it.
            match hold(&path).at("could not lock", &path)? {
                Some(held) => return Ok(TemporaryDirectory { path, _held: held }),
                None => drop(fs::remove_dir(&path)),
            }
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        // What cannot be removed now is left to a sweep.
        let _ = descent::remove(&self.path);
    }
}

/// Where the user may not write is no fault of what was to be looked at.
fn not_made(path: &Path, error: io::Error) -> Error {
    let what = format!("could not make {}", path.display());
    if error.kind() == ErrorKind::PermissionDenied {
        return Error::new(Code::RepoReadOnly, what).because(error);
    }
    Error::io(what, error)
}

/// Whether this process may write there.
pub fn is_writable(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok()
}

/// Keeps a directory from being swept as long as the file is open; `None` where it is being swept.
///
/// # Errors
/// Those of opening it.
pub fn hold(path: &Path) -> io::Result<Option<File>> {
    let directory = match open_by_force(CWD, path.as_os_str()) {
        Ok(directory) => directory,
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let is_free = match directory.try_lock_shared() {
        Err(TryLockError::WouldBlock) => false,
        // Where directories cannot be locked, none is swept.
        Ok(()) | Err(TryLockError::Error(_)) => true,
    };
    Ok((is_free && is_at(&directory, path)).then_some(directory))
}

/// How many directories in this place are in use by no process.
pub fn count_left(place: &Path) -> usize {
    left(place).count()
}

/// Removes the directories in this place that are in use by no process; gives how many there were.
pub fn sweep(place: &Path) -> usize {
    left(place).filter(|(path, _held)| descent::remove(path).is_ok()).count()
}

/// What killed processes left, each locked while the caller has it.
fn left(place: &Path) -> impl Iterator<Item = (PathBuf, File)> {
    let own = rustix::process::geteuid().as_raw();
    let entries = fs::read_dir(place).into_iter().flatten().flatten();
    let named = entries.filter(|entry| {
        let name = entry.file_name();
        name.as_encoded_bytes().starts_with(PREFIX.as_bytes())
    });
    named.filter_map(move |entry| {
        let found = entry.metadata().ok()?;
        // The metadata are the entry's own, so a link is no directory here.
        if !found.is_dir() || found.uid() != own {
            return None;
        }
        let path = entry.path();
        // One whose permissions a command took away is ours all the same.
        let directory = open_by_force(CWD, path.as_os_str()).ok()?;
        directory.try_lock().ok()?;
        // The place may have got another directory of that name since it was listed.
        is_at(&directory, &path).then_some((path, directory))
    })
}

/// Whether an open directory of ours is still what bears this name.
fn is_at(directory: &File, path: &Path) -> bool {
    let identity = |found: fs::Metadata| (found.dev(), found.ino(), found.uid());
    let open = directory.metadata().map(identity).ok();
    open.is_some() && open == fs::symlink_metadata(path).map(identity).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn only_what_no_process_holds_is_swept_and_no_link_is_followed() {
        let scratch = tempfile::tempdir().expect("a directory");
        let place = scratch.path().join("tmp");
        let beside = scratch.path().join("beside");
        fs::create_dir(&place).expect("made");
        fs::create_dir(&beside).expect("made");
        fs::write(beside.join("file"), "stays").expect("written");
        let used = TemporaryDirectory::make(&place, "view").expect("made");
        fs::write(used.path().join("file"), "").expect("written");

        // What a killed process left: with a link out of it, with nothing, and with what is closed to all.
        for name in ["checks-1-0", "verify-1-1", "train-1-2"] {
            fs::create_dir(place.join(format!("{PREFIX}{name}"))).expect("made");
        }
        let left = place.join(format!("{PREFIX}checks-1-0"));
        symlink(&beside, left.join("link")).expect("linked");
        let closed = place.join(format!("{PREFIX}train-1-2"));
        fs::create_dir(closed.join("below")).expect("made");
        for path in [closed.join("below"), closed] {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).expect("closed");
        }

        // What is not ours to remove.
        symlink(&beside, place.join(format!("{PREFIX}link-1-3"))).expect("linked");
        fs::write(place.join(format!("{PREFIX}file-1-4")), "").expect("written");
        fs::create_dir(place.join("git-agent-other")).expect("made");

        // A supervisor holds what its parent made.
        let handed_on = TemporaryDirectory::make(&place, "run").expect("made");
        let path = handed_on.path().to_owned();
        let supervisor = hold(&path).expect("opened").expect("free");
        let TemporaryDirectory { _held, .. } = &handed_on;
        _held.unlock().expect("unlocked");

        // A process that another test starts has our open files between its fork and its exec, and with them our locks.
        let until = |expected: usize, look: &mut dyn FnMut() -> usize| {
            (0..5_000).any(|_| {
                std::thread::sleep(std::time::Duration::from_millis(2));
                look() == expected
            })
        };
        let swept = |expected: usize| {
            let mut count = 0;
            until(expected, &mut || {
                count += sweep(&place);
                count
            })
        };
        assert!(until(3, &mut || count_left(&place)));
        assert!(swept(3));
        assert!(used.path().join("file").exists() && path.exists());
        drop(supervisor);
        assert!(swept(1) && !path.exists());
        drop((used, handed_on));
        let mut names: Vec<_> = fs::read_dir(&place)
            .expect("there")
            .map(|entry| entry.expect("readable").file_name())
            .collect();
        names.sort_unstable();
        let file = format!("{PREFIX}file-1-4");
        let link = format!("{PREFIX}link-1-3");
        assert_eq!(names, ["git-agent-other", &file, &link]);
        assert!(beside.join("file").exists());
        assert_eq!(sweep(&scratch.path().join("absent")), 0);
    }

    #[test]
    fn processes_that_make_and_sweep_at_once_never_lose_one_in_use() {
        let scratch = tempfile::tempdir().expect("a directory");
        let start = std::sync::Barrier::new(4);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    start.wait();
                    for _ in 0..200 {
                        let made = TemporaryDirectory::make(scratch.path(), "view").expect("made");
                        fs::write(made.path().join("file"), "").expect("still there");
                    }
                });
                scope.spawn(|| {
                    start.wait();
                    for _ in 0..200 {
                        sweep(scratch.path());
                    }
                });
            }
        });
        sweep(scratch.path());
        assert_eq!(fs::read_dir(scratch.path()).expect("there").count(), 0);
    }
}
