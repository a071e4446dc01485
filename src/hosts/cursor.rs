//! Cursor, the editor and its command line.
//!
//! Besides the general event before a tool it has events of its own for shells, MCP tools and reading, whose
//! payloads carry the arguments without the name of a tool.

use super::Host;
use super::payload::{EventNames, Moment, ToolKind, ToolNames};
use super::settings::Registration;

pub(super) struct Cursor;

impl Host for Cursor {
    fn name(&self) -> &'static str {
        "cursor"
    }

    fn control_files(&self) -> &'static [&'static str] {
        &["**/.cursor/**"]
    }

    fn registration(&self) -> Option<Registration> {
        Some(Registration::json(
            self.name(),
            ".cursor",
            ".cursor/hooks.json",
            include_str!("registrations/cursor.json"),
        ))
    }

    fn events(&self) -> &'static [EventNames] {
        &[
            (Moment::PreTool, &["preToolUse", "beforeShellExecution", "beforeMCPExecution"]),
            (Moment::PreRead, &["beforeReadFile"]),
            (Moment::PostTool, &["afterFileEdit"]),
            (Moment::Stop, &["stop"]),
        ]
    }

    fn tools(&self) -> &'static [ToolNames] {
        &[
            (ToolKind::Deleter, &["delete"]),
            (
                ToolKind::Writer,
                &["write", "edit", "str_replace", "edit_notebook", "search_replace"],
            ),
            (ToolKind::Shell, &["shell", "run_terminal_cmd"]),
            (ToolKind::Spawner, &["task"]),
        ]
    }
}
