//! What a finished spawn answers: `git-agent.spawn/2`, flat and stable.

use crate::agents::{Ctx, who::names};
use crate::domain::life::claim::Lease;
use crate::domain::{State, branch_name, value::shell};
use crate::error::Result;
use crate::ops::agent_report::BaseReport;
use crate::ops::spawn::contract::SpawnPlan;
use crate::ops::spawn::setup::AgentFiles;
use serde::Serialize;
use serde_with_macros::skip_serializing_none;
use std::collections::BTreeSet;
use std::time::Duration;

/// The answer of `spawn`. Absent means not applicable.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "schema", rename = "git-agent.spawn/2")]
pub struct SpawnReport {
    /// The agent's id, a UUID.
    pub agent_id: String,
    /// The first eight hex digits of the id.
    pub short_id: String,
    /// `sha256:` and 64 hex digits over role, task and scope.
    pub dna: String,
    /// The role's name.
    pub role: String,
    /// The agent type to ask the host for.
    pub subagent_type: String,
    /// `worktree`, `clone` or `shared`.
    pub isolation: &'static str,
    /// The alias.
    pub name: Option<String>,
    /// The parent's id.
    pub parent_id: Option<String>,
    /// The worktree relative to the root when inside it, else absolute.
    pub worktree_path: Option<String>,
    /// The worktree, absolute.
    pub worktree_abspath: Option<String>,
    /// The directories that a sparse worktree holds besides the files at its top; absent for one that is whole.
    pub sparse: Option<BTreeSet<String>>,
    /// The branch, short name.
    pub branch: Option<String>,
    /// Where the agent starts from.
    pub base: BaseReport,
    /// The first commit of the branch.
    pub spawn_commit: String,
    /// SHA-256 of the `spec.md` that was written, in hex.
    pub spec_sha: String,
    /// The first 60 characters of the task, or its own description.
    pub description: String,
    /// The prompt's file, absolute.
    pub prompt_path: String,
    /// The task's private copy, absolute.
    pub task_path: String,
    /// The command that judges the work.
    pub verify_command: String,
    /// The agent's state.
    pub status: &'static str,
    /// Whether its worktree was claimed from the pool.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub claimed: bool,
    /// Whether its worktree is made of its changes alone, over a base that agents share.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub layered: bool,
    /// What its worktree was before, where that was there before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adopted: Option<AdoptedReport>,
    /// The values of its own that the agent holds while it lives.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub leases: Vec<Lease>,
    /// Milliseconds for everything.
    pub timing_ms: u64,
    /// Milliseconds of these for writing the files.
    pub populate_ms: u64,
    /// What names it in a command, for people.
    #[serde(skip)]
    pub handle: String,
    /// A control file that the scope leaves out though it reaches everything, for people; machines read the denylist.
    #[serde(skip)]
    pub kept_out: Option<String>,
    /// What the caller should know.
    pub warnings: Vec<String>,
}

/// A worktree as it was before an agent got it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AdoptedReport {
    /// The full name of the branch that it was on, which stays where it is; absent for a detached HEAD.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The commit that it was at.
    pub head: String,
    /// How many of its commits count as the agent's work.
    pub commits: usize,
}

/// What a finished spawn knows beyond its plan.
#[derive(Debug, Default)]
pub(super) struct Built {
    /// The full name of the branch that was made.
    pub branch: Option<String>,
    /// SHA-256 of `spec.md`, in hex.
    pub spec_sha: String,
    /// The private files.
    pub files: AgentFiles,
    /// The values that it got of its own.
    pub leases: Vec<Lease>,
    /// Whether the worktree was warm.
    pub claimed: bool,
    /// Whether the worktree is layered.
    pub layered: bool,
    /// How long populating took.
    pub populate: Duration,
    /// What went wrong without mattering.
    pub warnings: Vec<String>,
}

impl SpawnReport {
    pub(super) fn new(
        ctx: &Ctx,
        plan: SpawnPlan,
        built: Built,
        elapsed: Duration,
    ) -> Result<SpawnReport> {
        let directory = plan.directory(ctx)?;
        let worktree_path = plan.place.shown;
        let mut warnings = plan.warnings;
        warnings.extend(built.warnings);
        let text = |path: &std::path::Path| path.to_string_lossy().into_owned();
        Ok(SpawnReport {
            agent_id: plan.id.to_string(),
            short_id: plan.id.short(),
            dna: plan.commit.dna.to_string(),
            role: plan.role.name,
            subagent_type: plan.role.subagent_type,
            isolation: if plan.place.clone { "clone" } else { plan.role.isolation.as_str() },
            handle: names::for_command(ctx, plan.id, plan.called.name.as_ref()),
            name: plan.called.name.map(|name| name.to_string()),
            parent_id: plan.spawner.parent.map(|parent| parent.to_string()),
            verify_command: format!(
                "git agent verify {} {}",
                plan.id,
                shell::word(worktree_path.clone().unwrap_or_else(|| text(&directory)).as_bytes())
            ),
            worktree_path,
            worktree_abspath: plan.place.worktree.as_deref().map(text),
            sparse: plan.place.cone,
            branch: { built.branch }.map(|branch| branch_name(&branch).to_owned()),
            base: BaseReport { refname: plan.base.refname, oid: plan.base.oid.to_hex() },
            spawn_commit: plan.commit.oid.to_hex(),
            spec_sha: built.spec_sha,
            description: plan.called.description,
            prompt_path: text(&built.files.prompt),
            task_path: text(&built.files.task),
            status: State::Ready.as_str(),
            adopted: plan.place.adopted.map(|adopted| AdoptedReport {
                branch: adopted.branch,
                head: adopted.head.to_hex(),
                commits: adopted.commits.len(),
            }),
            claimed: built.claimed,
            layered: built.layered,
            leases: built.leases,
            timing_ms: millis(elapsed),
            populate_ms: millis(built.populate),
            kept_out: plan.kept_out.map(|path| path.to_string()),
            warnings,
        })
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
