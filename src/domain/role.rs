//! Roles: the permission profiles that a task chooses from.

use super::event::Isolation;
use super::glob::Glob;
use std::collections::BTreeMap;

/// A permission profile with everything inherited already filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Role {
    /// `^[a-z][a-z0-9-]{0,63}$`
    pub name: String,
    /// The agent type that a host is asked for.
    pub subagent_type: String,
    /// Whether its agents get a worktree.
    pub isolation: Isolation,
    /// Whether a task may name it.
    pub spawnable: bool,
    /// Whether its agents may change files.
    pub edits: bool,
    /// Whether its agents may spawn agents.
    pub may_spawn: bool,
    /// Globs united with every task's denylist.
    pub default_denylist: Vec<Glob>,
    /// The role that takes over when this one is finished.
    pub handoff: Option<String>,
    /// One sentence about it, for `git agent roles`.
    pub description: String,
}

/// The roles that a repository offers: the built-in ones and those its base commit defines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoleSet(BTreeMap<String, Role>);

impl RoleSet {
    /// The role of that name.
    pub fn get(&self, name: &str) -> Option<&Role> {
        self.0.get(name)
    }

    /// All roles, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Role> {
        self.0.values()
    }
}

impl RoleSet {
    /// A set of these roles.
    pub fn of(roles: Vec<Role>) -> RoleSet {
        RoleSet(
            roles
                .into_iter()
                .map(|role| (role.name.clone(), role))
                .collect(),
        )
    }
}
