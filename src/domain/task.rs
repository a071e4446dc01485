//! The contract of one agent: what a task file says once every rule has been checked.
//!
//! A reader ([`crate::wire`] has the one for `task.toml`) makes a [`TaskDraft`]: raw values with their
//! positions, and what it already found wrong. The draft names its base and its role, so that the roles
//! of the base commit can be loaded; then [`TaskDraft::check`] applies every rule at once and
//! gives either a [`Task`] with warnings or all [`TaskProblems`] in order of position.
//!
//! A [`Task`] is valid by construction and never checked again.
//!
//! Deliberately absent: whether base and parent exist, and whether a glob matches anything. That
//! takes a repository.

mod check;
mod draft;
mod duration;

use super::diagnostic::{Problem, Source};
use super::glob::Glob;
use super::id::AgentName;
use crate::error::{Code, Error, ErrorFacts, Remedy};
use std::fmt;
use std::time::Duration;

pub use check::TaskOptions;
pub use draft::TaskDraft;
pub use duration::{duration_text, parse_duration};

/// How many characters of a task stand in a row.
pub const DESCRIPTION_CHARS: usize = 60;

/// What a task is called that the command line says itself.
pub const COMMAND_LINE: &str = "<command line>";

/// More problems than this are counted, not shown.
const SHOWN_PROBLEMS: usize = 20;

/// How many problems programs are told of. Finding the line of one takes a walk through the file.
const TOLD_PROBLEMS: usize = 100;

/// A task that obeys every rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// The name of a spawnable role.
    pub role: String,
    /// The task text, trimmed, with LF line ends; 20 to 4000 characters.
    pub text: String,
    /// 1 to 20 globs, each once, in the order of the file.
    pub whitelist: Vec<Glob>,
    /// The task's own denylist; `None` when the file has none (that matters to `--no-default-deny`).
    pub denylist: Option<Vec<Glob>>,
    /// An alias for the agent.
    pub name: Option<AgentName>,
    /// The parent agent, as the file names it: an id, a prefix of one, a name or a branch.
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
    /// How many turns the agent may take; 1 to 1000.
    pub max_iterations: Option<u32>,
    /// Commands that `verify` runs in the merged tree.
    pub checks: Vec<String>,
    /// How many tests have to pass in them, where any have to.
    pub min_tests: Option<u32>,
    /// Whether dependencies have to stay as they are.
    pub no_dep_bump: bool,
    /// Whether the bundle is required; `None` follows the isolation.
    pub bundle_required: Option<bool>,
    /// The file an output-only agent writes, relative to where it works.
    pub output_file: Option<String>,
    /// Whether that file may exist already.
    pub output_overwrite: bool,
    /// Fields that the agent's final answer has to have.
    pub report_fields: Vec<String>,
    /// Ignored files to bring into the worktree; at most 20 globs.
    pub setup_copy: Vec<Glob>,
    /// Commands to run in the new worktree.
    pub setup_run: Vec<String>,
    /// How long `run` lets the agent work; more than nothing, at most 24 hours.
    pub timeout: Option<Duration>,
    /// The most that a session of the host may cost in a run, in US dollars; more than nothing.
    pub max_cost: Option<f64>,
}

/// Something in a valid task that its author should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// One line: `file:line:column: message`.
    pub message: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Everything that is wrong with one task file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskProblems {
    /// The file.
    pub source: Source,
    /// What is wrong, in order of position; what has none (something missing) comes last.
    pub problems: Vec<Problem>,
}

impl TaskProblems {
    /// Whether there is one problem, and it has this code.
    pub fn is_only(&self, code: Code) -> bool {
        matches!(self.problems.as_slice(), [only] if only.code == Some(code))
    }
}

impl TaskProblems {
    /// A block for each of the first problems, and how many more there are.
    pub fn details(&self) -> Vec<String> {
        let shown = self.problems.iter().take(SHOWN_PROBLEMS);
        let mut details: Vec<_> = shown.map(|problem| self.source.render(problem)).collect();
        if let Some(hidden @ 1..) = self.problems.len().checked_sub(SHOWN_PROBLEMS) {
            details.push(format!("… and {hidden} more"));
        }
        details
    }
}

impl TaskProblems {
    /// Adds every problem to an error: for people the first ones as blocks, for programs the first hundred as values.
    #[must_use]
    pub fn told(&self, error: Error) -> Error {
        let problems = self
            .problems
            .iter()
            .take(TOLD_PROBLEMS)
            .map(|problem| self.source.fact(problem));
        let facts = ErrorFacts {
            problems: problems.collect(),
            ..ErrorFacts::default()
        };
        self.details()
            .into_iter()
            .fold(error, Error::detail)
            .facts(facts)
    }
}

impl From<TaskProblems> for Error {
    /// One detail per problem. A file with a single problem goes by that problem's own code, so that a
    /// script can tell an unknown role from a typing error.
    fn from(task: TaskProblems) -> Error {
        let name = task.source.name();
        let (code, count) = match task.problems.as_slice() {
            [only] => (only.code.unwrap_or(Code::TaskInvalid), "1 problem".into()),
            more => (Code::TaskInvalid, format!("{} problems", more.len())),
        };
        let is_about_role = matches!(code, Code::RoleUnknown | Code::RoleNotSpawnable);
        let error = Error::new(code, format!("{name} has {count}"));
        let mut error = task.told(error);
        if is_about_role {
            error = error.remedy("to see all roles", Remedy::Roles);
        }
        let argument = match name.as_str() {
            "<stdin>" => "-",
            COMMAND_LINE => "-m <task> --scope <glob>",
            file => file,
        };
        error.remedy(
            "fix the task, give it a smaller scope, or abort; to check it again without spawning",
            Remedy::CheckTask(argument.to_owned()),
        )
    }
}
