//! The answer of `merge`: `git-agent.merge/1`.

use crate::ops::merge::MergePlan;
use serde::Serialize;

/// One landing, planned or done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LandingReport {
    /// The format's name and version.
    pub schema: &'static str,
    /// The agent's id.
    pub agent_id: String,
    /// `planned`, `merged`, or `already-merged` when only the row did not say so.
    pub verdict: &'static str,
    /// `no-ff`, `squash` or `ff-only`.
    pub method: &'static str,
    /// The branch it lands on, full name.
    pub into: String,
    /// Where that branch was.
    pub base: String,
    /// The agent's branch as it was judged.
    pub tip: String,
    /// How many paths were not committed.
    pub uncommitted: usize,
    /// The tree that was judged and that the branch gets.
    pub merged_tree: String,
    /// The first line of the landing commit's message.
    pub subject: String,
    /// The commit made of the uncommitted work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub committed: Option<String>,
    /// The commit that brought the work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The worktrees that have the branch checked out and move along.
    pub worktrees: Vec<String>,
}

impl LandingReport {
    pub(super) fn new(plan: &MergePlan, verdict: &'static str) -> LandingReport {
        let tops = plan.checkouts.iter().map(|checkout| &checkout.top);
        LandingReport {
            schema: "git-agent.merge/1",
            agent_id: plan.agent.id.to_string(),
            verdict,
            method: plan.method.as_str(),
            into: plan.target.clone(),
            base: plan.base.to_hex(),
            tip: plan.tip.to_hex(),
            uncommitted: plan.uncommitted,
            merged_tree: plan.merged_tree.to_hex(),
            subject: plan.message().lines().next().unwrap_or_default().to_owned(),
            committed: None,
            commit: None,
            worktrees: tops.map(|top| top.to_string_lossy().into_owned()).collect(),
        }
    }
}
