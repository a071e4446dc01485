use super::{Agent, agent};
use git_agent::agents::context::ctx::Env;
use git_agent::domain::boundary::tool_call::HookAnswer;
use git_agent::hosts::payload;
use git_agent::ops::host_hook::pre_tool;
use git_agent::ops::host_hook::refusal;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// Parts that paths are made of: in scope, out of scope, and ways around.
const PARTS: &[&str] = &[
    "src",
    "SRC",
    "lib.rs",
    "README.md",
    "..",
    ".",
    "",
    ".git",
    ".agent",
    "link",
    "loop",
    ".env",
    "secrets",
    "new",
    "/etc/passwd",
    "~",
    "é",
    "a\\b",
    "*",
    " x",
];

const TOOLS: &[&str] =
    &["Write", "Edit", "write_file", "create", "Delete", "NotebookEdit", "apply_patch"];

fn path() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(PARTS), 1..6).prop_map(|parts| parts.join("/"))
}

/// Does what the tool would do as simply as a host does it, and tells whether a file came to be changed
/// that the scope `src/**` of [`agent`] leaves out.
fn escapes(top: &Path, cwd: &Path, path: &str) -> bool {
    let target = cwd.join(path);
    let Some(parent) = target.parent().and_then(|parent| fs::canonicalize(parent).ok()) else {
        return false;
    };
    let Some(name) = target.file_name() else {
        return false;
    };
    let real = fs::canonicalize(&target).unwrap_or_else(|_| parent.join(name));
    let inside = |real: &Path| {
        let Ok(path) = real.strip_prefix(top) else {
            return false;
        };
        let mut parts = path.iter().map(|part| part.to_string_lossy().into_owned());
        let first = parts.next().unwrap_or_default();
        let hidden = parts.any(|part| [".env", ".git"].contains(&part.as_str()));
        path.components().count() > 1 && (first == ".agent" || first == "src" && !hidden)
    };
    !inside(&real)
}

#[test]
fn no_payload_writes_out_of_scope_or_crashes() {
    let Agent { repo, worktree, .. } = agent();
    let main = repo.path();
    symlink("../../..", worktree.join("src/link")).expect("linked");
    symlink("loop", worktree.join("src/loop")).expect("linked");
    symlink("/etc", worktree.join(".agent/link")).expect("linked");
    fs::create_dir(worktree.join("src/new")).expect("made");
    let env = Env { directory: worktree.clone(), ..Env::default() };
    let judge = |payload: &[u8]| {
        let call = payload::read(payload).call;
        pre_tool(&env, &call).unwrap_or_else(|error| refusal(&call, &error))
    };
    let cwds = [worktree.clone(), worktree.join("src"), worktree.join("src/link"), main];
    let input = (
        prop::sample::select(TOOLS),
        prop::sample::select(cwds.to_vec()),
        path(),
        path(),
        any::<u8>(),
    );
    let mut runner =
        TestRunner::new(Config { failure_persistence: None, ..Config::with_cases(512) });
    let outcome = runner.run(&input, |(tool, cwd, path, second, shape)| {
        let one: Value = json!({"file_path": path, "content": "x"});
        let both = json!({"edits": [{"path": second}], "notebook_path": path});
        let patch =
            json!({"command": format!("*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch")});
        let tool_input = match shape % 4 {
            0 => one,
            1 => Value::from(one.to_string()),
            2 => both,
            _ => patch,
        };
        let payload = json!({"tool_name": tool, "cwd": cwd, "tool_input": tool_input}).to_string();
        if judge(payload.as_bytes()) == HookAnswer::Allow {
            prop_assert!(tool == "Delete" || !escapes(&worktree, &cwd, path.trim()), "{payload}");
        }
        // Damaged, it is still answered; cut off, it is never let through.
        let cut = usize::from(shape) % payload.len();
        prop_assert_ne!(
            judge(&payload.as_bytes()[..cut]),
            HookAnswer::Allow,
            "{}",
            &payload[..cut]
        );
        let mut damaged = payload.into_bytes();
        damaged[cut] = damaged[cut].wrapping_add(shape);
        judge(&damaged);
        Ok(())
    });
    outcome.expect("the property holds");
}
