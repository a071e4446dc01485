//! The answer of `merge`: `git-agent.merge/2`.

use crate::domain::named::named;
use crate::domain::oid::Oid;
use crate::ops::merge::MergePlan;
use crate::ops::target_report::TargetReport;
use crate::wire::path_text::PathText;
use serde::Serialize;
use serde_with_macros::skip_serializing_none;

named! {
    /// How far a landing came.
    pub enum LandingState {
        /// A dry run found that it would land.
        Planned = "planned",
        /// It has landed.
        Merged = "merged",
        /// It had landed before, and only the row did not say so.
        AlreadyMerged = "already-merged",
    }
}

/// One landing, planned or done.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LandingReport {
    /// The format's name and version.
    pub schema: &'static str,
    /// The agent's id.
    pub agent_id: String,
    /// The first eight hex digits of the id.
    pub short_id: String,
    /// How far it came.
    pub outcome: LandingState,
    /// `no-ff`, `squash` or `ff-only`.
    pub method: &'static str,
    /// The branch it lands on, and where it was.
    pub target: TargetReport,
    /// The remote whose branch that is; absent for this clone's.
    pub remote: Option<String>,
    /// The agent's branch as it was judged.
    pub tip: String,
    /// How many paths were not committed.
    pub uncommitted: usize,
    /// These paths.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub uncommitted_paths: Vec<PathText>,
    /// New files that editors and file managers left, which do not land.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub editor_files: Vec<PathText>,
    /// The tree that was judged and that the branch gets.
    pub merged_tree: String,
    /// The first line of the landing commit's message.
    pub subject: String,
    /// The commit made of the uncommitted work.
    pub committed: Option<String>,
    /// The commit that brought the work.
    pub commit: Option<String>,
    /// The worktrees that have the branch checked out and move along.
    pub worktrees: Vec<String>,
    /// What the caller should know though the work has landed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl LandingReport {
    pub(super) fn new(plan: &MergePlan, outcome: LandingState) -> LandingReport {
        let tops = plan.checkouts.iter().map(|checkout| &checkout.top);
        LandingReport {
            schema: "git-agent.merge/2",
            agent_id: plan.agent.id.to_string(),
            short_id: plan.agent.id.short(),
            outcome,
            method: plan.method.as_str(),
            target: TargetReport::new(Some(&plan.target), Some(plan.base)),
            remote: plan.remote.as_ref().map(|there| there.remote.clone()),
            tip: plan.tip.to_hex(),
            uncommitted: plan.uncommitted.len(),
            uncommitted_paths: PathText::all(&plan.uncommitted),
            editor_files: PathText::all(&plan.droppings),
            merged_tree: plan.merged_tree.to_hex(),
            subject: plan.message().lines().next().unwrap_or_default().to_owned(),
            committed: None,
            commit: plan.landed.map(Oid::to_hex),
            warnings: { plan.landed_copy.iter() }
                .map(|copy| not_pulled(plan, copy))
                .collect(),
            worktrees: tops.map(|top| top.to_string_lossy().into_owned()).collect(),
        }
    }
}

fn not_pulled(plan: &MergePlan, copy: &str) -> String {
    format!(
        "{} has the work already, and {} does not; to bring that along, run git pull",
        copy.trim_start_matches("refs/remotes/"),
        plan.target.trim_start_matches("refs/heads/")
    )
}
