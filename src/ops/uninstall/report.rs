//! What `uninstall` answers.

use crate::agents::kept_worktree::KeptWorktree;
use serde::Serialize;

/// The answer of `uninstall`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UninstallReport {
    /// The format's name and version.
    pub schema: &'static str,
    /// Whether nothing was removed yet.
    pub dry_run: bool,
    /// What this program put into the repository.
    pub items: Vec<UninstallItem>,
    /// What was kept of warm worktrees that had been edited by hand.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<KeptWorktree>,
    /// What cannot be had back.
    pub lost: Lost,
}

/// One thing that this program put into the repository.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UninstallItem {
    /// `host`, `setting`, `exclude`, `worktree`, `files` or `ref`.
    pub kind: &'static str,
    /// The path, the key, the line or the name.
    pub what: String,
    /// `remove` or `keep`.
    pub action: &'static str,
    /// Why it is kept, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<&'static str>,
}

/// What cannot be had back, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Lost {
    /// Output of runs.
    pub logs: usize,
    /// Tasks as they were given, from which agents are spawned once more.
    pub tasks: usize,
    /// Rows of the ledger.
    pub rows: usize,
    /// Whether there are messages among it.
    pub messages: bool,
    /// Commits that hold the work of discarded and merged agents.
    pub kept_commits: usize,
}

/// Items as they are found.
#[derive(Default)]
pub(super) struct Items(Vec<UninstallItem>);

impl Items {
    pub(super) fn remove(&mut self, kind: &'static str, what: &str) {
        self.push(kind, what, None);
    }

    pub(super) fn keep(&mut self, kind: &'static str, what: &str, why: &'static str) {
        self.push(kind, what, Some(why));
    }

    fn push(&mut self, kind: &'static str, what: &str, why: Option<&'static str>) {
        self.0.push(UninstallItem {
            kind,
            what: what.to_owned(),
            action: if why.is_some() { "keep" } else { "remove" },
            why,
        });
    }
}

impl From<Items> for Vec<UninstallItem> {
    fn from(items: Items) -> Self {
        items.0
    }
}
