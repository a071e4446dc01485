//! Whether an agent's work may land, and what that answer rests on.

use super::event::Verified;
use super::evidence::{Commands, Landing, Outcome};
use super::finding::{Finding, FindingCode};
use super::id::AgentId;
use super::oid::Oid;

/// The judgement of one agent's work at one moment. Nothing in it depends on the time or the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The agent.
    pub agent: AgentId,
    /// The commit that was judged.
    pub tip: Oid,
    /// The tree that was judged: the tip's, or the one that committing the rest would make.
    pub tree: Oid,
    /// The full name of the branch to land on; absent when the base is a mere commit.
    pub base_ref: Option<String>,
    /// The commit that branch is at; when the branch is gone, the one that the agent started from.
    pub base: Oid,
    /// Whether the six files are required.
    pub bundle_required: bool,
    /// The tree of the bundle; absent when no file could be read.
    pub bundle: Option<Oid>,
    /// The blob of the policy that the work was judged by.
    pub policy: Oid,
    /// How many paths are not committed yet.
    pub uncommitted: usize,
    /// How many paths of the worktree git ignores; absent where no worktree was looked at.
    pub ignored: Option<usize>,
    /// How many paths are as `[setup]` left them; absent where setup left none.
    pub from_setup: Option<usize>,
    /// New files that editors and file managers left: they are no work and do not land.
    pub droppings: Vec<Vec<u8>>,
    /// How the work would land; absent for an agent without a branch.
    pub landing: Option<Landing>,
    /// The check commands that ran.
    pub commands: Commands,
    /// What was found, check by check.
    pub findings: Vec<Finding>,
}

impl Verdict {
    /// Whether the work may land.
    pub fn is_accepted(&self) -> bool {
        !self.findings.iter().any(Finding::rejects)
    }

    /// Whether there is work that may land, or has landed.
    pub fn can_land(&self) -> bool {
        let outcome = self.landing.as_ref().map(|landing| &landing.outcome);
        self.is_accepted() && !matches!(outcome, Some(Outcome::Nothing { .. }))
    }

    /// Whether a part was left out that could have rejected the work.
    pub fn is_partial(&self) -> bool {
        self.has(FindingCode::CommandsSkipped) || self.lacks_bundle()
    }

    /// Whether the bundle was left out, which could have rejected the work.
    pub fn lacks_bundle(&self) -> bool {
        self.has(FindingCode::BundleNotJudged)
    }

    fn has(&self, code: FindingCode) -> bool {
        self.findings.iter().any(|finding| finding.code == code)
    }

    /// The tree that landing would give; absent when the work cannot land.
    pub fn merged_tree(&self) -> Option<Oid> {
        self.landing.as_ref()?.outcome.tree()
    }

    /// The findings that are about the six files and reject the work.
    pub fn bundle_errors(&self) -> impl Iterator<Item = &Finding> {
        let about_bundle = |finding: &&Finding| finding.rejects() && finding.code.is_of_bundle();
        self.findings.iter().filter(about_bundle)
    }

    /// The verdict as the ledger records it.
    pub fn recorded(&self) -> Verified {
        let rejecting = self.findings.iter().filter(|finding| finding.rejects());
        let mut codes: Vec<String> = rejecting
            .map(|finding| finding.code.name().to_owned())
            .collect();
        codes.dedup();
        Verified {
            accepted: self.is_accepted(),
            tip: self.tip,
            tree: self.tree,
            base: self.base,
            merged_tree: self.merged_tree(),
            bundle: self.bundle,
            policy: self.policy,
            findings: codes,
            fails_with: None,
        }
    }
}
