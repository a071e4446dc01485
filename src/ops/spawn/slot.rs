//! A worktree that was made before it was asked for: claimed from the pool, brought to the wanted commit, and given to a new
//! agent.
//!
//! What differs from making a worktree is three steps in the place of two, and each leaves either a whole slot or what the
//! journal of the spawn names:
//!
//! 1. `adopted`: the agent's admin directory is published, with the slot's index. The slot is still whole.
//! 2. `renamed`: the directory is where the agent is to work; its `.git` file still names the slot. One that has to stay is
//!    there already.
//! 3. `pointed`: the `.git` file names the agent's admin directory. What is left of the slot is its name.

use crate::agents::ctx::Ctx;
use crate::agents::pool::{self, Slot};
use crate::agents::{real_path, worktree};
use crate::domain::oid::Oid;
use crate::error::{IoContext, Result};
use crate::git::populate;
use crate::ops::spawn::contract::SpawnPlan;
use crate::ops::spawn::execute::publish;
use crate::ops::spawn::setup::Preset;
use crate::store::fsx;
use std::fs;
use std::path::Path;

/// A slot that an agent gets.
pub(super) struct Claimed {
    pub(super) slot: Slot,
    /// Whether set-up commands have to run in it.
    reruns: bool,
}

impl Claimed {
    /// What of the set-up was done.
    pub(super) fn preset(&self) -> Preset {
        let record = self.slot.record.as_ref();
        let made = record.and_then(|record| Oid::from_hex(record.made.as_ref()?));
        match made {
            _ if self.reruns => Preset::Files,
            Some(made) => Preset::AllWithLeftovers(made),
            None => Preset::All,
        }
    }
}

/// Claims a slot that will do for the plan, and brings it to the plan's base. A slot that has to stay where it is becomes the
/// plan's place. `None` where there is none; a pool that fails is one without slots, and a warning.
pub(super) fn claim(ctx: &Ctx, plan: &mut SpawnPlan) -> Option<Claimed> {
    let claimed = try_claim(ctx, plan).unwrap_or_else(|error| {
        let warning = format!("no warm worktree could be claimed: {error}");
        plan.warnings.push(warning);
        None
    });
    if let Some(claimed) = &claimed
        && claimed
            .slot
            .record
            .as_ref()
            .is_some_and(|record| record.pinned)
    {
        let path = &claimed.slot.path;
        let root = ctx.repo.root().unwrap_or_default();
        plan.worktree_path = Some(real_path::for_display(&root, path));
        plan.worktree = Some(path.clone());
    }
    claimed
}

fn try_claim(ctx: &Ctx, plan: &mut SpawnPlan) -> Result<Option<Claimed>> {
    // A slot holds every file, and one that has run set-up commands must not run what others wrote.
    let takes_slot = plan.cone.is_none() && !plan.is_of_others();
    let Some(worktree) = plan.worktree.as_ref().filter(|_| takes_slot) else {
        return Ok(None);
    };
    let wanted = plan.wanted_files();
    let hash = pool::setup_hash(wanted.copy, &plan.task.setup_run, wanted.include);
    let tree = plan.tree.to_hex();
    let slot = pool::claim(ctx, |slot, record| {
        let is_placeable = if record.pinned {
            !plan.is_placed
        } else {
            pool::can_be_moved(&slot.path, worktree)
        };
        if record.setup != hash || !is_placeable {
            None
        } else {
            // 0 is a slot at the wanted tree, which ends the search; 1 is one that has to be moved
            // there.
            Some(u32::from(record.tree != tree))
        }
    })?;
    let Some(mut slot) = slot else {
        return Ok(None);
    };
    ctx.logged("claimed");
    let Some(record) = slot.record.clone() else {
        return Ok(None);
    };
    let moved = record.tree != tree;
    // After a failed move it is at neither commit, so no agent can get it any more.
    if moved && let Err(error) = slot.bring_to(ctx, &record, plan.base.oid, plan.tree) {
        let kept = slot.remove(ctx)?;
        plan.warnings.extend(kept.map(|kept| kept.sentence()));
        return Err(error);
    }
    let commands = &plan.task.setup_run;
    Ok(Some(Claimed {
        slot,
        // They may depend on what has changed, and on values that only an agent has.
        reruns: !commands.is_empty() && (moved || !plan.leases.is_empty()),
    }))
}

/// Gives a claimed slot to the agent, at `path`.
///
/// # Errors
/// `io`, `disk-full`, `lost-race`; the journal names what there is then.
pub(super) fn take_over(
    ctx: &Ctx,
    plan: &SpawnPlan,
    claimed: Claimed,
    path: &Path,
    branch: &str,
) -> Result<()> {
    let slot = claimed.slot;
    let repo = &ctx.repo;
    publish(ctx, plan, path, branch, |new| {
        repo.add_admin_dir(new, |half_made| link_indexes(&slot.admin_dir, half_made))
    })?;
    ctx.reached("adopted");
    if path != slot.path {
        if let Some(parent) = path.parent() {
            fsx::create_dir(parent)?;
        }
        fs::rename(&slot.path, path).at("could not move", &slot.path)?;
    }
    ctx.reached("renamed");
    let admin_dir = worktree::admin_dir(repo, plan.id);
    repo.point_worktree(path, &admin_dir)?;
    ctx.reached("pointed");
    populate::inherit_worktree_config(repo, &admin_dir)?;
    slot.hand_over(ctx)
}

/// Lets the index of one admin directory, and the part of it that git may keep beside it, be that of another one too. Git
/// replaces these files and never writes into them.
fn link_indexes(from: &Path, to: &Path) -> Result<()> {
    for entry in fs::read_dir(from).at("could not list", from)? {
        let entry = entry.at("could not list", from)?;
        let name = entry.file_name();
        let is_index = name == "index" || name.to_string_lossy().starts_with("sharedindex.");
        if is_index {
            fs::hard_link(entry.path(), to.join(&name)).at("could not link", entry.path())?;
        }
    }
    Ok(())
}

/// Fills the pool again, in a process of its own, so that the caller does not wait for it.
pub(super) fn refill_later(ctx: &Ctx, plan: &SpawnPlan) {
    if plan.pool_size > 0 && plan.worktree.is_some() {
        pool::refill_later(ctx);
    }
}
