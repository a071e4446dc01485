//! The answer of `check`.

use super::Fixer;
use crate::agents::scope_guard::ScopeGuard;
use crate::ops::check::Violation;
use crate::wire::path_text::PathText;
use serde::Serialize;
use serde_with_macros::skip_serializing_none;

/// `git-agent.check/1`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckReport {
    /// The format's name and version.
    pub schema: &'static str,
    /// The agent; absent outside every agent's worktree.
    pub agent_id: Option<String>,
    /// The first eight hex digits of the id.
    pub short_id: Option<String>,
    /// Whether there is no violation.
    pub in_scope: bool,
    /// How many changes were judged.
    pub checked: usize,
    /// What the agent was not allowed to do.
    pub violations: Vec<ViolationReport>,
    /// The globs it may touch; absent outside of agents.
    pub whitelist: Option<Vec<String>>,
}

/// One violation.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ViolationReport {
    /// The path from the top of the worktree, or as it was given.
    pub path: PathText,
    /// What was done to it: `added`, `modified`, `deleted`, `mode changed`, `type changed`,
    /// `untracked`, `named`.
    pub change: &'static str,
    /// Why it is out of scope: `denylist`, `not-in-whitelist`, `never`, `read-only`, `bundle`,
    /// `symlink-target`, `outside-worktree`, `unseen-directory`.
    pub reason: &'static str,
    /// The same as a sentence.
    pub detail: String,
    /// The glob that decided, when one did.
    pub glob: Option<String>,
    /// The commit it is in, when commits were judged.
    pub commit: Option<String>,
    /// A command that helps.
    pub fix: String,
}

impl CheckReport {
    /// Outside of agents nothing is judged.
    pub(super) fn without_agent() -> CheckReport {
        CheckReport {
            schema: "git-agent.check/1",
            agent_id: None,
            short_id: None,
            in_scope: true,
            checked: 0,
            violations: Vec::new(),
            whitelist: None,
        }
    }

    /// Nothing is judged yet.
    pub(super) fn new(fence: &ScopeGuard<'_>) -> CheckReport {
        CheckReport {
            agent_id: Some(fence.agent().id.to_string()),
            short_id: Some(fence.agent().id.short()),
            whitelist: Some(fence.policy().whitelist.clone()),
            ..CheckReport::without_agent()
        }
    }

    /// Counts what was judged and lists what is out of scope.
    pub(super) fn add(&mut self, checked: usize, violations: &[Violation], fixer: &Fixer<'_>) {
        self.checked += checked;
        self.in_scope &= violations.is_empty();
        let reports = violations.iter().map(|violation| ViolationReport {
            path: PathText::from(violation.path.as_slice()),
            change: violation.kind.as_str(),
            reason: violation.reason.code(),
            detail: violation.reason.to_string(),
            glob: violation.reason.glob().map(str::to_owned),
            commit: fixer.commit.map(|commit| commit.to_hex()),
            fix: fixer.fix(violation),
        });
        self.violations.extend(reports);
    }
}
