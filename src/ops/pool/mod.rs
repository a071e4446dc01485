//! `pool`: the warm worktrees that spawns claim: how they stand, filling and emptying.
//!
//! ```text
//! fill   settings at HEAD -> sweep -> what does not fit goes -> [begin, add, populate, set up, ready] until there are enough
//! spawn  claim -> bring to the base -> take over                                            (ops/spawn/slot)
//! drain  what no process works on goes
//! ```
//!
//! A slot is made from a commit and from what the repository's settings at that commit say, never from anything that an agent
//! wrote. Which process has a slot, and what a dead one left, is told by OS locks ([`crate::agents::pool`]).

mod fill;

pub use crate::agents::furnish::STEPS;

use crate::agents::authority::require_whole_view;
use crate::agents::commands::in_one_line;
use crate::agents::ctx::Ctx;
use crate::agents::frozen;
use crate::agents::kept_worktree::KeptWorktree;
use crate::agents::pool::{self, Slot};
use crate::error::Result;
use crate::store::{fsx, layout};
use fill::{Filled, Wanted};
use serde::Serialize;
use serde_with_macros::skip_serializing_none;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The file in the pool's directory that says why it could not be filled.
const FAILURE: &str = "failure";

/// The answer of `pool`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PoolReport {
    /// The format's name and version.
    pub schema: &'static str,
    /// How many warm worktrees the settings at HEAD ask for.
    pub size: usize,
    /// Those that no process is working on.
    pub slots: Vec<SlotReport>,
    /// The bases that layered worktrees share.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bases: Vec<FrozenBaseReport>,
    /// How many others there are: being filled, or claimed at this moment.
    pub busy: usize,
    /// How many were made.
    pub made: usize,
    /// How many were removed.
    pub removed: usize,
    /// What was kept of those that had been edited by hand.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<KeptWorktree>,
    /// What the files of HEAD take of the disk in each, in bytes, without what set-up makes; absent where a slot shows how much
    /// it is, and in a partial clone.
    pub files_bytes: Option<u64>,
    /// Why the pool could not be filled the last time; absent where it could.
    pub failure: Option<String>,
}

/// A frozen base.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FrozenBaseReport {
    /// Its name.
    pub name: String,
    /// Where its files are, absolute.
    pub worktree_abspath: String,
    /// The commit whose files it has.
    pub commit: String,
    /// `ready`, or `damaged` for one that was changed: no agent gets it any more.
    pub state: &'static str,
    /// The agents over it, by the first eight digits of their ids.
    pub agents: Vec<String>,
    /// How much of the disk it takes, in bytes.
    pub disk_bytes: u64,
}

/// One warm worktree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SlotReport {
    /// Its name.
    pub name: String,
    /// Where it is, absolute.
    pub worktree_abspath: String,
    /// `ready`, `stale` for one that was set up otherwise than the settings at HEAD say, `edited` for one in which a person has
    /// worked, or `broken` for what a killed process left.
    pub state: &'static str,
    /// The commit whose files it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Whether a spawn from HEAD gets it as it is.
    pub current: bool,
    /// Whether it stays where it is, because set-up wrote its path into a file.
    pub pinned: bool,
    /// How much of the disk it takes, in bytes; blocks that it shares with other files are counted.
    pub disk_bytes: u64,
}

/// How the pool stands.
///
/// # Errors
/// `orchestrator-only` in a sandbox; `settings-invalid`, `head-unborn`, `repo-corrupt`, `io`.
pub fn status(ctx: &Ctx) -> Result<PoolReport> {
    let mut report = look(ctx)?;
    // No slot is locked any more: reading all that is in one takes a while.
    for slot in &mut report.slots {
        slot.disk_bytes = disk_use(Path::new(&slot.worktree_abspath));
    }
    // A base never changes, so its size was written down when it was made; one of an earlier version lacks that.
    for base in report.bases.iter_mut().filter(|base| base.disk_bytes == 0) {
        base.disk_bytes = disk_use(Path::new(&base.worktree_abspath));
    }
    // What a slot would cost is of interest before there is one.
    if report.slots.is_empty() {
        report.files_bytes = Wanted::at_head(ctx)?.files_bytes(ctx)?;
    }
    Ok(report)
}

/// As [`status`], without what anything takes of the disk.
///
/// # Errors
/// As [`status`].
pub fn look(ctx: &Ctx) -> Result<PoolReport> {
    require_whole_view(ctx)?;
    let wanted = Wanted::at_head(ctx)?;
    let (mut slots, mut busy) = (Vec::new(), 0);
    for slot in pool::slots(ctx)? {
        match slot? {
            Some(slot) => slots.push(report(ctx, &slot, &wanted)),
            None => busy += 1,
        }
    }
    let failure = fsx::load_if_there(&failure_place(ctx))?;
    let mut bases = Vec::new();
    for base in frozen::all(ctx)? {
        bases.push(FrozenBaseReport {
            agents: frozen::users(ctx, &base.name)?,
            name: base.name,
            worktree_abspath: base.record.path.to_string_lossy().into_owned(),
            commit: base.record.commit,
            state: if base.is_damaged { "damaged" } else { "ready" },
            disk_bytes: base.record.bytes,
        });
    }
    Ok(PoolReport {
        bases,
        schema: "git-agent.pool/1",
        size: wanted.size,
        slots,
        busy,
        files_bytes: None,
        made: 0,
        removed: 0,
        kept: Vec::new(),
        failure: failure.map(|text| String::from_utf8_lossy(&text).into_owned()),
    })
}

/// How many warm worktrees there are; one that is being made is none yet.
///
/// # Errors
/// `io`.
pub fn count(ctx: &Ctx) -> Result<usize> {
    pool::count_whole(ctx)
}

fn report(ctx: &Ctx, slot: &Slot, wanted: &Wanted) -> SlotReport {
    let record = slot.record.as_ref();
    let is_edited = record.is_some_and(|record| !slot.is_untouched(ctx, record));
    SlotReport {
        name: slot.name.clone(),
        worktree_abspath: slot.path.to_string_lossy().into_owned(),
        state: match record {
            Some(_) if is_edited => "edited",
            Some(record) if wanted.is_set_up_in(record) => "ready",
            Some(_) => "stale",
            None => "broken",
        },
        commit: record.map(|record| record.commit.clone()),
        current: !is_edited && record.is_some_and(|record| wanted.is_met_by(record)),
        pinned: record.is_some_and(|record| record.pinned),
        disk_bytes: 0,
    }
}

/// Makes warm worktrees until there are as many as the settings at HEAD ask for, all as a spawn from HEAD wants them. Where
/// another process does that already, `waits` for it, or leaves it to that one.
///
/// # Errors
/// `setup-failed`; those of making a worktree. What was made until then stays.
pub fn fill(ctx: &Ctx, waits: bool) -> Result<PoolReport> {
    require_whole_view(ctx)?;
    let filled = fill::fill(ctx, waits);
    let place = failure_place(ctx);
    match &filled {
        // A background process has no terminal to report to.
        Err(error) => {
            let _ = fsx::write_private(&place, in_one_line(error).as_bytes());
        }
        Ok(_) => {
            let _ = std::fs::remove_file(&place);
        }
    }
    let Filled {
        made,
        removed,
        kept,
    } = filled?;
    Ok(PoolReport {
        made,
        removed,
        kept,
        ..status(ctx)?
    })
}

/// Removes every warm worktree that no process is working on. What was edited in one is kept first.
///
/// # Errors
/// `io`.
pub fn drain(ctx: &Ctx) -> Result<PoolReport> {
    require_whole_view(ctx)?;
    let (removed, kept) = pool::remove_all(ctx, pool::slots(ctx)?, |_| true)?;
    Ok(PoolReport {
        removed,
        kept,
        ..status(ctx)?
    })
}

fn failure_place(ctx: &Ctx) -> std::path::PathBuf {
    layout::pool_dir(ctx.repo.common_dir()).join(FAILURE)
}

/// How much of the disk the files below a directory take, in bytes.
fn disk_use(directory: &Path) -> u64 {
    /// What `st_blocks` counts in, on every system.
    const BLOCK: u64 = 512;
    let entries = walkdir::WalkDir::new(directory).into_iter().flatten();
    // A file may go while it is counted.
    let found = entries.filter_map(|entry| entry.metadata().ok());
    found.map(|file| file.blocks() * BLOCK).sum()
}
