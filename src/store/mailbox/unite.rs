//! Uniting the histories of two clones: keep chain, ledger, mailbox and receipts with the copies that were
//! fetched from a remote.
//!
//! Nothing is dropped, and two clones that unite the same two histories make the same commit, whichever
//! does it first. One history that goes on from the other needs no commit of its own.

use super::{MAIL, Mailbox, RECEIPTS};
use crate::domain::oid::Oid;
use crate::error::Result;
use crate::git::Repo;
use crate::git::notes::{self, union};
use crate::git::objects::Identity;
use crate::git::refs::Tip;
use crate::store::chain::{self, Chain, TRAILER};
use crate::store::{keep, layout, lock};
use crate::wire::message::STAMP_TRAILER;
use chrono::{DateTime, Utc};

/// The chains that travel. What rows name comes before the rows, and messages before the receipts that speak
/// of them.
pub const CHAINS: [Chain; 4] = [
    Chain::Keep(layout::KEEP_REF),
    Chain::Notes(layout::LEDGER_REF),
    MAIL,
    RECEIPTS,
];

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
        Chain::Notes(_) => union::union_commit(repo, ours, theirs, "agent: unite"),
        Chain::Mail(_) => join_messages(repo, ours, theirs),
        Chain::Keep(_) => keep::join(repo, ours, theirs),
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
    Ok(United { refname, from, to })
}

/// Whether a commit can be the tip of such a chain: one of ours or, for notes, one that holds notes alone.
pub fn is_of_chain(repo: &Repo, chain: Chain, oid: Oid) -> bool {
    let Ok(commit) = repo.read_commit(oid) else {
        return false;
    };
    let is_ours = [TRAILER, STAMP_TRAILER]
        .iter()
        .any(|name| commit.trailer(name).is_some());
    is_ours
        || matches!(chain, Chain::Notes(_))
            && notes::is_notes_tree(repo, commit.tree).unwrap_or(false)
}

/// The commit below which are the messages of both. Its stamp is the later of theirs, so that what
/// follows comes after all of them.
fn join_messages(repo: &Repo, ours: Oid, theirs: Oid) -> Result<Oid> {
    let base = repo.merge_base(ours, theirs)?;
    if base == Some(theirs) {
        return Ok(ours);
    }
    if base == Some(ours) {
        return Ok(theirs);
    }
    let mut parents = [ours, theirs];
    parents.sort_unstable();
    let sides = [repo.read_commit(parents[0])?, repo.read_commit(parents[1])?];
    let mailbox = Mailbox::new(repo);
    let stamp = mailbox
        .last_stamp(&sides[0])?
        .max(mailbox.last_stamp(&sides[1])?);
    let stamp = stamp.map_or_else(String::new, |stamp| format!("{STAMP_TRAILER}: {stamp}\n"));
    let who = Identity::stand_in(sides[0].seconds.max(sides[1].seconds));
    let message = format!("agent: unite\n\n{stamp}{TRAILER}: 1\n");
    chain::empty_commit(repo, &parents, &who, &message)
}
