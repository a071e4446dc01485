//! Refs: reading, creating without overwriting, and moving by compare-and-swap.
//!
//! Refs are written here and not by libgit2, whose `.lock` files do not tell whether their owner lives: ours do
//! ([`super::lock_file`]), and what a killed process of ours left is cleared by the next that wants the ref. The lock of
//! another program is reported ([`Swap::Locked`]); the caller decides to wait.

use super::lock_file::LockFile;
use super::objects::Identity;
use super::repo::{failed, from_git2};
use super::{Repo, reflog, untrusted};
use crate::domain::oid::Oid;
use crate::error::{Code, Error, IoContext, Result};
use std::path::{Path, PathBuf};
use std::time::Duration;

mod deletion;

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

/// Waiting for another process to let go of a `.lock` file.
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

    /// Waits for a moment before the next look at that lock.
    ///
    /// # Errors
    /// `lock-timeout` when there was waiting enough.
    pub(crate) fn wait(&mut self, lock: &Path) -> Result<()> {
        let rest = self.rest.checked_sub(self.pause);
        self.rest = rest.ok_or_else(|| lock_timeout(lock))?;
        std::thread::sleep(self.pause);
        self.pause = LONGEST_PAUSE.min(self.pause + Duration::from_millis(1));
        Ok(())
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
        self.swap_ref_in_time(refname, Tip::Absent, target, who, message)
    }

    /// As [`Repo::swap_ref`], waiting while another process has the lock. `false` when the ref is elsewhere.
    ///
    /// # Errors
    /// As [`Repo::swap_ref`]; `lock-timeout`.
    pub(in crate::git) fn swap_ref_in_time(
        &self,
        refname: &str,
        expected: Tip,
        target: Oid,
        who: &Identity,
        message: &str,
    ) -> Result<bool> {
        let mut waiting = LockWait::new(BRIEFLY);
        loop {
            match self.swap_ref(refname, expected, target, who, message)? {
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

    /// Takes the lock of a ref; `None` while another process has it.
    fn lock_ref(&self, refname: &str) -> Result<Option<LockFile>> {
        if !git2::Reference::is_valid_name(refname) {
            return Err(Error::new(
                Code::GitFailed,
                format!("`{refname}` cannot be the name of a ref"),
            ));
        }
        LockFile::take(self.common_dir(), &self.ref_lock_path(refname))
    }

    fn patiently_locked(&self, refname: &str) -> Result<LockFile> {
        patiently(&self.ref_lock_path(refname), || self.lock_ref(refname))
    }

    /// Moves a ref from `expected` to `target` and notes it in the reflog, which is made if need be.
    ///
    /// # Errors
    /// `disk-full`, `repo-read-only`, `git-failed`, `io`.
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
        let Some(lock) = self.lock_ref(refname)? else {
            return Ok(Swap::Locked);
        };
        if self.tip(refname)? != expected {
            return Ok(Swap::Moved);
        }
        first()?;
        let old = expected.oid().unwrap_or(Oid::ZERO);
        reflog::append(self, refname, old, target, who, message)?;
        lock.publish(format!("{target}\n").as_bytes())?;
        Ok(Swap::Done)
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

fn modified(path: &Path) -> Option<std::time::SystemTime> {
    std::fs::metadata(path)
        .and_then(|metadata| metadata.modified())
        .ok()
}

/// Takes a lock file, waiting while another process has it.
pub(in crate::git) fn patiently(
    path: &Path,
    take: impl Fn() -> Result<Option<LockFile>>,
) -> Result<LockFile> {
    let mut waiting = LockWait::new(BRIEFLY);
    loop {
        if let Some(lock) = take()? {
            return Ok(lock);
        }
        waiting.wait(path)?;
    }
}

/// An error for a ref that another process keeps locked, as a race that was lost.
pub(in crate::git) fn lost_to(what: &str, error: Error) -> Error {
    if error.code() == Code::LockTimeout {
        return Error::new(Code::LostRace, what).because(error);
    }
    error
}

/// The error for a `.lock` file that would not go away.
fn lock_timeout(lock: &Path) -> Error {
    Error::new(
        Code::LockTimeout,
        format!("waited too long for the lock file {}", lock.display()),
    )
    .hint(format!(
        "to clear it when no git process is at work, run rm {}",
        lock.display()
    ))
}
