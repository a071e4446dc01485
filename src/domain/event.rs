//! What happened to an agent: the immutable rows of the ledger.
//!
//! An event says what happened, never what state that leads to; the fold in [`super::agent`] decides
//! that. Facts too big for a line of 1 KB are objects named by oid.

use super::id::{AgentId, AgentName};
use super::oid::Oid;
use super::stamp::Stamp;

/// One line of an agent's note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When it happened, unique within the row.
    pub at: Stamp,
    /// Whom it happened to.
    pub agent: AgentId,
    /// Who says so: a user name, `git-agent`, or an agent's id.
    pub by: String,
    /// The first 16 hex digits of the SHA-256 of the line before; `None` on the first line.
    pub previous: Option<String>,
    /// What happened.
    pub what: What,
}

/// What can happen to an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum What {
    /// A spawn began; everything it may leave behind is named.
    Spawning(Spawning),
    /// The spawn ended well: the agent can start.
    Spawned(Spawned),
    /// Somebody declared the work finished.
    Done {
        /// What was achieved, in the words of whoever said so.
        summary: String,
    },
    /// Somebody declared the work failed.
    Failed {
        /// Why.
        reason: String,
    },
    /// A remark; changes nothing.
    Noted {
        /// The remark.
        text: String,
    },
    /// A line whose kind this version does not know. It is kept and otherwise ignored.
    Unknown {
        /// The value of the line's `e` key.
        kind: String,
    },
}

impl What {
    /// The value of the `e` key.
    pub fn kind(&self) -> &str {
        match self {
            What::Spawning(_) => "spawning",
            What::Spawned(_) => "spawned",
            What::Done { .. } => "done",
            What::Failed { .. } => "failed",
            What::Noted { .. } => "noted",
            What::Unknown { kind } => kind,
        }
    }
}

/// How an agent is set apart from its siblings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Isolation {
    /// A linked worktree and a branch of its own.
    Worktree,
    /// Neither: it reads where it is started.
    Shared,
}

impl Isolation {
    /// The word used in files and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Isolation::Worktree => "worktree",
            Isolation::Shared => "shared",
        }
    }

    /// Reads the word back.
    pub fn parse(word: &str) -> Option<Isolation> {
        match word {
            "worktree" => Some(Isolation::Worktree),
            "shared" => Some(Isolation::Shared),
            _ => None,
        }
    }
}

/// Where an agent started from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    /// The branch or other ref that was named; `None` when only an object name was given.
    pub refname: Option<String>,
    /// The commit it was at that moment.
    pub oid: Oid,
}

/// The facts known before anything but the spawn commit exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spawning {
    /// The role's name.
    pub role: String,
    /// Whether there is a worktree.
    pub isolation: Isolation,
    /// The first 60 characters of the task.
    pub description: String,
    /// The alias given by the task file or `--name`.
    pub name: Option<AgentName>,
    /// The agent that asked for this one.
    pub parent: Option<AgentId>,
    /// Where it starts from.
    pub base: Base,
    /// `sha256:` and 64 hex digits over role, task and scope.
    pub dna: String,
    /// The full name of its branch; absent when shared.
    pub branch: Option<String>,
    /// The absolute path of its worktree, as text; absent when shared.
    pub worktree: Option<String>,
    /// The process that is at work, for whoever finds a half-made agent.
    pub pid: u32,
}

/// The facts known when the agent is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spawned {
    /// The blob that holds the binding policy: role, scope, checks, base.
    pub policy: Oid,
    /// SHA-256 of the `spec.md` that was written, in hex.
    pub spec_sha: String,
    /// The ignore rules of that moment that no commit holds (`info/exclude`, the user's excludes
    /// file), as blobs.
    pub excludes: Vec<Oid>,
}
