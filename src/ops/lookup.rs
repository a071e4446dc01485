//! The agent that somebody means, and where it works.

use crate::domain::agent::Agent;
use crate::domain::event::Isolation;
use crate::error::{Code, Error, IoContext, Result};
use crate::git::Repo;
use crate::ops::Ctx;
use crate::store::layout;
use crate::store::ledger::Ledger;
use crate::store::place::RecordedPlaces;
use std::fs;
use std::path::{Path, PathBuf};

/// Where an agent's worktree is: where git says, since it may have been moved, and else where the row says.
/// `None` for one that has none, and for one that another clone made outside its root.
pub(in crate::ops) fn worktree(repo: &Repo, agent: &Agent) -> Option<PathBuf> {
    if agent.isolation != Some(Isolation::Worktree) {
        return None;
    }
    match repo.worktree(&layout::worktree_name(agent.id)) {
        Some(worktree) => Some(worktree.path),
        None => RecordedPlaces::new(repo).ok()?.of(agent),
    }
}

/// The agent that goes by an id, a name, a branch or a path.
pub(in crate::ops) fn agent(ctx: &Ctx, ledger: &Ledger<'_>, who: &str) -> Result<Agent> {
    let looks_like_path = who.contains('/') || who.starts_with('.');
    let path = ctx.absolute(Path::new(who));
    if looks_like_path && path.is_dir() {
        let path = fs::canonicalize(&path).at("could not resolve", &path)?;
        // One that was moved goes by the place it is at now.
        let linked = ctx.repo.worktrees()?.into_iter().find(|w| w.path == path);
        let own = linked
            .as_ref()
            .and_then(|w| layout::agent_of_worktree(&w.name));
        let by_place = own.and_then(|id8| ledger.find(id8).ok());
        let has_worktree = |agent: &Agent| agent.isolation == Some(Isolation::Worktree);
        return match by_place.filter(has_worktree) {
            Some(agent) => Ok(agent),
            None => ledger.find(&path.to_string_lossy()),
        };
    }
    ledger.find(who)
}

/// The error for a worktree whose admin directory is gone.
pub(in crate::ops) fn unlinked(worktree: &Path, admin: &Path, code: Code) -> Error {
    let (path, admin) = (worktree.display(), admin.display());
    Error::new(
        code,
        format!("{path} is an agent's worktree, but its admin directory {admin} is gone"),
    )
    .hint("to make it again, run git agent doctor --fix")
    .hint(format!("to keep its files, run mv {path} <elsewhere>"))
}
