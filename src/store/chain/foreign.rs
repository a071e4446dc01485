//! What foreign writers did to the ledger, and bringing back what they dropped from it.

use super::recovery::History;
use super::{Chain, append, commit, identity, tip};
use crate::domain::oid::Oid;
use crate::error::Result;
use crate::git::Repo;
use crate::git::notes::{self, lines, union};
use crate::git::refs::Tip;
use crate::store::lock;
use chrono::{DateTime, Utc};
use std::collections::BTreeSet;

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
        let left = notes::body(repo, now, key)?;
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
    let guard = lock::hold(repo.common_dir(), Chain::Ledger.lock())?;
    let none = Restored {
        foreign: 0,
        changed: false,
    };
    let Some(tip) = tip(repo, Chain::Ledger)? else {
        return Ok(none);
    };
    let history = History::of_ledger(repo, &tip)?;
    let foreign = history.foreign();
    if history.unite(repo, tip.tree)? == tip.tree {
        return Ok(Restored { foreign, ..none });
    }
    let who = identity(repo, now);
    append(repo, &guard, Chain::Ledger, &who, "agent: restore", |tip| {
        let tree = history.unite(repo, tip.map_or(Oid::EMPTY_TREE, |tip| tip.tree))?;
        let parents: Vec<_> = tip.map(|tip| tip.oid).into_iter().collect();
        commit(repo, tree, &parents, &who, "agent: restore")
    })?;
    Ok(Restored {
        foreign,
        changed: true,
    })
}
