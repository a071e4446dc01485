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
//! for an empty one: see [`super::recovery`].

use super::lock::{Guard, PATIENCE};
use super::{layout, recovery};
use crate::domain::oid::Oid;
use crate::error::{Code, Result};
use crate::git::Repo;
use crate::git::objects::{Commit, Identity, NewCommit};
use crate::git::refs::{Swap, Tip};
use chrono::{DateTime, Utc};

/// The trailer that marks commits as ours; a commit without it was made by a foreign writer.
pub const TRAILER: &str = "Git-Agent";

/// A ref of ours and what it holds, which decides how it is repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chain {
    /// Commits whose trees are notes trees.
    Notes(&'static str),
    /// Commits that matter for their parents.
    Keep(&'static str),
    /// Commits that hold a message each.
    Mail(&'static str),
}

impl Chain {
    /// The full name of the ref.
    pub fn refname(self) -> &'static str {
        match self {
            Chain::Notes(refname) | Chain::Keep(refname) | Chain::Mail(refname) => refname,
        }
    }

    /// The OS lock that its writers hold, a name of [`layout`].
    pub fn lock(self) -> &'static str {
        match self.refname() {
            layout::MAIL_REF | layout::RECEIPTS_REF => layout::MAIL_LOCK,
            _ => layout::LEDGER_LOCK,
        }
    }
}

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

/// Writes a commit of ours for a chain.
///
/// # Errors
/// As [`Repo::write_commit`].
pub fn commit(
    repo: &Repo,
    tree: Oid,
    parents: &[Oid],
    who: &Identity,
    subject: &str,
) -> Result<Oid> {
    let message = message_of(subject);
    repo.write_commit(&new_commit(tree, parents, who, &message))
}

/// As [`commit`], with the user's signature as git makes it.
///
/// # Errors
/// `commit-refused` when it cannot be signed; `git-missing`, `git-failed`.
pub(super) fn signed_commit(
    repo: &Repo,
    tree: Oid,
    parents: &[Oid],
    who: &Identity,
    subject: &str,
) -> Result<Oid> {
    let message = message_of(subject);
    let failure = "agent.sign is set, and git could not sign the event";
    repo.write_signed_commit(&new_commit(tree, parents, who, &message), failure)
        .map_err(|error| error.hint("to record events unsigned, run git config agent.sign false"))
}

/// Writes a commit that matters for its message and its parents, with an empty tree.
///
/// # Errors
/// As [`Repo::write_commit`].
pub fn empty_commit(repo: &Repo, parents: &[Oid], who: &Identity, message: &str) -> Result<Oid> {
    // git knows the empty tree without an object, libgit2 does not.
    let tree = repo.write_tree(Vec::new())?;
    repo.write_commit(&new_commit(tree, parents, who, message))
}

fn message_of(subject: &str) -> String {
    format!("{subject}\n\n{TRAILER}: 1\n")
}

fn new_commit<'a>(
    tree: Oid,
    parents: &'a [Oid],
    who: &'a Identity,
    message: &'a str,
) -> NewCommit<'a> {
    NewCommit {
        tree,
        parents,
        author: who,
        committer: who,
        header: None,
        message,
    }
}

/// Who signs commits of the store at that moment: the configured user, else the program itself.
pub fn identity(repo: &Repo, now: DateTime<Utc>) -> Identity {
    Identity {
        seconds: now.timestamp(),
        ..repo.configured_identity()
    }
}

/// The tip as a state to compare with.
pub(super) fn oid_of(tip: Tip) -> Option<Oid> {
    match tip {
        Tip::At(oid) => Some(oid),
        Tip::Absent | Tip::Broken => None,
    }
}
