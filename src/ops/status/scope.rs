//! How many paths an agent touched that it may not.

use crate::domain::violation::BundleRule;
use crate::ops::status::Look;
use std::collections::BTreeSet;

/// A branch with more commits of its own is for `verify` to look through.
const MOST_COMMITS: usize = 500;

/// The paths out of scope in any commit of the branch or in the worktree; `None` when that is not cheap to
/// say for certain.
pub(super) fn paths_out(look: &Look<'_>) -> Option<usize> {
    let (fence, commits) = (look.fence.as_ref()?, &look.apart.as_ref()?.own);
    if commits.len() > MOST_COMMITS {
        return None;
    }
    let mut out = BTreeSet::new();
    for commit in commits {
        let repo = &look.ctx.repo;
        let changes = repo.commit_changes(*commit).ok()?;
        let violations = fence.judge(&changes, BundleRule::NeverCommitted).ok()?;
        // A merge may differ from all its parents only because git put their changes together.
        if !violations.is_empty() && repo.read_commit(*commit).ok()?.parents.len() > 1 {
            return None;
        }
        out.extend(violations.into_iter().map(|violation| violation.path));
    }
    let changes = look.changes.known()?;
    let violations = fence.judge(changes, BundleRule::Writable).ok()?;
    out.extend(violations.into_iter().map(|violation| violation.path));
    Some(out.len())
}
