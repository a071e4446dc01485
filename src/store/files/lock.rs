//! OS locks between processes of ours.
//!
//! The lock is on an open file, so the kernel releases it however the holder ends. Two processes could hold "the" lock on two
//! inodes if the file were unlinked meanwhile. `uninstall` alone does that, while it holds the lock, so a lock on a file without
//! a name counts for nothing and is taken again. Waiting is left to the kernel, which queues waiters; polling starves the
//! unlucky (measured with 64 writers).
//!
//! Who can read a file can lock it. A command in the sandbox of `run` does not see our locks where it has a mount namespace; elsewhere it
//! could keep others waiting, so a process behind a fence that holds one is found, and its run is ended (`FenceWatch`).

use super::fsx;
use crate::error::{Code, Error, IoContext, Result};
use crate::system::{FencedHolder, HolderSearch};
use rustix::fs::{Mode, OFlags};
use std::collections::BTreeSet;
use std::fs::{File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

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

/// The locks that this process holds. Who else would be asked, and the kernel takes milliseconds to say.
static OURS: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn ours() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    OURS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Guard {
    fn drop(&mut self) {
        ours().remove(&self.path);
        // Closing the file would do, but for a child that a thread of ours starts right now: until it is the program
        // that it is to be, it has the file open too, and the next one to try finds the lock held.
        if !self.is_shared.load(Ordering::Relaxed) {
            let _ = self.file.unlock();
        }
    }
}

impl Guard {
    fn of(file: File, path: PathBuf) -> Guard {
        ours().insert(path.clone());
        Guard { file, path, is_shared: AtomicBool::new(false) }
    }

    /// The open file. The lock is held as long as it is open in any process that was handed it.
    pub fn file(&self) -> &File {
        self.is_shared.store(true, Ordering::Relaxed);
        &self.file
    }
}

/// Lets a lock count as held for as long as this process lives: its supervisor holds it, and a sandbox hides it.
pub fn assume_held(common_dir: &Path, name: &str) {
    ours().insert(super::layout::agents_dir(common_dir).join(name));
}

/// Whether a process holds the lock `name`; nothing is made for asking.
///
/// # Errors
/// `io`, `lock-held`.
pub fn is_held(common_dir: &Path, name: &str) -> Result<bool> {
    let path = super::layout::agents_dir(common_dir).join(name);
    if ours().contains(&path) {
        return Ok(true);
    }
    let Some(file) = fsx::open(&path).at_if_there("could not open", &path)? else {
        return Ok(false);
    };
    // Shared, so that two processes that only ask do not take each other for a holder.
    Ok(!try_lock(&file, &path, false)?)
}

/// Whether a file that processes lock together is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holding {
    /// By at least one.
    Held,
    /// By none.
    Free,
    /// There is no such file.
    Gone,
}

/// Asks whether any process has a lock on a file, one that it shares with others too. Another process that asks at this moment counts as one.
///
/// # Errors
/// `io`, `lock-held`.
pub fn holding(path: &Path) -> Result<Holding> {
    let Some(file) = fsx::open(path).at_if_there("could not open", path)? else {
        return Ok(Holding::Gone);
    };
    // A shared lock would be granted beside the shared ones that are asked about.
    Ok(if try_lock(&file, path, true)? { Holding::Free } else { Holding::Held })
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
    let place = path.clone();
    let start = std::thread::Builder::new().name("lock".into());
    let started = start.spawn(move || {
        // A lock that cannot be waited for is as good as free: the caller looks again.
        drop(file.map(|file| wait(file, &place, Duration::MAX, File::lock_shared)));
        then();
    });
    started.map(drop).at("could not wait for", &path)
}

/// Waits until the lock `name` is free, or for [`PATIENCE`]; nothing is made for asking.
///
/// # Errors
/// `io`.
pub fn wait_until_free(common_dir: &Path, name: &str) -> Result<()> {
    let path = super::layout::agents_dir(common_dir).join(name);
    let file = fsx::open(&path).at_if_there("could not open", &path)?;
    match file.map(|file| wait(file, &path, PATIENCE, File::lock_shared)) {
        Some(Err(error)) if error.code() != Code::LockTimeout => Err(error),
        _ => Ok(()),
    }
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
    // Who is ready to wait long enough finds a holder behind a fence by waiting, and costs nothing while many wait for each other.
    let is_taken = match file.try_lock() {
        Err(TryLockError::WouldBlock) if patience < SUSPICION => try_lock(&file, &path, true)?,
        Err(TryLockError::WouldBlock) => false,
        Err(TryLockError::Error(error)) => return Err(error).at("could not lock", &path),
        Ok(()) => true,
    };
    if is_taken {
        return Ok(Guard::of(file, path));
    }
    let file = wait(file, &path, patience, File::lock)?;
    Ok(Guard::of(file, path))
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
    let is_taken = try_lock(&file, &path, true)?;
    Ok(is_taken.then(|| Guard::of(file, path)))
}

/// Waits until no other command of ours has this directory for itself; it is ours until what is given is dropped. For commands behind one
/// fence, which can make no lock file.
///
/// # Errors
/// Those of opening and locking it.
pub fn hold_directory(directory: &Path) -> std::io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = File::from(rustix::fs::open(directory, flags, Mode::empty())?);
    directory.lock()?;
    Ok(directory)
}

fn open(path: &Path) -> std::io::Result<File> {
    File::options().create(true).truncate(false).read(true).write(true).open(path)
}

/// Takes a lock if it is free, or looks whether it is; `false` where a process holds it that may. One behind a fence may not, so it is
/// ended.
fn try_lock(file: &File, path: &Path, is_to_hold: bool) -> Result<bool> {
    let mut watch = FenceWatch::default();
    loop {
        let taken = if is_to_hold { file.try_lock() } else { file.try_lock_shared() };
        match taken {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(error).at("could not lock", path),
        }
        // Many locks of runs are looked at in a row, and few are taken.
        let search = if is_to_hold { HolderSearch::Seen } else { HolderSearch::Taker };
        if !watch.look(file, path, search)? {
            return Ok(false);
        }
        std::thread::sleep(LOOK);
    }
}

/// Waits in the kernel's queue. A blocking lock cannot be given a time limit, so a thread blocks: when
/// the receiver is gone, the file that it sends is dropped, and the lock with it.
fn wait(
    file: File,
    path: &Path,
    patience: Duration,
    take: fn(&File) -> std::io::Result<()>,
) -> Result<File> {
    let (sender, receiver) = mpsc::sync_channel(1);
    // To look who holds it while the thread has the file.
    let seen = file.try_clone().at("could not wait for", path)?;
    std::thread::Builder::new()
        .name("lock".into())
        .spawn(move || {
            let locked = take(&file).map(|()| file);
            // Failing to send means that the waiter gave up.
            let _ = sender.send(locked);
        })
        .at("could not wait for", path)?;
    let (began, mut watch, mut pause) = (Instant::now(), FenceWatch::default(), SUSPICION);
    loop {
        let left = patience.saturating_sub(began.elapsed());
        match receiver.recv_timeout(left.min(pause)) {
            Ok(locked) => return locked.at("could not lock", path),
            Err(_) if left <= pause => break,
            Err(_) => {
                pause =
                    if watch.look(&seen, path, HolderSearch::Hidden)? { LOOK } else { SUSPICION }
            }
        }
    }
    Err(Error::new(
        Code::LockTimeout,
        format!("waited {} s for the lock {}", patience.as_secs(), path.display()),
    )
    .hint(format!("to see who holds it, run fuser -v {}", path.display())))
}

/// How long a lock is waited for before it is asked who holds it.
const SUSPICION: Duration = Duration::from_millis(1000);

/// How often that is asked from then on. A command behind a fence that only looks whether a lock is free holds it for microseconds, so
/// one that is found twice holds it on purpose.
const LOOK: Duration = Duration::from_millis(50);

/// How often the end of a run is asked for before the waiting ends. With [`SUSPICION`] that is less than two seconds.
const ENDINGS: usize = 12;

/// What is known of a process behind a fence that holds a lock.
#[derive(Default)]
struct FenceWatch {
    last: Option<FencedHolder>,
    asked: usize,
}

impl FenceWatch {
    /// Looks who holds the lock; `false` where that is no process behind a fence. Ends the run of one that holds on to it.
    fn look(&mut self, file: &File, path: &Path, search: HolderSearch) -> Result<bool> {
        let found = FencedHolder::of(file, search);
        let is_same = found.is_some() && found == self.last;
        self.last = found;
        let Some(holder) = &self.last else {
            return Ok(false);
        };
        // Where the nearest supervisor does not end it, those above may.
        let is_asked = is_same && self.asked < ENDINGS && holder.end_run(self.asked / 4);
        if is_same && !is_asked {
            let what = format!(
                "{} (process {}), which runs in a sandbox, holds the lock {}",
                holder.name,
                holder.pid,
                path.display()
            );
            return Err(Error::new(Code::LockHeld, what)
                .hint(format!("to end it, run kill -9 {}", holder.pid)));
        }
        self.asked += usize::from(is_asked);
        Ok(true)
    }
}
