//! opencode.
//!
//! It has plugins in place of hooks: ours is a TypeScript file that asks `git-agent hook pre-tool`.

use super::Host;
use super::payload::{EventNames, Moment, ToolKind, ToolNames};
use super::settings::Registration;

pub(super) struct Opencode;

impl Host for Opencode {
    fn name(&self) -> &'static str {
        "opencode"
    }

    fn registration(&self) -> Option<Registration> {
        Some(Registration {
            whole_file: Some("// git-agent opencode plugin, version "),
            ..Registration::json(
                self.name(),
                ".opencode",
                ".opencode/plugins/git-agent.ts",
                include_str!("../../hooks/opencode.ts"),
            )
        })
    }

    fn events(&self) -> &'static [EventNames] {
        &[
            (Moment::PreTool, &["tool.execute.before"]),
            (Moment::PostTool, &["tool.execute.after"]),
        ]
    }

    fn tools(&self) -> &'static [ToolNames] {
        &[
            (ToolKind::Writer, &["write", "edit", "patch"]),
            (ToolKind::Shell, &["bash"]),
            (ToolKind::Spawner, &["task"]),
            (ToolKind::Reader, &["read", "list", "glob", "grep"]),
        ]
    }
}
