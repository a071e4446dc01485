use super::expected::EXPECTED;
use git_agent::domain::boundary::tool_call::{FileTouch, HookEvent, Intent, ToolCall, TouchedPath};
use git_agent::hosts::payload::{self, LONGEST_PAYLOAD};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn read(bytes: &[u8]) -> ToolCall {
    payload::read(bytes).call
}

/// The worktree that every fixture speaks of; written `W` below.
const WORKTREE: &str = "/home/dev/app/.claude/worktrees/agent-6a48ca7b";

#[test]
fn every_fixture_is_read_as_what_it_is() {
    let found: BTreeSet<String> = fixtures().into_iter().map(|(name, _)| name).collect();
    let named: BTreeSet<String> = EXPECTED.iter().map(|(name, _)| name.to_string()).collect();
    assert_eq!(found, named, "fixtures and table differ");
    for (name, bytes) in fixtures() {
        let expected = EXPECTED.iter().find(|(known, _)| *known == name);
        let shown = show(&read(&bytes)).replace(WORKTREE, "W");
        assert_eq!(Some(shown.as_str()), expected.map(|(_, shown)| *shown), "{name}");
    }
}

#[test]
fn the_working_directory_is_the_payloads_or_its_only_root() {
    let cases = [
        (json!({"cwd": "/w"}), Some("/w")),
        (json!({"cwd": "w"}), None),
        (json!({"workspace_roots": ["/w"]}), Some("/w")),
        (json!({"workspace_roots": ["/w", "/x"]}), None),
        (json!({"cwd": "/c", "workspace_roots": ["/w"]}), Some("/c")),
    ];
    for (mut payload, expected) in cases {
        payload["tool_name"] = json!("Read");
        assert_eq!(read_value(&payload).cwd.as_deref(), expected, "{payload}");
    }
    let twice = r#"{"tool_name":"Write","cwd":"/a","cwd":"/b","tool_input":{"path":"x"}}"#;
    assert!(is_unreadable(&read(twice.as_bytes()).intent));
}

#[test]
fn what_is_no_payload_is_unreadable() {
    let long = format!(r#"{{"tool_name":"Read","pad":"{}"}}"#, "x".repeat(LONGEST_PAYLOAD));
    let deep = format!(r#"{{"tool_name":"Read","tool_input":{}"#, "[".repeat(100_000));
    let cases: [&[u8]; 9] = [
        b"",
        b"  \n",
        b"null",
        b"[]",
        b"\"Write\"",
        b"{\"tool_name\":\"Re\xff\"}",
        b"{} {}",
        long.as_bytes(),
        deep.as_bytes(),
    ];
    for bytes in cases {
        let start = String::from_utf8_lossy(&bytes[..bytes.len().min(40)]);
        assert!(is_unreadable(&read(bytes).intent), "{start}");
    }
    let marked = b"\xef\xbb\xbf{\"tool_name\":\"Read\"}";
    assert_eq!(read(marked).intent, Intent::Reads);
}

#[test]
fn a_call_that_names_very_many_files_is_refused_in_bounded_time() {
    let paths: Vec<String> = (0..500_000).map(|n| format!("f{n}")).collect();
    let call = json!({"tool_name": "write_file", "tool_input": {"paths": paths}});
    assert!(is_unreadable(&read_value(&call).intent));
}

/// Names of tools that write files, in the spellings of their hosts.
const WRITERS: &[&str] = &[
    "Edit",
    "Write",
    "MultiEdit",
    "NotebookEdit",
    "apply_patch",
    "write_file",
    "replace",
    "create",
    "edit",
    "str_replace",
    "StrReplace",
    "Delete",
    "patch",
    "write",
    "mcp__fs__edit_file",
    "WRITE",
    "mcp__fs__move_file",
    "functions.apply_patch",
    "search_replace",
    "edit_notebook",
];

/// Keys that matter somewhere in a payload, and a few that do not.
const KEYS: &[&str] = &[
    "file_path",
    "filePath",
    "path",
    "notebook_path",
    "paths",
    "files",
    "edits",
    "content",
    "command",
    "input",
    "patch",
    "workdir",
    "source",
    "destination",
    "old_string",
    "x",
];

const TEXTS: &[&str] = &[
    "",
    "a",
    "/etc/passwd",
    "~/x",
    " a",
    "view",
    "{\"path\":\"b\"}",
    "{\"path\":",
    "a\0b",
    "*** Begin Patch\n*** Add File: c\n+x\n*** End Patch",
    "*** Begin Patch\n",
    "*** Add File:",
    "apply_patch <<E\n*** Begin Patch\n*** Delete File: d\n*** End Patch\nE",
    "../..",
    "file:///x",
];

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        prop::sample::select(TEXTS).prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        let member = (prop::sample::select(KEYS), inner.clone());
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(Value::from),
            prop::collection::vec(member, 0..5)
                .prop_map(|members| members.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()),
        ]
    })
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        read(&bytes);
    }

    #[test]
    fn damaged_fixtures_are_read_without_a_panic_and_never_wave_a_writer_through(
        index in any::<prop::sample::Index>(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let (_, mut bytes) = index.get(&fixtures()).clone();
        for (place, byte) in damage {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        let intent = read(&bytes).intent;
        let still: Option<Value> = serde_json::from_slice(&bytes).ok();
        let tool = still.as_ref().and_then(|v| v.get("tool_name")).and_then(Value::as_str);
        if tool.is_some_and(|tool| WRITERS.contains(&tool)) {
            prop_assert!(writes_or_unreadable(&intent), "{intent:?}");
        }
    }

    #[test]
    fn a_known_writing_tool_writes_or_is_unreadable_whatever_its_input(
        tool in prop::sample::select(WRITERS),
        event in prop::sample::select(&["PreToolUse", "Stop", "beforeReadFile", "", "x"][..]),
        key in prop::sample::select(&["tool_input", "toolArgs", "args", "nothing"][..]),
        input in any_json(),
        quoted in any::<bool>(),
        more in any_json(),
    ) {
        let input = if quoted { Value::from(input.to_string()) } else { input };
        let payload = json!({"tool_name": tool, "hook_event_name": event, key: input, "more": more});
        let intent = read_value(&payload).intent;
        prop_assert!(writes_or_unreadable(&intent), "{payload} {intent:?}");
    }

    #[test]
    fn a_path_is_seen_whatever_stands_beside_it(
        tool in prop::sample::select(WRITERS),
        before in any_json(),
        after in any_json(),
    ) {
        // Written by hand, so that keys can repeat.
        let call = format!(
            r#"{{"tool":"{tool}","toolArgs":{{"file_path":{before},"path":"secret/x","filePath":{after}}}}}"#
        );
        match read(call.as_bytes()).intent {
            Intent::Writes(touched) => {
                prop_assert!(touched.iter().any(|t| t.path == "secret/x"), "{call}");
            }
            intent => prop_assert!(is_unreadable(&intent), "{call} {intent:?}"),
        }
    }
}

fn writes_or_unreadable(intent: &Intent) -> bool {
    is_unreadable(intent) || matches!(intent, Intent::Writes(touched) if !touched.is_empty())
}

fn is_unreadable(intent: &Intent) -> bool {
    matches!(intent, Intent::Unreadable { why, .. } if !why.is_empty())
}

fn read_value(payload: &Value) -> ToolCall {
    read(payload.to_string().as_bytes())
}

/// Name (`host/case`) and bytes of every fixture.
fn fixtures() -> Vec<(String, Vec<u8>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/payloads");
    let mut found = Vec::new();
    for file in entries(&root).iter().flat_map(|host| entries(host)) {
        let name = file.strip_prefix(&root).expect("below").with_extension("");
        let bytes = std::fs::read(&file).expect("fixture");
        found.push((name.to_string_lossy().replace('\\', "/"), bytes));
    }
    found
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).expect("directory of fixtures");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("entry").path()).collect();
    paths.sort();
    paths
}

fn show(call: &ToolCall) -> String {
    let touched = |all: &[TouchedPath]| {
        let one = |t: &TouchedPath| match t.touch {
            FileTouch::Write => t.path.clone(),
            FileTouch::Delete => format!("-{}", t.path),
        };
        all.iter().map(one).collect::<Vec<_>>().join(" ")
    };
    let intent = match &call.intent {
        Intent::Writes(all) => format!("writes {}", touched(all)),
        Intent::Shell { command, patched } if patched.is_empty() => format!("shell: {command}"),
        Intent::Shell { command, patched } => {
            let start = command.lines().next().unwrap_or_default();
            format!("shell: {start} … writes {}", touched(patched))
        }
        Intent::SpawnsAgent { subagent_type, isolation, .. } => {
            let words = [Some("spawns"), subagent_type.as_deref(), isolation.as_deref()];
            words.into_iter().flatten().collect::<Vec<_>>().join(" ")
        }
        Intent::EntersWorktree => "enters a worktree".to_owned(),
        Intent::Reads => "reads".to_owned(),
        Intent::Unknown { tool } => format!("unknown {tool}"),
        Intent::NoTool => "no tool".to_owned(),
        Intent::Unreadable { tool: Some(tool), why } => format!("{tool} unreadable: {why}"),
        Intent::Unreadable { tool: None, why } => format!("unreadable: {why}"),
    };
    let event: &HookEvent = &call.event;
    format!("{event:?} {intent}")
}
