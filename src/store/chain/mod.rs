//! The one way in which a ref of ours moves forward: ledger, keep chain, mailbox and its receipts.
//!
//! ```text
//! OS lock (fairness) ── tip ── build objects ── ref lock, compare, rename (safety) ── unlock
//!                        ^                         │ moved, or locked by a foreign writer
//!                        └─────────────────────────┘
//! ```
//!
//! The OS lock keeps our own processes in a queue; compare-and-swap alone is correct too but collapses
//! (81 appends/s and 39 s of waiting with 256 writers, against 545/s). The comparison under the
//! ref's own lock guards against everybody else. A ref that names nothing readable is never taken
//! for an empty one: see `recovery`.

mod commit;
pub mod foreign;
mod kind;
mod recovery;
pub mod repair;

pub(super) use commit::signed_commit;
pub use commit::{TRAILER, commit, empty_commit, identity};
pub use kind::Chain;
pub use recovery::is_of_chain;

use super::lock::{Guard, PATIENCE};
use crate::domain::oid::Oid;
use crate::error::{Code, Result};
use crate::git::Repo;
use crate::git::objects::{Commit, Identity};
use crate::git::refs::Swap;

/// Adds one commit to a chain and gives its name. `build` makes the commit for a given tip, and is
/// called again when the tip moved meanwhile or had to be repaired.
///
/// # Errors
/// What `build` fails with; `lock-timeout` when a foreign writer's ref lock does not go away;
/// `repo-corrupt` when neither the ref nor its reflog leads to anything readable.
pub fn append(
    repo: &Repo,
    _guard: &Guard,
    chain: Chain,
    who: &Identity,
    message: &str,
    mut build: impl FnMut(Option<&Commit>) -> Result<Oid>,
) -> Result<Oid> {
    let refname = chain.refname();
    let mut waiting = None;
    loop {
        let expected = repo.tip(refname)?;
        let tip = recovery::readable_tip(repo, chain, expected)?;
        let tip = recovery::finished(repo, chain, tip)?;
        let commit = match build(tip.as_ref()) {
            // The tip can be read and something below it cannot.
            Err(error) if error.code() == Code::RepoCorrupt && tip.is_some() => {
                build(recovery::recover(repo, chain)?.as_ref())?
            }
            built => built?,
        };
        match repo.swap_ref(refname, expected, commit, who, message)? {
            Swap::Done => return Ok(commit),
            Swap::Moved => {}
            Swap::Locked => repo.wait_for_ref_lock(refname, &mut waiting, PATIENCE)?,
        }
    }
}

/// The commit that a chain points at, repaired in memory where it is unreadable; `None` when the
/// chain does not exist. For readers, who write no ref.
///
/// # Errors
/// `repo-corrupt` when neither the ref nor its reflog leads to anything readable.
pub fn tip(repo: &Repo, chain: Chain) -> Result<Option<Commit>> {
    recovery::readable_tip(repo, chain, repo.tip(chain.refname())?)
}

/// Runs a reader on the tip of a chain; where that or something below it cannot be read, on what the reflog gives
/// back, of which the second argument tells. `None` for a chain that was never begun.
pub(super) fn read<T>(
    repo: &Repo,
    chain: Chain,
    reader: impl Fn(Commit, bool) -> Result<T>,
) -> Result<Option<T>> {
    let Some(tip) = tip(repo, chain)? else {
        return Ok(None);
    };
    match reader(tip, false) {
        Err(error) if error.code() == Code::RepoCorrupt => match recovery::recover(repo, chain)? {
            Some(tip) => reader(tip, true).map(Some),
            None => Err(error),
        },
        answer => answer.map(Some),
    }
}
