use super::{Agent, agent, assert_allowed, denied, feed, hook};
use crate::support::agent::{agent_command, describe};
use crate::support::{git_in, isolated};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// A shell command that is over.
fn ran(cwd: &Path) -> Value {
    json!({
        "hook_event_name": "PostToolUse",
        "cwd": cwd,
        "tool_name": "Bash",
        "tool_input": {"command": "make"},
        "tool_response": {"stdout": ""},
    })
}

fn write(agent: &Agent, path: &str) {
    let path = agent.worktree.join(path);
    fs::create_dir_all(path.parent().expect("a directory")).expect("made");
    fs::write(path, "x").expect("written");
}

#[test]
fn what_a_shell_left_out_of_scope_is_told_after_it() {
    let agent = agent();
    let top = &agent.worktree;
    write(&agent, "src/new.rs");
    write(&agent, ".agent/plan.md");
    assert_allowed(&hook(top, "post-tool", &ran(top)), "in scope");
    write(&agent, "docs/evil.md");
    write(&agent, "README.md");
    let said = denied(&hook(top, "post-tool", &ran(top)), "out of scope");
    let said = said.replace(&agent.id[..8], "ID");
    insta::assert_snapshot!(said, @r"
    Out of the scope of agent ID:
      README.md (modified): no glob of the whitelist matches it
      docs/evil.md (untracked): no glob of the whitelist matches it
    Undo this before you go on: remove what is new, and restore what was changed. Work that keeps it is rejected.
    ");
    // The shell may have left the worktree.
    let elsewhere = agent.repo.path();
    let mut command = agent_command(&elsewhere);
    command
        .env("GIT_AGENT_ID", &agent.id)
        .args(["hook", "post-tool"]);
    let said = denied(
        &feed(command, ran(&elsewhere).to_string().as_bytes()),
        "elsewhere",
    );
    assert!(said.contains("docs/evil.md"), "{said}");
}

#[test]
fn work_in_scope_is_known_without_git() {
    let agent = agent();
    let top = &agent.worktree;
    write(&agent, "src/lib.rs");
    write(&agent, "src/deep/er/new.rs");
    write(&agent, ".agent/plan.md");
    let mut command = agent_command(top);
    command
        .env("PATH", "/nonexistent")
        .args(["hook", "post-tool"]);
    let output = feed(command, ran(top).to_string().as_bytes());
    assert_allowed(&output, "without git");
}

#[test]
fn whatever_a_shell_does_out_of_scope_is_told() {
    let agent = agent();
    let top = &agent.worktree;
    agent.repo.write(".git/info/exclude", "/.agent/\n*.log\n");
    let cases = [
        ("echo x > src/a.log; mkdir logs; echo x > logs/b.log", None),
        ("mkdir -p docs/empty", None),
        ("ln -s ../../../outside src/out", Some("src/out")),
        ("ln -s lib.rs src/same", None),
        (
            "git init -q src/nested; echo x > src/nested/a",
            Some("src/nested/"),
        ),
        ("mkdir docs; ln -s ../src docs/in", Some("docs/in")),
        ("chmod +x README.md", Some("README.md")),
        ("rm README.md", Some("README.md")),
        (
            "rm README.md; ln -s src/lib.rs README.md",
            Some("README.md"),
        ),
        ("echo x > new; git add new; rm new", Some("new")),
        (
            "git update-index --assume-unchanged README.md; echo x > README.md",
            Some("README.md"),
        ),
        ("mv src/lib.rs lib.rs", Some("lib.rs")),
        ("mv src SRC", Some("SRC/lib.rs")),
    ];
    for (script, told) in cases {
        let output = isolated("sh", top).args(["-c", script]).output();
        assert!(output.expect("sh starts").status.success(), "{script}");
        let output = hook(top, "post-tool", &ran(top));
        match told {
            None => assert_allowed(&output, script),
            Some(path) => {
                let said = denied(&output, script);
                assert!(said.contains(&format!("  {path} (")), "{script}: {said}");
            }
        }
        git_in(top, ["update-index", "--no-assume-unchanged", "README.md"]);
        git_in(top, ["reset", "-q", "--hard"]);
        git_in(top, ["clean", "-qffdx"]);
    }
}

#[test]
fn a_commit_out_of_scope_is_told_where_no_git_hook_ran() {
    let agent = agent();
    let top = &agent.worktree;
    write(&agent, "docs/evil.md");
    git_in(top, ["add", "-A"]);
    let commit = ["-c", "core.hooksPath=", "commit", "-qm", "all"];
    git_in(top, commit);
    fs::remove_file(top.join("docs/evil.md")).expect("removed");
    git_in(top, ["add", "-A"]);
    git_in(
        top,
        ["-c", "core.hooksPath=", "commit", "-qm", "taken back"],
    );
    let said = denied(&hook(top, "post-tool", &ran(top)), "committed");
    assert!(said.contains("docs/evil.md (added in commit "), "{said}");
}

#[test]
fn what_a_merge_of_the_base_brings_is_not_the_agents_doing() {
    let agent = agent();
    agent.repo.write("docs/page.md", "x");
    agent.repo.commit_all("more");
    let top = &agent.worktree;
    git_in(top, ["merge", "-q", "--no-edit", "main"]);
    assert_allowed(&hook(top, "post-tool", &ran(top)), "merged");
}

#[test]
fn tools_that_start_no_program_and_people_hear_nothing() {
    let agent = agent();
    write(&agent, "docs/evil.md");
    let top = &agent.worktree;
    let mut call = ran(top);
    call["tool_name"] = json!("Read");
    call["tool_input"] = json!({"file_path": "docs/evil.md"});
    assert_allowed(&hook(top, "post-tool", &call), "a reader");
    let main = agent.repo.path();
    agent.repo.write("docs/evil.md", "x");
    assert_allowed(&hook(&main, "post-tool", &ran(&main)), "a person");
}

#[test]
fn hosts_that_would_lose_the_tools_answer_are_given_an_addition() {
    let agent = agent();
    let top = &agent.worktree;
    write(&agent, "docs/evil.md");
    let mut codex = ran(top);
    codex["turn_id"] = json!("1");
    let mut gemini = ran(top);
    gemini["hook_event_name"] = json!("AfterTool");
    gemini["tool_name"] = json!("run_shell_command");
    let copilot = json!({
        "sessionId": "s", "cwd": top, "toolName": "bash", "toolArgs": {"command": "make"},
        "toolResult": {"resultType": "success"},
    });
    let cases = [
        (codex, "/hookSpecificOutput/additionalContext"),
        (gemini, "/hookSpecificOutput/additionalContext"),
        (copilot, "/additionalContext"),
    ];
    for (payload, place) in cases {
        let output = hook(top, "post-tool", &payload);
        assert!(output.status.success(), "{}", describe(&output));
        assert!(output.stderr.is_empty(), "{}", describe(&output));
        let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let text = answer.pointer(place).and_then(Value::as_str);
        assert!(
            text.is_some_and(|text| text.contains("docs/evil.md")),
            "{answer}"
        );
    }
}
