//! The contract of one agent: what a task file says once every rule has been checked.

use super::diagnostic::{Problem, Source};
use super::glob::Glob;
use super::id::AgentName;
use std::ops::Range;
use std::time::Duration;

/// A value and the bytes of the file it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located<T> {
    /// The value.
    pub value: T,
    /// Where it stands.
    pub span: Range<usize>,
}

/// What a task file says, of either accepted form, before its rules are checked against a role set.
#[derive(Clone, Debug)]
pub struct TaskDraft {
    /// The file.
    pub source: Source,
    /// What the reader already found wrong: syntax, unknown keys, wrong types.
    pub problems: Vec<Problem>,
}

/// A task that obeys every rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// The name of a spawnable role.
    pub role: String,
    /// The task text, trimmed, with LF line ends; 20 to 4000 characters.
    pub text: String,
    /// 1 to 20 globs.
    pub whitelist: Vec<Glob>,
    /// The task's own denylist; `None` when the file has none (that matters to `--no-default-deny`).
    pub denylist: Option<Vec<Glob>>,
    /// An alias for the agent.
    pub name: Option<AgentName>,
    /// The parent agent, as the file names it.
    pub parent: Option<String>,
    /// The revision to start from.
    pub base: Option<String>,
    /// A one-line description that replaces the first 60 characters of the text.
    pub description: Option<String>,
    /// The model to ask the host for.
    pub model: Option<String>,
    /// System-level context; may hold credentials and is never recorded.
    pub briefing: Option<String>,
    /// Text on top of the role's own.
    pub system_prompt: Option<String>,
    /// A persona.
    pub profile: Option<String>,
    /// How many turns the agent may take.
    pub max_iterations: Option<u32>,
    /// Commands that `verify` runs in the merged tree.
    pub checks: Vec<String>,
    /// Whether the bundle is required; `None` follows the isolation.
    pub bundle_required: Option<bool>,
    /// The file an output-only agent writes.
    pub output_file: Option<String>,
    /// Whether that file may exist already.
    pub output_overwrite: bool,
    /// Ignored files to bring into the worktree.
    pub setup_copy: Vec<Glob>,
    /// Commands to run in the new worktree.
    pub setup_run: Vec<String>,
    /// How long `run` lets the agent work.
    pub timeout: Option<Duration>,
}
