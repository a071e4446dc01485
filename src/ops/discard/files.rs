//! What becomes of the files of an agent that goes.

use crate::agents::ctx::Ctx;
use crate::domain::agent::Agent;
use crate::error::{Error, IoContext, Result};
use crate::ops::discard::gate::{Place, Site};
use crate::store::{fsx, layout, lock};
use std::fs;
use std::os::unix::fs::PermissionsExt;

/// Takes the files out of reach of everybody who knows their path.
pub(super) fn put_aside(place: &mut Place) -> Result<()> {
    let aside = place.aside();
    if place.files.as_ref() == Some(&place.path) {
        fs::rename(&place.path, &aside).at("could not move away", &place.path)?;
        place.files = Some(aside);
    }
    Ok(())
}

/// Gives a worktree that cannot go its name back, so that processes in it find it, and gives the reason.
pub(super) fn put_back(ctx: &Ctx, site: &Site, refusal: Error) -> Error {
    let Some(place) = &site.place else {
        return refusal;
    };
    // Overwriting other files would be a loss; a rename replaces nothing but an empty directory.
    let moved = match &place.files {
        Some(files) if *files != place.path => fs::rename(files, &place.path),
        _ => Ok(()),
    };
    ctx.reached("back");
    match moved {
        Ok(()) => refusal,
        Err(_) => refusal.hint("to put the worktree back, run git agent doctor --fix"),
    }
}

/// Moves the worktree and its admin directory into the trash; gives their names there.
pub(super) fn remove_place(ctx: &Ctx, site: &Site) -> Result<Vec<String>> {
    let common = ctx.repo.common_dir();
    let mut names = Vec::new();
    let Some(place) = &site.place else {
        return Ok(names);
    };
    // A spawn makes the directories that are removed here, and reads the list of worktrees.
    let _spawns = lock::hold(common, layout::SPAWN_LOCK)?;
    if let Some(files) = &place.files {
        names.extend(fsx::move_to_trash(common, files)?);
    }
    // Directories that were made for this worktree alone go too; others are not empty.
    let root = ctx.repo.root()?;
    let parents = place.path.ancestors().skip(1);
    for parent in parents.take_while(|parent| parent.starts_with(&root) && *parent != root) {
        if fs::remove_dir(parent).is_err() {
            break;
        }
    }
    ctx.reached("trashed");
    // While the admin directory is there, a discard that was killed here goes on with what it has kept.
    if let Some(layer) = place.layer_dir() {
        names.extend(fsx::move_to_trash(common, &layer)?);
    }
    if fs::symlink_metadata(&place.admin_dir).is_ok() {
        names.extend(fsx::move_to_trash(common, &place.admin_dir)?);
    }
    ctx.reached("unlinked");
    Ok(names)
}

/// Moves the agent's git hooks, which bind a worktree that is gone, into the trash; gives their name there.
pub(super) fn remove_hooks(ctx: &Ctx, agent: &Agent) -> Result<Option<String>> {
    let common = ctx.repo.common_dir();
    let hooks = layout::hooks_dir(common, &agent.id.short());
    if !hooks.is_dir() {
        return Ok(None);
    }
    // Installed without write permission, and moving a directory takes it.
    fs::set_permissions(&hooks, fs::Permissions::from_mode(0o755))
        .at("could not move away", &hooks)?;
    fsx::move_to_trash(common, &hooks)
}
