//! What `[setup]` and the repository's `post-checkout` hook did to a worktree is no work of its agent.
//!
//! Once both have run, `spawn` records every change that git would commit: each path with what it held before and
//! after. A change in the worktree that is exactly such a change is left out of the work, so it is neither judged nor
//! landed. Whatever else happens to that path is work: the agent edits the file, stages it, or commits it.

use crate::domain::agent::Agent;
use crate::domain::baseline::Difference;
use crate::domain::change::Change;
use crate::domain::oid::Oid;
use crate::error::Result;
use crate::git::Repo;
use crate::store::baseline;
use std::collections::HashSet;

/// A tree without what was there before the agent.
pub(crate) struct WithoutBaseline {
    /// The tree.
    pub tree: Oid,
    /// The paths that were put back to what the tip holds there.
    pub left_out: Vec<Vec<u8>>,
}

/// Takes the changes of the baseline out of `tree`, which holds everything in a worktree whose branch is at a commit
/// with the tree `tip`. What is `staged` stays. `None` where there is no baseline.
///
/// # Errors
/// `history-incomplete` when the baseline is not here; `repo-corrupt`, `disk-full`, `repo-read-only`.
pub(crate) fn without(
    repo: &Repo,
    agent: &Agent,
    tip: Oid,
    tree: Oid,
    staged: &[Change],
) -> Result<Option<WithoutBaseline>> {
    let Some(baseline) = baseline::of_agent(repo, agent)? else {
        return Ok(None);
    };
    let staged: HashSet<&[u8]> = staged.iter().map(|change| change.path.as_slice()).collect();
    let is_left_out = |difference: &Difference| {
        baseline.holds(difference) && !staged.contains(difference.path.as_slice())
    };
    let differences = repo.differences(tip, tree)?.into_iter();
    let (left_out, work): (Vec<_>, Vec<_>) = differences.partition(is_left_out);
    let rest = if left_out.is_empty() {
        None
    } else {
        // None where the agent put a file where setup removed a directory: only both together make a tree.
        repo.tree_after(tip, &work)?
    };
    let path = |difference: Difference| difference.path;
    Ok(Some(match rest {
        Some(tree) => WithoutBaseline {
            tree,
            left_out: left_out.into_iter().map(path).collect(),
        },
        None => WithoutBaseline {
            tree,
            left_out: Vec::new(),
        },
    }))
}
