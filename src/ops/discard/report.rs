//! What a discard answers.

use crate::agents::ctx::Ctx;
use crate::domain::agent::Agent;
use crate::error::Result;
use crate::ops::agent_report::AgentReport;
use crate::ops::agent_report::Reporter;
use crate::ops::discard::DiscardPlan;
use crate::ops::discard::gate::Site;
use crate::ops::discard::salvage::Salvage;
use crate::store::large_files::LargeFile;
use crate::wire::path_text::PathText;
use serde::Serialize;
use serde_with_macros::skip_serializing_none;

/// The answer of `discard`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DiscardReport {
    /// The format's name and version.
    pub schema: &'static str,
    /// The agent after it.
    #[serde(flatten)]
    pub agent: AgentReport,
    /// Whether nothing was done yet.
    pub dry_run: bool,
    /// Whether there was a worktree, or its admin directory, to remove.
    pub removes_worktree: bool,
    /// Whether there was a branch to delete.
    pub deletes_branch: bool,
    /// The branch's last commit.
    pub tip: Option<String>,
    /// The commit that holds what was not committed.
    pub salvage_commit: Option<String>,
    /// The commit that holds the bundle.
    pub bundle_commit: Option<String>,
    /// The files that are not kept.
    #[serde(flatten)]
    pub not_kept: NotKept,
    /// Files that are too long to be read, which were moved away as they are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub set_aside: Vec<LargeFile>,
    /// What the caller should know though it is discarded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Names in the trash that are still to be deleted.
    #[serde(skip)]
    pub trash: Vec<String>,
}

/// The files of a worktree that go with it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NotKept {
    /// Ignored files and directories, as `git status --ignored` names them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<PathText>,
    /// FIFOs, sockets and devices, which hold nothing that could be kept.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub special: Vec<PathText>,
    /// Files that are as `[setup]` left them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub setup: Vec<PathText>,
}

impl NotKept {
    pub(super) fn new<'p>(
        ignored: impl IntoIterator<Item = &'p Vec<u8>>,
        setup: &[Vec<u8>],
        special: &[Vec<u8>],
    ) -> NotKept {
        let text = |path: &Vec<u8>| PathText::from(path.as_slice());
        let texts = |paths: &[Vec<u8>]| paths.iter().map(text).collect();
        NotKept {
            ignored: ignored.into_iter().map(text).collect(),
            setup: texts(setup),
            special: texts(special),
        }
    }
}

impl DiscardReport {
    /// What a plan would do.
    ///
    /// # Errors
    /// Those of reading the repository.
    pub fn planned(ctx: &Ctx, plan: &DiscardPlan) -> Result<DiscardReport> {
        let mut report = DiscardReport::new(&Reporter::new(ctx)?, &plan.agent, &plan.site);
        report.dry_run = true;
        report.not_kept = plan.not_kept(ctx)?;
        Ok(report)
    }

    pub(super) fn new(reporter: &Reporter, agent: &Agent, site: &Site) -> DiscardReport {
        DiscardReport {
            schema: "git-agent.discard/3",
            agent: reporter.agent(agent),
            dry_run: false,
            removes_worktree: site.place.is_some(),
            deletes_branch: site.branch.is_some(),
            tip: site.tip.map(|tip| tip.to_hex()),
            salvage_commit: None,
            bundle_commit: None,
            not_kept: NotKept::default(),
            set_aside: Vec::new(),
            warnings: { site.foreign_branch.iter() }
                .map(|name| {
                    format!(
                        "{name} stays: nothing in this clone proves that it is this agent's branch"
                    )
                })
                .collect(),
            trash: Vec::new(),
        }
    }

    pub(super) fn found(&mut self, salvage: &Salvage) {
        self.salvage_commit = salvage.work.map(|oid| oid.to_hex());
        self.bundle_commit = salvage.bundle.map(|oid| oid.to_hex());
        self.not_kept = salvage.not_kept.clone();
        self.warnings.extend(salvage.warning.clone());
    }
}
