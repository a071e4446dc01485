//! OS locks between processes of ours.
//!
//! The lock is on an open file, so the kernel releases it however the holder ends. Two processes could hold "the" lock on two
//! inodes if the file were unlinked meanwhile. `uninstall` alone does that, while it holds the lock, so a lock on a file without
//! a name counts for nothing and is taken again. Waiting is left to the kernel, which queues waiters; polling starves the
//! unlucky (measured with 64 writers).

use super::fsx;
use crate::error::{Code, Error, IoContext, Result};
use std::fs::{File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

/// How long a lock is waited for. An append takes milliseconds; a process that waits this long waits for a
/// stopped process.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A held lock; dropping it releases it.
#[must_use = "the lock is released when the guard is dropped"]
#[derive(Debug)]
pub struct Guard {
    file: File,
    path: PathBuf,
    /// Whether the open file was asked for: another process may have it, and holds the lock on.
    is_shared: AtomicBool,
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Closing the file would do, but for a child that a thread of ours starts right now: until it is the program
        // that it is to be, it has the file open too, and the next one to try finds the lock held.
        if !self.is_shared.load(Ordering::Relaxed) {
            let _ = self.file.unlock();
        }
    }
}

impl Guard {
    fn of(file: File, path: PathBuf) -> Guard {
        Guard {
            file,
            path,
            is_shared: AtomicBool::new(false),
        }
    }

    /// The open file. The lock is held as long as it is open in any process that was handed it.
    pub fn file(&self) -> &File {
        self.is_shared.store(true, Ordering::Relaxed);
        &self.file
    }
}

/// Whether a process holds the lock `name`; nothing is made for asking.
///
/// # Errors
/// `io`.
pub fn is_held(common_dir: &Path, name: &str) -> Result<bool> {
    let path = super::layout::agents_dir(common_dir).join(name);
    let Some(file) = fsx::open(&path).at_if_there("could not open", &path)? else {
        return Ok(false);
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error).at("could not lock", &path),
    }
}

/// Calls `then` on a thread of its own as soon as the lock `name` is free; at once where there is no
/// such lock. The process may end before.
///
/// # Errors
/// `io`.
pub fn when_free(
    common_dir: &Path,
    name: &str,
    then: impl FnOnce() + Send + 'static,
) -> Result<()> {
    let path = super::layout::agents_dir(common_dir).join(name);
    let file = fsx::open(&path).at_if_there("could not open", &path)?;
    let start = std::thread::Builder::new().name("lock".into());
    let started = start.spawn(move || {
        // A lock that cannot be waited for is as good as free: the caller looks again.
        drop(file.map(|file| file.lock_shared().map(|()| file)));
        then();
    });
    started.map(drop).at("could not wait for", &path)
}

/// Waits until the lock `name` is free, or for [`PATIENCE`]; nothing is made for asking.
///
/// # Errors
/// `io`.
pub fn wait_until_free(common_dir: &Path, name: &str) -> Result<()> {
    let (sender, receiver) = mpsc::sync_channel(1);
    when_free(common_dir, name, move || {
        // Failing to send means that the waiter gave up.
        let _ = sender.send(());
    })?;
    let _ = receiver.recv_timeout(PATIENCE);
    Ok(())
}

/// Takes the lock `name` (a constant of [`super::layout`]) of a repository.
///
/// # Errors
/// `lock-timeout` after [`PATIENCE`], `repo-read-only` or `io` when the file cannot be made.
pub fn hold(common_dir: &Path, name: &str) -> Result<Guard> {
    hold_for(common_dir, name, PATIENCE)
}

/// As [`hold`], with another patience.
///
/// # Errors
/// As [`hold`].
pub fn hold_for(common_dir: &Path, name: &str, patience: Duration) -> Result<Guard> {
    loop {
        let guard = hold_file(common_dir, name, patience)?;
        let metadata = guard.file.metadata();
        if metadata.at("could not look at", &guard.path)?.nlink() > 0 {
            return Ok(guard);
        }
    }
}

/// As [`hold_for`]; the file may have been unlinked before it was locked.
fn hold_file(common_dir: &Path, name: &str, patience: Duration) -> Result<Guard> {
    let directory = super::layout::agents_dir(common_dir);
    let path = directory.join(name);
    let file = open(&path).or_else(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            fsx::create_dir(&directory)?;
            open(&path).map_err(|error| fsx::not_writable(&path, error))
        }
        _ => Err(fsx::not_writable(&path, error)),
    })?;
    match file.try_lock() {
        Ok(()) => Ok(Guard::of(file, path)),
        Err(TryLockError::WouldBlock) => wait(file, path, patience),
        Err(TryLockError::Error(error)) => Err(error).at("could not lock", &path),
    }
}

/// Takes a lock unless it is held; `None` then.
///
/// # Errors
/// `repo-read-only` or `io` when the file cannot be made or locked.
pub fn try_hold(common_dir: &Path, name: &str) -> Result<Option<Guard>> {
    let path = super::layout::agents_dir(common_dir).join(name);
    if let Some(directory) = path.parent() {
        fsx::create_dir(directory)?;
    }
    let file = open(&path).map_err(|error| fsx::not_writable(&path, error))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(Guard::of(file, path))),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error).at("could not lock", &path),
    }
}

fn open(path: &Path) -> std::io::Result<File> {
    File::options()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(path)
}

/// Waits in the kernel's queue. A blocking lock cannot be given a time limit, so a thread blocks: when
/// the receiver is gone, the file that it sends is dropped, and the lock with it.
fn wait(file: File, path: PathBuf, patience: Duration) -> Result<Guard> {
    let (sender, receiver) = mpsc::sync_channel(1);
    std::thread::Builder::new()
        .name("lock".into())
        .spawn(move || {
            let locked = file.lock().map(|()| file);
            // Failing to send means that the waiter gave up.
            let _ = sender.send(locked);
        })
        .at("could not wait for", &path)?;
    match receiver.recv_timeout(patience) {
        Ok(locked) => Ok(Guard::of(locked.at("could not lock", &path)?, path)),
        Err(_) => Err(Error::new(
            Code::LockTimeout,
            format!(
                "waited {} s for the lock {}",
                patience.as_secs(),
                path.display()
            ),
        )
        .hint(format!(
            "to see who holds it, run fuser -v {}",
            path.display()
        ))),
    }
}
