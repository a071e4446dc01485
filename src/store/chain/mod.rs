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

pub mod facts;
pub mod keep;
pub mod recovery;
pub mod remote_names;

pub use recovery::is_of_chain;

use crate::domain::Oid;
use crate::domain::value::named::named;
use crate::error::{Code, Result};
use crate::git::refs::Swap;
use crate::git::{Commit, Identity, NewCommit, Repo, Tip, record::notes};
use crate::store::files::layout;
use crate::store::files::lock::{self, Guard, PATIENCE};
use chrono::{DateTime, Utc};
use recovery::History;
use std::collections::BTreeSet;

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
        // What the ref names is read anew in each round and compared at the end, also where the
        // commit below was repaired in memory: the swap replaces exactly what was looked at.
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
            // A foreign writer does not take our OS lock. It was faster, so the commit is built
            // again on what it wrote.
            Swap::Moved => {}
            Swap::Locked => repo.wait_for_ref_lock(refname, &mut waiting, PATIENCE)?,
        }
    }
}

/// Checks that a chain can move, before something happens that it is to record. Nothing is written.
///
/// # Errors
/// `lock-timeout` when a foreign writer's ref lock does not go away; `disk-full`, `repo-read-only`, `io`.
pub fn require_movable(repo: &Repo, _guard: &Guard, chain: Chain) -> Result<()> {
    let mut waiting = None;
    while !repo.can_lock_ref(chain.refname())? {
        repo.wait_for_ref_lock(chain.refname(), &mut waiting, PATIENCE)?;
    }
    Ok(())
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

// Commits of the store, each with a trailer that says so.

/// The trailer that marks commits as ours; a commit without it was made by a foreign writer.
pub const TRAILER: &str = "Git-Agent";

/// Whether this program made the commit.
fn is_ours(commit: &Commit) -> bool {
    commit.trailer(TRAILER).is_some()
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
pub(in crate::store) fn signed_commit(
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
    NewCommit::ours(who, tree, parents, message)
}

/// Who signs commits of the store at that moment: the configured user, else the program itself.
pub fn identity(repo: &Repo, now: DateTime<Utc>) -> Identity {
    Identity { seconds: now.timestamp(), ..repo.configured_identity() }
}

// The four chains there are, and what tells them apart.

named! {
    /// A ref of ours that only moves forward, with the word for it in names of refs. What rows name comes before the rows,
    /// and messages before the receipts that speak of them.
    pub enum Chain {
        /// Commits that matter for their parents.
        Keep = "keep",
        /// The rows of the agents: commits whose trees are notes trees.
        Ledger = "ledger",
        /// Commits that hold a message each.
        Mail = "mail",
        /// What the readers of messages have read: commits whose trees are notes trees.
        Receipts = "receipts",
    }
}

impl Chain {
    /// The full name of the ref.
    pub fn refname(self) -> &'static str {
        match self {
            Chain::Keep => layout::KEEP_REF,
            Chain::Ledger => layout::LEDGER_REF,
            Chain::Mail => layout::MAIL_REF,
            Chain::Receipts => layout::RECEIPTS_REF,
        }
    }

    /// The OS lock that its writers hold, a name of [`layout`].
    pub fn lock(self) -> &'static str {
        match self {
            Chain::Keep | Chain::Ledger => layout::LEDGER_LOCK,
            Chain::Mail | Chain::Receipts => layout::MAIL_LOCK,
        }
    }

    /// Whether the trees of its commits are notes trees; the commits of the others matter for their message and
    /// their parents.
    pub fn holds_notes(self) -> bool {
        matches!(self, Chain::Ledger | Chain::Receipts)
    }
}

// What foreign writers did to the ledger, and bringing back what they dropped from it.

/// What [`restore_foreign`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored {
    /// How many commits of foreign writers the history holds.
    pub foreign: usize,
    /// Whether lines were missing from the ledger and are back.
    pub changed: bool,
}

/// What [`foreign_writes`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Foreign {
    /// How many commits of foreign writers the history holds.
    pub commits: usize,
    /// The annotated objects whose notes lack lines that they once had.
    pub dropped: BTreeSet<Oid>,
}

/// What foreign writers did to the ledger; nothing is changed.
///
/// # Errors
/// `repo-corrupt`.
pub fn foreign_writes(repo: &Repo) -> Result<Foreign> {
    let Some(tip) = tip(repo, Chain::Ledger)? else {
        return Ok(Foreign::default());
    };
    let history = History::of_ledger(repo, &tip)?;
    let whole = history.unite(repo, tip.tree)?;
    Ok(Foreign { commits: history.foreign(), dropped: dropped(repo, tip.tree, whole)? })
}

/// The annotated objects whose notes lack lines in `now` that they have in `once`. A note that is only written
/// another way, as `git notes append` puts an empty line between paragraphs, lacks nothing.
fn dropped(repo: &Repo, now: Oid, once: Oid) -> Result<BTreeSet<Oid>> {
    let mut dropped = BTreeSet::new();
    for (key, blob) in notes::added_notes(repo, now, once)? {
        let left = notes::body(repo, now, key)?;
        let once = notes::united(repo, &[blob])?;
        if notes::union_of_lines([left.as_slice(), &once]) != left {
            dropped.insert(key);
        }
    }
    Ok(dropped)
}

/// Whether the ledger was last moved by a writer that dropped lines from it, as `git fetch` does when it is told to
/// overwrite refs (`+refs/notes/*:refs/notes/*`). Reads the end of the reflog and little more, so that every command
/// can ask.
///
/// # Errors
/// `repo-corrupt`, `git-failed`, `io`.
pub fn is_overwritten(repo: &Repo) -> Result<bool> {
    // A writer of ours is waited for a few times and then believed to be done: with many writers
    // one is always at work.
    for _ in 0..3 {
        if !seems_overwritten(repo)? {
            return Ok(false);
        }
        // A write of ours changes the reflog first and the ref then, and may have come between the two readings.
        if !lock::is_held(repo.common_dir(), Chain::Ledger.lock())? {
            break;
        }
        lock::wait_until_free(repo.common_dir(), Chain::Ledger.lock())?;
    }
    seems_overwritten(repo)
}

fn seems_overwritten(repo: &Repo) -> Result<bool> {
    let Tip::At(tip) = repo.tip(Chain::Ledger.refname())? else {
        return Ok(false);
    };
    let Some((old, new)) = repo.last_reflog_move(Chain::Ledger.refname())? else {
        return Ok(false);
    };
    // A writer of ours that was killed after the reflog and before the ref has not moved it.
    if old == tip && new != tip && !repo.is_bare()? {
        return Ok(false);
    }
    // Where git writes no reflog, as in a bare repository, the last entry is of our own last write.
    let once = if new == tip { old } else { new };
    if once.is_zero() || once == tip {
        return Ok(false);
    }
    let drops = || -> Result<bool> {
        let now = repo.read_commit(tip)?;
        let before = repo.read_commit(once)?;
        // The nearest parents are asked first, which is enough for nearly every move and spares a walk.
        if now.parents.contains(&once) || repo.merge_base(once, tip)? == Some(once) {
            return Ok(false);
        }
        // Not each move to an unrelated commit loses something: `git notes merge` and a repair do not.
        Ok(!dropped(repo, now.tree, before.tree)?.is_empty())
    };
    match drops() {
        // A power loss leaves objects that cannot be read: no writer dropped what they held, and a repair goes on from the rest.
        Err(error) if error.code() == Code::RepoCorrupt => Ok(false),
        drops => drops,
    }
}

/// What the ref of a chain was moved away from by another program, as `git fetch` and `git update-ref` move it, and does not hold since.
///
/// # Errors
/// `repo-corrupt`, `io`.
pub fn left_behind(repo: &Repo, chain: Chain) -> Result<Vec<Oid>> {
    let mut left: Vec<Oid> = Vec::new();
    for (old, new, said) in repo.reflog_moves(chain.refname())? {
        if said.starts_with("agent: unite") {
            // Brought back then; what was taken away after that, a write of ours took.
            left.retain(|old| !holds(repo, new, *old));
        }
        // It may have been anything, and only a chain can be united.
        let is_left = !said.starts_with("agent: ") && !old.is_zero() && !holds(repo, new, old);
        if is_left && !left.contains(&old) && is_of_chain(repo, chain, old) {
            left.push(old);
        }
    }
    // As nearly always, and then the ref is not read.
    if !left.is_empty()
        && let Some(tip) = tip(repo, chain)?
    {
        left.retain(|old| !holds(repo, tip.oid, *old));
    }
    Ok(left)
}

/// Whether a commit is another one or has it among its ancestors. Where history cannot be read, the two count as apart: nothing is deleted
/// or moved on a guess.
pub fn holds(repo: &Repo, tip: Oid, commit: Oid) -> bool {
    tip == commit || repo.merge_base(commit, tip).is_ok_and(|base| base == Some(commit))
}

/// Brings back every line that foreign writers dropped from the ledger.
///
/// # Errors
/// `lock-timeout`, `repo-corrupt`, `disk-full`, `repo-read-only`.
pub fn restore_foreign(repo: &Repo, now: DateTime<Utc>) -> Result<Restored> {
    let guard = lock::hold(repo.common_dir(), Chain::Ledger.lock())?;
    let none = Restored { foreign: 0, changed: false };
    let Some(tip) = tip(repo, Chain::Ledger)? else {
        return Ok(none);
    };
    let history = History::of_ledger(repo, &tip)?;
    let foreign = history.foreign();
    // Asked before the commit, so that a ledger which lacks nothing does not move.
    if history.unite(repo, tip.tree)? == tip.tree {
        return Ok(Restored { foreign, ..none });
    }
    let who = identity(repo, now);
    append(repo, &guard, Chain::Ledger, &who, "agent: restore", |tip| {
        // Again on the tip of now: a foreign writer may have moved it between the look and the
        // swap.
        let tree = history.unite(repo, tip.map_or(Oid::EMPTY_TREE, |tip| tip.tree))?;
        let parents: Vec<_> = tip.map(|tip| tip.oid).into_iter().collect();
        commit(repo, tree, &parents, &who, "agent: restore")
    })?;
    Ok(Restored { foreign, changed: true })
}
