use crate::sandbox::level;
use crate::support::TestRepo;
use crate::support::agent::{TASK, agent_command, answer_of, describe};
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
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
    input.write_all(payload.to_string().as_bytes()).expect("read");
    drop(input);
    child.wait_with_output().expect("ends")
}

/// The payload of a fixture, with the agent's worktree in place of that of the fixture.
fn fixture(name: &str, worktree: &Path) -> Value {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/payloads");
    let text = fs::read_to_string(root.join(name)).expect("a fixture");
    let text = text
        .replace("/home/dev/app/.claude/worktrees/agent-6a48ca7b", &worktree.display().to_string());
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
    let mut claude_shaped =
        fixture("copilot/recorded-claude-settings-pre-tool-use-write.json", &worktree);
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
        assert!(output.status.success() && silent, "{name}: {}", describe(&output));
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

/// A repository, a home with something in it, and a program of a host's name that runs this script.
struct Started {
    repo: TestRepo,
    home: PathBuf,
    programs: PathBuf,
}

impl Started {
    fn new(host: &str, script: &str, home: &[(&str, &str)]) -> Started {
        let repo = TestRepo::with_commit();
        let started = Started {
            home: repo.path().with_file_name("home of the user"),
            programs: repo.path().with_file_name("programs"),
            repo,
        };
        for (path, text) in home {
            let path = started.home.join(path);
            fs::create_dir_all(path.parent().expect("a directory")).expect("made");
            fs::write(path, text).expect("written");
        }
        fs::create_dir(&started.programs).expect("made");
        let program = started.programs.join(host);
        fs::write(&program, format!("#!/bin/sh\n{script}")).expect("written");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("executable");
        started
    }

    /// What the host wrote to its standard output.
    fn run(&self, host: &str, arguments: &[&str]) -> String {
        let report = self.report(host, arguments);
        assert_eq!(report["status"], "success", "{report}");
        let log = report["stdout_path"].as_str().expect("a log");
        fs::read_to_string(log).expect("readable")
    }

    fn report(&self, host: &str, arguments: &[&str]) -> Value {
        let task = self.repo.task_file(TASK);
        let path = std::env::var("PATH").expect("a path");
        let output = agent_command(&self.repo.path())
            .env("PATH", format!("{}:{path}", self.programs.display()))
            .env("HOME", &self.home)
            .args(["run", &task, "--no-verify", "--format=json", "--host", host])
            .args(arguments)
            .output()
            .expect("git-agent starts");
        answer_of(&output)
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.home.join(path)).expect("there")
    }
}

const PROGRAM: &str = env!("CARGO_BIN_EXE_git-agent");

#[test]
fn h1_codex_has_a_home_behind_the_fence_and_h12_its_hooks_run() {
    if level().is_none() {
        return;
    }
    let script = r#"
        cat "$CODEX_HOME/config.toml"
        echo state > "$CODEX_HOME/state" && echo 'state is written'
        { echo x >> "$CODEX_HOME/config.toml"; } 2>/dev/null || echo 'configuration is closed'
        { echo x > "$HOME/.codex/new"; } 2>/dev/null || echo 'the home is closed'
        for word in "$@"; do echo "<$word>"; done
    "#;
    let started = Started::new("codex", script, &[(".codex/config.toml", "model = \"m\"\n")]);
    let said = started.run("codex", &[]);
    for expected in [
        "model = \"m\"",
        "state is written",
        "configuration is closed",
        "the home is closed",
        "<--dangerously-bypass-hook-trust>",
    ] {
        assert!(said.contains(expected), "{expected} is not in {said}");
    }
    let hook = said.lines().find(|line| line.starts_with("<hooks.PreToolUse="));
    let hook = hook.expect("the hook is an option");
    assert!(hook.contains(&format!("{PROGRAM} hook pre-tool")), "{hook}");
    assert_eq!(started.read(".codex/config.toml"), "model = \"m\"\n");
}

#[test]
fn h2_gemini_has_a_home_behind_the_fence_and_h5_its_hooks_need_no_trust() {
    if level().is_none() {
        return;
    }
    let script = r#"
        cat "$GEMINI_CLI_HOME/.gemini/settings.json"
        echo '{}' > "$GEMINI_CLI_HOME/.gemini/projects.json" && echo 'state is written'
        cat "$GEMINI_CLI_SYSTEM_SETTINGS_PATH"
        { echo > "$GEMINI_CLI_SYSTEM_SETTINGS_PATH"; } 2>/dev/null || echo 'the hooks are closed'
    "#;
    let theirs = "{\"model\": {\"name\": \"m\"}}\n";
    let started = Started::new("gemini", script, &[(".gemini/settings.json", theirs)]);
    let said = started.run("gemini", &[]);
    for expected in
        [theirs, "state is written", &format!("{PROGRAM} hook pre-tool"), "the hooks are closed"]
    {
        assert!(said.contains(expected), "{expected} is not in {said}");
    }
    assert_eq!(started.read(".gemini/settings.json"), theirs);
    assert!(!started.home.join(".gemini/projects.json").exists());
}

#[test]
fn h3_claude_writes_its_state_and_finds_us_and_h7_no_session_of_the_user_sees_it() {
    if level().is_none() {
        return;
    }
    let script = r#"
        mkdir "$CLAUDE_CONFIG_DIR/shell-snapshots" && echo 'state is written'
        cat "$CLAUDE_CONFIG_DIR/settings.json" "$CLAUDE_CONFIG_DIR/.claude.json"
        for file in "$CLAUDE_CONFIG_DIR/settings.json" "$HOME/.claude/shell-snapshots/user.sh"; do
            { echo x >> "$file"; } 2>/dev/null || echo 'closed'
        done
        git-agent --version
        cat "$2"
    "#;
    let started = Started::new(
        "claude",
        script,
        &[
            (".claude/settings.json", "{\"theirs\": 1}\n"),
            (".claude/shell-snapshots/user.sh", "# theirs\n"),
            (".claude.json", "{\"state\": 1}\n"),
        ],
    );
    let said = started.run("claude", &["--", "--verbose"]);
    assert!(
        said.starts_with(
            "state is written\n{\"theirs\": 1}\n{\"state\": 1}\nclosed\nclosed\ngit-agent "
        ),
        "{said}"
    );
    let (_, settings) = said.split_once("\n{\"hooks\"").expect("our settings");
    for expected in [
        &format!("{PROGRAM} hook pre-tool"),
        &format!("{PROGRAM} hook session-start"),
        "Bash(git-agent receive:*)",
        "\"sandbox\":{\"enabled\":false}",
    ] {
        assert!(settings.contains(expected), "{expected} is not in {settings}");
    }
    assert!(!settings.contains("worktree-create"), "{settings}");
    assert_eq!(started.read(".claude/settings.json"), "{\"theirs\": 1}\n");
}

#[test]
fn h14_without_a_fence_a_host_keeps_its_home_and_gets_the_hooks() {
    let script = r#"
        echo "home: ${CODEX_HOME:-the user's}"
        for word in "$@"; do echo "<$word>"; done
        echo "spool: $GIT_AGENT_SPOOL"
    "#;
    let started = Started::new("codex", script, &[(".codex/config.toml", "")]);
    let said = started.run("codex", &["--sandbox=off"]);
    assert!(said.starts_with("home: the user's\n"), "{said}");
    assert!(said.contains("<hooks.PreToolUse="), "{said}");
    let spool = said.lines().find_map(|line| line.strip_prefix("spool: "));
    let spool = spool.expect("a spool");
    // Its own sandbox stays on, and has to leave the spool open.
    let roots = format!("<sandbox_workspace_write.writable_roots=[\"{spool}\"]>");
    assert!(said.contains(&roots), "{roots} is not in {said}");
}

#[test]
fn h1_copilot_and_opencode_have_homes_behind_the_fence_and_our_hooks() {
    if level().is_none() {
        return;
    }
    let script = r#"
        cat "$COPILOT_HOME/config.json"
        echo state > "$COPILOT_HOME/state" && mkdir "$XDG_CACHE_HOME/copilot/logs" && echo 'state is written'
        cat "$2/plugin.json" "$2/hooks.json"
    "#;
    let started = Started::new("copilot", script, &[(".copilot/config.json", "{\"theirs\": 1}\n")]);
    let said = started.run("copilot", &[]);
    for expected in [
        "{\"theirs\": 1}\nstate is written\n",
        "\"hooks\":\"hooks.json\"",
        &format!("\"exec\":\"{PROGRAM}\""),
    ] {
        assert!(said.contains(expected), "{expected} is not in {said}");
    }
    let script = r#"
        cat "$XDG_DATA_HOME/opencode/auth.json"
        for home in "$XDG_DATA_HOME" "$XDG_STATE_HOME" "$XDG_CACHE_HOME"; do echo x > "$home/opencode/state"; done
        echo "$PWD is $(pwd -P)"
        cat "$(echo "$OPENCODE_CONFIG_CONTENT" | sed 's#.*file://##; s#"\]}##')"
    "#;
    let started = Started::new(
        "opencode",
        script,
        &[(".local/share/opencode/auth.json", "{\"theirs\": 1}\n")],
    );
    let said = started.run("opencode", &[]);
    assert!(said.starts_with("{\"theirs\": 1}\n"), "{said}");
    assert!(said.contains(&format!("spawnSync(\"{PROGRAM}\", [\"hook\"")), "{said}");
    let place = said.lines().nth(1).expect("where it runs");
    let (stated, real) = place.split_once(" is ").expect("two places");
    assert_eq!(stated, real, "the stated directory is where it runs");
    assert!(!started.home.join(".local/state").exists());
}

#[test]
fn h17_what_ended_a_session_is_its_summary_and_h22_what_it_cost_is_told() {
    let result = r#"{"type":"result","subtype":"error_max_turns","is_error":true,"session_id":"5b1c","total_cost_usd":0.25,
        "modelUsage":{"m":{"inputTokens":20,"outputTokens":10}},"errors":["Reached maximum number of turns (2)"]}"#;
    let script = format!("cat <<'END'\n{result}\nEND\nexit 1\n");
    let report = Started::new("claude", &script, &[]).report("claude", &[]);
    assert_eq!(report["summary"], "Reached maximum number of turns (2)");
    assert_eq!(report["session_id"], "5b1c");
    assert_eq!(report["cost_usd"], 0.25);
    assert_eq!(report["input_tokens"], 20);
    assert_eq!(report["output_tokens"], 10);
    let script = "printf 'at f (file.js:1)\\n{\\n  \"error\": {\"message\": \"no key\"}\\n}\\n' >&2; exit 1\n";
    let report = Started::new("gemini", script, &[]).report("gemini", &[]);
    assert_eq!(report["summary"], "no key");
    let script = "echo 'cannot start' >&2; exit 1\n";
    let report = Started::new("codex", script, &[]).report("codex", &[]);
    assert_eq!(report["summary"], "cannot start");
    assert!(report.get("session_id").is_none(), "{report}");
}
