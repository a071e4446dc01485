//! `bundle`: which of the six files are as `verify` wants them, and what belongs into the others.

use crate::agents::work::bundle as files;
use crate::agents::{Ctx, ScopeGuard, place::worktree, who::lookup};
use crate::domain::judge::evidence::Contract;
use crate::domain::judge::judge;
use crate::domain::work::bundle::FILES;
use crate::domain::{Evidence, Finding, Isolation, ReportRules};
use crate::error::Result;
use crate::store::files::layout;
use serde::Serialize;
use serde_with_macros::skip_serializing_none;

/// The answer of `bundle`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "schema", rename = "git-agent.bundle/1")]
pub struct BundleReport {
    /// The agent's id.
    pub agent_id: String,
    /// The first eight hex digits of the id.
    pub short_id: String,
    /// Whether its work lands only with a complete bundle.
    pub required: bool,
    /// Whether nothing is wrong with the six files.
    pub complete: bool,
    /// Their directory, absolute; absent where this clone has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bundle_path: Option<String>,
    /// The six files, in order.
    pub files: Vec<BundleFile>,
}

/// One of the six files.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BundleFile {
    /// The file's name.
    pub name: &'static str,
    /// What belongs there.
    pub about: &'static str,
    /// The code of what is wrong with it; absent for a file with nothing wrong.
    pub code: Option<&'static str>,
    /// The same in words.
    pub message: Option<String>,
    /// What to do.
    pub fix: Option<String>,
}

/// Looks at an agent's bundle where the agent writes it, else as the last verdict kept it.
///
/// # Errors
/// `agent-unknown`, `agent-ambiguous`, `agent-state` while the agent is half made, and those of the ledger.
pub fn bundle(ctx: &Ctx, who: &str) -> Result<BundleReport> {
    let agent = lookup::agent(ctx, &ctx.ledger(), who)?;
    let guard = ScopeGuard::around(&ctx.repo, agent.clone())?;
    let policy = guard.policy();
    let place = worktree::find(&ctx.repo, &agent).filter(|place| place.is_dir());
    let contract = Contract {
        agent: Some(agent.id),
        boundary: guard.boundary().clone(),
        bundle_required: true,
        spec_sha: policy.spec_sha.clone(),
        uncounted_tests: 0,
        report: ReportRules::default(),
    };
    // Without history, landing and commands there is nothing else to find fault with.
    let evidence = Evidence {
        bundle: files::artefacts(ctx, &agent, place.as_deref(), policy)?,
        ..Evidence::default()
    };
    let findings = judge(&contract, &evidence);
    let top =
        if agent.isolation == Some(Isolation::Shared) { Some(ctx.repo.root()?) } else { place };
    let directory = top.map(|top| layout::bundle(ctx.repo.common_dir(), agent.id, policy, &top));
    let file = |(name, about)| file(name, about, &findings);
    Ok(BundleReport {
        agent_id: agent.id.to_string(),
        short_id: agent.id.short(),
        required: policy.bundle_required,
        complete: findings.is_empty(),
        bundle_path: directory.map(|path| path.display().to_string()),
        files: FILES.into_iter().map(file).collect(),
    })
}

fn file(name: &'static str, about: &'static str, findings: &[Finding]) -> BundleFile {
    let of_file = |finding: &&Finding| {
        let path = finding.path.as_deref().unwrap_or_default();
        path.rsplit(|byte| *byte == b'/').next() == Some(name.as_bytes())
    };
    let finding = findings.iter().find(of_file);
    BundleFile {
        name,
        about,
        code: finding.map(|finding| finding.code.name()),
        message: finding.map(|finding| finding.message.clone()),
        fix: finding.map(|finding| finding.fix.clone()),
    }
}
