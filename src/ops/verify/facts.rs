//! What verify remembers from one time to the next: facts about objects, never a verdict.
//!
//! A remembered merge says which tree lands, so more than its seal is asked for: all that it changes must be
//! within the agent's scope. Of a merge that is not (git may move a new file along with a directory that the
//! base renamed), and of one whose trees are gone, git is asked again.

use crate::agents::scope_guard::ScopeGuard;
use crate::domain::evidence::Conflict;
use crate::domain::oid::Oid;
use crate::domain::violation::BundleRule;
use crate::error::Result;
use crate::git::Repo;
use crate::git::merge::{Merge, MergeResult};
use crate::store::facts::Facts;
use crate::wire::conflict_report::ConflictReport;
use serde::{Deserialize, Serialize};

const MERGE: &str = "merge";

/// What git answered for two commits.
#[derive(Serialize, Deserialize)]
struct KeptMerge {
    tree: String,
    conflicts: Vec<ConflictReport>,
}

/// What git makes of merging `theirs` into `ours`.
///
/// # Errors
/// As [`Repo::merge`].
pub(super) fn merge(
    facts: Option<&Facts>,
    fence: &ScopeGuard<'_>,
    repo: &Repo,
    ours: Oid,
    theirs: Oid,
) -> Result<Merge> {
    let question = [ours.to_hex(), theirs.to_hex()];
    let known = facts.and_then(|facts| facts.load(MERGE, &question));
    if let Some(merge) = known.and_then(|bytes| believable(&bytes, fence, repo, ours)) {
        return Ok(merge);
    }
    let merge = repo.merge(ours, theirs)?;
    if let (Some(facts), Some(answer)) = (facts, kept(&merge)) {
        facts.store(MERGE, &question, &answer);
    }
    Ok(merge)
}

fn kept(merge: &Merge) -> Option<Vec<u8>> {
    let kept = match &merge.result {
        // Another version of git may know better.
        _ if merge.approximate => return None,
        MergeResult::Clean { tree } => KeptMerge {
            tree: tree.to_hex(),
            conflicts: Vec::new(),
        },
        MergeResult::Conflicts { tree, conflicts } => KeptMerge {
            tree: tree.as_ref()?.to_hex(),
            conflicts: conflicts.iter().map(ConflictReport::from).collect(),
        },
        MergeResult::Unrelated => return None,
    };
    serde_json::to_vec(&kept).ok()
}

/// The merge that a file holds, unless it would bring what the agent may not touch.
fn believable(bytes: &[u8], fence: &ScopeGuard<'_>, repo: &Repo, ours: Oid) -> Option<Merge> {
    let kept: KeptMerge = serde_json::from_slice(bytes).ok()?;
    let tree = Oid::from_hex(&kept.tree)?;
    let result = if kept.conflicts.is_empty() {
        let before = repo.read_commit(ours).ok()?.tree;
        let changes = repo.tree_changes(&[before], tree).ok()?;
        let violations = fence.judge(&changes, BundleRule::NeverCommitted).ok()?;
        if !violations.is_empty() {
            return None;
        }
        MergeResult::Clean { tree }
    } else {
        let conflicts = kept.conflicts.into_iter().map(|one| Conflict {
            path: one.path.to_bytes(),
            kinds: one.kinds,
        });
        MergeResult::Conflicts {
            tree: Some(tree),
            conflicts: conflicts.collect(),
        }
    };
    Some(Merge {
        result,
        approximate: false,
    })
}
