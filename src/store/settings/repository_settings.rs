//! The settings of a repository at one commit: `.config/git-agent.toml` of its tree.
//!
//! The file is read from the base commit's objects and never from a worktree, so no agent can change what binds it.

use crate::domain::settings::repository_settings::{INCLUDE_PATH, PATH, to_commit};
use crate::domain::{Oid, RepositorySettings, RoleSet};
use crate::error::{Code, Error, Remedy, Result};
use crate::git::{Repo, core::tree};
use crate::store::{files::fsx, settings::roles};
use crate::wire::file::settings_file;

/// A settings file is a screenful; anything bigger is something else.
const MAX_SIZE: usize = 64 * 1024;

/// The bytes of the file at a commit; `None` where the commit has none.
///
/// # Errors
/// `settings-invalid` when it is not a regular file or larger than 64 KiB, `repo-corrupt` when the commit cannot be read.
pub fn read(repo: &Repo, commit: Oid) -> Result<Option<Vec<u8>>> {
    read_at(repo, commit, PATH)
}

fn read_at(repo: &Repo, commit: Oid, path: &str) -> Result<Option<Vec<u8>>> {
    let entry = repo.entry_at(repo.tree_of(commit)?, path)?;
    entry.map(|entry| file(repo, &entry, path)).transpose()
}

/// What to say where the settings file of the main worktree is neither the one that counts nor the one at HEAD: who wrote it
/// expects it to hold.
///
/// # Errors
/// `io` when the file cannot be read, and those of [`read`].
pub fn uncommitted(repo: &Repo, counting: Option<&[u8]>) -> Result<Option<String>> {
    let Some(root) = repo.main_worktree()? else {
        return Ok(None);
    };
    let here = fsx::load_if_there(&root.join(PATH)).map_err(|error| {
        Error::new(error.code(), format!("could not read {PATH}")).because(error)
    })?;
    if here.is_none() || here.as_deref() == counting {
        return Ok(None);
    }
    // Where an older base counts, the file differs without being forgotten.
    if let Ok(head) = repo.resolve_commit("HEAD")
        && here == read(repo, head.commit)?
    {
        return Ok(None);
    }
    Ok(Some(format!(
        "{PATH} has changes that are not committed, so they do not count; to make them count, run \
         {}",
        to_commit("set git-agent up")
    )))
}

/// Loads the settings that hold for agents that start from the commit `base`, whose roles are `roles`.
///
/// # Errors
/// `settings-invalid` with every problem of the file, and those of [`read`].
pub fn load(repo: &Repo, base: Oid, roles: &RoleSet) -> Result<RepositorySettings> {
    let include = read_at(repo, base, INCLUDE_PATH)?;
    let Some(bytes) = read(repo, base)? else {
        return Ok(RepositorySettings { include, ..RepositorySettings::default() });
    };
    let checked = settings_file::parse(PATH, &bytes).check(roles);
    let with_include = |settings| RepositorySettings { include, ..settings };
    checked.map(with_include).map_err(|wrong| {
        let short = &base.to_hex()[..7];
        let message = format!("the settings of the repository at {short} cannot be used");
        wrong
            .told(Error::new(Code::SettingsInvalid, message))
            .hint(format!("to see the file that counts, run git show {short}:{PATH}"))
            .hint(format!(
                "to go on, correct the file and run {}",
                to_commit("correct the settings")
            ))
            .remedy("to start from a commit whose settings are right", Remedy::SpawnFromCommit)
    })
}

/// The settings at the commit that the main worktree is at, for what belongs to no base: messages and limits. An agent's own HEAD says
/// nothing.
///
/// # Errors
/// As [`load`].
pub fn of_main_worktree(repo: &Repo) -> Result<RepositorySettings> {
    // From the file itself: the repository may have been opened in an agent's worktree, whose HEAD
    // is another.
    let head = fsx::load_if_there(&repo.common_dir().join("HEAD"))?.unwrap_or_default();
    let head = String::from_utf8_lossy(&head);
    let commit = match head.trim().strip_prefix("ref: ") {
        Some(name) => repo.branch_tip(name)?.oid(),
        None => Oid::from_hex(head.trim()),
    };
    let Some(commit) = commit else {
        return Ok(RepositorySettings::default());
    };
    // Most repositories have no such file, and then no role is read either.
    if read(repo, commit)?.is_none() {
        return Ok(RepositorySettings::default());
    }
    load(repo, commit, &roles::load(repo, commit)?)
}

fn file(repo: &Repo, entry: &tree::Entry, path: &str) -> Result<Vec<u8>> {
    // A symbolic link could lead to a file of the worktree.
    if !matches!(entry.mode, tree::FILE | tree::EXECUTABLE) {
        return Err(unusable(path, "it is not a regular file"));
    }
    let data = repo.read_blob(entry.oid)?;
    if data.len() > MAX_SIZE {
        return Err(unusable(path, "it is larger than 64 KiB"));
    }
    Ok(data)
}

fn unusable(path: &str, why: &str) -> Error {
    Error::new(Code::SettingsInvalid, format!("{path} cannot be used: {why}"))
        .hint(format!("to see what it is, run git ls-tree HEAD {path}"))
}
