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
//! A person may work in one at any moment all the same: it is an ordinary worktree at a path that tools list. So:
//!
//! - `claim` looks at a slot before it hands it out, and passes over one that was edited;
//! - `Slot::remove` renames the worktree first, so that nothing is written to it by its path any more, and hangs what was edited
//!   on the keep chain before anything is deleted;
//! - what set-up leaves and git does not ignore cannot be told from what a person wrote while set-up ran, so it is kept as soon as
//!   the slot is whole (`furnish`);
//! - one that a person moved or locked with git is a slot no more, and stays.

use crate::agents::context::ctx::Ctx;
use crate::agents::context::untrusted;
use crate::agents::place::ignored_files::{self, WantedFiles};
use crate::agents::place::kept_worktree::{self, KeptWorktree};
use crate::agents::place::worktree::AgentWorktree;
use crate::agents::work::uncommitted::look;
use crate::domain::value::named::{hex, short_hex};
use crate::domain::{Glob, Oid, value::shell};
use crate::error::{Code, Error, IoContext, Result};
use crate::git::Checkout;
use crate::git::files::admin_dir::leads_to;
use crate::git::landing::linked_at;
use crate::git::uncommitted::Uncommitted;
use crate::hosts::WORKTREE_DIR;
use crate::proc::launch;
use crate::store::files::{fsx, layout, lock};
use crate::wire::row::journal::SlotRecord;
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
pub(crate) fn setup_hash(files: &WantedFiles<'_>, run: &[String]) -> String {
    let mut copy: Vec<&str> = files.copy.iter().map(Glob::as_str).collect();
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
    digest.update(files.include.unwrap_or_default());
    short_hex(&digest.finalize(), 16)
}

/// What set-up makes as things are now: the [`setup_hash`], and what tells the ignored files from earlier ones, where it takes any.
///
/// # Errors
/// As [`ignored_files::state`].
pub(crate) fn wanted_setup(ctx: &Ctx, files: &WantedFiles<'_>, run: &[String]) -> Result<String> {
    let hash = setup_hash(files, run);
    Ok(match ignored_files::state(ctx, files)? {
        Some(state) => format!("{hash}-{state}"),
        None => hash,
    })
}

/// Fills the pool again, in a process of its own, so that the caller does not wait for it.
pub(crate) fn refill_later(ctx: &Ctx) {
    if let (Some(program), Ok(root)) = (&ctx.env.program, ctx.repo.root()) {
        let words = ["pool", "fill", "--unless-busy"];
        // What is kept ready is the repository's and not that of the agent that took some of it, which may not decide about it.
        launch::start(program, words.into_iter(), &root, &[("GIT_AGENT_ID", String::new())]);
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
        let file = File::create_new(&place).at("could not make", &place)?;
        if file.try_lock().is_err() {
            // No process of ours locks a slot that it does not know; one that can read it may, and is not waited for.
            let what = format!("another process holds {}", place.display());
            return Err(Error::new(Code::LostRace, what));
        }
        Slot::at(ctx, name, place, file)
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

    /// As [`Slot::lock`]. Processes lock a whole slot for a moment to look at it or to claim it, and that is waited for.
    fn lock_within(ctx: &Ctx, name: &str, until: Instant) -> Result<Option<Slot>> {
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
        self.admin_dir.join("index").is_file()
            && leads_to(&self.path, &self.admin_dir)
            && untrusted::text(&self.admin_dir, "locked")
                .is_none_or(|reason| reason.trim_end() == layout::SLOT_LOCK_REASON)
    }

    /// Whether a person made the worktree an own one: moved it, or locked it, by means of git.
    fn is_taken_over(&self, ctx: &Ctx) -> bool {
        let Some(known) = ctx.repo.worktree(&self.name) else {
            return false;
        };
        let is_ours = |reason: &String| reason == layout::SLOT_LOCK_REASON;
        let is_here = |path: &Path| leads_to(path, &self.admin_dir);
        let is_moved = !is_here(&self.path) && is_here(&known.path);
        is_moved || known.lock_reason.is_some_and(|reason| !is_ours(&reason))
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
    /// `target-dirty` where set-up changed a file that differs; `lost-race` where it was edited meanwhile; `git-failed`, `io`. The
    /// slot is to be removed then.
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
        let checkout =
            Checkout { top: self.path.clone(), git_dir: self.admin_dir.clone(), view: None };
        let scratch = fsx::unique_name(&directory.join("index"));
        drop(checkout.carry(&ctx.repo, (old, commit), &scratch, &|_| ())?);
        // At its old commit all that was moved would look like work that a person has staged.
        let head = self.admin_dir.join("HEAD");
        fsx::write_atomic(&head, format!("{commit}\n").as_bytes())?;
        ctx.reached("slot-moved");
        let mut record =
            SlotRecord { commit: commit.to_hex(), tree: tree.to_hex(), ..record.clone() };
        if let Some(made) = record.made.as_deref().and_then(Oid::from_hex) {
            let now = look(ctx, commit, &self.place(&self.path), None, false)?.1.tree;
            let now = now.unwrap_or(tree);
            let before = ctx.repo.tree_of(old)?;
            // What set-up left is at other paths than what the move changed, so it is what it was, or a person wrote beside it.
            if ctx.repo.differences(before, made)? != ctx.repo.differences(tree, now)? {
                let what = format!("{} was edited while it was moved", self.name);
                return Err(Error::new(Code::LostRace, what));
            }
            record.made = Some(now.to_hex());
        }
        self.write(Some(record))
    }

    /// The worktree, whose files are in that directory.
    fn place(&self, files: &Path) -> AgentWorktree {
        AgentWorktree::new(files, &self.admin_dir)
    }

    /// Whether nothing but the set-up has worked in a whole slot since it was filled. Where that cannot be told, something
    /// has.
    pub(crate) fn is_untouched(&self, ctx: &Ctx, record: &SlotRecord) -> bool {
        self.is_untouched_at(ctx, record, &self.path)
    }

    fn is_untouched_at(&self, ctx: &Ctx, record: &SlotRecord, files: &Path) -> bool {
        let head = untrusted::text(&self.admin_dir, "HEAD").unwrap_or_default();
        let Some(commit) =
            Oid::from_hex(&record.commit).filter(|_| head.trim_end() == record.commit)
        else {
            return false;
        };
        // Commits that were made by hand and left again are named by the reflog alone.
        let named = ctx.repo.leftover_commits(&self.admin_dir, None, commit);
        if !named.is_ok_and(|named| named.commits().is_empty()) {
            return false;
        }
        let Ok((staged, found)) = look(ctx, commit, &self.place(files), None, false) else {
            return false;
        };
        // Set-up may have staged what it made. What is staged and nowhere else is a person's.
        let is_shown =
            |tree| staged.is_empty() || self.stages_only(ctx, files, commit, tree).unwrap_or(false);
        let is_as_made = match (&record.made, found.tree) {
            (None, None) => !record.leftovers,
            (Some(made), Some(tree)) => *made == tree.to_hex() && is_shown(tree),
            _ => false,
        };
        is_as_made && found.unmerged.is_empty() && apart(&found) == record.apart
    }

    /// Whether all that is staged is as the files have it.
    fn stages_only(&self, ctx: &Ctx, files: &Path, commit: Oid, tree: Oid) -> Result<bool> {
        let checkout = linked_at(&ctx.repo, &self.name, files, &ctx.temporary_place())?;
        let before = ctx.repo.tree_of(commit)?;
        let staged = ctx.repo.differences(before, checkout.staged_tree(&ctx.repo)?)?;
        let all = ctx.repo.differences(before, tree)?;
        Ok(staged.iter().all(|one| all.contains(one)))
    }

    /// Removes the slot: the worktree where it is still the slot's, the admin directory and the file. What a person wrote in it is
    /// kept first, and named. One that a person has taken over stays, and is a slot no more.
    ///
    /// # Errors
    /// `io`; those of [`kept_worktree::keep_all`]. The slot stays then.
    pub(crate) fn remove(self, ctx: &Ctx) -> Result<Option<KeptWorktree>> {
        // A process that made a base of it was killed, and the files are the base's.
        let is_base = !leads_to(&self.path, &self.admin_dir)
            && layout::bases_dir(ctx.repo.common_dir()).join(&self.name).exists();
        if is_base {
            return self.forget(ctx).map(|()| None);
        }
        if self.is_taken_over(ctx) {
            fs::remove_file(&self.place).at("could not remove", &self.place)?;
            return Ok(None);
        }
        // Under a name that no process knows: what is written by the old one fails, and so is not lost.
        let files = self.put_aside()?;
        ctx.reached("slot-aside");
        let kept = self.keep(ctx, &files);
        if kept.is_err() && files != self.path {
            fs::rename(&files, &self.path).at("could not move back", &files)?;
        }
        let kept = kept?;
        let common = ctx.repo.common_dir();
        {
            let _spawns = lock::hold(common, layout::SPAWN_LOCK)?;
            if files != self.path {
                fsx::remove_by_trash(common, &files)?;
            }
            // A fill that was killed early left no more than this. Where anything is in it, it is not the slot's.
            let _ = fs::remove_dir(&self.path);
        }
        self.forget(ctx)?;
        Ok(kept)
    }

    /// Renames the worktree to a hidden name beside its own, as a discard does; gives where its files are.
    fn put_aside(&self) -> Result<PathBuf> {
        let aside = layout::aside(&self.path, &self.name);
        if leads_to(&self.path, &self.admin_dir) && !aside.exists() {
            fs::rename(&self.path, &aside).at("could not move away", &self.path)?;
        }
        let found = Some(aside).filter(|aside| aside.is_dir());
        Ok(found.unwrap_or_else(|| self.path.clone()))
    }

    fn keep(&self, ctx: &Ctx, files: &Path) -> Result<Option<KeptWorktree>> {
        let record = self.record.as_ref();
        if record.is_some_and(|record| self.is_untouched_at(ctx, record, files)) {
            return Ok(None);
        }
        // What a killed process left may hold nothing yet.
        if !self.admin_dir.exists() && !files.exists() {
            return Ok(None);
        }
        let recorded = record.and_then(|record| Oid::from_hex(&record.commit));
        let found = match recorded {
            None => ctx.repo.commit_at(&self.admin_dir)?,
            recorded => recorded,
        };
        let base = match found {
            Some(found) => found,
            // A damaged admin directory does not tell what the files were made from. Any commit will do to keep them beside.
            None => ctx.repo.resolve_commit("HEAD")?.commit,
        };
        let made = record.map(|record| record.made.as_ref().unwrap_or(&record.tree));
        let made = match made.and_then(|made| Oid::from_hex(made)) {
            Some(made) => made,
            None => ctx.repo.tree_of(base)?,
        };
        kept_worktree::keep_all(ctx, &self.place(files), base, made)
    }

    /// Gives the name up that the worktree had as a slot, when it is an agent's.
    ///
    /// # Errors
    /// `io`; those of keeping a commit that a person made there after it was looked at.
    pub(crate) fn hand_over(self, ctx: &Ctx) -> Result<()> {
        let commit = self.record.as_ref().map(|record| &record.commit);
        if let Some(commit) = commit.and_then(|commit| Oid::from_hex(commit)) {
            let named = ctx.repo.leftover_commits(&self.admin_dir, None, commit)?;
            if !named.commits().is_empty() {
                kept_worktree::keep_commits(ctx, &self.admin_dir, None)?;
            }
        }
        self.forget(ctx)
    }

    /// Removes what is left of a slot whose worktree is another's by now, or gone.
    ///
    /// # Errors
    /// `io`.
    pub(crate) fn forget(self, ctx: &Ctx) -> Result<()> {
        let common = ctx.repo.common_dir();
        {
            let _spawns = lock::hold(common, layout::SPAWN_LOCK)?;
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

/// What of a worktree no tree can hold, as a record has them.
pub(crate) fn apart(found: &Uncommitted) -> String {
    let all = [&found.nested, &found.refused, &found.submodules, &found.unreadable];
    let all = all.into_iter().flatten();
    all.map(|path| format!("{}\0", String::from_utf8_lossy(path))).collect()
}

fn require_inside(root: &Path) -> Result<()> {
    let place = root.join(WORKTREE_DIR);
    let real = place.ancestors().find_map(|path| fs::canonicalize(path).ok());
    let root = fs::canonicalize(root).at("could not resolve", root)?;
    if real.is_some_and(|real| real.starts_with(&root)) {
        return Ok(());
    }
    let shown = place.display();
    let what =
        format!("a symlink leads {shown} out of the repository, and no warm worktree goes there");
    let place = shell::path(&place);
    Err(Error::new(Code::PathInvalid, what)
        .hint(format!("to see which one it is, run ls -ld {place}")))
}

/// The slots, one after the other, each locked as long as the caller keeps it; `None` for one that another process works on.
///
/// # Errors
/// `io`.
pub(crate) fn slots(ctx: &Ctx) -> Result<impl Iterator<Item = Result<Option<Slot>>>> {
    let until = Instant::now() + LOOKING;
    let names = names(ctx)?.into_iter();
    Ok(names.map(move |name| Slot::lock_within(ctx, &name, until)))
}

/// Takes the whole slot that `rate` gives the lowest number, that no person has edited and that may serve a commit ([`may_serve`]); `None`
/// where there is none.
///
/// # Errors
/// `io`.
pub(crate) fn claim(
    ctx: &Ctx,
    trusted: Oid,
    rate: impl Fn(&Slot, &SlotRecord) -> Option<u32>,
) -> Result<Option<Slot>> {
    let mut best: Option<(u32, Slot)> = None;
    let until = Instant::now() + LOOKING;
    for name in names(ctx)? {
        let Some(slot) = Slot::lock_within(ctx, &name, until)? else {
            continue;
        };
        // The worktree moves, and the directory where the caller stands would be gone.
        if ctx.env.directory.starts_with(&slot.path) {
            continue;
        }
        let Some(rating) = slot.record.as_ref().and_then(|record| rate(&slot, record)) else {
            continue;
        };
        let is_better = best.as_ref().is_none_or(|(other, _)| rating < *other);
        // Last, because it starts git and looks at every file.
        let fits = |record: &SlotRecord| {
            may_serve(ctx, trusted, (&record.commit, &record.tree))
                && slot.is_untouched(ctx, record)
        };
        if is_better && slot.record.as_ref().is_some_and(fits) {
            best = Some((rating, slot));
            if rating == 0 {
                break;
            }
        }
    }
    Ok(best.map(|(_, slot)| slot))
}

/// Whether a worktree that was set up at a commit, with that tree, may serve work on top of `trusted`. It holds what the programs of that
/// commit made. So the files have to be the same, or the commit one that the trusted one contains: everything else is unjudged work of
/// agents, or of another branch.
pub(crate) fn may_serve(ctx: &Ctx, trusted: Oid, (commit, tree): (&str, &str)) -> bool {
    let is_same = || ctx.repo.read_commit(trusted).is_ok_and(|found| found.tree.to_hex() == tree);
    let is_contained = |commit| ctx.repo.is_ancestor(commit, trusted).unwrap_or(false);
    is_same() || Oid::from_hex(commit).is_some_and(is_contained)
}

/// The names of all slots; none is locked.
///
/// # Errors
/// `io`.
pub(crate) fn names(ctx: &Ctx) -> Result<Vec<String>> {
    let directory = layout::pool_dir(ctx.repo.common_dir());
    let entries = fs::read_dir(&directory).at_if_there("could not list", &directory)?;
    let mut names: Vec<String> = entries
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name())
        .filter_map(|name| name.into_string().ok())
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

/// How long a process waits for others that look at slots; making a worktree takes about as long.
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
/// Those of [`Slot::remove`].
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
    remove_all(ctx, slots(ctx)?, |slot| slot.record.is_none())
}

/// Removes the slots that `is_wanted` names and no process works on; gives how many there were, and what was kept of them. One
/// that cannot go is in the way of no other.
///
/// # Errors
/// The first of those of [`Slot::remove`], when all others are gone.
pub(crate) fn remove_all(
    ctx: &Ctx,
    slots: impl Iterator<Item = Result<Option<Slot>>>,
    is_wanted: impl Fn(&Slot) -> bool,
) -> Result<(usize, Vec<KeptWorktree>)> {
    let (mut count, mut kept, mut failed) = (0, Vec::new(), None);
    for slot in slots {
        let Some(slot) = slot?.filter(|slot| is_wanted(slot)) else {
            continue;
        };
        match slot.remove(ctx) {
            Ok(found) => {
                kept.extend(found);
                count += 1;
            }
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    failed.map_or(Ok((count, kept)), Err)
}

/// Whether two places are on one file system, so that one can be renamed to the other.
pub(crate) fn can_be_moved(from: &Path, to: &Path) -> bool {
    let device = |path: &Path| {
        let existing = path.ancestors().find_map(|path| fs::metadata(path).ok());
        existing.map(|found| found.dev())
    };
    device(from).is_some() && device(from) == device(to)
}
