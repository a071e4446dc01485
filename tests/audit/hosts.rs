use crate::support::TestRepo;
use crate::support::agent::{TASK, agent_command, describe};
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

/// A repository, and the worktree of the one agent in it, which may change `src/**`.
fn agent() -> (TestRepo, PathBuf) {
    let repo = TestRepo::with_commit();
    let report = repo.spawn_task(TASK, &[]);
    let worktree = report["worktree_abspath"].as_str().expect("a worktree");
    let worktree = PathBuf::from(worktree);
    (repo, worktree)
}

/// The answer of the hook that hosts ask before a tool runs.
fn pre_tool(directory: &Path, payload: &Value) -> Output {
    let mut child = agent_command(directory)
        .args(["hook", "pre-tool"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut input = child.stdin.take().expect("a pipe");
    input
        .write_all(payload.to_string().as_bytes())
        .expect("read");
    drop(input);
    child.wait_with_output().expect("ends")
}

/// The payload of a fixture, with the agent's worktree in place of that of the fixture.
fn fixture(name: &str, worktree: &Path) -> Value {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/payloads");
    let text = std::fs::read_to_string(root.join(name)).expect("a fixture");
    let text = text.replace(
        "/home/dev/app/.claude/worktrees/agent-6a48ca7b",
        &worktree.display().to_string(),
    );
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn h9_a_denial_is_told_in_the_form_that_its_host_understands() {
    let (_repo, worktree) = agent();
    // README.md is out of scope.
    let copilot = fixture("copilot/recorded-pre-tool-edit.json", &worktree);
    let output = pre_tool(&worktree, &copilot);
    assert_eq!(output.status.code(), Some(2), "{}", describe(&output));
    let told: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    assert_eq!(told["permissionDecision"], "deny");
    let reason = told["permissionDecisionReason"].as_str().expect("a reason");
    assert!(reason.contains("README.md"), "{reason}");
    assert_eq!(reason, String::from_utf8_lossy(&output.stderr).trim_end());
    // The same host sends another shape to hooks that another host's settings registered.
    let mut claude_shaped = fixture(
        "copilot/recorded-claude-settings-pre-tool-use-write.json",
        &worktree,
    );
    claude_shaped["tool_input"]["path"] = json!(worktree.join("README.md"));
    // With this on standard output too, it takes the denial for a yes.
    let gemini = fixture("gemini/recorded-before-tool-replace.json", &worktree);
    for payload in [claude_shaped, gemini] {
        let output = pre_tool(&worktree, &payload);
        assert_eq!(output.status.code(), Some(2), "{}", describe(&output));
        assert!(output.stdout.is_empty(), "{}", describe(&output));
        let reason = String::from_utf8_lossy(&output.stderr);
        assert!(reason.contains("README.md"), "{reason}");
    }
}

#[test]
fn h9_an_allowed_call_is_answered_with_silence_for_every_host() {
    let (_repo, worktree) = agent();
    for name in [
        "claude/recorded-pre-tool-use-write.json",
        "codex/recorded-pre-tool-use-apply-patch.json",
        "copilot/recorded-pre-tool-create.json",
        "opencode/recorded-pre-tool-write.json",
        "qwen/recorded-pre-tool-use-write-file.json",
    ] {
        let output = pre_tool(&worktree, &fixture(name, &worktree));
        let silent = output.stdout.is_empty() && output.stderr.is_empty();
        assert!(
            output.status.success() && silent,
            "{name}: {}",
            describe(&output)
        );
    }
}

#[test]
fn h16_a_payload_with_the_tool_in_an_object_is_judged_by_its_files() {
    let (_repo, worktree) = agent();
    let call = fixture("cline/recorded-pre-tool-use-apply-patch.json", &worktree);
    let output = pre_tool(&worktree, &call);
    assert!(output.status.success(), "{}", describe(&output));
    let denied = |call: &Value, reason: &str| {
        let output = pre_tool(&worktree, call);
        assert_eq!(output.status.code(), Some(2), "{}", describe(&output));
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(told.contains(reason), "{told}");
    };
    let patch = "*** Begin Patch\n*** Add File: docs/evil.md\n+x\n*** End Patch";
    // It has the tool twice. A file counts wherever it stands, and the tools must be one.
    for pointer in ["/tool_call/input/input", "/preToolUse/parameters/input"] {
        let mut call = call.clone();
        *call.pointer_mut(pointer).expect("there") = json!(patch);
        denied(&call, "docs/evil.md");
    }
    let mut two = call.clone();
    two["tool_call"]["name"] = json!("read_file");
    denied(&two, "is given twice, differently");
    let mut none = call;
    none["tool_call"] = json!("apply_patch");
    none["preToolUse"] = json!(null);
    denied(&none, "names no tool");
}
