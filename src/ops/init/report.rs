//! What `init` answers.

use super::Proposal;
use crate::domain::named::named;
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
    /// What is proposed for a repository without settings; absent where it has some, or something in particular was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proposal: Option<Proposal>,
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

named! {
    /// What becomes of a file or a setting.
    #[derive(Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Action {
        /// It was not there.
        Created = "created",
        /// Ours is put beside, or taken from beside, what others have there.
        Updated = "updated",
        /// Nothing else was in it.
        Deleted = "deleted",
        /// It is as it should be.
        Unchanged = "unchanged",
    }
}
