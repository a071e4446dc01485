//! Cline.
//!
//! Its payload has the tool twice, neither time at the top: `tool_call.{name,input}` and
//! `preToolUse.{toolName,parameters}`.

use super::Host;
use super::payload::{Json, ToolKind, ToolNames};

pub(super) struct Cline;

/// Each object of the payload that has a tool and its arguments, and their keys in there.
const TOOLS: [(&str, &str, &str); 2] =
    [("toolcall", "name", "input"), ("pretooluse", "toolname", "parameters")];

impl Host for Cline {
    fn name(&self) -> &'static str {
        "cline"
    }

    fn control_files(&self) -> &'static [&'static str] {
        &["**/.clinerules/**"]
    }

    fn tools(&self) -> &'static [ToolNames] {
        &[(ToolKind::Writer, &["apply_patch", "write_to_file", "replace_in_file"])]
    }

    fn sent(&self, payload: &Json) -> bool {
        payload.has("clineversion")
    }

    /// Both forms are read. Where they differ, the reader finds two tools or judges the files of both.
    fn unfold(&self, payload: Json) -> Json {
        let Json::Object(members) = payload else {
            return payload;
        };
        let mut top = Vec::new();
        for (key, value) in members {
            let form = TOOLS.iter().find(|(object, ..)| *object == key);
            match (form, value) {
                (Some((_, name, input)), Json::Object(inner)) => {
                    top.extend(inner.into_iter().filter_map(|(key, value)| {
                        let at_top = match key {
                            key if key == *name => "toolname",
                            key if key == *input => "toolinput",
                            _ => return None,
                        };
                        Some((at_top.to_owned(), value))
                    }));
                }
                (_, value) => top.push((key, value)),
            }
        }
        Json::Object(top)
    }
}
