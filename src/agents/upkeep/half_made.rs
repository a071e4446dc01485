//! Takes a half-made agent apart: after an error, and after a kill.

use crate::agents::context::ctx::Ctx;
use crate::agents::{context::untrusted, place::worktree, upkeep::clone};
use crate::domain::work::bundle as artefacts;
use crate::domain::{AgentId, Oid, State, What};
use crate::error::{IoContext, Result};
use crate::git::Tip;
use crate::git::files::admin_dir::{belongs_to, leads_to};
use crate::git::worktree::set_lock;
use crate::hosts::WORKTREE_DIR;
use crate::store::files::place::Journal;
use crate::store::files::{briefing, fsx, layout, leases, lock};
use crate::wire::row::journal::{AdoptedJournal, SpawnJournal};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// How many numbered names a branch is tried under.
const BRANCH_VARIANTS: usize = 1000;

/// The names a branch is tried under, in order: `x`, `x-2`, `x-3` and so on.
pub(crate) fn branch_names(wanted: &str) -> impl Iterator<Item = String> {
    let numbered = (2..=BRANCH_VARIANTS).map(move |number| format!("{wanted}-{number}"));
    std::iter::once(wanted.to_owned()).chain(numbered)
}

/// Finishes or takes apart every spawn whose process is gone; gives how many there were.
///
/// # Errors
/// Those of the steps; what could not be undone stays in its journal for the next time.
pub fn sweep(ctx: &Ctx) -> Result<usize> {
    let common = ctx.repo.common_dir();
    // Nearly every command asks, and nearly always there is no journal: one look, and no lock.
    if !Journal::any(common) {
        return Ok(0);
    }
    let abandoned = {
        // Given up before the undoing, which takes it itself. The journals found here are locked
        // one by one, so no other process undoes them as well.
        let _spawns = lock::hold(common, layout::SPAWN_LOCK)?;
        Journal::abandoned(common)?
    };
    let count = abandoned.len();
    for (journal, record) in abandoned {
        if let Some(record) = record {
            undo(ctx, &record, "the spawn was interrupted")?;
        }
        journal.end()?;
    }
    Ok(count)
}

/// What killed processes left beside worktrees in a directory: worktrees that were filled under a name of their own and never got
/// their place. No agent has had them.
pub fn left_over(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let is_worktrees = |name: &str| {
        let agent = name.get(..layout::WORKTREE_PREFIX.len() + 8);
        agent.and_then(layout::agent_of_worktree).is_some()
    };
    let is_left = |name: &OsStr| name.to_str().is_some_and(is_worktrees) && fsx::is_left_over(name);
    entries.filter(|entry| is_left(&entry.file_name())).map(|entry| entry.path()).collect()
}

/// Removes what [`left_over`] finds where worktrees are by default.
///
/// # Errors
/// `io`.
pub fn sweep_left_over(ctx: &Ctx) -> Result<()> {
    let common = ctx.repo.common_dir();
    let left = left_over(&ctx.repo.root()?.join(WORKTREE_DIR));
    left.iter().try_for_each(|path| fsx::remove_by_trash(common, path).map(drop))
}

/// Takes apart what `record` names, newest first. Every step may find its work done already.
pub(crate) fn undo(ctx: &Ctx, record: &SpawnJournal, reason: &str) -> Result<()> {
    let (Some(id), Some(commit)) =
        (AgentId::parse(&record.agent), Oid::from_hex(&record.spawn_commit))
    else {
        // A journal that names no agent says nothing that could be undone.
        return Ok(());
    };
    let ledger = ctx.ledger();
    let row = ledger.agent(commit)?;
    let admin = worktree::admin_dir(&ctx.repo, id);
    if row.as_ref().is_some_and(|row| row.state != State::Spawning) {
        // The row is complete: the agent is ready. Only its lock may still have to say so, and its clone to get the row.
        if admin.is_dir() {
            set_lock(&admin, &layout::lock_reason(id))?;
        }
        if let (Some(adopted), Some(worktree)) = (&record.adopted, &record.worktree)
            && leads_to(Path::new(worktree), &admin)
        {
            let old = ctx.repo.admin_dir(&adopted.admin);
            if old.is_dir() {
                fsx::remove_by_trash(ctx.repo.common_dir(), &old)?;
            }
        }
        // A clone that cannot be written is in the way of no other spawn.
        let _ = clone::give_missing_row(ctx, id, commit);
        return Ok(());
    }
    remove_places(ctx, record, &admin, id)?;
    if let Some(wanted) = &record.branch {
        for name in branch_names(wanted) {
            // A name may be free and have been passed over, because a row has it.
            let tip = record.adopted.as_ref().map(|adopted| &adopted.tip);
            let made = tip.and_then(|tip| Oid::from_hex(tip)).unwrap_or(commit);
            // A branch that has moved on is not ours to delete.
            if ctx.repo.tip(&name)? == Tip::At(made) {
                ctx.repo.delete_ref(&name, made)?;
                break;
            }
        }
    }
    // Rows are never deleted, so one that was begun is ended.
    if row.is_some() {
        let text = ctx.public_text(reason, record.worktree.as_deref().map(Path::new))?;
        let actor = ctx.actor()?;
        ledger.append(commit, &actor, What::Noted { text }, ctx.now())?;
        ledger.append(commit, &actor, What::Discarded { tip: None }, ctx.now())?;
    }
    Ok(())
}

/// Removes the worktree, its admin directory and what belongs to the agent, while no other is being made.
fn remove_places(ctx: &Ctx, record: &SpawnJournal, admin: &Path, id: AgentId) -> Result<()> {
    let common = ctx.repo.common_dir();
    let _spawns = lock::hold(common, layout::SPAWN_LOCK)?;
    let worktree = record.worktree.as_deref().map(Path::new);
    if let (Some(worktree), Some(adopted)) = (worktree, &record.adopted) {
        give_back(ctx, worktree, adopted, admin, id)?;
    } else if let Some(worktree) = worktree {
        // A warm worktree that was renamed names its old admin directory for a moment. One that was not is still a slot.
        let slot = record.slot.as_deref().map(|name| ctx.repo.admin_dir(name));
        let was_renamed = |slot: &PathBuf| !belongs_to_slot(ctx, slot, worktree);
        let slot = slot.filter(was_renamed);
        remove_worktree(&ctx.repo.root()?, common, worktree, &[Some(admin), slot.as_deref()])?;
    }
    if let Some(bundle) = record.shared_bundle.as_deref().map(Path::new)
        && bundle.is_dir()
    {
        fsx::remove_by_trash(common, bundle)?;
        // That of all of them goes with the last one.
        let _ = bundle.parent().map(fs::remove_dir);
    }
    // Deleted first: what is moved to the trash may lie there for a while.
    briefing::delete(common, id)?;
    leases::free(common, &id.short())?;
    clone::forget(common, id);
    let scratch = layout::tmp_dir(common).join(layout::worktree_name(id));
    for directory in [admin, &scratch, &layout::agent_dir(common, id)] {
        if directory.exists() {
            fsx::remove_by_trash(common, directory)?;
        }
    }
    Ok(())
}

/// Lets a worktree that was there before use its own admin directory again.
fn give_back(
    ctx: &Ctx,
    worktree: &Path,
    adopted: &AdoptedJournal,
    admin: &Path,
    id: AgentId,
) -> Result<()> {
    let old = &ctx.repo.admin_dir(&adopted.admin);
    // What stands where the agent's files go is ours: nothing was there.
    let bundle = worktree.join(&adopted.bundle);
    for (name, _) in artefacts::FILES {
        let _ = fs::remove_file(bundle.join(name));
    }
    let _ = fs::remove_dir(&bundle);
    if leads_to(worktree, admin) && old.is_dir() {
        // What was staged since the worktree had the other one.
        fs::rename(admin.join("index"), old.join("index")).at_if_there("could not move", admin)?;
        ctx.repo.point_worktree(worktree, old)?;
    }
    let lock = old.join("index.lock");
    if untrusted::text(old, "index.lock").is_some_and(|text| text == id.to_string()) {
        fs::remove_file(&lock).at("could not remove", &lock)?;
    }
    Ok(())
}

/// Whether a worktree is still the slot of that admin directory: at the place that this one names.
fn belongs_to_slot(ctx: &Ctx, slot: &Path, worktree: &Path) -> bool {
    let name = slot.file_name().and_then(|name| name.to_str());
    let known = name.and_then(|name| ctx.repo.worktree(name));
    known.is_some_and(|known| known.path == worktree)
}

/// Removes a worktree that is provably the half-made one: its `.git` file names our admin directory, or
/// it holds nothing yet but at most that file, still empty.
fn remove_worktree(
    root: &Path,
    common: &Path,
    worktree: &Path,
    admins: &[Option<&Path>],
) -> Result<()> {
    let Ok(metadata) = fs::symlink_metadata(worktree) else {
        return Ok(());
    };
    if !metadata.is_dir() {
        return Ok(());
    }
    let entries = fs::read_dir(worktree).at("could not list", worktree)?.count();
    let pointer = fs::metadata(worktree.join(".git"));
    let barely_begun = match entries {
        0 => true,
        1 => pointer.is_ok_and(|pointer| pointer.is_file() && pointer.len() == 0),
        _ => false,
    };
    let mut admins = admins.iter().flatten();
    if barely_begun || admins.any(|admin| belongs_to(worktree, admin)) {
        fsx::remove_by_trash(common, worktree)?;
        // Directories that were made for this worktree alone go too; others are not empty.
        let parents = worktree.ancestors().skip(1);
        for parent in parents.take_while(|parent| parent.starts_with(root) && *parent != root) {
            if fs::remove_dir(parent).is_err() {
                break;
            }
        }
    }
    Ok(())
}
