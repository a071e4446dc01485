//! `roles`: which permission profiles a task can choose from.

use crate::domain::work::role::InvalidRole;
use crate::domain::{Oid, Role, RoleSet};
use crate::error::Result;
use crate::git::Repo;
use crate::store;
use crate::wire::output::answer::ReportTable;
use serde::Serialize;
use serde_with_macros::skip_serializing_none;

/// Every role of a repository, and the definitions that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "schema", rename = "git-agent.roles/1")]
pub struct RolesReport {
    /// The roles, by name.
    pub roles: Vec<RoleCard>,
    /// The broken definitions, by name.
    pub invalid: Vec<InvalidRole>,
}

/// What there is to know about a role before choosing it.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RoleCard {
    /// The word for `role` in a task file.
    pub name: String,
    /// One sentence about it.
    pub description: String,
    /// The agent type that a host is asked for.
    pub subagent_type: String,
    /// `worktree` or `shared`.
    pub isolation: &'static str,
    /// Whether a task may name it.
    pub spawnable: bool,
    /// Whether its agents may change files.
    pub edits: bool,
    /// `none`, `read-only`, `test-runners` or `any`.
    pub shell: &'static str,
    /// Whether its agents may spawn agents.
    pub may_spawn: bool,
    /// Globs united with every task's denylist, sorted.
    pub default_denylist: Vec<String>,
    /// The role that takes over from it; absent when none does.
    pub handoff: Option<String>,
    /// What its agents have to report; absent where nothing is asked.
    pub report: Option<ReportTable>,
    /// `built-in`, or the path of its file in the base commit.
    pub source: String,
}

/// Lists the roles that hold for agents that start from `base`; without a commit to start from, the
/// built-in ones.
///
/// # Errors
/// As [`store::settings::roles::load`].
pub fn roles(repo: &Repo, base: Option<Oid>) -> Result<RolesReport> {
    let set = match base {
        Some(base) => store::settings::roles::load(repo, base)?,
        None => RoleSet::built_in(),
    };
    Ok(RolesReport {
        roles: set.iter().map(RoleCard::from).collect(),
        invalid: set.invalid().cloned().collect(),
    })
}

impl From<&Role> for RoleCard {
    fn from(role: &Role) -> RoleCard {
        RoleCard {
            name: role.name.clone(),
            description: role.description.clone(),
            subagent_type: role.subagent_type.clone(),
            isolation: role.isolation.as_str(),
            spawnable: role.spawnable,
            edits: role.edits,
            shell: role.shell.as_str(),
            may_spawn: role.may_spawn,
            default_denylist: role.default_denylist.iter().map(ToString::to_string).collect(),
            handoff: role.handoff.clone(),
            report: (!role.report.is_empty()).then(|| ReportTable::of(&role.report)),
            source: role.defined_in.clone().unwrap_or_else(|| "built-in".to_owned()),
        }
    }
}
