//! Moving a branch while others may hold its lock.

use crate::domain::oid::Oid;
use crate::error::{Code, Error, Result};
use crate::git::Repo;
use crate::git::config::Identities;
use crate::git::refs::{Swap, Tip};
use crate::store::lock::PATIENCE;

/// Moves a branch from one commit to another, doing `first` under its lock. Waits for others who have it, as long as
/// `core.filesRefLockTimeout` says if it is set. However old their lock is, it stays: a prepared transaction may take
/// its time.
pub(crate) fn swap(
    repo: &Repo,
    branch: &str,
    (old, new): (Oid, Oid),
    who: &Identities,
    reason: &str,
    first: &mut dyn FnMut() -> Result<()>,
) -> Result<()> {
    let mut waiting = None;
    let expected = Tip::At(old);
    loop {
        match repo.swap_ref_after(branch, expected, new, &who.committer, reason, &mut *first)? {
            Swap::Done => return Ok(()),
            Swap::Moved => return Err(moved(branch)),
            Swap::Locked => repo.wait_for_ref_lock(branch, &mut waiting, PATIENCE)?,
        }
    }
}

/// The error for a branch that is not where the plan says.
pub(crate) fn moved(branch: &str) -> Error {
    Error::new(
        Code::LostRace,
        format!("{branch} moved while the work was about to land; nothing has landed"),
    )
    .hint("to judge the work again and land it, run the same command again")
}
