//! The answer of `verify`: `git-agent.verify/1`.

use crate::agents::ctx::Ctx;
use crate::domain::evidence::{CommandEnd, Commands, Evidence, Landing, Outcome};
use crate::domain::finding::{Finding, FindingCode, Severity};
use crate::domain::oid::Oid;
use crate::error::Result;
use crate::ops::verify::Case;
use crate::wire::conflict_report::ConflictReport;
use crate::wire::path_text::PathText;
use serde::Serialize;

const SCHEMA: &str = "git-agent.verify/1";
const ACCEPT: &str = "accept";
const REJECT: &str = "reject";

/// A verdict and what it rests on. Nothing in it depends on the time or the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VerifyReport {
    /// The format's name and version.
    pub schema: &'static str,
    /// The agent's id.
    pub agent_id: String,
    /// `accept` or `reject`.
    pub verdict: String,
    /// The commit that was judged.
    pub tip: String,
    /// The tree that was judged: the tip's, or the one that committing the rest would make.
    pub tree: String,
    /// What it would land on.
    pub base: BaseTip,
    /// The tree that landing would give; absent when it cannot land.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub merged_tree: Option<String>,
    /// Whether the six files are required.
    pub bundle_required: bool,
    /// The tree of the bundle; absent when none could be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bundle: Option<String>,
    /// The blob of the policy it was judged by.
    pub policy: String,
    /// How many paths are not committed yet.
    pub uncommitted: usize,
    /// How many paths of the worktree git ignores, a directory with nothing else in it counted once: they neither
    /// land nor are they judged. Absent where no worktree was looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ignored_paths: Option<usize>,
    /// How many paths that git would add are as `[setup]` left them: they neither land nor are they judged. Absent
    /// where setup left none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup_paths: Option<usize>,
    /// How it would land; absent for an agent without a branch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub merge: Option<MergeReport>,
    /// The commands that ran, until the first that failed.
    pub commands: Vec<CommandReport>,
    /// What was found, check by check.
    pub findings: Vec<FindingReport>,
}

/// The branch to land on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BaseTip {
    /// Its full name; absent when the base is a mere commit.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    pub refname: Option<String>,
    /// The commit it is at; when the branch is gone, the one that the agent started from.
    pub oid: String,
}

/// How work would land.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MergeReport {
    /// `fast-forward`, `clean`, `nothing`, `merged`, `conflicts`, `unrelated`, `base-gone`, or `not-judged` where the
    /// base branch is not in this clone.
    pub state: String,
    /// For `merged`: `ancestor`, `tree` or `patch-id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub how: Option<String>,
    /// Commits that the base branch does not hold.
    pub ahead: usize,
    /// Commits that only the base branch holds.
    pub behind: usize,
    /// Whether the base branch would only have to be moved.
    pub fast_forward: bool,
    /// Where it conflicts.
    pub conflicts: Vec<ConflictReport>,
}

/// A check command that ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CommandReport {
    /// The command line.
    pub command: String,
    /// Its status as the shell gives it; absent when it was stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u8>,
    /// The end of its output, when it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FindingReport {
    /// The stable code, `<check>.<what>`.
    pub code: String,
    /// `error` or `note`.
    pub severity: String,
    /// The path it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathText>,
    /// The commit it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub fix: String,
}

impl VerifyReport {
    pub(super) fn new(
        ctx: &Ctx,
        case: &Case<'_>,
        evidence: &Evidence,
        findings: &[Finding],
    ) -> Result<VerifyReport> {
        let (subject, work) = (&case.subject, &case.work);
        let landing = evidence.landing.as_ref();
        let merged = landing.and_then(|landing| landing.outcome.tree());
        let rejected = findings.iter().any(Finding::rejects);
        Ok(VerifyReport {
            schema: SCHEMA,
            agent_id: subject.agent.id.to_string(),
            verdict: if rejected { REJECT } else { ACCEPT }.to_owned(),
            tip: subject.tip.to_hex(),
            tree: work.tree.to_hex(),
            base: BaseTip {
                refname: subject.base_ref.clone(),
                oid: subject.base.unwrap_or(case.started).to_hex(),
            },
            merged_tree: merged.map(Oid::to_hex),
            bundle_required: case.fence.policy().bundle_required,
            bundle: case.bundle.tree.map(Oid::to_hex),
            policy: case.policy.to_hex(),
            uncommitted: ctx.repo.tree_changes(&[work.tip_tree], work.tree)?.len(),
            ignored_paths: None,
            setup_paths: None,
            merge: landing.map(merge),
            commands: commands(&evidence.commands),
            findings: findings.iter().map(finding).collect(),
        })
    }

    /// Whether the work may land.
    pub fn is_accepted(&self) -> bool {
        self.verdict == ACCEPT
    }

    /// Whether there is work that may land, or has landed.
    pub(super) fn can_land(&self) -> bool {
        let is_empty = { self.merge.as_ref() }.is_some_and(|merge| merge.state == "nothing");
        self.is_accepted() && !is_empty
    }

    /// Whether a part was left out that could have rejected it.
    pub fn is_partial(&self) -> bool {
        let left_out = [FindingCode::CommandsSkipped, FindingCode::BundleNotJudged];
        let left_out = left_out.map(FindingCode::name);
        { self.findings.iter() }.any(|finding| left_out.contains(&finding.code.as_str()))
    }

    /// The names of the six files that are missing or of no use.
    pub fn missing_artefacts(&self) -> Vec<String> {
        let error = Severity::Error.as_str();
        let of_bundle = |finding: &&FindingReport| {
            finding.code.starts_with("bundle.") && finding.severity == error
        };
        let lines = self.findings.iter().filter(of_bundle);
        lines.map(|finding| finding.message.clone()).collect()
    }

    /// The codes that reject it, each once.
    pub(super) fn rejecting_codes(&self) -> Vec<String> {
        let mut codes: Vec<String> = self
            .findings
            .iter()
            .filter(|finding| finding.severity == Severity::Error.as_str())
            .map(|finding| finding.code.clone())
            .collect();
        codes.dedup();
        codes
    }
}

fn merge(landing: &Landing) -> MergeReport {
    let conflicts = match &landing.outcome {
        Outcome::Conflicts(conflicts) => conflicts.as_slice(),
        _ => &[],
    };
    MergeReport {
        state: landing.outcome.as_str().to_owned(),
        how: match landing.outcome {
            Outcome::Landed { how, .. } => Some(how.as_str().to_owned()),
            _ => None,
        },
        ahead: landing.ahead,
        behind: landing.behind,
        fast_forward: matches!(landing.outcome, Outcome::FastForward { .. }),
        conflicts: conflicts.iter().map(ConflictReport::from).collect(),
    }
}

fn commands(commands: &Commands) -> Vec<CommandReport> {
    let Commands::Ran(runs) = commands else {
        return Vec::new();
    };
    runs.iter()
        .map(|run| CommandReport {
            command: run.command.clone(),
            status: match run.end {
                CommandEnd::Status(status) => Some(status),
                CommandEnd::TimedOut(_) => None,
            },
            // The output of one that succeeds differs from run to run and tells nothing.
            output: (run.end != CommandEnd::Status(0)).then(|| run.output.clone()),
        })
        .collect()
}

fn finding(finding: &Finding) -> FindingReport {
    FindingReport {
        code: finding.code.name().to_owned(),
        severity: finding.code.severity().as_str().to_owned(),
        path: finding.path.as_deref().map(PathText::from),
        commit: finding.commit.map(Oid::to_hex),
        message: finding.message.clone(),
        fix: finding.fix.clone(),
    }
}
