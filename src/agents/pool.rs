//! Warm worktrees: checked out and set up before an agent needs them.
//!
//! A slot is a linked worktree `warm-<random>` below the default place of worktrees, with a file of the same name in
//! `<common dir>/agents/pool/`. That file is the slot's lock and says what is in the slot once it is whole. Who fills, moves or
//! claims a slot holds the OS lock on the file, which the kernel drops when the process ends in any way. So:
//!
//! - a file that can be locked and says nothing, or whose worktree is not where it should be, belongs to a process that died:
//!   `sweep` removes what is left of the slot;
//! - any other file that can be locked is a whole slot, which one process gets.
//!
//! An agent never had a slot before it is claimed, and a slot that was claimed is none any more. The same holds for one in
//! which a train ran checks.
//!
//! A person may have worked in one all the same: it is an ordinary worktree at a path that tools list. So a slot is looked at
//! before it is handed out (`claim` passes over one that was edited) and before it is removed
//! (`Slot::remove_keeping` hangs what was edited on the keep chain first).

use crate::agents::ctx::Ctx;
use crate::agents::kept_worktree::{self, KeptWorktree};
use crate::agents::untrusted;
use crate::agents::work::uncommitted::whole_tree;
use crate::agents::worktree::AgentWorktree;
use crate::domain::glob::Glob;
use crate::domain::named::hex;
use crate::domain::oid::Oid;
use crate::domain::repository_settings::RepositorySettings;
use crate::error::{Code, Error, IoContext, Result};
use crate::git::files::admin_dir::leads_to;
use crate::git::landing::Checkout;
use crate::hosts::WORKTREE_DIR;
use crate::proc::background;
use crate::store::{fsx, layout, lock};
use crate::wire::slot::SlotRecord;
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// A slot that this process holds.
#[derive(Debug)]
pub(crate) struct Slot {
    /// Its name, that of its admin directory too.
    pub(crate) name: String,
    /// Its worktree.
    pub(crate) path: PathBuf,
    /// Its admin directory.
    pub(crate) admin_dir: PathBuf,
    /// What is in it; `None` while it is not whole.
    pub(crate) record: Option<SlotRecord>,
    place: PathBuf,
    file: File,
}

/// What a slot is to hold besides files of a commit: a hash of lists whose order does not matter, commands and patterns.
pub(crate) fn setup_hash(copy: &[Glob], run: &[String], include: Option<&[u8]>) -> String {
    let mut copy: Vec<&str> = copy.iter().map(Glob::as_str).collect();
    copy.sort_unstable();
    copy.dedup();
    let mut digest = Sha256::new();
    for list in [copy, run.iter().map(String::as_str).collect()] {
        for text in list {
            digest.update(text.len().to_le_bytes());
            digest.update(text);
        }
        digest.update(usize::MAX.to_le_bytes());
    }
    digest.update(include.unwrap_or_default());
    hex(&digest.finalize()[..16])
}

/// The [`setup_hash`] of the warm worktrees that a repository's settings ask for; `None` where they ask for none.
pub(crate) fn wanted_setup(settings: &RepositorySettings) -> Option<String> {
    let globs = settings.setup_copy.iter().flatten();
    let copy: Result<Vec<Glob>, _> = globs.map(|glob| Glob::parse(glob)).collect();
    let run = settings.setup_run.as_deref().unwrap_or_default();
    let hash = setup_hash(&copy.ok()?, run, settings.include.as_deref());
    Some(hash).filter(|_| settings.pool_size > 0)
}

/// Fills the pool again, in a process of its own, so that the caller does not wait for it.
pub(crate) fn refill_later(ctx: &Ctx) {
    if let (Some(program), Ok(root)) = (&ctx.env.program, ctx.repo.root()) {
        let words = ["pool", "fill", "--unless-busy"];
        background::start(program, words.into_iter(), &root);
    }
}

impl Slot {
    /// Begins a slot that is not whole yet.
    ///
    /// # Errors
    /// `path-invalid` where a symlink, which may have come with a commit, leads the place of worktrees out of the repository;
    /// `repo-read-only`, `disk-full`, `io`.
    pub(crate) fn begin(ctx: &Ctx) -> Result<Slot> {
        require_inside(&ctx.repo.root()?)?;
        let name = format!("{}{}", layout::SLOT_PREFIX, hex(&ctx.nonce()?[..4]));
        let directory = layout::pool_dir(ctx.repo.common_dir());
        fsx::create_dir(&directory)?;
        let place = directory.join(&name);
        let options = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&place);
        let file = options.at("could not make", &place)?;
        if file.try_lock().is_err() {
            // No process of ours locks a slot that it does not know; one that can read it may, and is not waited for.
            let what = format!("another process holds {}", place.display());
            return Err(Error::new(Code::LostRace, what));
        }
        let mut slot = Slot::at(ctx, name, place, file)?;
        slot.record = None;
        Ok(slot)
    }

    fn at(ctx: &Ctx, name: String, place: PathBuf, file: File) -> Result<Slot> {
        Ok(Slot {
            path: ctx.repo.root()?.join(WORKTREE_DIR).join(&name),
            admin_dir: ctx.repo.admin_dir(&name),
            record: None,
            name,
            place,
            file,
        })
    }

    /// Takes the lock of a slot and reads what is in it; `None` where another process has it or it is gone.
    fn lock(ctx: &Ctx, name: String) -> Result<Option<Slot>> {
        let place = layout::pool_dir(ctx.repo.common_dir()).join(&name);
        // In a repository that cannot be written a slot can be looked at.
        let opened = File::options().read(true).write(true).open(&place);
        let Ok(mut file) = opened.or_else(|_| fsx::open(&place)) else {
            return Ok(None);
        };
        if file.try_lock().is_err() {
            return Ok(None);
        }
        // One that was removed between opening and locking is no slot any more.
        let opened = file.metadata().at("could not look at", &place)?;
        let inode = opened.ino();
        if !opened.is_file() || !fs::metadata(&place).is_ok_and(|found| found.ino() == inode) {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).at("could not read", &place)?;
        let mut slot = Slot::at(ctx, name, place, file)?;
        slot.record = SlotRecord::from_bytes(&bytes).filter(|_| slot.is_in_place());
        Ok(Some(slot))
    }

    /// As [`Slot::lock`], of a slot that a spawn is to get. Processes lock a whole slot for a moment to look at it or to claim
    /// it, and that is waited for.
    fn lock_to_claim(ctx: &Ctx, name: &str, until: Instant) -> Result<Option<Slot>> {
        let place = layout::pool_dir(ctx.repo.common_dir()).join(name);
        loop {
            let slot = Slot::lock(ctx, name.to_owned())?;
            if slot.is_some() || record_at(&place).is_none() || Instant::now() >= until {
                return Ok(slot);
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Whether the worktree and the admin directory name each other.
    fn is_in_place(&self) -> bool {
        self.admin_dir.join("index").is_file() && leads_to(&self.path, &self.admin_dir)
    }

    /// Says what is in it, or that it is not whole from here on.
    ///
    /// # Errors
    /// `io`, `disk-full`.
    pub(crate) fn write(&mut self, record: Option<SlotRecord>) -> Result<()> {
        let bytes = record.as_ref().map(SlotRecord::to_bytes);
        let written = self
            .file
            .set_len(0)
            .and_then(|()| self.file.rewind())
            .and_then(|()| self.file.write_all(&bytes.unwrap_or_default()));
        written.at("could not write", &self.place)?;
        self.record = record;
        Ok(())
    }

    /// Brings it to another commit by the files that differ. It is not whole until that is done.
    ///
    /// # Errors
    /// `target-dirty` where set-up changed a file that differs; `git-failed`, `io`. The slot is to be removed then.
    pub(crate) fn bring_to(
        &mut self,
        ctx: &Ctx,
        record: &SlotRecord,
        commit: Oid,
        tree: Oid,
    ) -> Result<()> {
        let old = Oid::from_hex(&record.commit);
        let old = old.ok_or_else(|| Error::bug("a slot's record names no commit"))?;
        self.write(None)?;
        let directory = layout::tmp_dir(ctx.repo.common_dir());
        fsx::create_dir(&directory)?;
        // No agent has had the slot, so git can be started in it as it is.
        let checkout = Checkout {
            top: self.path.clone(),
            git_dir: self.admin_dir.clone(),
            view: None,
        };
        let scratch = fsx::unique_name(&directory.join("index"));
        drop(checkout.carry(&ctx.repo, (old, commit), &scratch, &|_| ())?);
        ctx.reached("slot-moved");
        let mut record = SlotRecord {
            commit: commit.to_hex(),
            tree: tree.to_hex(),
            ..record.clone()
        };
        if record.leftovers {
            record.made = whole_tree(ctx, commit, &self.place(), None)?.map(Oid::to_hex);
        }
        self.write(Some(record))
    }

    fn place(&self) -> AgentWorktree {
        AgentWorktree {
            path: self.path.clone(),
            admin_dir: self.admin_dir.clone(),
        }
    }

    /// Whether nothing but the set-up has worked in a whole slot since it was filled. Where that cannot be told, something
    /// has.
    pub(crate) fn is_untouched(&self, ctx: &Ctx, record: &SlotRecord) -> bool {
        let head = untrusted::text(&self.admin_dir, "HEAD").unwrap_or_default();
        let Some(commit) =
            Oid::from_hex(&record.commit).filter(|_| head.trim_end() == record.commit)
        else {
            return false;
        };
        // Commits that were made by hand and left again are named by the reflog alone.
        let made = ctx.repo.leftover_commits(&self.admin_dir, None, commit);
        let is_bare = made.is_ok_and(|made| made.is_empty());
        let found = || whole_tree(ctx, commit, &self.place(), None);
        is_bare
            && found().is_ok_and(|tree| match (&record.made, tree) {
                (None, None) => !record.leftovers,
                (Some(made), Some(tree)) => *made == tree.to_hex(),
                _ => false,
            })
    }

    /// As [`Slot::remove`], for a slot in which a person may have worked: what was edited in it is kept first.
    ///
    /// # Errors
    /// As [`Slot::remove`], and those of [`kept_worktree::keep_all`]; the slot stays then.
    pub(crate) fn remove_keeping(self, ctx: &Ctx) -> Result<Option<KeptWorktree>> {
        let kept = self.keep(ctx)?;
        self.remove(ctx)?;
        Ok(kept)
    }

    fn keep(&self, ctx: &Ctx) -> Result<Option<KeptWorktree>> {
        let record = self.record.as_ref();
        if record.is_some_and(|record| self.is_untouched(ctx, record)) {
            return Ok(None);
        }
        // What a killed process left may have no admin directory yet, and then no person could work in it.
        let head = untrusted::text(&self.admin_dir, "HEAD").unwrap_or_default();
        let recorded = record.and_then(|record| Oid::from_hex(&record.commit));
        let Some(base) = recorded.or_else(|| Oid::from_hex(head.trim_end())) else {
            return Ok(None);
        };
        let made = record.map(|record| record.made.as_ref().unwrap_or(&record.tree));
        let made = match made.and_then(|made| Oid::from_hex(made)) {
            Some(made) => made,
            None => ctx.repo.read_commit(base)?.tree,
        };
        kept_worktree::keep_all(ctx, &self.place(), base, made)
    }

    /// Removes the slot: the worktree where it is still the slot's, the admin directory and the file. The caller knows that
    /// no person has worked in it, or uses [`Slot::remove_keeping`].
    ///
    /// # Errors
    /// `io`.
    pub(crate) fn remove(self, ctx: &Ctx) -> Result<()> {
        let common = ctx.repo.common_dir();
        let is_empty =
            || fs::read_dir(&self.path).is_ok_and(|mut entries| entries.next().is_none());
        {
            let _spawns = lock::hold(common, layout::SPAWN_LOCK)?;
            if leads_to(&self.path, &self.admin_dir) || is_empty() {
                fsx::remove_by_trash(common, &self.path)?;
            }
            ctx.reached("slot-emptied");
            let half_made = layout::tmp_dir(common).join(&self.name);
            for directory in [&self.admin_dir, &half_made] {
                if directory.exists() {
                    fsx::remove_by_trash(common, directory)?;
                }
            }
        }
        ctx.reached("slot-unlinked");
        fs::remove_file(&self.place).at("could not remove", &self.place)
    }
}

fn require_inside(root: &Path) -> Result<()> {
    let place = root.join(WORKTREE_DIR);
    let real = place
        .ancestors()
        .find_map(|path| fs::canonicalize(path).ok());
    let root = fs::canonicalize(root).at("could not resolve", root)?;
    if real.is_some_and(|real| real.starts_with(&root)) {
        return Ok(());
    }
    let place = place.display();
    let what =
        format!("a symlink leads {place} out of the repository, and no warm worktree goes there");
    Err(Error::new(Code::PathInvalid, what)
        .hint(format!("to see which one it is, run ls -ld {place}")))
}

/// The slots, one after the other, each locked as long as the caller keeps it; `None` for one that another process works on.
///
/// # Errors
/// `io`.
pub(crate) fn slots(ctx: &Ctx) -> Result<impl Iterator<Item = Result<Option<Slot>>>> {
    let names = names(ctx)?.into_iter();
    Ok(names.map(|name| Slot::lock(ctx, name)))
}

/// Takes the whole slot that `rate` gives the lowest number and that no person has edited; `None` where there is none.
///
/// # Errors
/// `io`.
pub(crate) fn claim(
    ctx: &Ctx,
    rate: impl Fn(&Slot, &SlotRecord) -> Option<u32>,
) -> Result<Option<Slot>> {
    let mut best: Option<(u32, Slot)> = None;
    let until = Instant::now() + LOOKING;
    for name in names(ctx)? {
        let Some(slot) = Slot::lock_to_claim(ctx, &name, until)? else {
            continue;
        };
        let Some(rating) = slot.record.as_ref().and_then(|record| rate(&slot, record)) else {
            continue;
        };
        let is_better = best.as_ref().is_none_or(|(other, _)| rating < *other);
        // Last, because it looks at every file.
        if is_better
            && slot
                .record
                .as_ref()
                .is_some_and(|record| slot.is_untouched(ctx, record))
        {
            best = Some((rating, slot));
            if rating == 0 {
                break;
            }
        }
    }
    Ok(best.map(|(_, slot)| slot))
}

/// The names of all slots; none is locked.
///
/// # Errors
/// `io`.
pub(crate) fn names(ctx: &Ctx) -> Result<Vec<String>> {
    let directory = layout::pool_dir(ctx.repo.common_dir());
    let entries = fs::read_dir(&directory).at_if_there("could not list", &directory)?;
    let names = entries
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name());
    let names = names.filter_map(|name| name.into_string().ok());
    let mut names: Vec<String> = names
        .filter(|name| name.starts_with(layout::SLOT_PREFIX))
        .collect();
    names.sort_unstable();
    Ok(names)
}

/// How many slots are whole; none is locked.
///
/// # Errors
/// `io`.
pub(crate) fn count_whole(ctx: &Ctx) -> Result<usize> {
    let directory = layout::pool_dir(ctx.repo.common_dir());
    let is_whole = |name: &String| record_at(&directory.join(name)).is_some();
    Ok(names(ctx)?.iter().filter(|name| is_whole(name)).count())
}

fn record_at(place: &Path) -> Option<SlotRecord> {
    SlotRecord::from_bytes(&fsx::load_if_there(place).ok()??)
}

/// How long a spawn waits for processes that look at slots; making a worktree takes about as long.
const LOOKING: Duration = Duration::from_millis(250);

/// How long a process waits for another one to fill the pool.
const FILLING: Duration = Duration::from_secs(60 * 60);

/// Takes the lock of the process that fills the pool. Where another one has it, waits for it or gives `None`.
///
/// # Errors
/// `lock-timeout`, `repo-read-only`, `io`.
pub(crate) fn tend(ctx: &Ctx, waits: bool) -> Result<Option<lock::Guard>> {
    let common = ctx.repo.common_dir();
    if waits {
        lock::hold_for(common, layout::POOL_LOCK, FILLING).map(Some)
    } else {
        lock::try_hold(common, layout::POOL_LOCK)
    }
}

/// How many slots were left by processes that died while they filled, moved or claimed them.
///
/// # Errors
/// `io`.
pub(crate) fn count_left(ctx: &Ctx) -> Result<usize> {
    let mut count = 0;
    for slot in slots(ctx)? {
        count += usize::from(slot?.is_some_and(|slot| slot.record.is_none()));
    }
    Ok(count)
}

/// Removes what processes left that died while they filled, moved or claimed a slot; gives how many there were, and what was
/// kept of them.
///
/// # Errors
/// `io`; those of [`Slot::remove`].
pub(crate) fn sweep(ctx: &Ctx) -> Result<(usize, Vec<KeptWorktree>)> {
    // Only who tends the pool begins slots, so none is seen between its beginning and its locking.
    let Some(_tending) = tend(ctx, false)? else {
        return Ok((0, Vec::new()));
    };
    sweep_while_tending(ctx)
}

/// As [`sweep`], for a process that has the lock of [`tend`].
///
/// # Errors
/// As [`sweep`].
pub(crate) fn sweep_while_tending(ctx: &Ctx) -> Result<(usize, Vec<KeptWorktree>)> {
    let (mut count, mut kept) = (0, Vec::new());
    for slot in slots(ctx)? {
        if let Some(slot) = slot?.filter(|slot| slot.record.is_none()) {
            kept.extend(slot.remove_keeping(ctx)?);
            count += 1;
        }
    }
    Ok((count, kept))
}

/// Whether two places are on one file system, so that one can be renamed to the other.
pub(crate) fn can_be_moved(from: &Path, to: &Path) -> bool {
    let device = |path: &Path| {
        let existing = path.ancestors().find_map(|path| fs::metadata(path).ok());
        existing.map(|found| found.dev())
    };
    device(from).is_some() && device(from) == device(to)
}
