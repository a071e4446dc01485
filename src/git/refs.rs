//! Refs: reading, creating without overwriting, and moving by compare-and-swap.
//!
//! libgit2 never waits for a ref's `.lock` file and never removes one that a killed process left. The
//! functions here report such a lock as an outcome, so that the holder of the right OS lock can
//! decide to wait ([`Swap::Locked`]) or to clear it ([`Repo::clear_stale_lock`]).

use super::objects::Identity;
use super::pruned::retry_if_pruned;
use super::repo::{failed, from_git2, to_git2};
use super::{Repo, reflog, untrusted};
use crate::domain::oid::Oid;
use crate::error::{Code, Error, IoContext, Result};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What a ref file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tip {
    /// There is no such ref.
    Absent,
    /// It names this object, which may or may not exist.
    At(Oid),
    /// The file is there but names nothing: empty or garbled, as after a power loss.
    Broken,
}

impl Tip {
    /// The object, when one is named.
    pub fn oid(self) -> Option<Oid> {
        match self {
            Tip::At(oid) => Some(oid),
            Tip::Absent | Tip::Broken => None,
        }
    }
}

/// How an attempt to move a ref ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Swap {
    /// The ref is where it should be.
    Done,
    /// The ref was not where it was expected; nothing changed.
    Moved,
    /// Another process has the ref's `.lock` file; nothing changed.
    Locked,
}

/// A `.lock` file this old belongs to a killed process: a write holds it for 0.2 ms.
const STALE: Duration = Duration::from_secs(10);

/// How long an attempt at a ref waits for its lock: about the second that git itself waits.
const BRIEFLY: Duration = Duration::from_millis(800);

/// The longest pause between two looks at a ref's lock; the first is a millisecond, each further one a millisecond
/// longer.
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// Waiting for another process to let go of a ref's `.lock` file. libgit2 never waits by itself.
pub(crate) struct LockWait {
    rest: Duration,
    pause: Duration,
}

impl LockWait {
    /// Waits at most so long in all.
    pub(crate) fn new(patience: Duration) -> LockWait {
        LockWait {
            rest: patience,
            pause: Duration::from_millis(1),
        }
    }

    /// Waits for a moment before the next look; `false` when there was waiting enough.
    fn again(&mut self) -> bool {
        let Some(rest) = self.rest.checked_sub(self.pause) else {
            return false;
        };
        std::thread::sleep(self.pause);
        self.rest = rest;
        self.pause = LONGEST_PAUSE.min(self.pause + Duration::from_millis(1));
        true
    }

    /// Waits for a moment before the next look at that lock.
    ///
    /// # Errors
    /// `lock-timeout` when there was waiting enough.
    pub(crate) fn wait(&mut self, lock: &Path) -> Result<()> {
        if self.again() {
            Ok(())
        } else {
            Err(lock_timeout(lock))
        }
    }
}

impl Repo {
    /// What a ref names, without following symbolic refs.
    ///
    /// # Errors
    /// `git-failed` when the ref storage itself cannot be read.
    pub fn tip(&self, refname: &str) -> Result<Tip> {
        if untrusted::require_ref(&self.common_dir().join(refname)).is_err() {
            return Ok(Tip::Broken);
        }
        match self.inner.find_reference(refname) {
            Ok(reference) => Ok(reference
                .target()
                .map(from_git2)
                .filter(|oid| !oid.is_zero())
                .map_or(Tip::Broken, Tip::At)),
            Err(error) if error.code() == git2::ErrorCode::NotFound => Ok(Tip::Absent),
            // libgit2 says "corrupted loose reference file" with no code of its own.
            Err(error) if error.class() == git2::ErrorClass::Reference => Ok(Tip::Broken),
            Err(error) => Err(failed(&format!("could not read {refname}"), error)),
        }
    }

    /// Makes a ref that must not exist. `false` when it does; it is then left as it is.
    ///
    /// Not by `git_reference_create`: that one looks whether the name is free before it takes the
    /// ref's lock, so of two that look at the same moment the second overwrites the first.
    ///
    /// # Errors
    /// `lock-timeout` while another process keeps its lock, `git-failed` for an impossible name.
    pub fn create_ref(
        &self,
        refname: &str,
        target: Oid,
        who: &Identity,
        message: &str,
    ) -> Result<bool> {
        let mut waiting = LockWait::new(BRIEFLY);
        loop {
            match self.swap_ref(refname, Tip::Absent, target, who, message)? {
                Swap::Done => return Ok(true),
                Swap::Moved => return Ok(false),
                Swap::Locked => waiting.wait(&self.ref_lock_path(refname))?,
            }
        }
    }

    /// Whether there are refs whose names begin with this one and a slash.
    ///
    /// # Errors
    /// `git-failed` when the refs cannot be listed.
    pub fn has_refs_below(&self, refname: &str) -> Result<bool> {
        let what = "could not list refs";
        let mut refs = self
            .inner
            .references_glob(&format!("{refname}/*"))
            .map_err(|error| failed(what, error))?;
        let first = refs.next().transpose();
        Ok(first.map_err(|error| failed(what, error))?.is_some())
    }

    /// The refs whose full names begin with a text that ends with a slash, each with the object it names.
    ///
    /// # Errors
    /// `git-failed` when the refs cannot be listed.
    pub fn refs_below(&self, prefix: &str) -> Result<Vec<(String, Oid)>> {
        let what = "could not list refs";
        let found = self.inner.references_glob(&format!("{prefix}*"));
        let found = found.map_err(|error| failed(what, error))?;
        let mut refs = Vec::new();
        for reference in found {
            let reference = reference.map_err(|error| failed(what, error))?;
            if let (Ok(name), Some(target)) = (reference.name(), reference.target()) {
                refs.push((name.to_owned(), from_git2(target)));
            }
        }
        Ok(refs)
    }

    /// Deletes a ref if it still names `expected`; `false` when it does not.
    ///
    /// # Errors
    /// `lost-race` while another process keeps its lock.
    pub fn delete_ref(&self, refname: &str, expected: Oid) -> Result<bool> {
        let what = format!("could not delete {refname}");
        let mut transaction = self
            .inner
            .transaction()
            .map_err(|error| failed(&what, error))?;
        retry_locked(|| retry_if_pruned(|| transaction.lock_ref(refname)))
            .map_err(|error| failed(&what, error))?;
        if self.tip(refname)? != Tip::At(expected) {
            return Ok(false);
        }
        transaction
            .remove(refname)
            .map_err(|error| failed(&what, error))?;
        transaction.commit().map_err(|error| failed(&what, error))?;
        Ok(true)
    }

    /// Deletes a ref that names no commit, with its reflog, if it is still at `expected`; `false` when it is not. Only
    /// its loose file is looked at: no other can be broken.
    ///
    /// # Errors
    /// `lock-timeout` while another process keeps its lock; `io`.
    pub fn delete_broken_ref(&self, refname: &str, expected: Tip) -> Result<bool> {
        let lock = self.ref_lock_path(refname);
        let taken = || std::fs::File::create_new(&lock).map(drop);
        let mut waiting = LockWait::new(BRIEFLY);
        while let Err(error) = taken() {
            if error.kind() != std::io::ErrorKind::AlreadyExists {
                return Err(error).at("could not lock", &lock);
            }
            waiting.wait(&lock)?;
        }
        let is_there = self.tip(refname)? == expected;
        if is_there {
            for file in [Path::new("logs").join(refname), PathBuf::from(refname)] {
                let file = self.common_dir().join(file);
                match std::fs::remove_file(&file) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                        let _ = std::fs::remove_file(&lock);
                        return Err(error).at("could not remove", &file);
                    }
                    _ => {}
                }
            }
        }
        std::fs::remove_file(&lock).at("could not remove", &lock)?;
        Ok(is_there)
    }

    /// Moves a ref from `expected` to `target` and notes it in the reflog, which is made if need be.
    ///
    /// The lock file exists only around the comparison and the rename, so a killed process rarely
    /// leaves one (8 of 300 kills of a busy writer, against 257 with the lock around the build).
    ///
    /// # Errors
    /// `disk-full`, `repo-read-only`, `git-failed`.
    pub fn swap_ref(
        &self,
        refname: &str,
        expected: Tip,
        target: Oid,
        who: &Identity,
        message: &str,
    ) -> Result<Swap> {
        self.swap_ref_after(refname, expected, target, who, message, || Ok(()))
    }

    /// As [`Repo::swap_ref`], and does `first` while the ref is locked and known to be at `expected`, so
    /// that it does not move in between. When that fails, the ref stays.
    ///
    /// # Errors
    /// As [`Repo::swap_ref`], and what `first` fails with.
    pub fn swap_ref_after(
        &self,
        refname: &str,
        expected: Tip,
        target: Oid,
        who: &Identity,
        message: &str,
        first: impl FnOnce() -> Result<()>,
    ) -> Result<Swap> {
        let what = format!("could not move {refname}");
        let mut transaction = self
            .inner
            .transaction()
            .map_err(|error| failed(&what, error))?;
        match retry_if_pruned(|| transaction.lock_ref(refname)) {
            Ok(()) => {}
            Err(error) if error.code() == git2::ErrorCode::Locked => return Ok(Swap::Locked),
            Err(error) => return Err(failed(&what, error)),
        }
        if self.tip(refname)? != expected {
            return Ok(Swap::Moved);
        }
        first()?;
        if expected == Tip::Broken {
            // libgit2 looks the old value up for the reflog and gives up when it cannot. Should we be
            // killed here, the reflog that is left tells the ref from one that never was.
            let path = self.common_dir().join(refname);
            std::fs::remove_file(&path).at("could not replace", &path)?;
        }
        if !reflog::is_written_by_libgit2(self, refname)? {
            let old = expected.oid().unwrap_or(Oid::ZERO);
            reflog::append(self, refname, old, target, who, message)?;
        }
        let signature = signature(who).map_err(|error| failed(&what, error))?;
        transaction
            .set_target(refname, to_git2(target)?, Some(&signature), message)
            .map_err(|error| failed(&what, error))?;
        match transaction.commit() {
            Ok(()) => Ok(Swap::Done),
            Err(error) if error.code() == git2::ErrorCode::Locked => Ok(Swap::Locked),
            Err(error) => Err(failed(&what, error)),
        }
    }

    /// Removes the ref's `.lock` file if it is so old that its owner must be dead. Callers hold an OS
    /// lock that keeps their own kind away. Age is measured against a file made now in `parking`, so two
    /// clocks never meet. The rest is as in [`Repo::clear_lock`].
    ///
    /// # Errors
    /// `repo-read-only`, `io`.
    pub fn clear_stale_lock(&self, refname: &str, parking: &Path) -> Result<bool> {
        let probe = parking.join(format!("probe-{}", std::process::id()));
        std::fs::create_dir_all(parking).at("could not write", parking)?;
        std::fs::write(&probe, []).at("could not write", &probe)?;
        let now = modified(&probe);
        let _ = std::fs::remove_file(&probe);
        self.clear_lock(refname, parking, |path| {
            let age = now
                .zip(modified(path))
                .map(|(now, then)| now.duration_since(then));
            matches!(age, Some(Ok(age)) if age >= STALE)
        })
    }

    /// Removes the ref's `.lock` file if `is_left` says that its owner is dead; `parking` is a directory on
    /// the same file system. The lock is renamed away before it is looked at again: should its owner have
    /// come back in between, it gets it back.
    ///
    /// # Errors
    /// `repo-read-only`, `io`.
    pub fn clear_lock(
        &self,
        refname: &str,
        parking: &Path,
        is_left: impl Fn(&Path) -> bool,
    ) -> Result<bool> {
        let lock = self.ref_lock_path(refname);
        if !is_left(&lock) {
            return Ok(false);
        }
        let parked = parking.join(format!("stale-{}.lock", std::process::id()));
        std::fs::create_dir_all(parking).at("could not write", parking)?;
        if std::fs::rename(&lock, &parked).is_err() {
            return Ok(false);
        }
        let left = is_left(&parked);
        if !left {
            // A link does not overwrite, should a third process hold a lock by now.
            let _ = std::fs::hard_link(&parked, &lock);
        }
        std::fs::remove_file(&parked).at("could not remove", &parked)?;
        Ok(left)
    }

    /// The `.lock` file that the ref's writer holds.
    pub fn ref_lock_path(&self, refname: &str) -> PathBuf {
        self.common_dir().join(format!("{refname}.lock"))
    }
}

/// Tries again while libgit2 finds a lock file.
pub(in crate::git) fn retry_locked<T>(
    mut attempt: impl FnMut() -> std::result::Result<T, git2::Error>,
) -> std::result::Result<T, git2::Error> {
    let mut waiting = LockWait::new(BRIEFLY);
    loop {
        match attempt() {
            Err(error) if error.code() == git2::ErrorCode::Locked && waiting.again() => {}
            outcome => return outcome,
        }
    }
}

fn modified(path: &Path) -> Option<std::time::SystemTime> {
    std::fs::metadata(path)
        .and_then(|metadata| metadata.modified())
        .ok()
}

fn signature(who: &Identity) -> Result<git2::Signature<'static>, git2::Error> {
    let time = git2::Time::new(who.seconds, who.offset_minutes);
    git2::Signature::new(&who.name, &who.email, &time)
}

/// The error for a ref whose `.lock` would not go away.
fn lock_timeout(lock: &Path) -> Error {
    Error::new(
        Code::LockTimeout,
        format!("waited too long for the ref lock {}", lock.display()),
    )
    .hint(format!(
        "to clear it when no git process is at work, run rm {}",
        lock.display()
    ))
}
