//! Repair of a chain from its reflog, and of the ledger from what foreign writers dropped.
//!
//! A power loss can leave the ref file or the newest objects empty; a `git notes append` beside us
//! can leave our commits on no ref, or build on an older tree than its parent's. Nothing is lost while
//! the reflog and the parents are there: events only accumulate, so the union of every tree that was
//! ever the ledger is the ledger. An unreadable chain is therefore never reset to empty.

use super::chain::{self, Chain, TRAILER};
use super::ledger::body_of;
use super::{layout, lock, remote_names};
use crate::domain::oid::Oid;
use crate::error::{Code, Error, Remedy, Result};
use crate::git::Repo;
use crate::git::notes::{self, lines, union};
use crate::git::objects::Commit;
use crate::git::refs::Tip;
use chrono::{DateTime, Utc};
use std::collections::{BTreeSet, HashMap, HashSet};

/// How many generations of damaged commits recovery looks behind. A power loss damages what the last
/// seconds wrote; an old object that is gone is gone from every commit since.
const DAMAGED_LIMIT: usize = 256;

/// What [`restore`] did.
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

/// The commit that the ref names, or what can be recovered in its place; `None` for a chain that was
/// never begun.
pub(super) fn readable_tip(repo: &Repo, chain: Chain, tip: Tip) -> Result<Option<Commit>> {
    match chain::oid_of(tip).map(|oid| repo.read_commit(oid)) {
        Some(Ok(commit)) => Ok(Some(commit)),
        // Deleting a ref deletes its reflog: one that is left over belongs to a ref that was lost.
        None if tip == Tip::Absent && repo.reflog_oids(chain.refname())?.is_empty() => Ok(None),
        _ => recover(repo, chain),
    }
}

/// The commit that a writer of ours was about to publish when it was killed: libgit2 notes a move in the reflog
/// before it makes it. Who cannot tell that from a move that a power loss took back must not drop it, so the
/// ledger goes on from there, and what was half done is done. Receipts are different: to a process that was killed
/// while a message was handed out, it has to be handed out again.
pub(super) fn finished(repo: &Repo, chain: Chain, tip: Option<Commit>) -> Result<Option<Commit>> {
    let from = tip.as_ref().map_or(Oid::ZERO, |tip| tip.oid);
    if chain != Chain::Notes(layout::LEDGER_REF) {
        return Ok(tip);
    }
    let last = repo.last_reflog_move(chain.refname())?;
    let Some((_, to)) = last.filter(|(old, new)| *old == from && *new != from) else {
        return Ok(tip);
    };
    let follows = |next: &Commit| {
        let parents = next.parents.first().copied().unwrap_or(Oid::ZERO);
        is_ours(next) && parents == from && is_whole(repo, chain, next)
    };
    Ok(repo.read_commit(to).ok().filter(follows).or(tip))
}

/// The newest commit of the reflog that is whole, united with all others; where there is none, what remotes were last
/// seen to have. No ref is moved.
pub(super) fn recover(repo: &Repo, chain: Chain) -> Result<Option<Commit>> {
    let mut history = History::load(repo, chain, repo.reflog_oids(chain.refname())?);
    history.forget_damaged(repo, chain);
    if history.commits.is_empty() {
        history = History::load(repo, chain, remote_names::seen(repo, chain)?);
        history.forget_damaged(repo, chain);
    }
    let mut whole = history.uncovered().into_iter();
    let Some(newest) = whole.next() else {
        return Err(Error::new(
            Code::RepoCorrupt,
            format!(
                "{} and its reflog lead to nothing readable",
                chain.refname()
            ),
        )
        .hint("to see what is damaged, run git fsck --full")
        .remedy("to take over what a remote has", Remedy::Synchronise));
    };
    let oid = match chain {
        Chain::Notes(_) => whole.try_fold(newest.oid, |oid, other| {
            union::union_commit(repo, oid, other.oid, "agent: recover")
        })?,
        // The rest stays reachable as parents of whatever comes next.
        Chain::Keep(_) | Chain::Mail(_) => {
            let parents: Vec<_> = whole.map(|commit| commit.oid).collect();
            if parents.is_empty() {
                newest.oid
            } else {
                let parents = [&[newest.oid], parents.as_slice()].concat();
                let who = repo.configured_identity();
                chain::commit(repo, Oid::EMPTY_TREE, &parents, &who, "agent: recover")?
            }
        }
    };
    repo.read_commit(oid).map(Some)
}

/// What foreign writers did to the ledger; nothing is changed.
///
/// # Errors
/// `repo-corrupt`.
pub fn foreign_writes(repo: &Repo) -> Result<Foreign> {
    let ledger = Chain::Notes(layout::LEDGER_REF);
    let Some(tip) = chain::tip(repo, ledger)? else {
        return Ok(Foreign::default());
    };
    let history = History::of_ledger(repo, &tip)?;
    let whole = history.unite(repo, tip.tree)?;
    Ok(Foreign {
        commits: history.foreign(),
        dropped: dropped(repo, tip.tree, whole)?,
    })
}

/// The annotated objects whose notes lack lines in `now` that they have in `once`. A note that is only written
/// another way, as `git notes append` puts an empty line between paragraphs, lacks nothing.
fn dropped(repo: &Repo, now: Oid, once: Oid) -> Result<BTreeSet<Oid>> {
    let mut dropped = BTreeSet::new();
    for (key, blob) in union::added(repo, now, once)? {
        let left = body_of(repo, now, key)?;
        if lines::union([left.as_slice(), &repo.read_blob(blob)?]) != left {
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
    let Tip::At(tip) = repo.tip(layout::LEDGER_REF)? else {
        return Ok(false);
    };
    let Some((old, new)) = repo.last_reflog_move(layout::LEDGER_REF)? else {
        return Ok(false);
    };
    // Where git writes no reflog, as in a bare repository, the last entry is of our own last write.
    let once = if new == tip { old } else { new };
    if once.is_zero() || once == tip {
        return Ok(false);
    }
    let now = repo.read_commit(tip)?;
    if now.parents.contains(&once) || repo.merge_base(once, tip)? == Some(once) {
        return Ok(false);
    }
    Ok(!dropped(repo, now.tree, repo.read_commit(once)?.tree)?.is_empty())
}

/// Brings back every line that foreign writers dropped from the ledger.
///
/// # Errors
/// `lock-timeout`, `repo-corrupt`, `disk-full`, `repo-read-only`.
pub fn restore(repo: &Repo, now: DateTime<Utc>) -> Result<Restored> {
    let ledger = Chain::Notes(layout::LEDGER_REF);
    let guard = lock::hold(repo.common_dir(), layout::LEDGER_LOCK)?;
    let none = Restored {
        foreign: 0,
        changed: false,
    };
    let Some(tip) = chain::tip(repo, ledger)? else {
        return Ok(none);
    };
    let history = History::of_ledger(repo, &tip)?;
    let foreign = history.foreign();
    if history.unite(repo, tip.tree)? == tip.tree {
        return Ok(Restored { foreign, ..none });
    }
    let who = chain::identity(repo, now);
    chain::append(repo, &guard, ledger, &who, "agent: restore", |tip| {
        let tree = history.unite(repo, tip.map_or(Oid::EMPTY_TREE, |tip| tip.tree))?;
        let parents: Vec<_> = tip.map(|tip| tip.oid).into_iter().collect();
        chain::commit(repo, tree, &parents, &who, "agent: restore")
    })?;
    Ok(Restored {
        foreign,
        changed: true,
    })
}

fn is_ours(commit: &Commit) -> bool {
    commit.trailer(TRAILER).is_some()
}

pub(super) fn is_whole(repo: &Repo, chain: Chain, commit: &Commit) -> bool {
    match chain {
        // What is missing further down is passed over by readers of a mailbox.
        Chain::Keep(_) | Chain::Mail(_) => true,
        Chain::Notes(_) => notes::all(repo, commit.tree)
            .is_ok_and(|notes| notes.iter().all(|(_, blob)| repo.read_blob(*blob).is_ok())),
    }
}

/// Everything readable that a set of commits leads to.
struct History {
    /// Newest start first.
    order: Vec<Oid>,
    commits: HashMap<Oid, Commit>,
}

impl History {
    /// All that the ledger and its reflog lead to.
    fn of_ledger(repo: &Repo, tip: &Commit) -> Result<History> {
        let ledger = Chain::Notes(layout::LEDGER_REF);
        let mut starts = repo.reflog_oids(ledger.refname())?;
        starts.insert(0, tip.oid);
        Ok(History::load(repo, ledger, starts))
    }

    /// How many commits are not ours.
    fn foreign(&self) -> usize {
        let commits = self.commits.values();
        commits.filter(|commit| !is_ours(commit)).count()
    }

    /// A notes tree with every line of the history added.
    fn unite(&self, repo: &Repo, tree: Oid) -> Result<Oid> {
        let mut sources = self.uncovered().into_iter();
        sources.try_fold(tree, |tree, source| {
            union::union(repo, tree, source.tree).or_else(|error| match error.code() {
                // What is damaged beyond reading cannot give anything back.
                Code::RepoCorrupt => Ok(tree),
                _ => Err(error),
            })
        })
    }

    fn load(repo: &Repo, chain: Chain, starts: Vec<Oid>) -> History {
        let mut history = History {
            order: Vec::new(),
            commits: HashMap::new(),
        };
        let mut waiting: Vec<_> = starts.into_iter().rev().collect();
        let mut seen = HashSet::new();
        while let Some(oid) = waiting.pop() {
            if !seen.insert(oid) {
                continue;
            }
            if let Ok(commit) = repo.read_commit(oid) {
                // What the keep chain keeps is not its own history.
                if is_ours(&commit) || matches!(chain, Chain::Notes(_)) {
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
        self.commits.retain(|oid, _| whole.contains(oid));
    }

    /// The commits that no commit of ours builds on: since ours never drop a line, these together
    /// hold every line of the history.
    fn uncovered(&self) -> Vec<&Commit> {
        let ours = self.commits.values().filter(|commit| is_ours(commit));
        let covered: HashSet<_> = ours.flat_map(|commit| &commit.parents).collect();
        let uncovered = self.order.iter().filter(|oid| !covered.contains(oid));
        uncovered.filter_map(|oid| self.commits.get(oid)).collect()
    }
}
