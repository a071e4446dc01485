//! What `init` answers.

use serde::Serialize;

/// The answer of `init`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InitReport {
    /// `git-agent.init/1`
    pub schema: &'static str,
    /// Each host, in the order of the documentation.
    pub hosts: Vec<HostReport>,
    /// What becomes of `notes.displayRef`; absent when it was not asked about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notes: Option<Action>,
    /// What becomes of the alias for a log without our refs; absent when it was not asked about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_alias: Option<Action>,
}

/// One host in JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HostReport {
    /// The name used with `--host`.
    pub host: &'static str,
    /// Its settings file, relative to the top of the worktree.
    pub path: &'static str,
    /// What becomes of the file.
    pub action: Action,
    /// What a person still has to do or know.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<&'static str>,
}

/// What becomes of a file or a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// It was not there.
    Created,
    /// Ours is put beside, or taken from beside, what others have there.
    Updated,
    /// Nothing else was in it.
    Deleted,
    /// It is as it should be.
    Unchanged,
}

impl Action {
    /// The word used in texts and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Action::Created => "created",
            Action::Updated => "updated",
            Action::Deleted => "deleted",
            Action::Unchanged => "unchanged",
        }
    }
}
