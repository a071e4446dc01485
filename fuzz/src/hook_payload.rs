//! What an agent host sends to a hook: a tool that writes is never taken for one that does not.

use git_agent::domain::boundary::tool_call::{Intent, TouchedPath, locate};
use git_agent::hosts::payload;
use serde_json::Value;

/// Tools that do nothing but write, as hosts spell them.
const WRITERS: [&str; 4] = ["Write", "Edit", "MultiEdit", "NotebookEdit"];

/// One payload.
pub fn run(data: &[u8]) {
    let call = payload::read(data).call;
    match &call.intent {
        Intent::Writes(touched) => {
            assert!(!touched.is_empty(), "a write of nothing");
            paths(touched);
        }
        Intent::Shell { patched, .. } => paths(patched),
        Intent::Unreadable { why, .. } => {
            assert!(!why.trim().is_empty(), "denied without a reason")
        }
        _ => {}
    }
    if let Some(cwd) = &call.cwd {
        assert!(cwd.starts_with('/'));
    }
    let Ok(Value::Object(payload)) = serde_json::from_slice(data) else {
        return;
    };
    let tool = payload.get("tool_name").and_then(Value::as_str);
    if tool.is_some_and(|tool| WRITERS.contains(&tool)) {
        let answered = matches!(&call.intent, Intent::Writes(_) | Intent::Unreadable { .. });
        assert!(answered, "{:?}", call.intent);
    }
}

/// Every path leads somewhere, and only once.
fn paths(touched: &[TouchedPath]) {
    for (index, one) in touched.iter().enumerate() {
        assert!(locate(b"/", one.path.as_bytes()).is_some(), "{one:?}");
        assert!(!touched[..index].contains(one), "{one:?} twice");
    }
}
