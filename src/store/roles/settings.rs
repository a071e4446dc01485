//! How git's configuration adjusts the roles of a clone:
//!
//! ```text
//! [agent "role.explorer"]
//!     subagentType = Explore      # what this person's agent host calls it
//!     isolation = worktree
//!     spawnable = no
//!     denylist = docs/legal/**    # may repeat
//! ```
//!
//! A section becomes a draft that extends the role it names. It has no `relaxes`, so it can rename and
//! narrow and never loosen. A section for a role that the base commit does not have
//! says nothing: one user configuration serves many repositories.

use crate::domain::event::Isolation;
use crate::domain::glob::Glob;
use crate::domain::role::{InvalidRole, RoleDraft, RoleSet};
use crate::git::config::Setting;
use std::collections::BTreeMap;

/// What the key of every setting starts with.
pub(super) const PREFIX: &str = "agent.role.";

/// The roles, adjusted. Roles that extend an adjusted one keep what its file says.
pub(super) fn apply(roles: RoleSet, settings: &[Setting]) -> RoleSet {
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
