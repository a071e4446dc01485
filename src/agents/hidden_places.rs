//! What a command behind a fence does not see: the directories of other agents, and the locks that our commands wait for.
//!
//! Landlock refuses to write there, but a lock on a file can be taken by a process that only reads it, and
//! others then wait for an agent. Where the command has a mount namespace, these directories appear empty to it.

use crate::agents::ctx::Ctx;
use crate::domain::id::AgentId;
use crate::domain::sandbox::Fence;
use crate::error::Result;
use crate::hosts::WORKTREE_DIR;
use crate::store::layout;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// What begins the names of the worktrees that are ours.
const OURS: [&str; 3] = [layout::WORKTREE_PREFIX, layout::SLOT_PREFIX, "verify-"];

/// What our commands read of the directory of all agents.
const READ: [&str; 5] = ["added", "cache", "clone-id", "closed", "leases"];

/// Hides from a command what is not its own agent's; `own` is that agent, if it works for one. `program` is this program's own
/// file, which may lie in a worktree.
///
/// # Errors
/// Those of listing the worktrees.
pub(crate) fn hide(
    ctx: &Ctx,
    own: Option<AgentId>,
    program: &Path,
    fence: &mut Fence,
) -> Result<()> {
    let common = real(ctx.repo.common_dir());
    let agents = layout::agents_dir(&common);
    let admin_dirs = common.join("worktrees");
    // 1. The worktrees, all at once in the default place, where nothing else is.
    let mut hidden: BTreeSet<PathBuf> = BTreeSet::new();
    for worktree in ctx.repo.worktrees()? {
        if OURS.iter().any(|prefix| worktree.name.starts_with(prefix)) {
            let path = real(&worktree.path);
            // The whole directory, so that worktrees which are made later are hidden as well.
            let above = { path.parent() }.filter(|above| above.ends_with(WORKTREE_DIR));
            hidden.insert(above.unwrap_or(&path).to_owned());
        }
    }
    // A worktree that is the command's own is a place that it may write.
    hidden.retain(|path| !fence.writable.contains(path) && !fence.own.contains(path));
    hidden.extend([agents.clone(), admin_dirs.clone()]);
    // 2. What is to be seen of the rest.
    let mut shown: Vec<PathBuf> = READ.map(|name| agents.join(name)).into();
    if let Some(id) = own {
        shown.push(admin_dirs.join(layout::worktree_name(id)));
        // Each by itself, so that no lock is among them, not even one that is made later.
        let entries = fs::read_dir(layout::agent_dir(&common, id));
        let paths = { entries.into_iter().flatten().flatten() }.map(|entry| entry.path());
        // What lies below and above the mount of a layered worktree is out of reach but through that mount.
        let is_seen = |path: &PathBuf| {
            path.extension().is_none_or(|end| end != "lock") && !path.ends_with(layout::LAYER)
        };
        shown.extend(paths.filter(is_seen));
    }
    // Hooks inside the fence call it.
    shown.push(real(program));
    fence.hidden = hidden.into_iter().filter(|path| path.is_dir()).collect();
    shown.retain(|path| fence.hidden.iter().any(|hidden| path.starts_with(hidden)));
    fence.shown = shown;
    Ok(())
}

fn real(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}
