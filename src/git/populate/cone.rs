//! Sparse worktrees: only some directories are filled, by git's own rules for a cone.

use super::inherit_worktree_config;
use crate::error::Result;
use crate::git::{Repo, command};
use std::collections::BTreeSet;
use std::path::Path;

/// Makes a new worktree sparse, before it is populated: it will hold the files at its top, everything below these
/// directories, and the files beside each of them on the way there. Its index will name every file. The repository reads
/// `config.worktree`.
///
/// # Errors
/// Those of [`inherit_worktree_config`]; `git-missing`, `git-failed`.
pub fn narrow(
    repo: &Repo,
    worktree: &Path,
    admin_dir: &Path,
    directories: &BTreeSet<String>,
) -> Result<()> {
    inherit_worktree_config(repo, admin_dir)?;
    let options = [
        "sparse-checkout",
        "set",
        "--cone",
        "--no-sparse-index",
        // They are names, whatever characters they have.
        "--skip-checks",
    ];
    let names = directories.iter().map(|directory| format!("/{directory}"));
    let arguments = options.into_iter().map(str::to_owned).chain(names);
    command::run(worktree, arguments).map(|_| ())
}
