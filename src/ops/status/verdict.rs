//! Whether the last verdict is still about what there is.

use crate::agents::work;
use crate::domain::agent::Agent;
use crate::domain::event::{Isolation, Verified};
use crate::domain::evidence::Artefact;
use crate::domain::oid::Oid;
use crate::git::Repo;
use crate::ops::status::{Fact, Look};
use std::collections::BTreeMap;

pub(super) const ACCEPTED: &str = "accepted";
const REJECTED: &str = "rejected";
pub(super) const STALE: &str = "stale";
const NONE: &str = "none";

/// How the last verdict came out, whatever happened since.
pub(super) fn recorded(agent: &Agent) -> &'static str {
    match &agent.verdict {
        None => NONE,
        Some(verdict) if verdict.accepted => ACCEPTED,
        Some(_) => REJECTED,
    }
}

/// The verdict, `stale` when anything that it names has changed; `None` when that cannot be told. What is in the
/// worktree of another clone is left to that clone.
pub(super) fn now(look: &Look<'_>, artefacts: Option<&[Artefact]>) -> Option<&'static str> {
    let Some(verdict) = &look.agent.verdict else {
        return Some(NONE);
    };
    let tip = look.tip?;
    let target = match look.target {
        Some(target) => target,
        // Where the target is gone, it counts as it was when the agent began.
        None => look.agent.base.as_ref()?.oid,
    };
    let moved = verdict.tip != tip
        || verdict.base != target && is_about_target(verdict)
        || look.agent.binding_policy() != Some(verdict.policy)
        || !(look.is_elsewhere() || is_bundle(&look.ctx.repo, verdict, artefacts?));
    if moved || !is_tree(look, verdict, tip)? {
        return Some(STALE);
    }
    Some(recorded(look.agent))
}

/// Whether nothing of a verdict is left once the target has moved: it rejects for how the work would land on it, and for
/// nothing else. What an accepting one says of the work itself stands.
fn is_about_target(verdict: &Verified) -> bool {
    let is_of_target = |code: &String| code.starts_with("merge.") || code.starts_with("commands.");
    !verdict.accepted && verdict.findings.iter().all(is_of_target)
}

/// Whether committing everything would still make the tree that was judged.
fn is_tree(look: &Look<'_>, verdict: &Verified, tip: Oid) -> Option<bool> {
    let of_tip = look.ctx.repo.read_commit(tip).ok()?.tree == verdict.tree;
    if look.agent.isolation == Some(Isolation::Shared) {
        return Some(of_tip);
    }
    match &look.changes {
        Fact::Known(changes) if changes.is_empty() || of_tip => Some(changes.is_empty() && of_tip),
        // The usual case: the agent committed nothing, and what it wrote was judged.
        Fact::Known(_) => {
            let fence = look.fence.as_ref()?;
            let tree = work::tree_to_judge(look.ctx, look.agent, look.worktree?, fence.policy());
            Some(tree.ok()? == verdict.tree)
        }
        _ if of_tip => Some(true),
        _ => None,
    }
}

/// Whether the bundle is the one that the verdict kept.
fn is_bundle(repo: &Repo, verdict: &Verified, artefacts: &[Artefact]) -> bool {
    let texts: BTreeMap<&[u8], &str> = artefacts
        .iter()
        .filter_map(|artefact| Some((artefact.name.as_bytes(), artefact.text.as_deref().ok()?)))
        .collect();
    let Some(tree) = verdict.bundle else {
        return texts.is_empty();
    };
    let Ok(kept) = repo.read_tree(tree) else {
        return false;
    };
    kept.len() == texts.len()
        && kept.iter().all(|entry| {
            let blob = repo.read_blob(entry.oid).ok();
            blob.as_deref() == texts.get(entry.name.as_slice()).map(|text| text.as_bytes())
        })
}
