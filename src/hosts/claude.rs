//! Claude Code.
//!
//! It reads its hooks from the project's settings, shows the model the reason of a denial, and asks for
//! worktrees of its own when it isolates subagents.

use super::Host;
use super::command::{Line, Needs};
use super::output::text;
use super::payload::{EventNames, Moment, ToolKind, ToolNames};
use super::settings::Registration;

/// Where it keeps worktrees, below the root of a project. It is the default place of ours as well, because a
/// host that confines itself to the project can reach it.
pub const WORKTREE_DIR: &str = ".claude/worktrees";

pub(super) struct Claude;

impl Host for Claude {
    fn name(&self) -> &'static str {
        "claude"
    }

    fn program(&self) -> Option<&'static str> {
        Some("claude")
    }

    fn arguments(&self, needs: &Needs<'_>, line: &mut Line) -> Result<(), String> {
        line.add(["-p", "--output-format", "json", "--permission-mode"]);
        line.add([if needs.edits {
            "acceptEdits"
        } else {
            "default"
        }]);
        if needs.fenced {
            line.add(["--settings", r#"{"sandbox":{"enabled":false}}"#]);
        }
        if needs.private {
            line.add(["--no-session-persistence"]);
        }
        line.option("--model", needs.model);
        line.option("--max-turns", needs.max_iterations);
        line.add(needs.extra);
        Ok(())
    }

    fn last_words(&self, output: &str) -> Option<String> {
        text(&serde_json::from_str(output.trim()).ok()?, "/result")
    }

    fn registration(&self) -> Option<Registration> {
        Some(Registration {
            on_request: &["WorktreeCreate", "WorktreeRemove"],
            ..Registration::json(
                self.name(),
                ".claude",
                ".claude/settings.json",
                include_str!("../../hooks/claude.json"),
            )
        })
    }

    fn events(&self) -> &'static [EventNames] {
        &[
            (Moment::PreTool, &["PreToolUse"]),
            (Moment::PostTool, &["PostToolUse"]),
            (Moment::SessionStart, &["SessionStart"]),
            (Moment::Stop, &["Stop", "SubagentStop"]),
            (Moment::WorktreeCreate, &["WorktreeCreate"]),
            (Moment::WorktreeRemove, &["WorktreeRemove"]),
        ]
    }

    fn tools(&self) -> &'static [ToolNames] {
        &[
            (
                ToolKind::Writer,
                &["write", "edit", "multi_edit", "notebook_edit"],
            ),
            (ToolKind::Shell, &["bash", "powershell", "monitor"]),
            (ToolKind::Spawner, &["agent", "task"]),
            (ToolKind::Worktree, &["enter_worktree", "exit_worktree"]),
            (
                ToolKind::Reader,
                &["read", "glob", "grep", "ls", "notebook_read"],
            ),
        ]
    }

    fn skills(&self) -> &'static [&'static str] {
        &[".claude/skills"]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hosts::command::tests::{PLAIN, READING, check, full};

    #[test]
    fn the_command_line_says_what_the_agent_needs() {
        check(
            &Claude,
            &PLAIN,
            "claude -p --output-format json --permission-mode acceptEdits",
        );
        check(
            &Claude,
            &full(&["--verbose".into()]),
            r#"claude -p --output-format json --permission-mode acceptEdits --settings {"sandbox":{"enabled":false}} --no-session-persistence --model m --max-turns 7 --verbose"#,
        );
        check(
            &Claude,
            &READING,
            "claude -p --output-format json --permission-mode default",
        );
    }

    #[test]
    fn the_last_words_are_its_result() {
        let output = "{\"type\":\"result\",\"is_error\":false,\"result\":\"Done.\\n\"}\n";
        assert_eq!(Claude.last_words(output).as_deref(), Some("Done."));
    }
}
