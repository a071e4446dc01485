//! The roles of a repository at one commit: the built-in ones and `roles/*.toml` of its tree.
//!
//! They are read from the base commit's objects and never from a worktree, so that no agent can widen
//! the role it was given. A file that cannot be used is an invalid role, not an error: it stops the
//! tasks that name it and no others, which matters where `roles/` is some other tool's directory.
//!
//! Git's configuration may adjust a role on top of that, within the bounds that `settings` sets.

use crate::domain::event::Isolation;
use crate::domain::glob::Glob;
use crate::domain::oid::Oid;
use crate::domain::role::{InvalidRole, RoleDraft, RoleSet};
use crate::error::Result;
use crate::git::config::Setting;
use crate::git::{Repo, tree};
use crate::wire::role_file;
use std::collections::BTreeMap;

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
    Ok(apply_settings(roles, &repo.settings(PREFIX)?))
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

// How git's configuration adjusts the roles of a clone:
//
// ```text
// [agent "role.explorer"]
//     subagentType = Explore      # what this person's agent host calls it
//     isolation = worktree
//     spawnable = no
//     denylist = docs/legal/**    # may repeat
// ```
//
// A section becomes a draft that extends the role it names. It has no `relaxes`, so it can rename and
// narrow and never loosen. A section for a role that the base commit does not have
// says nothing: one user configuration serves many repositories.

/// What the key of every setting starts with.
const PREFIX: &str = "agent.role.";

/// The roles, adjusted. Roles that extend an adjusted one keep what its file says.
fn apply_settings(roles: RoleSet, settings: &[Setting]) -> RoleSet {
    let mut sections: BTreeMap<&str, Section> = BTreeMap::new();
    for setting in settings {
        let key = setting
            .key
            .strip_prefix(PREFIX)
            .and_then(|key| key.rsplit_once('.'));
        let Some((name, key)) = key.filter(|(name, _)| roles.get(name).is_some()) else {
            continue;
        };
        let section = sections.entry(name).or_insert_with(|| Section::of(name));
        if let Err(problem) = section.read(key, &setting.value) {
            section.problems.push(format!("{}: {problem}", setting.key));
        }
    }
    // A section with one wrong line is refused as a whole: what is left of it would be looser than
    // what was meant.
    let (sound, broken): (Vec<Section>, Vec<Section>) = sections
        .into_values()
        .partition(|section| section.problems.is_empty());
    let drafts = sound.into_iter().map(|section| section.draft).collect();
    let unreadable = broken.into_iter().map(|section| InvalidRole {
        name: section.draft.name,
        path: section.draft.path,
        problems: section.problems,
    });
    roles.with(drafts, unreadable.collect())
}

struct Section {
    draft: RoleDraft,
    problems: Vec<String>,
}

impl Section {
    fn of(name: &str) -> Section {
        let draft = RoleDraft {
            name: name.to_owned(),
            path: format!("git config {PREFIX}{name}"),
            extends: Some(name.to_owned()),
            ..RoleDraft::default()
        };
        Section {
            draft,
            problems: Vec::new(),
        }
    }

    /// Takes one setting; a later one replaces an earlier one, except that denylists add up.
    fn read(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "subagenttype" => self.draft.subagent_type = Some(value.to_owned()),
            "isolation" => {
                let isolation = Isolation::parse(value).ok_or("it is `worktree` or `shared`")?;
                self.draft.isolation = Some(isolation);
            }
            "spawnable" => {
                let spawnable = match value.to_ascii_lowercase().as_str() {
                    "true" | "yes" | "on" | "1" => true,
                    "false" | "no" | "off" | "0" | "" => false,
                    _ => return Err("it is yes or no".to_owned()),
                };
                self.draft.spawnable = Some(spawnable);
            }
            "denylist" => self.draft.default_denylist.push(Glob::parse(value)?),
            _ => return Err("there is no such setting".to_owned()),
        }
        Ok(())
    }
}
