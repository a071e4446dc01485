//! `git agent spawn -m`: a task without a file.

use crate::domain::task::TaskDraft;
use crate::wire::task_file::{self, TaskWords};

/// A task on the command line, in the place of a task file.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "A task without a file")]
#[group(conflicts_with = "tasks")]
pub(super) struct WordArgs {
    /// Text of the task; several make paragraphs, as in git commit
    #[arg(long, short = 'm', value_name = "TEXT")]
    message: Vec<String>,
    /// Role, in the place of the repository's default or edit-local
    #[arg(long, value_name = "ROLE", requires = "message")]
    role: Option<String>,
    /// Glob that the agent may touch; repeatable
    #[arg(long, value_name = "GLOB", requires = "message")]
    scope: Vec<String>,
    /// Glob that the agent may not touch; repeatable
    #[arg(long, value_name = "GLOB", requires = "message")]
    deny: Vec<String>,
    /// Command that `verify` runs; repeatable
    #[arg(long, value_name = "COMMAND", requires = "message")]
    check: Vec<String>,
    /// Let the work land without a complete bundle
    #[arg(long, requires = "message")]
    no_bundle: bool,
}

impl WordArgs {
    /// The task that the words make, if there are any.
    pub(super) fn read(self) -> Option<TaskDraft> {
        if self.message.is_empty() {
            return None;
        }
        Some(task_file::of_words(&TaskWords {
            text: self.message.join("\n\n"),
            role: self.role,
            scope: self.scope,
            deny: self.deny,
            checks: self.check,
            bundle: self.no_bundle.then_some(false),
        }))
    }
}
