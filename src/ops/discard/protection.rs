//! Every reason not to remove a worktree that is the agent's.

use crate::agents::ctx::Ctx;
use crate::agents::worktree::UNFINISHED;
use crate::domain::agent::Agent;
use crate::error::{Code, Error, Result};
use crate::git::files::admin_dir::belongs_to;
use crate::git::worktree::WorktreeCache;
use crate::ops::discard::gate::Place;
use crate::store::layout;
use std::fs;
use std::path::Path;

/// Checks that the worktree is not locked, in use or protected.
pub(super) fn require_unprotected(
    ctx: &Ctx,
    agent: &Agent,
    place: &Place,
    worktrees: &WorktreeCache,
) -> Result<()> {
    let path = &place.path;
    let shown = path.display();
    let root = ctx.repo.root()?;
    if root.starts_with(path) || ctx.repo.common_dir().starts_with(path) {
        return Err(refused(format!("{shown} holds the main worktree"))
            .hint("to see the worktrees, run git worktree list"));
    }
    // The caller's shell would stand in a directory that is gone.
    if ctx.env.directory.starts_with(path) {
        return Err(refused(format!("this command was started inside {shown}"))
            .hint(format!("to leave it, run cd {}", root.display())));
    }
    let own_name = layout::worktree_name(agent.id);
    for worktree in worktrees.worktrees() {
        let own = worktree.name == own_name;
        // An admin directory that names a place where no worktree of its own is says nothing.
        if own && worktree.path != *path && belongs_to(&worktree.path, &place.admin_dir) {
            let now = worktree.path.display();
            return Err(
                refused(format!("the worktree was moved from {shown} to {now}")).hint(format!(
                    "to move it back, run git worktree move -f -f {now} {shown}"
                )),
            );
        }
        // What is inside would go with it without having been looked at.
        if !own && worktree.path.starts_with(path) {
            let inner = worktree.path.display();
            let remove = match layout::agent_of_worktree(&worktree.name) {
                Some(other) => format!("git agent discard {other}"),
                None => format!("git worktree remove {inner}"),
            };
            return Err(
                refused(format!("{shown} has another worktree in it, {inner}"))
                    .hint(format!("to remove that one, run {remove}")),
            );
        }
        let ours = layout::lock_reason(agent.id);
        if let (true, Some(reason)) = (own, &worktree.lock_reason)
            // A person has locked it, and has a reason.
            && *reason != ours
        {
            return Err(
                refused(format!("{shown} is locked: {reason}")).hint(format!(
                    "to take the lock away, run git worktree unlock {shown}"
                )),
            );
        }
    }
    require_finished(place)?;
    // A submodule's repository is in the admin directory, so its commits go with that.
    if has_entries(&place.admin_dir.join("modules")) {
        return Err(refused(format!(
            "{shown} has submodules, whose commits are nowhere else"
        ))
        .hint("to give up its submodules, run git submodule deinit --all in it"));
    }
    Ok(())
}

fn require_finished(place: &Place) -> Result<()> {
    let unfinished = UNFINISHED
        .iter()
        .find(|(file, _)| is_file_or_directory(&place.admin_dir.join(file)));
    match unfinished {
        None => Ok(()),
        Some((_, what)) => {
            let shown = place.path.display();
            Err(
                refused(format!("{shown} is in the middle of a {what}")).hint(format!(
                    "to finish it, run git -C {shown} {what} --continue"
                )),
            )
        }
    }
}

fn is_file_or_directory(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file() || metadata.is_dir())
}

fn has_entries(directory: &Path) -> bool {
    fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_some())
}

pub(super) fn refused(message: String) -> Error {
    Error::new(Code::DiscardRefused, message)
}
