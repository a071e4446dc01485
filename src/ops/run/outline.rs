//! What a run would do: `git-agent.run-plan/2`.

use crate::domain::run::shell_line;
use crate::ops::run::{RunPlan, Worker, command_line};
use serde::Serialize;
use serde_with_macros::skip_serializing_none;

/// The answer of `run --dry-run`. Absent means not applicable.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RunOutline {
    /// The format's name and version.
    pub schema: &'static str,
    /// The agent's id; absent for one that the run would make.
    pub agent_id: Option<String>,
    /// The first eight hex digits of the id.
    pub short_id: Option<String>,
    /// Where the command would run, absolute; absent for an agent that the run would make.
    pub worktree_abspath: Option<String>,
    /// The program and its arguments, with their placeholders.
    pub command: Vec<String>,
    /// The same as one line for a shell.
    pub command_line: String,
    /// How the command would get its prompt: `stdin`, or `words` when the command names it.
    pub prompt_on: &'static str,
    /// How long it might take, in milliseconds; absent without a time limit.
    pub timeout_ms: Option<u64>,
    /// The file for the answer, absolute; for an agent that the run would make, as it would be now.
    pub output_file: Option<String>,
    /// What the caller should know.
    pub warnings: Vec<String>,
}

impl RunPlan {
    /// What the plan would do.
    pub fn outline(&self) -> RunOutline {
        let inputs = &self.inputs;
        let known = match &self.worker {
            Worker::Known(agent) => Some(agent.id),
            Worker::New(_) => None,
        };
        let directory = inputs.place.directory.to_string_lossy();
        let words = inputs.command.iter().map(|word| word.to_string_lossy());
        let mut warnings = match &self.worker {
            Worker::New(spawn) => spawn.warnings.clone(),
            Worker::Known(_) => Vec::new(),
        };
        warnings.extend(inputs.warnings.iter().cloned());
        RunOutline {
            schema: "git-agent.run-plan/2",
            worktree_abspath: known.is_some().then(|| directory.into_owned()),
            agent_id: known.map(|id| id.to_string()),
            short_id: known.map(|id| id.short()),
            command_line: shell_line(words.clone()),
            command: words.map(|word| word.into_owned()).collect(),
            prompt_on: if command_line::name_prompt(&inputs.command) {
                "words"
            } else {
                "stdin"
            },
            timeout_ms: { self.limit }.and_then(|limit| u64::try_from(limit.as_millis()).ok()),
            output_file: inputs
                .output
                .as_ref()
                .map(|output| output.path().to_string_lossy().into_owned()),
            warnings,
        }
    }
}
