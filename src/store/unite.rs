//! Uniting the histories of two clones: keep chain, ledger, mailbox and receipts with the copies that were
//! fetched from a remote.
//!
//! Nothing is dropped, and two clones that unite the same two histories make the same commit, whichever
//! does it first. One history that goes on from the other needs no commit of its own.

use super::chain::{self, Chain};
use super::mailbox::{Mailbox, questions};
use super::{keep, layout, lock};
use crate::domain::oid::Oid;
use crate::error::Result;
use crate::git::Repo;
use crate::git::notes::union;
use crate::git::refs::Tip;
use chrono::{DateTime, Utc};

/// What became of one ref.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct United {
    /// The full name of the ref.
    pub refname: &'static str,
    /// Where it was; `None` when there was none.
    pub from: Option<Oid>,
    /// Where it is.
    pub to: Oid,
}

/// Unites one chain with the copy that was fetched from a remote; `None` when there is no copy.
///
/// # Errors
/// `lock-timeout`, `repo-corrupt`, `disk-full`, `repo-read-only`.
pub fn unite(
    repo: &Repo,
    chain: Chain,
    remote: &str,
    now: DateTime<Utc>,
) -> Result<Option<United>> {
    let refname = chain.refname();
    let Tip::At(theirs) = repo.tip(&layout::fetched_ref(refname, remote))? else {
        return Ok(None);
    };
    unite_with(repo, chain, theirs, remote, now).map(Some)
}

/// Unites one chain with a commit of a chain of its kind; `from` says where that came from.
///
/// # Errors
/// As [`unite`].
pub fn unite_with(
    repo: &Repo,
    chain: Chain,
    theirs: Oid,
    from: &str,
    now: DateTime<Utc>,
) -> Result<United> {
    let refname = chain.refname();
    let who = chain::identity(repo, now);
    let guard = lock::hold(repo.common_dir(), chain.lock())?;
    let message = format!("agent: unite with {from}");
    let from = chain::tip(repo, chain)?.map(|tip| tip.oid);
    let join = |ours: Oid| match chain {
        Chain::Ledger | Chain::Receipts => union::union_commit(repo, ours, theirs, "agent: unite"),
        Chain::Mail => Mailbox::new(repo).join(ours, theirs),
        Chain::Keep => keep::join(repo, ours, theirs),
    };
    // Looked at first, so that a ref which has it all does not move.
    let united = from.map_or(Ok(theirs), &join)?;
    let to = if from == Some(united) {
        united
    } else {
        chain::append(repo, &guard, chain, &who, &message, |tip| {
            tip.map_or(Ok(theirs), |tip| join(tip.oid))
        })?
    };
    drop(guard);
    if chain == Chain::Mail {
        questions::settle(repo)?;
    }
    Ok(United { refname, from, to })
}
