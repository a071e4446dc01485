//! What a new worktree takes over from the one it is made from, as `git worktree add` does (git's
//! `builtin/worktree.c`): its own configuration and its sparse-checkout patterns.

use crate::error::{IoContext, Result};
use crate::git::Repo;
use crate::git::repo::failed;
use std::path::Path;

/// Settings that say where or what a worktree is, as regular expressions; true for one worktree only.
const PLACE: &str = r"^core\.(bare|worktree)$";
/// Hook settings of a linked worktree: an agent's fences, which another agent has of its own.
const HOOKS: &str = r"^(core\.hookspath|hook\..*)$";

/// Copies `config.worktree`, where `extensions.worktreeConfig` gives it a meaning, and
/// `info/sparse-checkout` from the worktree of `repo` into a new admin dir. What is there already
/// stays.
///
/// # Errors
/// `io` or `git-failed` when a file cannot be read or written.
pub fn inherit_worktree_config(repo: &Repo, admin_dir: &Path) -> Result<()> {
    if repo.config_bool("core.sparseCheckout")?.unwrap_or(false) {
        let patterns = Path::new("info/sparse-checkout");
        let to = admin_dir.join(patterns);
        std::fs::create_dir_all(admin_dir.join("info")).at("could not create", &to)?;
        copy_new(&repo.git_dir().join(patterns), &to)?;
    }
    if !repo
        .config_bool("extensions.worktreeConfig")?
        .unwrap_or(false)
    {
        return Ok(());
    }
    let to = admin_dir.join("config.worktree");
    if !copy_new(&repo.git_dir().join("config.worktree"), &to)? {
        return Ok(());
    }
    remove(&to, PLACE)?;
    if repo.inner.is_worktree() {
        remove(&to, HOOKS)?;
    }
    Ok(())
}

/// Copies a file unless there is none or the target exists.
fn copy_new(from: &Path, to: &Path) -> Result<bool> {
    if !from.is_file() || to.exists() {
        return Ok(false);
    }
    std::fs::copy(from, to).at("could not copy to", to)?;
    Ok(true)
}

/// Removes the settings whose names match.
fn remove(config: &Path, names: &str) -> Result<()> {
    let change = || -> std::result::Result<(), git2::Error> {
        let mut config = git2::Config::open(config)?;
        let mut found = Vec::new();
        config.entries(Some(names))?.for_each(|entry| {
            found.extend(entry.name().ok().map(str::to_owned));
        })?;
        // A setting with several values is listed once per value.
        found.dedup();
        found
            .iter()
            .try_for_each(|name| config.remove_multivar(name, ".*"))
    };
    change().map_err(|error| failed(&format!("could not write {}", config.display()), error))
}
