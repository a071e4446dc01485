//! Every path that was touched, wherever it was, against the boundary. A path is reported once for
//! each reason, at the first place that touched it.

use crate::domain::evidence::{Contract, Evidence, Place};
use crate::domain::finding::{Finding, FindingCode as Code};
use crate::domain::path::Quoted;
use crate::domain::scope::Denied;
use crate::domain::violation::{BundleRule, Reason, Violation};
use std::collections::HashSet;

/// What was touched and must not have been.
pub(super) fn judge(contract: &Contract, evidence: &Evidence) -> Vec<Finding> {
    let mut seen = HashSet::new();
    let mut paths = HashSet::new();
    let violations = evidence.touches.iter().filter_map(|touch| {
        // The files of the bundle were left out where they may be, which is in the worktree.
        let rule = BundleRule::NeverCommitted;
        let boundary = &contract.boundary;
        let violation = boundary.violation(&touch.change, rule, &evidence.tracked)?;
        Some((violation, touch.place))
    });
    violations
        .filter(|(violation, place)| {
            let is_new = paths.insert(violation.path.clone());
            let code = code(&violation.reason);
            // What a commit did is named there. Git can do more when it lands the work: it applies a change to where a file is
            // on the target, and moves new files along with a directory.
            (is_new || *place != Place::Landing) && seen.insert((code, violation.path.clone()))
        })
        .map(|(violation, place)| finding(&violation, place))
        .collect()
}

fn code(reason: &Reason) -> Code {
    match reason {
        Reason::Scope(denied) | Reason::Alias { denied, .. } => match denied {
            Denied::ByDenylist(_) => Code::ScopeDenylist,
            Denied::NotInWhitelist => Code::ScopeNotInWhitelist,
            Denied::Never(_) => Code::ScopeNever,
        },
        Reason::ReadOnly => Code::ScopeReadOnly,
        Reason::Bundle => Code::ScopeBundle,
        Reason::Link { .. } => Code::ScopeSymlinkTarget,
        Reason::Outside => Code::ScopeOutsideWorktree,
        Reason::Unseen => Code::WorktreeNested,
    }
}

fn finding(violation: &Violation, place: Place) -> Finding {
    let path = Quoted(&violation.path);
    let code = match place {
        Place::Landing => Code::ScopeLanding,
        _ => code(&violation.reason),
    };
    let (place, fix, commit) = match place {
        Place::Commit(commit) => (
            format!("in commit {}", commit.short()),
            format!("take {path} out of that commit; undoing it in a later one is not enough"),
            Some(commit),
        ),
        Place::Index => (
            "in the index".to_owned(),
            format!("run git restore --staged -- {path}"),
            None,
        ),
        Place::Worktree => (
            "in the worktree".to_owned(),
            format!("undo the change of {path}, or remove it if it is new"),
            None,
        ),
        Place::Landing => (
            "by the landing, for files were moved on the target".to_owned(),
            "take the change out, or start the task again from the target as it is now".to_owned(),
            None,
        ),
    };
    let (kind, reason) = (violation.kind, &violation.reason);
    let message = format!("{path} ({kind} {place}): {reason}");
    Finding::new(code, message, fix)
        .on(&violation.path)
        .at(commit)
}
