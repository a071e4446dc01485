//! What a chain is read as when its ref or its newest objects are damaged, found through its reflog.
//!
//! A power loss can leave the ref file or the newest objects empty; a `git notes append` beside us
//! can leave our commits on no ref, or build on an older tree than its parent's. Nothing is lost while
//! the reflog and the parents are there: events only accumulate, so the union of every tree that was
//! ever the ledger is the ledger. An unreadable chain is therefore never reset to empty.

use super::{Chain, append, commit, identity, is_ours};
use crate::domain::Oid;
use crate::error::{Code, Error, Remedy, Result};
use crate::git::{Commit, Repo, Tip, record::notes};
use crate::store::files::{fsx, layout, lock};
use crate::wire::row::message::STAMP_TRAILER;
use chrono::{DateTime, Utc};
use std::collections::{HashMap, HashSet};

/// How many generations of damaged commits recovery looks behind. A power loss damages what the last
/// seconds wrote; an old object that is gone is gone from every commit since.
const DAMAGED_LIMIT: usize = 256;

/// The commit that the ref names, or what can be recovered in its place; `None` for a chain that was
/// never begun.
pub(super) fn readable_tip(repo: &Repo, chain: Chain, tip: Tip) -> Result<Option<Commit>> {
    match tip.oid().map(|oid| repo.read_commit(oid)) {
        Some(Ok(commit)) => Ok(Some(commit)),
        // Deleting a ref deletes its reflog: one that is left over belongs to a ref that was lost.
        None if tip == Tip::Absent && repo.reflog_oids(chain.refname())?.is_empty() => Ok(None),
        _ => recover(repo, chain),
    }
}

/// The commit that a writer of ours was about to publish when it was killed: a move is noted in the reflog
/// before it is made. Who cannot tell that from a move that a power loss took back must not drop it, so the
/// ledger goes on from there, and what was half done is done. Receipts are different: to a process that was killed
/// while a message was handed out, it has to be handed out again.
pub(super) fn finished(repo: &Repo, chain: Chain, tip: Option<Commit>) -> Result<Option<Commit>> {
    let from = tip.as_ref().map_or(Oid::ZERO, |tip| tip.oid);
    // The keep chain and the mailbox lose nothing that was acknowledged: the caller has not heard
    // of a commit whose ref did not move.
    if chain != Chain::Ledger {
        return Ok(tip);
    }
    let last = repo.last_reflog_move(chain.refname())?;
    let Some((_, to)) = last.filter(|(old, new)| *old == from && *new != from) else {
        return Ok(tip);
    };
    let follows = |next: &Commit| {
        let parents = next.parents.first().copied().unwrap_or(Oid::ZERO);
        // Each of the three makes it this very commit: ours, directly on the tip, and with all of
        // its objects.
        is_ours(next) && parents == from && is_whole(repo, chain, next)
    };
    Ok(repo.read_commit(to).ok().filter(follows).or(tip))
}

/// The newest commit of the reflog that is whole, united with all others; where there is none, what remotes were last
/// seen to have. No ref is moved.
pub(super) fn recover(repo: &Repo, chain: Chain) -> Result<Option<Commit>> {
    let mut history = History::load(repo, chain, repo.reflog_oids(chain.refname())?);
    history.forget_damaged(repo, chain);
    // A reflog can be gone with the ref. What was synchronised is at least not lost.
    if history.commits.is_empty() {
        history = History::load(repo, chain, seen(repo, chain)?);
        history.forget_damaged(repo, chain);
    }
    let mut whole = history.uncovered().into_iter();
    let Some(newest) = whole.next() else {
        return Err(Error::new(
            Code::RepoCorrupt,
            format!("{} and its reflog lead to nothing readable", chain.refname()),
        )
        .hint("to see what is damaged, run git fsck --full")
        .remedy("to take over what a remote has", Remedy::Synchronise));
    };
    let subject = "agent: recover";
    let oid = if chain.holds_notes() {
        whole
            .try_fold(newest.oid, |oid, other| notes::union_commit(repo, oid, other.oid, subject))?
    } else {
        // The rest stays reachable as parents of whatever comes next.
        let parents: Vec<_> = whole.map(|commit| commit.oid).collect();
        if parents.is_empty() {
            newest.oid
        } else {
            let parents = [&[newest.oid], parents.as_slice()].concat();
            let who = repo.configured_identity();
            commit(repo, Oid::EMPTY_TREE, &parents, &who, subject)?
        }
    };
    repo.read_commit(oid).map(Some)
}

/// Whether everything is there that readers of a chain need of a commit. What is missing further down is passed over by
/// readers of a mailbox.
pub(super) fn is_whole(repo: &Repo, chain: Chain, commit: &Commit) -> bool {
    !chain.holds_notes()
        || notes::all(repo, commit.tree)
            .is_ok_and(|notes| notes.iter().all(|(_, blob)| notes::read_note(repo, *blob).is_ok()))
}

/// What remotes were last seen to have of a chain, in shared refs and in outboxes.
fn seen(repo: &Repo, chain: Chain) -> Result<Vec<Oid>> {
    let copies = repo.refs_below(layout::COPIES)?.into_iter();
    let is_wanted = |(copy, oid): &(String, Oid)| {
        copy.rsplit('/').next() == Some(chain.as_str()) && is_of_chain(repo, chain, *oid)
    };
    Ok(copies.filter(is_wanted).map(|(_, oid)| oid).collect())
}

/// Whether a commit can be the tip of such a chain: one of ours or, for notes, one that holds notes alone.
pub fn is_of_chain(repo: &Repo, chain: Chain, oid: Oid) -> bool {
    let Ok(commit) = repo.read_commit(oid) else {
        return false;
    };
    is_ours(&commit)
        || commit.trailer(STAMP_TRAILER).is_some()
        || chain.holds_notes() && notes::is_notes_tree(repo, commit.tree).unwrap_or(false)
}

/// Everything readable that a set of commits leads to.
pub(super) struct History {
    /// Newest start first.
    order: Vec<Oid>,
    commits: HashMap<Oid, Commit>,
}

impl History {
    /// All that the ledger and its reflog lead to.
    pub(super) fn of_ledger(repo: &Repo, tip: &Commit) -> Result<History> {
        let mut starts = repo.reflog_oids(Chain::Ledger.refname())?;
        starts.insert(0, tip.oid);
        Ok(History::load(repo, Chain::Ledger, starts))
    }

    /// How many commits are not ours.
    pub(super) fn foreign(&self) -> usize {
        let commits = self.commits.values();
        commits.filter(|commit| !is_ours(commit)).count()
    }

    /// A notes tree with every line of the history added.
    pub(super) fn unite(&self, repo: &Repo, tree: Oid) -> Result<Oid> {
        let mut sources = self.uncovered().into_iter();
        sources.try_fold(tree, |tree, source| {
            notes::union_of_trees(repo, tree, source.tree).or_else(|error| match error.code() {
                // What is damaged beyond reading cannot give anything back.
                Code::RepoCorrupt => Ok(tree),
                _ => Err(error),
            })
        })
    }

    fn load(repo: &Repo, chain: Chain, starts: Vec<Oid>) -> History {
        let mut history = History { order: Vec::new(), commits: HashMap::new() };
        // Reversed, because the last one in is the first one out: the newest start stays first in
        // `order`.
        let mut waiting: Vec<_> = starts.into_iter().rev().collect();
        let mut seen = HashSet::new();
        while let Some(oid) = waiting.pop() {
            if !seen.insert(oid) {
                continue;
            }
            // What cannot be read is passed over here: other starts may lead around it.
            if let Ok(commit) = repo.read_commit(oid) {
                // What the keep chain keeps is not its own history.
                if is_ours(&commit) || chain.holds_notes() {
                    waiting.extend(commit.parents.iter().rev());
                }
                history.order.push(oid);
                history.commits.insert(oid, commit);
            }
        }
        history
    }

    /// Takes out commits whose objects are missing until what nothing builds on is whole.
    fn forget_damaged(&mut self, repo: &Repo, chain: Chain) {
        let mut whole = HashSet::new();
        // What is damaged is taken out, and what it covered comes to light and is looked at in
        // turn.
        for _ in 0..DAMAGED_LIMIT {
            let (sound, damaged): (Vec<_>, Vec<_>) = self
                .uncovered()
                .into_iter()
                .partition(|commit| whole.contains(&commit.oid) || is_whole(repo, chain, commit));
            whole = sound.into_iter().map(|commit| commit.oid).collect();
            let damaged: Vec<_> = damaged.into_iter().map(|commit| commit.oid).collect();
            if damaged.is_empty() {
                return;
            }
            for oid in damaged {
                self.commits.remove(&oid);
            }
        }
        // After so many rounds the rest counts as damaged, except for what was found whole.
        self.commits.retain(|oid, _| whole.contains(oid));
    }

    /// The commits that no commit of ours builds on: since ours never drop a line, these together
    /// hold every line of the history.
    fn uncovered(&self) -> Vec<&Commit> {
        // A foreign commit may have dropped lines of its parents, so it covers none of them.
        let ours = self.commits.values().filter(|commit| is_ours(commit));
        let covered: HashSet<_> = ours.flat_map(|commit| &commit.parents).collect();
        let uncovered = self.order.iter().filter(|oid| !covered.contains(oid));
        uncovered.filter_map(|oid| self.commits.get(oid)).collect()
    }
}

// Whether the refs of the store can be read without help, and making them so.
//
// Readers and writers repair a damaged chain in memory (`recovery`); until the next write the
// ref stays as it is, and the reflog that it is repaired from expires.

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
        Tip::At(oid) => repo.read_commit(oid).is_ok_and(|commit| is_whole(repo, chain, &commit)),
        // Deleting a ref deletes its reflog. What this clone wrote is noted beside the ledger: the first line before there is one, so a first spawn
        // that was killed leaves a single one, and nothing that its caller heard of.
        Tip::Absent => {
            let noted = fsx::load_if_there(&layout::own_lines(repo.common_dir()))?;
            let noted = noted.unwrap_or_default();
            let lines = noted.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
            let is_missed = chain == Chain::Ledger && lines.count() > 1;
            !is_missed && repo.reflog_oids(chain.refname())?.is_empty()
        }
        Tip::Broken => false,
    };
    if is_sound {
        return Ok(Condition::Sound);
    }
    match recover(repo, chain) {
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
        Tip::At(oid) => repo.read_commit(oid).is_ok_and(|tip| repo.read_tree(tip.tree).is_ok()),
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
    let whole = recover(repo, chain)?;
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
