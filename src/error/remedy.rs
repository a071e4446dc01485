//! What can be done about an error with this program, in words that no command line is needed for.

use std::borrow::Cow;

/// What a user can do about an error, where it takes this program. What the command is called is not for the layer that
/// fails to know.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remedy {
    /// Accept work that failed an audit.
    AcceptAudited,
    /// See all agents.
    Agents,
    /// See how an agent stands.
    Agent(String),
    /// See where an agent's worktree is.
    Place(String),
    /// Make an ordinary worktree of an agent's layered one.
    Materialize(String),
    /// Commit a merge that was left in an agent's worktree.
    CommitMerge(String),
    /// See the events of an agent.
    History(String),
    /// See the events of agents.
    Histories,
    /// Wait until the run of an agent is over.
    Wait(String),
    /// End the run of an agent.
    Stop(String),
    /// Give an agent's work back.
    Rescue(String),
    /// See the runs that go on.
    Running,
    /// See every setting.
    Settings,
    /// Remove what is finished.
    Collect,
    /// See the roles.
    Roles,
    /// Look for damage.
    Examine,
    /// Repair damage.
    Repair,
    /// Repair the hooks of one agent's worktree, or of all.
    RepairHooks(Option<&'static str>),
    /// See messages: those for a reader, or one's own.
    Messages(Option<String>),
    /// Delete old messages.
    ExpireMessages,
    /// Spawn an agent from a task file, or from standard input.
    SpawnFrom(Cow<'static, str>),
    /// Spawn from another commit.
    SpawnFromCommit,
    /// Check a task file without spawning.
    CheckTask(String),
    /// Exchange the ledger with a remote.
    Synchronise,
    /// Exchange with a remote all that clones share, what they keep included.
    SynchroniseAll,
    /// Register a host's hooks.
    Register(String),
}
