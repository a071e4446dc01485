//! The one road into places that an agent can write: worktree, admin directory, spool, nested repositories.
//!
//! - Files are opened as data ([`read`], [`open`], [`files`]).
//! - Git looks through a stand-in that we own ([`WorktreeView`]), so that no setting of the agent's is read.
//! - Nested repositories are compared without starting git under their settings ([`gitlinks`]).
//!
//! What does the work is in the layer below, where git is started.

use crate::error::Result;
use crate::git::{Checkout, Repo};
use crate::store::layout;
use std::path::Path;

pub use crate::git::changes::gitlinks;
pub use crate::git::files::untrusted::{
    are_equal, copy_as_old, files, log, names, open, open_at, read, read_at, text,
};
pub use crate::git::worktree::view::WorktreeView;

/// The worktrees that have a branch checked out, those of agents through a view. `scratch` is a directory that agents
/// cannot write. One in which a fenced command works is left out: it has a repository of its own there, and takes over what comes to the
/// branch meanwhile, or its publication does.
///
/// # Errors
/// As [`Repo::checkouts`] and [`WorktreeView::make`].
pub fn checkouts(repo: &Repo, branch: &str, scratch: &Path) -> Result<Vec<Checkout>> {
    let mut found = Vec::new();
    for checkout in repo.checkouts(branch)? {
        let name = checkout.git_dir.file_name().and_then(|name| name.to_str());
        let id8 = name.and_then(layout::agent_of_worktree).map(str::to_owned);
        let Some(id8) = id8 else {
            found.push(checkout);
            continue;
        };
        let run_repo = layout::agents_dir(repo.common_dir())
            .join(id8)
            .join("run-repo/worktrees");
        if !run_repo.exists() {
            found.push(checkout.through_view(repo, scratch)?);
        }
    }
    Ok(found)
}
