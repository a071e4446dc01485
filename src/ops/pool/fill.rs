//! Making warm worktrees.

use crate::agents::commands::{self, CommandSubject};
use crate::agents::ctx::Ctx;
use crate::agents::ignored_files::{self, WantedFiles};
use crate::agents::kept_worktree::{self, KeptWorktree};
use crate::agents::pool::{self, Slot};
use crate::agents::work::uncommitted::look;
use crate::agents::worktree::{self, AgentWorktree};
use crate::domain::glob::Glob;
use crate::domain::oid::Oid;
use crate::error::{Code, Error, IoContext, Result};
use crate::git::command;
use crate::git::worktree::NewWorktree;
use crate::hosts::WORKTREE_DIR;
use crate::store::{added, layout, lock, repository_settings, roles};
use crate::wire::slot::SlotRecord;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The steps of making one, in order, under the names given to [`crate::agents::ctx::Seams::reached`].
pub const STEPS: [&str; 5] = [
    "slot-begun",
    "slot-added",
    "slot-populated",
    "slot-set-up",
    "slot-ready",
];

/// Files above this size are not searched for the path of the worktree that they are in.
const LARGE: u64 = 1 << 20;

/// What a warm worktree is to be, by the settings at HEAD.
pub(super) struct Wanted {
    /// How many.
    pub(super) size: usize,
    commit: Oid,
    tree: Oid,
    copy: Vec<Glob>,
    run: Vec<String>,
    include: Option<Vec<u8>>,
    setup: String,
}

impl Wanted {
    /// Reads the settings; where they name another base than HEAD, those of that base count.
    pub(super) fn at_head(ctx: &Ctx) -> Result<Wanted> {
        let load = |commit: Oid| {
            let roles = roles::load(&ctx.repo, commit)?;
            repository_settings::load(&ctx.repo, commit, &roles)
        };
        let mut commit = ctx.repo.resolve_commit("HEAD")?.commit;
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
        Ok(Wanted {
            size: settings.pool_size,
            tree: ctx.repo.read_commit(commit)?.tree,
            setup: pool::setup_hash(&copy, &run, settings.include.as_deref()),
            include: settings.include,
            commit,
            copy,
            run,
        })
    }

    /// Whether what is set up in a slot is what a spawn from HEAD wants.
    pub(super) fn is_set_up_in(&self, record: &SlotRecord) -> bool {
        record.setup == self.setup && self.size > 0
    }

    /// What the files of one take of the disk, in bytes; `None` where not all objects are here.
    pub(super) fn files_bytes(&self, ctx: &Ctx) -> Result<Option<u64>> {
        ctx.repo.disk_use(self.tree)
    }

    /// Whether a slot is as a spawn from HEAD wants it.
    pub(super) fn is_met_by(&self, record: &SlotRecord) -> bool {
        record.tree == self.tree.to_hex() && record.setup == self.setup
    }
}

/// What filling did.
#[derive(Default)]
pub(super) struct Filled {
    pub(super) made: usize,
    pub(super) removed: usize,
    /// What was kept of slots that had been edited.
    pub(super) kept: Vec<KeptWorktree>,
}

/// Fills the pool. A process in the background has no terminal to say what it kept, so it leaves edited slots alone.
pub(super) fn fill(ctx: &Ctx, waits: bool) -> Result<Filled> {
    let mut filled = Filled::default();
    let Some(_tending) = pool::tend(ctx, waits)? else {
        return Ok(filled);
    };
    (filled.removed, filled.kept) = pool::sweep_while_tending(ctx)?;
    loop {
        // Settings and HEAD may have changed since the last one was made.
        let wanted = Wanted::at_head(ctx)?;
        let ready = bring_up(ctx, &wanted, &mut filled, waits)?;
        // Slots that are edited as soon as they are made, or that stay because they were, do not fill the disk.
        let most = 2 * wanted.size;
        if ready >= wanted.size || filled.made > most || pool::names(ctx)?.len() >= most {
            return Ok(filled);
        }
        let what = format!("making warm worktree {} of {}", ready + 1, wanted.size);
        let _activity = ctx.activity(&what);
        make(ctx, &wanted)?;
        filled.made += 1;
    }
}

/// Brings the slots that there are to what is wanted, and removes those that cannot be, those that were edited, which no spawn
/// gets, and those that are too many; gives how many are ready.
fn bring_up(ctx: &Ctx, wanted: &Wanted, filled: &mut Filled, waits: bool) -> Result<usize> {
    let mut ready = 0;
    for slot in pool::slots(ctx)? {
        let Some(mut slot) = slot? else {
            continue;
        };
        let record = slot.record.clone();
        let record = record.filter(|record| slot.is_untouched(ctx, record));
        if record.is_none() && !waits {
            continue;
        }
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

/// Makes one slot; nothing of it is left where that fails, but for what a person wrote in it meanwhile.
fn make(ctx: &Ctx, wanted: &Wanted) -> Result<()> {
    let mut slot = Slot::begin(ctx)?;
    ctx.reached(STEPS[0]);
    match furnish(ctx, wanted, &slot) {
        Ok(record) => {
            slot.write(Some(record))?;
            ctx.reached(STEPS[4]);
            Ok(())
        }
        Err(error) => Err(match slot.remove(ctx)? {
            Some(kept) => error.hint(kept.sentence()),
            None => error,
        }),
    }
}

/// Makes the worktree of a slot and sets it up.
fn furnish(ctx: &Ctx, wanted: &Wanted, slot: &Slot) -> Result<SlotRecord> {
    // The worktree, at a detached HEAD: no branch is taken before there is an agent.
    let common = ctx.repo.common_dir();
    added::add_exclude(&ctx.repo, &[WORKTREE_DIR])?;
    {
        let _spawns = lock::hold(common, layout::SPAWN_LOCK)?;
        ctx.repo.add_worktree(&NewWorktree {
            name: &slot.name,
            path: &slot.path,
            branch: None,
            commit: wanted.commit,
            scratch: &layout::tmp_dir(common),
            lock_reason: layout::SLOT_LOCK_REASON,
            identity: &ctx.identities()?.committer,
        })?;
    }
    ctx.reached(STEPS[1]);
    let what = "checking out files for a warm worktree";
    worktree::check_out(ctx, what, &slot.path, &slot.admin_dir, wanted.commit)?;
    ctx.reached(STEPS[2]);

    // What the repository wants in it.
    let files = WantedFiles {
        copy: &wanted.copy,
        include: wanted.include.as_deref(),
    };
    if let (Some(root), true) = (
        ctx.repo.main_worktree()?,
        !files.copy.is_empty() || files.include.is_some(),
    ) {
        ignored_files::bring(ctx, &root, &slot.path, &files)?;
    }
    // Nothing of ours has changed a file yet that git does not ignore. What differs is a person's, and no agent gets it.
    let place = AgentWorktree {
        path: slot.path.clone(),
        admin_dir: slot.admin_dir.clone(),
    };
    let is_edited = look(ctx, wanted.commit, &place, None, false)?
        .1
        .tree
        .is_some();
    let subject = CommandSubject {
        id: None,
        branch: None,
        worktree: Some(&slot.path),
    };
    commands::set_up(ctx, &subject, &wanted.run, &slot.path)?;
    ctx.reached(STEPS[3]);

    // What a claim has to know of it. A person may have written while the commands ran, which cannot be told from what they made.
    let (_, found) = look(ctx, wanted.commit, &place, None, false)?;
    let is_edited = is_edited || wanted.run.is_empty() && found.tree.is_some();
    let made = found.tree.filter(|_| !is_edited);
    if let Some(made) = made {
        kept_worktree::keep_tree(ctx, &place, wanted.commit, made)?;
    }
    Ok(SlotRecord {
        commit: wanted.commit.to_hex(),
        tree: wanted.tree.to_hex(),
        setup: wanted.setup.clone(),
        pinned: !wanted.run.is_empty() && holds_its_path(&slot.path)?,
        leftovers: found.tree.is_some(),
        made: made.map(Oid::to_hex),
        apart: pool::apart(&found),
    })
}

/// Whether set-up wrote the worktree's own path into a file or a symlink, as virtual environments have it: such a worktree
/// works nowhere else.
fn holds_its_path(worktree: &Path) -> Result<bool> {
    let own = worktree.as_os_str().as_bytes();
    let listed = command::run(worktree, ["ls-files", "-z", "--others"])?;
    for name in command::names(&listed) {
        let path = worktree.join(OsStr::from_bytes(name));
        let Ok(found) = fs::symlink_metadata(&path) else {
            continue;
        };
        let content = if found.is_symlink() {
            let target = fs::read_link(&path).at("could not read", &path)?;
            target.as_os_str().as_bytes().to_vec()
        } else if found.is_file() && found.len() <= LARGE {
            fs::read(&path).at("could not read", &path)?
        } else {
            continue;
        };
        if contains(&content, own) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a path occurs in some bytes.
fn contains(content: &[u8], path: &[u8]) -> bool {
    let starts = content
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b'/');
    starts
        .into_iter()
        .any(|(index, _)| content[index..].starts_with(path))
}
