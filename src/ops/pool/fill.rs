//! Making warm worktrees.

use crate::agents::ctx::Ctx;
use crate::agents::furnish::{self, WantedContent};
use crate::agents::ignored_files::WantedFiles;
use crate::agents::kept_worktree::KeptWorktree;
use crate::agents::pool;
use crate::domain::glob::Glob;
use crate::domain::oid::Oid;
use crate::error::{Code, Error, Result};
use crate::store::{repository_settings, roles};
use crate::wire::slot::SlotRecord;

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
        // As a spawn finds its base: HEAD says where settings are, and these may name another
        // start.
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

    fn content(&self) -> WantedContent<'_> {
        WantedContent {
            commit: self.commit,
            tree: self.tree,
            files: WantedFiles {
                copy: &self.copy,
                include: self.include.as_deref(),
            },
            run: &self.run,
        }
    }

    /// Whether what is set up in a slot is what a spawn from HEAD wants.
    pub(super) fn is_set_up_in(&self, record: &SlotRecord) -> bool {
        // Without a pool nothing is kept ready, whatever it was set up for.
        record.setup == self.setup && self.size > 0
    }

    /// What the files of one take of the disk, in bytes; `None` where not all objects are here.
    pub(super) fn files_bytes(&self, ctx: &Ctx) -> Result<Option<u64>> {
        ctx.repo.disk_use(self.tree)
    }

    /// Whether a slot is as a spawn from HEAD wants it.
    pub(super) fn is_met_by(&self, record: &SlotRecord) -> bool {
        // Trees and not commits: a commit that changes no file needs no other slot.
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
        furnish::make(ctx, &wanted.content())?;
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
