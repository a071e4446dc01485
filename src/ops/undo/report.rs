//! What `undo` answers.

use super::operations::BranchMove;
use crate::ops::agent_report::{AgentRef, AgentReport};
use serde::Serialize;

/// Where a branch was moved, or would be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BranchMoveReport {
    /// The full name of the branch.
    #[serde(rename = "ref")]
    pub refname: String,
    /// The commit that it was at.
    pub from: String,
    /// The commit that it is at after it.
    pub to: String,
}

impl From<&BranchMove> for BranchMoveReport {
    fn from(one: &BranchMove) -> BranchMoveReport {
        BranchMoveReport {
            refname: one.refname.clone(),
            from: one.from.to_hex(),
            to: one.to.to_hex(),
        }
    }
}

/// The answer of `undo --list`: `git-agent.operations/1`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OperationsReport {
    /// The format's name and version.
    pub schema: &'static str,
    /// What was done, newest first.
    pub operations: Vec<ListedOperation>,
}

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListedOperation {
    /// Its id.
    pub operation: String,
    /// When, as RFC 3339.
    pub recorded_at: String,
    /// Who.
    pub by: String,
    /// The clone that it was done in: four hex digits.
    pub clone: String,
    /// What it wrote into the rows: the kinds of the events.
    pub events: Vec<String>,
    /// The agents that it was about.
    pub agents: Vec<AgentRef>,
    /// The branches that it moved.
    pub moves: Vec<BranchMoveReport>,
    /// Whether all of it is taken back.
    pub undone: bool,
    /// Whether `undo` may take it back here, as far as its rows tell.
    pub undoable: bool,
}

/// The answer of `undo`: `git-agent.undo/1`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UndoReport {
    /// The format's name and version.
    pub schema: &'static str,
    /// `planned` or `undone`.
    pub outcome: &'static str,
    /// What is taken back.
    pub operation: String,
    /// The operation that did that, which can be taken back itself; absent before it is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undone_by: Option<String>,
    /// The agents, as they stand after it.
    pub agents: Vec<AgentReport>,
    /// The branches that move.
    pub moves: Vec<BranchMoveReport>,
    /// The agents whose worktree and branch are brought back.
    pub restored: Vec<AgentRef>,
    /// The agents whose worktree and branch are removed again.
    pub removed: Vec<AgentRef>,
    /// What the caller should know.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}
