//! The name of every ref and file that this program keeps.
//!
//! All files live below `<common dir>/agents/`, shared by the repository's worktrees and invisible
//! to git's own commands.

use crate::domain::id::AgentId;
use std::path::{Path, PathBuf};

/// The ledger: one note per spawn commit.
pub const LEDGER_REF: &str = "refs/notes/agents";
/// The chain of empty-tree commits whose extra parents must stay reachable.
pub const KEEP_REF: &str = "refs/agents/keep";

/// The file locked while the ledger or the keep chain is written.
pub const LEDGER_LOCK: &str = "ledger.lock";
/// The file locked while a worktree is published.
pub const SPAWN_LOCK: &str = "spawn.lock";
/// The file locked while a message is written.
pub const MAIL_LOCK: &str = "mail.lock";

/// The directory that holds all our files.
pub fn agents_dir(common_dir: &Path) -> PathBuf {
    common_dir.join("agents")
}

/// What belongs to one agent: prompt, task, hooks, logs.
pub fn agent_dir(common_dir: &Path, id: AgentId) -> PathBuf {
    agents_dir(common_dir).join(id.short())
}

/// Half-written things; whatever is old in here is debris.
pub fn tmp_dir(common_dir: &Path) -> PathBuf {
    agents_dir(common_dir).join("tmp")
}

/// Removed worktrees on their way out.
pub fn trash_dir(common_dir: &Path) -> PathBuf {
    agents_dir(common_dir).join("trash")
}

/// What can be deleted at any time and is made again.
pub fn cache_dir(common_dir: &Path) -> PathBuf {
    agents_dir(common_dir).join("cache")
}

/// The folded-in notes of one notes tree.
pub fn ledger_cache(common_dir: &Path) -> PathBuf {
    cache_dir(common_dir).join("ledger")
}

/// Four hex digits that tell this clone's stamps from those of others.
pub fn clone_id(common_dir: &Path) -> PathBuf {
    agents_dir(common_dir).join("clone-id")
}

/// The journals of spawns under way.
pub fn journals_dir(common_dir: &Path) -> PathBuf {
    agents_dir(common_dir).join("spawning")
}

/// The name of an agent's admin directory and, by default, of its worktree.
pub fn worktree_name(id: AgentId) -> String {
    format!("agent-{}", id.short())
}

/// The first eight hex digits of the agent whose admin directory has that name; `None` for the name of
/// any other worktree.
pub fn agent_of_worktree(name: &str) -> Option<&str> {
    let digits = name.strip_prefix("agent-")?;
    let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    (digits.len() == 8 && digits.bytes().all(is_hex)).then_some(digits)
}

/// What the `locked` file of an agent's worktree says while the agent is neither landed nor removed.
pub fn lock_reason(id: AgentId) -> String {
    format!("git-agent {}", id.short())
}
