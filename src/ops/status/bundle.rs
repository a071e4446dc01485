//! How much of the bundle is there.

use crate::agents::bundle;
use crate::domain::bundle::FILES;
use crate::domain::evidence::{Artefact, Contract, Evidence};
use crate::domain::judge::judge;
use crate::domain::oid::Oid;
use crate::domain::report::ReportRules;
use crate::ops::status::{Fact, Look};
use serde::Serialize;

/// How many of the artefact files are as `verify` wants them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BundleCount {
    /// Those with which nothing is wrong.
    pub good: usize,
    /// All of them.
    pub of: usize,
}

/// The six files where the agent writes them, else as the last verdict kept them; `None` when there is no
/// telling.
pub(super) fn artefacts(look: &Look<'_>) -> Option<Vec<Artefact>> {
    let policy = look.fence.as_ref()?.policy();
    bundle::artefacts(look.ctx, look.agent, look.worktree, policy).ok()
}

/// Counts them, where they are required.
pub(super) fn count(look: &Look<'_>, artefacts: Option<&[Artefact]>) -> Fact<BundleCount> {
    let (Some(fence), Some(artefacts)) = (&look.fence, artefacts) else {
        return Fact::Unknown;
    };
    let policy = fence.policy();
    if !policy.bundle_required {
        return Fact::NotApplicable;
    }
    let kept = look
        .agent
        .verdict
        .as_ref()
        .and_then(|verdict| verdict.bundle);
    let is_here = |tree: Oid| look.ctx.repo.is_at_hand(tree);
    let is_unseen = kept.is_none_or(|tree| look.is_elsewhere() && !is_here(tree));
    if policy.bundle_dir.is_some() && look.worktree.is_none() && is_unseen {
        return Fact::Unknown;
    }
    let contract = Contract {
        boundary: fence.boundary().clone(),
        bundle_required: true,
        spec_sha: policy.spec_sha.clone(),
        uncounted_tests: 0,
        report: ReportRules::default(),
    };
    // Without history, landing and commands there is nothing else to find fault with, and of each file
    // there is at most one.
    let evidence = Evidence {
        bundle: artefacts.to_vec(),
        ..Evidence::default()
    };
    let faults = judge(&contract, &evidence).len();
    Fact::Known(BundleCount {
        good: FILES.len().saturating_sub(faults),
        of: FILES.len(),
    })
}

/// The names of the six files, from the top of the worktree.
pub(super) fn paths(look: &Look<'_>) -> Vec<String> {
    let policy = look.fence.as_ref().map(|fence| fence.policy());
    match policy.and_then(|policy| policy.bundle_dir.as_ref()) {
        Some(directory) => FILES
            .iter()
            .map(|(name, _)| format!("{directory}/{name}"))
            .collect(),
        None => Vec::new(),
    }
}
