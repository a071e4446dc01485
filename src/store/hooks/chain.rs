//! The hooks that the repository has of its own, which an agent's worktree must not lose.

use super::{HOOKS_PATH, Site};
use crate::error::Result;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Every hook that git knows by its place in the hooks directory (githooks(5)).
pub const KNOWN: [&str; 27] = [
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
    "update",
];

/// The repository's hook of that name which our directory hides; `None` where there is none, or where
/// git runs it without our help.
///
/// # Errors
/// `git-failed` when a configuration file cannot be read.
pub fn hidden_hook(site: &Site<'_>, name: &str) -> Result<Option<PathBuf>> {
    let named = site.setting(HOOKS_PATH)?;
    if named.is_none_or(|path| !site.is_our_directory(Path::new(&path))) {
        return Ok(None);
    }
    let directory = repository_directory(site)?;
    let hook = directory.join(name);
    // A user may have made our directory the repository's own; the shim would then run itself
    // without end.
    Ok((!site.is_our_directory(&directory) && is_executable(&hook)).then_some(hook))
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

/// The names of the hooks in a directory.
pub(super) fn names_in(directory: &Path) -> Vec<&'static str> {
    let there = |name: &&str| is_executable(&directory.join(name));
    KNOWN.into_iter().filter(there).collect()
}

/// The hook of that name in a directory; `None` where there is none.
pub fn hook_in(directory: &Path, name: &str) -> Option<PathBuf> {
    let hook = directory.join(name);
    is_executable(&hook).then_some(hook)
}

/// The directory of the repository's hooks, where the agent cannot write: the main worktree's, when
/// `core.hooksPath` leads into the worktree that it is looked up from, as husky's does. `None` where there is no such
/// directory.
///
/// # Errors
/// As [`hidden_hook`].
pub(super) fn out_of_reach(site: &Site<'_>) -> Result<Option<PathBuf>> {
    let setting = site.repo.repository_hooks_path()?;
    let main = site.repo.main_worktree()?;
    let tops = [Some(site.worktree), main.as_deref()];
    let writable = [
        site.worktree.to_owned(),
        site.repo.admin_dir(&site.admin_name()),
        site.directory(),
    ];
    let is_writable = |directory: &Path| {
        // A link to a place that the agent can write is such a place.
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let directory = real(directory);
        writable
            .iter()
            .any(|place| directory.starts_with(real(place)))
    };
    let mut directories = { tops.into_iter().flatten() }
        .map(|top| directory(site, setting.as_deref(), top))
        .filter(|directory| directory.is_dir() && !is_writable(directory));
    Ok(directories.next())
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

/// The directory in which git would look for the repository's hooks in this worktree if it were not an agent's.
///
/// # Errors
/// As [`hidden_hook`].
pub fn repository_directory(site: &Site<'_>) -> Result<PathBuf> {
    let setting = site.repo.repository_hooks_path()?;
    Ok(directory(site, setting.as_deref(), site.worktree))
}

/// Whether a path leads to a file that can be executed.
pub fn is_executable(path: &Path) -> bool {
    std::fs::metadata(path)
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}
