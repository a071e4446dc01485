//! Whether the refs of the store can be read without help, and making them so.
//!
//! Readers and writers repair a damaged chain in memory (`recovery`); until the next write the
//! ref stays as it is, and the reflog that it is repaired from expires.

use super::kind::Chain;
use super::{append, commit, identity, recovery};
use crate::error::{Code, Result};
use crate::git::Repo;
use crate::git::refs::Tip;
use crate::store::lock;
use chrono::{DateTime, Utc};

/// How a chain's ref is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// It leads to something whole, or was never begun.
    Sound,
    /// It does not, and its reflog does.
    Damaged,
    /// Neither does.
    Lost,
}

/// Looks at a chain without help from its reflog.
///
/// # Errors
/// `git-failed` when the ref storage cannot be read, `io`.
pub fn condition(repo: &Repo, chain: Chain) -> Result<Condition> {
    let is_sound = match repo.tip(chain.refname())? {
        Tip::At(oid) => repo
            .read_commit(oid)
            .is_ok_and(|commit| recovery::is_whole(repo, chain, &commit)),
        // Deleting a ref deletes its reflog.
        Tip::Absent => repo.reflog_oids(chain.refname())?.is_empty(),
        Tip::Broken => false,
    };
    if is_sound {
        return Ok(Condition::Sound);
    }
    match recovery::recover(repo, chain) {
        Ok(_) => Ok(Condition::Damaged),
        Err(error) if error.code() == Code::RepoCorrupt => Ok(Condition::Lost),
        Err(error) => Err(error),
    }
}

/// Repairs a chain whose newest commit or tree cannot be read. Unlike [`condition`] it looks no further, which takes as
/// long however much the chain holds.
///
/// # Errors
/// As [`repair`].
pub fn require_readable(repo: &Repo, chain: Chain, now: DateTime<Utc>) -> Result<()> {
    let is_readable = match repo.tip(chain.refname())? {
        Tip::At(oid) => { repo.read_commit(oid) }.is_ok_and(|tip| repo.read_tree(tip.tree).is_ok()),
        Tip::Absent => return Ok(()),
        Tip::Broken => false,
    };
    if is_readable {
        return Ok(());
    }
    repair(repo, chain, now)
}

/// Writes down what a damaged chain is read as. A sound one is left alone.
///
/// # Errors
/// `lock-timeout`, `repo-corrupt` for a lost one, `disk-full`, `repo-read-only`.
pub fn repair(repo: &Repo, chain: Chain, now: DateTime<Utc>) -> Result<()> {
    let guard = lock::hold(repo.common_dir(), chain.lock())?;
    if condition(repo, chain)? == Condition::Sound {
        return Ok(());
    }
    let who = identity(repo, now);
    let subject = "agent: repair";
    let whole = recovery::recover(repo, chain)?;
    append(repo, &guard, chain, &who, subject, |_| {
        let tree = match &whole {
            Some(tip) if chain.holds_notes() => tip.tree,
            // git knows the empty tree without an object, libgit2 does not.
            _ => repo.write_tree(Vec::new())?,
        };
        let parents: Vec<_> = whole.iter().map(|tip| tip.oid).collect();
        commit(repo, tree, &parents, &who, subject)
    })
    .map(|_| ())
}
