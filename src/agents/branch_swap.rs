//! Moving a branch while others may hold its lock.

use crate::domain::oid::Oid;
use crate::error::{Code, Error, Result};
use crate::git::Repo;
use crate::git::identity::Identities;
use crate::git::refs::{LockWait, Swap, Tip};
use crate::store::lock::PATIENCE;
use std::time::Duration;

/// Moves a branch from one commit to another, doing `first` under its lock. Waits for others who have it, as long
/// as `core.filesRefLockTimeout` says where it is set. However old their lock is, it stays: a prepared transaction
/// may take its time.
pub(crate) fn swap(
    repo: &Repo,
    branch: &str,
    (old, new): (Oid, Oid),
    who: &Identities,
    reason: &str,
    first: &mut dyn FnMut() -> Result<()>,
) -> Result<()> {
    let mut waiting = LockWait::new(patience(repo)?);
    let expected = Tip::At(old);
    loop {
        match repo.swap_ref_after(branch, expected, new, &who.committer, reason, &mut *first)? {
            Swap::Done => return Ok(()),
            Swap::Moved => return Err(moved(branch)),
            Swap::Locked => waiting.wait(&repo.ref_lock_path(branch))?,
        }
    }
}

/// How long the lock of a branch is waited for: in git's setting milliseconds, of which a negative number has no end.
fn patience(repo: &Repo) -> Result<Duration> {
    let set = repo.config_string("core.filesRefLockTimeout")?;
    let milliseconds = set.and_then(|text| text.parse::<i64>().ok());
    Ok(milliseconds.map_or(PATIENCE, |number| {
        u64::try_from(number).map_or(Duration::MAX, Duration::from_millis)
    }))
}

/// The error for a branch that is not where the plan says.
pub(crate) fn moved(branch: &str) -> Error {
    Error::new(
        Code::LostRace,
        format!("{branch} moved while the work was about to land; nothing has landed"),
    )
    .hint("to judge the work again and land it, run the same command again")
}
