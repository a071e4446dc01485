use super::{Agent, agent, assert_allowed, denied, feed, hook};
use crate::support::agent::{agent_command, describe};
use crate::support::{PAST_HOOKS, git_in, isolated};
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
    Undo this before you go on; work that keeps it is rejected. Run:
      git restore --source=HEAD --staged --worktree -- README.md
      rm -r -- docs/evil.md
    ");
    // The shell may have left the worktree.
    let elsewhere = agent.repo.path();
    let mut command = agent_command(&elsewhere);
    command.env("GIT_AGENT_ID", &agent.id).args(["hook", "post-tool"]);
    let said = denied(&feed(command, ran(&elsewhere).to_string().as_bytes()), "elsewhere");
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
    command.env("PATH", "/nonexistent").args(["hook", "post-tool"]);
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
        ("git init -q src/nested; echo x > src/nested/a", Some("src/nested/")),
        ("mkdir docs; ln -s ../src docs/in", Some("docs/in")),
        ("chmod +x README.md", Some("README.md")),
        ("rm README.md", Some("README.md")),
        ("rm README.md; ln -s src/lib.rs README.md", Some("README.md")),
        ("echo x > new; git add new; rm new", Some("new")),
        ("git update-index --assume-unchanged README.md; echo x > README.md", Some("README.md")),
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
    git_in(top, [&PAST_HOOKS[..], &["commit", "-qm", "all"]].concat());
    fs::remove_file(top.join("docs/evil.md")).expect("removed");
    git_in(top, ["add", "-A"]);
    let commit = ["commit", "-qm", "taken back"];
    git_in(top, [&PAST_HOOKS[..], &commit].concat());
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
        assert!(text.is_some_and(|text| text.contains("docs/evil.md")), "{answer}");
    }
}

#[test]
fn the_command_named_for_commits_out_of_scope_is_the_same_everywhere_and_works() {
    let agent = agent();
    let top = &agent.worktree;
    let commit = |message: &str| {
        git_in(top, ["add", "-A"]);
        // As in the shell of a host that takes every hook away.
        git_in(top, [&PAST_HOOKS[..], &["commit", "-qm", message]].concat());
    };
    write(&agent, "src/one.rs");
    commit("in scope");
    write(&agent, "README.md");
    write(&agent, "src/two.rs");
    commit("both");
    write(&agent, "docs/evil.md");
    write(&agent, "docs/gone.md");
    write(&agent, "src/three.rs");
    commit("and more");
    // What was added and removed again is in neither end of the commits.
    git_in(top, ["rm", "-q", "docs/gone.md"]);
    commit("one gone");
    let said = denied(&hook(top, "post-tool", &ran(top)), "committed");
    let command = said.lines().find(|line| line.contains("git reset --soft"));
    let command = command.expect("a command").trim();
    let stop = json!({"hook_event_name": "Stop", "cwd": top, "stop_hook_active": false});
    let at_stop = denied(&hook(top, "stop", &stop), "stop");
    assert!(at_stop.contains(command), "{command}: {at_stop}");
    let verdict = agent.repo.agent(&["verify", &agent.id, "--no-commands", "--format=json"]);
    let verdict: Value = serde_json::from_slice(&verdict.stdout).expect("a verdict");
    let fixes = verdict["findings"].as_array().expect("findings").iter();
    let fixes = fixes.filter(|finding| finding["commit"].is_string());
    let fixes: Vec<_> = fixes.map(|finding| finding["fix"].to_string()).collect();
    assert_eq!(fixes.len(), 3, "{verdict}");
    assert!(fixes.iter().all(|fix| fix.contains(command)), "{fixes:?}");
    let done = isolated("sh", top).args(["-c", command]).output();
    let done = done.expect("sh starts");
    assert!(done.status.success(), "{}", describe(&done));
    assert_allowed(&hook(top, "post-tool", &ran(top)), "mended");
    let changed = git_in(top, ["log", "--format=", "--name-only"]);
    let mut changed: Vec<_> = changed.lines().filter(|line| !line.is_empty()).collect();
    changed.retain(|path| {
        *path == "README.md" || path.starts_with("docs") || path.starts_with("src/t")
    });
    changed.sort_unstable();
    assert_eq!(changed, ["README.md", "src/three.rs", "src/two.rs"]);
}

#[test]
fn the_command_named_for_a_merge_keeps_the_merge() {
    // The first: in the merge itself. The second: in a commit before it.
    for is_in_merge in [true, false] {
        let agent = agent();
        let top = &agent.worktree;
        agent.repo.write("NOTES.md", "moved on\n");
        let main = agent.repo.commit_all("main moves on");
        let commit = |words: &[&str]| {
            git_in(top, ["add", "-A"]);
            git_in(top, [&PAST_HOOKS[..], words].concat());
        };
        write(&agent, "src/one.rs");
        if !is_in_merge {
            write(&agent, "README.md");
        }
        commit(&["commit", "-qm", "one"]);
        git_in(top, [&PAST_HOOKS[..], &["merge", "-q", "--no-commit", "--no-ff", &main]].concat());
        if is_in_merge {
            write(&agent, "README.md");
            write(&agent, "docs/evil.md");
        }
        commit(&["commit", "-qm", "merge"]);
        let said = denied(&hook(top, "post-tool", &ran(top)), "committed");
        let command = said.lines().find(|line| line.contains("git reset --soft"));
        let done = isolated("sh", top)
            .args(["-c", command.expect("a command").trim()])
            .output()
            .expect("sh starts");
        assert!(done.status.success(), "{}", describe(&done));
        assert_allowed(&hook(top, "post-tool", &ran(top)), "mended");
        assert_eq!(git_in(top, ["rev-parse", "HEAD^2"]), main);
        assert_eq!(git_in(top, ["status", "--porcelain"]), "");
        let changed = git_in(top, ["diff", "--name-only", &main, "HEAD"]);
        assert_eq!(changed, "src/one.rs");
    }
}

#[test]
fn commits_of_nothing_but_what_is_out_of_scope_are_taken_back_whole() {
    let agent = agent();
    let top = &agent.worktree;
    let before = git_in(top, ["rev-parse", "HEAD"]);
    write(&agent, "docs/evil.md");
    git_in(top, ["add", "-A"]);
    git_in(top, [&PAST_HOOKS[..], &["commit", "-qm", "evil"]].concat());
    let said = denied(&hook(top, "post-tool", &ran(top)), "committed");
    let command = said.lines().find(|line| line.contains("git reset --soft"));
    let done = isolated("sh", top).args(["-c", command.expect("a command").trim()]).output();
    let done = done.expect("sh starts");
    assert!(done.status.success(), "{}", describe(&done));
    assert_eq!(git_in(top, ["rev-parse", "HEAD"]), before);
    assert_allowed(&hook(top, "post-tool", &ran(top)), "mended");
}

#[test]
fn the_command_named_for_uncommitted_work_is_the_same_everywhere_and_works() {
    fn staged(agent: &Agent, path: &str) {
        write(agent, path);
        git_in(&agent.worktree, ["add", path]);
    }
    /// What is done to the worktree, and how.
    type Case = (&'static str, fn(&Agent));
    let cases: [Case; 5] = [
        ("untracked", |agent| write(agent, "docs/a b.md")),
        ("staged", |agent| staged(agent, "docs/new.md")),
        ("staged and removed", |agent| {
            staged(agent, "docs/gone.md");
            fs::remove_file(agent.worktree.join("docs/gone.md")).expect("removed");
        }),
        ("changed", |agent| write(agent, "README.md")),
        ("deleted", |agent| {
            git_in(&agent.worktree, ["rm", "-q", "README.md"]);
        }),
    ];
    for (name, change) in cases {
        let agent = agent();
        let top = &agent.worktree;
        write(&agent, "src/mine.rs");
        change(&agent);
        let said = denied(&hook(top, "post-tool", &ran(top)), name);
        let is_command = |line: &&str| line.starts_with("git ") || line.starts_with("rm ");
        let command = said
            .lines()
            .map(str::trim)
            .find(is_command)
            .unwrap_or_else(|| panic!("{name}: {said}"));
        let stop = json!({"hook_event_name": "Stop", "cwd": top, "stop_hook_active": false});
        let at_stop = denied(&hook(top, "stop", &stop), "stop");
        assert!(at_stop.contains(command), "{name}: {command}: {at_stop}");
        let done = isolated("sh", top).args(["-c", command]).output();
        let done = done.expect("sh starts");
        assert!(done.status.success(), "{name}: {}", describe(&done));
        assert_allowed(&hook(top, "post-tool", &ran(top)), name);
        let left = git_in(top, ["status", "--porcelain", "-uall"]);
        assert_eq!(left.trim_end(), "?? src/mine.rs", "{name}");
    }
}

#[test]
fn a_message_is_told_once_after_whatever_tool_comes_next() {
    let agent = agent();
    let top = &agent.worktree;
    let send = |text: &str| {
        let payload = format!("message={text}");
        let words =
            ["send", "--type=notify", "--from=user", "--to", &agent.id, "--payload", &payload];
        assert!(agent.repo.agent(&words).status.success());
    };
    let read = json!({
        "hook_event_name": "PostToolUse", "cwd": top, "tool_name": "Read",
        "tool_input": {"file_path": "README.md"}, "tool_response": {},
    });
    let after = || hook(top, "post-tool", &read);
    assert_allowed(&after(), "no mail");
    send("use snake case");
    let said = denied(&after(), "one message");
    assert!(said.contains("notify from user (MSG-"), "{said}");
    assert!(said.contains("use snake case"), "{said}");
    assert_allowed(&after(), "told already");
    send("and tests");
    let said = denied(&after(), "another");
    assert!(said.contains("and tests") && !said.contains("snake"), "{said}");
    // It is unread until the agent takes it.
    let open = agent.repo.agent_json(&["receive", "--peek", "--agent", &agent.id]);
    assert_eq!(open["messages"].as_array().map(Vec::len), Some(2), "{open}");
}

#[test]
fn qwen_is_told_by_the_field_that_its_model_sees() {
    let agent = agent();
    let top = &agent.worktree;
    write(&agent, "docs/evil.md");
    let mut payload = ran(top);
    payload["tool_name"] = json!("run_shell_command");
    payload["timestamp"] = json!("2026-11-21T20:44:15.891Z");
    payload["tool_use_id"] = json!("toolu_1");
    let output = hook(top, "post-tool", &payload);
    assert!(output.status.success(), "{}", describe(&output));
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let told = answer["hookSpecificOutput"]["additionalContext"].as_str();
    assert!(told.is_some_and(|told| told.contains("docs/evil.md")), "{answer}");
}
