//! The hooks that the repository has of its own, which an agent's worktree must not lose.

use super::{HOOKS_PATH, Site};
use crate::error::Result;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Every hook that git knows by its place in the hooks directory (githooks(5)).
const KNOWN: [&str; 26] = [
    "applypatch-msg",
    "commit-msg",
    "p4-changelist",
    "p4-post-changelist",
    "p4-pre-submit",
    "p4-prepare-changelist",
    "post-applypatch",
    "post-checkout",
    "post-commit",
    "post-index-change",
    "post-merge",
    "post-receive",
    "post-rewrite",
    "post-update",
    "pre-applypatch",
    "pre-auto-gc",
    "pre-commit",
    "pre-merge-commit",
    "pre-push",
    "pre-rebase",
    "pre-receive",
    "prepare-commit-msg",
    "proc-receive",
    "push-to-checkout",
    "reference-transaction",
    "sendemail-validate",
];

/// The repository's hook of that name which our directory hides; `None` where there is none, or where
/// git runs it without our help.
///
/// # Errors
/// `git-failed` when a configuration file cannot be read.
pub fn hidden_hook(site: &Site<'_>, name: &str) -> Result<Option<PathBuf>> {
    let ours = site.directory();
    if site
        .setting(HOOKS_PATH)?
        .is_none_or(|path| Path::new(&path) != ours)
    {
        return Ok(None);
    }
    let setting = site.repo.repository_hooks_path()?;
    let directory = directory(site, setting.as_deref(), site.worktree);
    let hook = directory.join(name);
    Ok((directory != ours && is_executable(&hook)).then_some(hook))
}

/// The names of the hooks that the repository has. A relative `core.hooksPath` may lead to files
/// that git ignores (husky's do) and that a new worktree does not have yet, so the main worktree is
/// asked as well.
///
/// # Errors
/// As [`hidden_hook`].
pub fn names(site: &Site<'_>) -> Result<Vec<&'static str>> {
    let setting = site.repo.repository_hooks_path()?;
    let mut directories = vec![directory(site, setting.as_deref(), site.worktree)];
    if directories[0].starts_with(site.worktree)
        && let Some(main) = site.repo.main_worktree()?
    {
        directories.push(directory(site, setting.as_deref(), &main));
    }
    directories.retain(|directory| directory.is_dir());
    let there = |name: &&str| {
        directories
            .iter()
            .any(|directory| is_executable(&directory.join(name)))
    };
    Ok(KNOWN.into_iter().filter(there).collect())
}

/// The directory in which git would look for the hooks of that worktree if it were not an agent's.
fn directory(site: &Site<'_>, setting: Option<&str>, top: &Path) -> PathBuf {
    let Some(path) = setting else {
        return site.repo.common_dir().join("hooks");
    };
    match (path.strip_prefix("~/"), site.home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => top.join(path),
    }
}

pub(super) fn is_executable(path: &Path) -> bool {
    std::fs::metadata(path)
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}
