//! The roles of a repository at one commit: the built-in ones and `roles/*.toml` of its tree.
//!
//! They are read from the base commit's objects and never from a worktree, so that no agent can widen
//! the role it was given. A file that cannot be used is an invalid role, not an error: it stops the
//! tasks that name it and no others, which matters where `roles/` is some other tool's directory.
//!
//! Git's configuration may adjust a role on top of that, within the bounds that `settings` sets.

mod settings;

use crate::domain::oid::Oid;
use crate::domain::role::{InvalidRole, RoleDraft, RoleSet};
use crate::error::Result;
use crate::git::{Repo, tree};
use crate::wire::role_file;

/// The directory at the top of the tree that holds role files.
pub const DIRECTORY: &str = "roles";

/// A role file is a screenful; anything bigger is something else.
const MAX_SIZE: usize = 64 * 1024;

/// Loads the roles that hold for agents that start from the commit `base`.
///
/// # Errors
/// `repo-corrupt` when the commit or its tree cannot be read, `git-failed` when git's configuration
/// cannot.
pub fn load(repo: &Repo, base: Oid) -> Result<RoleSet> {
    let top = repo.read_tree(repo.read_commit(base)?.tree)?;
    let directory = top
        .iter()
        .find(|entry| entry.is_directory() && entry.name == DIRECTORY.as_bytes());
    let files = match directory {
        Some(directory) => repo.read_tree(directory.oid)?,
        None => Vec::new(),
    };
    let mut drafts = Vec::new();
    let mut unreadable = Vec::new();
    for file in files.iter().filter(|entry| !entry.is_directory()) {
        let Some(stem) = file.name.strip_suffix(b".toml") else {
            continue;
        };
        let name = String::from_utf8_lossy(stem).into_owned();
        let path = format!("{DIRECTORY}/{name}.toml");
        match load_file(repo, file, &name, &path) {
            Ok(draft) => drafts.push(draft),
            Err(problems) => unreadable.push(InvalidRole {
                name,
                path,
                problems,
            }),
        }
    }
    let roles = RoleSet::built_in().with(drafts, unreadable);
    Ok(settings::apply(roles, &repo.settings(settings::PREFIX)?))
}

fn load_file(
    repo: &Repo,
    file: &tree::Entry,
    name: &str,
    path: &str,
) -> Result<RoleDraft, Vec<String>> {
    if !matches!(file.mode, tree::FILE | tree::EXECUTABLE) {
        return Err(vec![format!("{path}: it is not a regular file")]);
    }
    let data = repo
        .read_blob(file.oid)
        .map_err(|error| vec![format!("{path}: {error}")])?;
    if data.len() > MAX_SIZE {
        return Err(vec![format!(
            "{path}: it is larger than {} KiB",
            MAX_SIZE / 1024
        )]);
    }
    role_file::parse(name, path, &data)
}
