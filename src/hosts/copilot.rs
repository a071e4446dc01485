//! Copilot CLI.
//!
//! It reads hooks from files of its own and from `.claude/settings.json`, and its payload has the shape that
//! belongs to the file: from its own, a payload with `toolArgs` and without the name of an event. Of a denial
//! in its own shape the model sees the reason only if it is JSON on standard output.

use super::Host;
use super::payload::{EventNames, Json, Moment, ToolKind, ToolNames};
use super::settings::Registration;
use crate::domain::tool_call::HookEvent;
use serde_json::json;

pub(super) struct Copilot;

impl Host for Copilot {
    fn name(&self) -> &'static str {
        "copilot"
    }

    fn registration(&self) -> Option<Registration> {
        Some(Registration {
            note: Some("Copilot runs a project's hooks in trusted folders only"),
            ..Registration::json(
                self.name(),
                ".github/hooks",
                ".github/hooks/git-agent.json",
                include_str!("../../hooks/copilot.json"),
            )
        })
    }

    fn events(&self) -> &'static [EventNames] {
        &[
            (Moment::PreTool, &["preToolUse"]),
            (Moment::PostTool, &["postToolUse"]),
            (Moment::SessionStart, &["sessionStart"]),
            (Moment::Stop, &["agentStop", "subagentStop"]),
        ]
    }

    fn tools(&self) -> &'static [ToolNames] {
        &[
            (ToolKind::Editor, &["str_replace_editor"]),
            (ToolKind::Writer, &["create", "edit", "apply_patch"]),
            (ToolKind::Shell, &["bash", "powershell"]),
            (ToolKind::Spawner, &["task"]),
            (ToolKind::Reader, &["view"]),
        ]
    }

    fn sent(&self, payload: &Json) -> bool {
        payload.has("toolargs") && !payload.has("hookeventname")
    }

    fn denial(&self, event: &HookEvent, reason: &str) -> String {
        match event {
            HookEvent::PreTool => {
                let answer =
                    json!({"permissionDecision": "deny", "permissionDecisionReason": reason});
                format!("{answer}\n")
            }
            _ => String::new(),
        }
    }
}
