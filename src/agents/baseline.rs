//! What `[setup]` and the repository's `post-checkout` hook did to a worktree is no work of its agent.
//!
//! Once both have run, `spawn` records every change that git would commit: each path with what it held before and
//! after. A change in the worktree that is exactly such a change is left out of the work, so it is neither judged nor
//! landed. Whatever else happens to that path is work: the agent edits the file, stages it, or commits it.
//!
//! What editors and file managers leave beside the files that they show is no work either, unless someone stages it.

use crate::domain::agent::Agent;
use crate::domain::baseline::Difference;
use crate::domain::change::Change;
use crate::domain::oid::Oid;
use crate::error::Result;
use crate::git::Repo;
use crate::store::facts;
use std::collections::HashSet;

/// A tree without what was there before the agent.
pub(crate) struct WithoutBaseline {
    /// The tree.
    pub tree: Oid,
    /// The paths of the baseline that were put back to what the tip holds there; `None` where there is no baseline.
    pub from_setup: Option<Vec<Vec<u8>>>,
    /// New files that editors and file managers left.
    pub droppings: Vec<Vec<u8>>,
}

/// Whether a new file is one that an editor or a file manager leaves: a backup, a swap file, a directory's view.
pub(crate) fn is_dropping(path: &[u8]) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    let is_swap = |end: &[u8]| name.starts_with(b".") && name.ends_with(end);
    name.ends_with(b"~") || name == b".DS_Store" || is_swap(b".swp") || is_swap(b".swo")
}

/// Takes the changes of the baseline out of `tree`, which holds everything in a worktree whose branch is at a commit
/// with the tree `tip`, and what editors left unless that is kept. What is `staged` stays.
///
/// # Errors
/// `history-incomplete` when the baseline is not here; `repo-corrupt`, `disk-full`, `repo-read-only`.
pub(crate) fn without(
    repo: &Repo,
    agent: &Agent,
    tip: Oid,
    tree: Oid,
    staged: &[Change],
    keeps_droppings: bool,
) -> Result<WithoutBaseline> {
    let baseline = facts::of_agent(repo, agent)?;
    let staged: HashSet<&[u8]> = staged.iter().map(|change| change.path.as_slice()).collect();
    let is_of_setup = |difference: &Difference| {
        (baseline.as_ref()).is_some_and(|baseline| baseline.holds(difference))
    };
    let is_left_out = |difference: &Difference| {
        let is_new_dropping =
            !keeps_droppings && difference.old.is_none() && is_dropping(&difference.path);
        (is_of_setup(difference) || is_new_dropping) && !staged.contains(difference.path.as_slice())
    };
    let differences = repo.differences(tip, tree)?.into_iter();
    let (left_out, work): (Vec<_>, Vec<_>) = differences.partition(is_left_out);
    let rest = if left_out.is_empty() {
        None
    } else {
        // None where the agent put a file where setup removed a directory: only both together make a tree.
        repo.tree_after(tip, &work)?
    };
    let (of_setup, droppings): (Vec<_>, Vec<_>) = match rest {
        Some(_) => left_out.into_iter().partition(is_of_setup),
        None => (Vec::new(), Vec::new()),
    };
    let paths =
        |differences: Vec<Difference>| differences.into_iter().map(|one| one.path).collect();
    Ok(WithoutBaseline {
        tree: rest.unwrap_or(tree),
        from_setup: baseline.as_ref().map(|_| paths(of_setup)),
        droppings: paths(droppings),
    })
}
