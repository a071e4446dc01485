//! Worktrees in which check commands ran, left by a `verify` that was killed. None is worked in: it is
//! ours by its name, its lock and its `.git` file, and goes unless its HEAD has moved since.

use crate::agents::check_worktree::CheckWorktree;
use crate::agents::ctx::Ctx;
use crate::domain::diagnosis::Sign;
use crate::domain::shell;
use crate::error::Result;
use crate::git::worktree::belongs_to;
use crate::hosts::WORKTREE_DIR;
use crate::ops::doctor::Finding;
use crate::ops::doctor::survey::Survey;
use crate::store::{layout, lock};
use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

pub(super) fn look(ctx: &Ctx, survey: &Survey) -> Result<Vec<Finding>> {
    let mut found = Vec::new();
    for short in candidates(ctx, survey)? {
        let place = CheckWorktree::of(ctx, &short)?;
        let is_left = is_left(ctx, &place)? && alone(ctx, &short).is_ok();
        if !is_left {
            continue;
        }
        let path = place.path.display();
        let who = if layout::is_train_place(&short) {
            "train".to_owned()
        } else {
            format!("verify of agent {short}")
        };
        let what = format!("{path} is what a killed {who} left");
        found.push(if !place.has_moved() {
            Finding::curable(Sign::VerifyLeft, what, move |ctx| clear(ctx, &short))
        } else {
            Finding::report(
                Sign::VerifyLeft,
                format!("{what}, and its HEAD has moved since"),
                format!(
                    "git -C {} log --oneline -5",
                    shell::quoted(&path.to_string())
                ),
            )
        });
    }
    Ok(found)
}

/// By the admin directories, and by the directories of those that have lost theirs.
fn candidates(ctx: &Ctx, survey: &Survey) -> Result<BTreeSet<String>> {
    let beside = fs::read_dir(ctx.repo.root()?.join(WORKTREE_DIR));
    let beside = beside.into_iter().flatten().flatten();
    let beside = beside.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let linked = survey.worktrees.iter().map(|one| one.name.clone());
    let names = beside.chain(linked);
    Ok(names
        .filter_map(|name| layout::agent_of_verify_worktree(&name).map(str::to_owned))
        .collect())
}

/// Whether what is there is ours: by its lock, or by leading to an admin directory that was removed.
fn is_left(ctx: &Ctx, place: &CheckWorktree) -> Result<bool> {
    let is_orphan = || !place.admin_dir.exists() && belongs_to(&place.path, &place.admin_dir);
    let is_there = place.admin_dir.exists() || place.path.join(".git").exists();
    Ok(is_orphan() || (is_there && place.is_ours(&ctx.repo)))
}

/// Keeps a verify of that agent away; fails while there is one. Where it has no directory there is no lock to
/// take, and no verify that took it.
fn alone(ctx: &Ctx, short: &str) -> Result<Option<lock::Guard>> {
    let common = ctx.repo.common_dir();
    let name = layout::verify_lock(short);
    let exists = layout::agents_dir(common).join(&name).exists();
    exists
        .then(|| lock::hold_for(common, &name, Duration::ZERO))
        .transpose()
}

fn clear(ctx: &Ctx, short: &str) -> Result<String> {
    let _alone = alone(ctx, short)?;
    let common = ctx.repo.common_dir();
    let _spawns = lock::hold(common, layout::SPAWN_LOCK)?;
    let place = CheckWorktree::of(ctx, short)?;
    if !is_left(ctx, &place)? || place.has_moved() {
        return Ok("another process has removed it".to_owned());
    }
    place.remove(common)?;
    Ok("removed it".to_owned())
}
