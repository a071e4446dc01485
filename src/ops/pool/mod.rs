//! `pool`: the warm worktrees that spawns claim: how they stand, filling and emptying.
//!
//! ```text
//! fill   settings at HEAD of the main worktree -> sweep -> what does not fit goes -> [begin, add, populate, set up, ready] until there are enough
//! spawn  claim -> bring to the base -> take over                                            (ops/spawn/slot)
//! drain  what no process works on goes
//! ```
//!
//! A slot is made from a commit and from what the repository's settings at that commit say, never from anything that an agent
//! wrote. Which process has a slot, and what a dead one left, is told by OS locks ([`crate::agents::stock::pool`]).

use crate::agents::place::ignored_files::WantedFiles;
use crate::agents::place::kept_worktree::KeptWorktree;
use crate::agents::stock::commands::in_one_line;
pub use crate::agents::stock::furnish::STEPS;
use crate::agents::stock::furnish::WantedContent;
use crate::agents::stock::pool::Slot;
use crate::agents::stock::{frozen, furnish, pool};
use crate::agents::who::authority::{require_orchestrator, require_whole_view};
use crate::agents::{Ctx, who::authority};
use crate::domain::{Glob, Oid};
use crate::error::{Code, Error, Result};
use crate::store::files::{fsx, layout};
use crate::store::settings::{repository_settings, roles};
use crate::wire::row::journal::SlotRecord;
use serde::Serialize;
use serde_with_macros::skip_serializing_none;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The file in the pool's directory that says why it could not be filled.
const FAILURE: &str = "failure";

/// The answer of `pool`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "schema", rename = "git-agent.pool/1")]
pub struct PoolReport {
    /// How many warm worktrees the settings at HEAD of the main worktree ask for.
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
    /// `ready`, `stale` for one that was set up otherwise than these settings say, `edited` for one in which a person has
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
        report.files_bytes = WantedSlot::at_head(ctx)?.files_bytes(ctx)?;
    }
    Ok(report)
}

/// As [`status`], without what anything takes of the disk.
///
/// # Errors
/// As [`status`].
pub fn look(ctx: &Ctx) -> Result<PoolReport> {
    require_whole_view(ctx)?;
    let wanted = WantedSlot::at_head(ctx)?;
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
            state: if base.has_changed() { "damaged" } else { "ready" },
            name: base.name,
            worktree_abspath: base.path.to_string_lossy().into_owned(),
            commit: base.record.commit,
            disk_bytes: base.record.bytes,
        });
    }
    Ok(PoolReport {
        bases,
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

fn report(ctx: &Ctx, slot: &Slot, wanted: &WantedSlot) -> SlotReport {
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
/// `orchestrator-only` inside an agent; `setup-failed`; those of making a worktree. What was made until then stays.
pub fn fill(ctx: &Ctx, waits: bool) -> Result<PoolReport> {
    require_whole_view(ctx)?;
    require_orchestrator(ctx)?;
    let filled = fill_slots(ctx, waits);
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
    let Filled { made, removed, kept } = filled?;
    Ok(PoolReport { made, removed, kept, ..status(ctx)? })
}

/// Removes every warm worktree that no process is working on. What was edited in one is kept first.
///
/// # Errors
/// `orchestrator-only` inside an agent; `io`.
pub fn drain(ctx: &Ctx) -> Result<PoolReport> {
    require_whole_view(ctx)?;
    require_orchestrator(ctx)?;
    let (removed, kept) = pool::remove_all(ctx, pool::slots(ctx)?, |_| true)?;
    Ok(PoolReport { removed, kept, ..status(ctx)? })
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

// Making warm worktrees.

/// What a warm worktree is to be, by the settings at HEAD of the main worktree: an agent's own HEAD says nothing, wherever the caller stands.
struct WantedSlot {
    /// How many.
    size: usize,
    commit: Oid,
    tree: Oid,
    copy: Vec<Glob>,
    run: Vec<String>,
    include: Option<Vec<u8>>,
    setup: String,
}

impl WantedSlot {
    /// Reads the settings; where they name another base than HEAD, those of that base count.
    fn at_head(ctx: &Ctx) -> Result<WantedSlot> {
        let load = |commit: Oid| {
            let roles = roles::load(&ctx.repo, commit)?;
            repository_settings::load(&ctx.repo, commit, &roles)
        };
        // As a spawn finds its base: HEAD says where settings are, and these may name another
        // start.
        let mut commit = authority::trusted_head(ctx)?;
        let mut settings = load(commit)?;
        if let Some(base) = &settings.base {
            commit = ctx.repo.resolve_commit(base)?.commit;
            settings = load(commit)?;
        }
        let globs = settings.setup_copy.unwrap_or_default();
        let globs = globs.iter().map(|glob| Glob::parse(glob));
        let copy: Vec<Glob> = globs
            .collect::<Result<_, _>>()
            .map_err(|rule| Error::new(Code::SettingsInvalid, rule))?;
        let run = settings.setup_run.unwrap_or_default();
        let files = WantedFiles { copy: &copy, include: settings.include.as_deref() };
        Ok(WantedSlot {
            size: settings.pool_size,
            tree: ctx.repo.tree_of(commit)?,
            setup: pool::wanted_setup(ctx, &files, &run)?,
            include: settings.include,
            commit,
            copy,
            run,
        })
    }

    fn content(&self) -> WantedContent<'_> {
        WantedContent {
            commit: self.commit,
            tree: self.tree,
            files: WantedFiles { copy: &self.copy, include: self.include.as_deref() },
            run: &self.run,
        }
    }

    /// Whether what is set up in a slot is what a spawn from HEAD wants.
    fn is_set_up_in(&self, record: &SlotRecord) -> bool {
        // Without a pool nothing is kept ready, whatever it was set up for.
        record.setup == self.setup && self.size > 0
    }

    /// What the files of one take of the disk, in bytes; `None` where not all objects are here.
    fn files_bytes(&self, ctx: &Ctx) -> Result<Option<u64>> {
        ctx.repo.disk_use(self.tree)
    }

    /// Whether a slot is as a spawn from HEAD wants it.
    fn is_met_by(&self, record: &SlotRecord) -> bool {
        // Trees and not commits: a commit that changes no file needs no other slot.
        record.tree == self.tree.to_hex() && record.setup == self.setup
    }
}

/// What filling did.
#[derive(Default)]
struct Filled {
    made: usize,
    removed: usize,
    /// What was kept of slots that had been edited.
    kept: Vec<KeptWorktree>,
}

/// Fills the pool. A process in the background has no terminal to say what it kept, so it leaves edited slots alone.
fn fill_slots(ctx: &Ctx, waits: bool) -> Result<Filled> {
    let mut filled = Filled::default();
    let Some(_tending) = pool::tend(ctx, waits)? else {
        return Ok(filled);
    };
    (filled.removed, filled.kept) = pool::sweep_while_tending(ctx)?;
    loop {
        // Settings and HEAD may have changed since the last one was made.
        let wanted = WantedSlot::at_head(ctx)?;
        let ready = bring_up(ctx, &wanted, &mut filled, waits)?;
        // Slots that are edited as soon as they are made, or that stay because they were, do not fill the disk.
        let most = 2 * wanted.size;
        if ready >= wanted.size || filled.made > most || pool::names(ctx)?.len() >= most {
            return Ok(filled);
        }
        let what = format!("making warm worktree {} of {}", ready + 1, wanted.size);
        let _activity = ctx.activity(&what);
        furnish::make(ctx, &wanted.content())?;
        filled.made += 1;
    }
}

/// Brings the slots that there are to what is wanted, and removes those that cannot be, those that were edited, which no spawn
/// gets, and those that are too many; gives how many are ready.
fn bring_up(ctx: &Ctx, wanted: &WantedSlot, filled: &mut Filled, waits: bool) -> Result<usize> {
    let mut ready = 0;
    for slot in pool::slots(ctx)? {
        let Some(mut slot) = slot? else {
            continue;
        };
        let record = slot.record.clone();
        let record = record.filter(|record| slot.is_untouched(ctx, record));
        // A background process leaves what was edited to a person, who may be in it.
        if record.is_none() && !waits {
            continue;
        }
        // What is beyond the size goes even where it is good.
        let record = record.filter(|record| record.setup == wanted.setup && ready < wanted.size);
        let fits = match record {
            Some(record) if wanted.is_met_by(&record) => true,
            // Set-up commands would have to run again: a new slot is as good.
            Some(record) if wanted.run.is_empty() => {
                let (commit, tree) = (wanted.commit, wanted.tree);
                slot.bring_to(ctx, &record, commit, tree).is_ok()
            }
            _ => false,
        };
        if fits {
            ready += 1;
        } else {
            filled.kept.extend(slot.remove(ctx)?);
            filled.removed += 1;
        }
    }
    Ok(ready)
}
