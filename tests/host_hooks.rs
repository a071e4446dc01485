//! The hooks of agent hosts, run as a host runs them.

/// Hooks that are registered twice.
mod claims;
/// What `init` writes and takes out again.
mod init;
/// What an agent hears after a shell command.
mod post_tool;
/// Whatever arrives, no write out of scope gets through.
mod properties;
/// What a host trusts, and a session without hooks.
mod trust;
/// Worktrees that hosts ask for.
mod worktrees;

use crate::support::agent::{SHARED_TASK, TASK, agent_command, describe};
use crate::support::{TestRepo, git_in};
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A repository with one agent in it.
struct Agent {
    repo: TestRepo,
    id: String,
    worktree: PathBuf,
}

fn agent() -> Agent {
    agent_of(TASK)
}

fn agent_of(task: &str) -> Agent {
    let repo = TestRepo::with_commit();
    let report = repo.spawn_task(task, &[]);
    let text = |key: &str| report[key].as_str().unwrap_or_default().to_owned();
    Agent { id: text("agent_id"), worktree: PathBuf::from(text("worktree_abspath")), repo }
}

/// Feeds a payload to a hook that a host started in `directory`.
fn feed(mut command: Command, payload: &[u8]) -> Output {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    // A hook may answer before it has read everything.
    let _ = child.stdin.take().expect("a pipe").write_all(payload);
    child.wait_with_output().expect("ends")
}

fn hook(directory: &Path, hook: &str, payload: &Value) -> Output {
    let mut command = agent_command(directory);
    command.args(["hook", hook]);
    feed(command, payload.to_string().as_bytes())
}

fn assert_allowed(output: &Output, what: &str) {
    let silent = output.stdout.is_empty() && output.stderr.is_empty();
    assert!(output.status.success() && silent, "{what}: {}", describe(output));
}

/// Checks a denial in the one form that all hosts understand, and gives the reason.
fn denied(output: &Output, what: &str) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{what}: {}", describe(output));
    assert!(output.stdout.is_empty(), "{what}: {}", describe(output));
    assert!(!said.trim().is_empty(), "{what}");
    said
}

fn write_call(cwd: &Path, path: &str) -> Value {
    json!({
        "hook_event_name": "PreToolUse",
        "cwd": cwd,
        "tool_name": "Write",
        "tool_input": {"file_path": path, "content": "x"},
    })
}

#[test]
fn files_are_judged_by_where_they_lead() {
    let agent = agent();
    let top = &agent.worktree;
    let outside = agent.repo.path().with_file_name("outside");
    fs::create_dir(&outside).expect("made");
    for (link, target) in [
        ("src/out", "../../outside"),
        ("src/dangling", "/nowhere/at/all"),
        ("src/readme", "../README.md"),
        ("src/same", "lib.rs"),
        ("up", "src/bin"),
    ] {
        symlink(target, top.join(link)).expect("linked");
    }
    fs::remove_file(top.join("src/out")).expect("there");
    symlink(&outside, top.join("src/out")).expect("linked");
    let whole = |path: &str| top.join(path).display().to_string();
    let allowed = [
        "src/new.rs",
        "./src//new/deep.rs",
        "src/../src/a.rs",
        "src/same",
        ".agent/plan.md",
        ".agent/deep/er.md",
        &whole("src/lib.rs"),
    ];
    for path in allowed {
        let output = hook(top, "pre-tool", &write_call(top, path));
        assert_allowed(&output, path);
    }
    let main = agent.repo.path();
    let denied_paths = [
        ("README.md", "no glob of the whitelist"),
        ("src/../README.md", "no glob of the whitelist"),
        ("src", "no glob of the whitelist"),
        ("src/.env", "the denylist has `**/*.env`"),
        ("target/x", "the denylist has `target/**`"),
        ("SRC/lib.rs", "no glob of the whitelist"),
        (".git", "git directory"),
        (".agent", "no glob of the whitelist"),
        (".agent/../README.md", "no glob of the whitelist"),
        ("src/out/x", "is outside of"),
        ("src/dangling", "/nowhere/at/all is outside of"),
        ("src/readme", "no glob of the whitelist"),
        ("up/../lib.rs", "no glob of the whitelist"),
        ("../agent-00000000/src/x", "outside of"),
        ("/etc/passwd", "/etc/passwd is outside of"),
        (&main.join("src/lib.rs").display().to_string(), "outside of"),
        (&main.join(".git/config").display().to_string(), "outside of"),
    ];
    for (path, why) in denied_paths {
        let output = hook(top, "pre-tool", &write_call(top, path));
        let said = denied(&output, path);
        assert!(said.contains(why), "{path}: {said}");
        assert!(said.contains(&agent.id[..8]), "{path}: {said}");
    }
}

#[test]
fn a_denial_tells_what_to_do() {
    let agent = agent();
    let top = &agent.worktree;
    let output = hook(top, "pre-tool", &write_call(top, "docs/a.md"));
    let said = denied(&output, "docs");
    let said = said
        .replace(&agent.id[..8], "ID")
        .replace(&agent.repo.path().display().to_string(), "ROOT");
    insta::assert_snapshot!(said, @r"
    agent ID may not change:
      docs/a.md: no glob of the whitelist matches it
    In scope, below ROOT/.claude/worktrees/agent-ID: `src/**`
    Never: `**/*.env`, `**/.env`, `**/.env.*`, `.git/**`, `.keisei/**`, `dist/**`, `node_modules/**`, `secrets/**`, `target/**`
    If the task needs more, do not look for a way around: say so in ROOT/.claude/worktrees/agent-ID/.agent/handoffs.md and go on with the rest.
    ");
}

#[test]
fn a_link_may_be_deleted_whatever_it_leads_to() {
    let agent = agent();
    let top = &agent.worktree;
    symlink("/etc/passwd", top.join("src/link")).expect("linked");
    let call = |tool: &str, path: &str| json!({"tool_name": tool, "cwd": top, "tool_input": {"file_path": path, "content": "x"}});
    assert_allowed(&hook(top, "pre-tool", &call("Delete", "src/link")), "link");
    denied(&hook(top, "pre-tool", &call("Write", "src/link")), "link");
    denied(&hook(top, "pre-tool", &call("Delete", "README.md")), "file");
}

#[test]
fn twins_by_case_are_judged_as_what_is_there() {
    let repo = TestRepo::with_commit();
    repo.write("config/secrets/key.pem", "x");
    repo.write("config/App.toml", "x");
    repo.commit_all("more");
    let task = TASK.replace("\"src/**\"", "\"config/**\"")
        + "denylist = [\"config/secrets/**\", \"config/App.toml\"]\n";
    let report = repo.spawn_task(&task, &[]);
    let top = PathBuf::from(report["worktree_abspath"].as_str().expect("one"));
    assert_allowed(&hook(&top, "pre-tool", &write_call(&top, "config/b.toml")), "b");
    for path in ["config/Secrets/new.pem", "config/app.TOML", "config/SECRETS"] {
        denied(&hook(&top, "pre-tool", &write_call(&top, path)), path);
    }
}

#[test]
fn patches_and_lists_are_judged_file_by_file() {
    let agent = agent();
    let top = &agent.worktree;
    let patch = |paths: &[&str]| {
        let files: String =
            paths.iter().map(|path| format!("*** Update File: {path}\n@@\n-a\n+b\n")).collect();
        format!("*** Begin Patch\n{files}*** End Patch\n")
    };
    let call = |tool: &str, command: String| json!({"tool_name": tool, "cwd": top, "tool_input": {"command": command}});
    let good = patch(&["src/lib.rs", "src/bin/tool.rs"]);
    assert_allowed(&hook(top, "pre-tool", &call("apply_patch", good)), "good");
    let bad = patch(&["src/lib.rs", "README.md", "Cargo.toml"]);
    let said = denied(&hook(top, "pre-tool", &call("apply_patch", bad.clone())), "bad");
    assert!(said.contains("README.md") && said.contains("Cargo.toml"), "{said}");
    assert!(!said.contains("src/lib.rs:"), "{said}");
    let shell = format!("apply_patch <<'EOF'\n{bad}EOF");
    denied(&hook(top, "pre-tool", &call("Bash", shell)), "in a shell");
    let plain = call("Bash", "git log > README.md".to_owned());
    assert_allowed(&hook(top, "pre-tool", &plain), "shells are not judged");
}

#[test]
fn an_agent_starts_nobody_and_stays_where_it_is() {
    let agent = agent();
    let top = &agent.worktree;
    for tool in ["Agent", "Task", "spawn_agent", "EnterWorktree", "ExitWorktree"] {
        let call = json!({"tool_name": tool, "cwd": top, "tool_input": {"prompt": "x"}});
        denied(&hook(top, "pre-tool", &call), tool);
        let elsewhere = hook(&agent.repo.path(), "pre-tool", &json!({"tool_name": tool}));
        assert_allowed(&elsewhere, tool);
    }
}

/// A role that may spawn, in the base commit.
const LEADER: &str = "extends = \"edit-local\"\nmay_spawn = true\nrelaxes = [\"may_spawn\"]\n";

#[test]
fn a_role_that_may_spawn_does() {
    let repo = TestRepo::with_commit();
    repo.write("roles/leader.toml", LEADER);
    repo.commit_all("a role");
    let report = repo.spawn_task(&TASK.replace("edit-local", "leader"), &[]);
    let top = PathBuf::from(report["worktree_abspath"].as_str().expect("one"));
    let call = json!({"tool_name": "Agent", "cwd": top, "tool_input": {"prompt": "x"}});
    assert_allowed(&hook(&top, "pre-tool", &call), "Agent");
    let task = repo.task_file(TASK);
    let mut command = agent_command(&top);
    command.args(["spawn", &task, "--format=json"]);
    let child = crate::support::agent::json_of(command);
    assert_eq!(child["parent_id"], report["agent_id"], "whoever asks is the parent");
}

#[test]
fn spawning_inside_an_agent_is_refused_by_place_and_by_name() {
    let agent = agent();
    let task = agent.repo.task_file(TASK);
    let nested = agent.worktree.join("src/nested");
    fs::create_dir(&nested).expect("made");
    git_in(&nested, ["init", "--quiet"]);
    let main = agent.repo.path();
    let cases: [(&Path, Option<&str>); 4] = [
        (&agent.worktree, None),
        (&agent.worktree.join("src"), None),
        (&main, Some(&agent.id)),
        (&main, Some("no-such-agent")),
    ];
    for (directory, id) in cases {
        let mut command = agent_command(directory);
        command.args(["spawn", &task]);
        command.envs(id.map(|id| ("GIT_AGENT_ID", id)));
        let output = command.output().expect("starts");
        assert_eq!(output.status.code(), Some(3), "{}", describe(&output));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("error[recursion-refused]"), "{said}");
    }
    // A repository inside the worktree does not hide the worktree.
    let call = write_call(&nested, "x.rs");
    assert_allowed(&hook(&nested, "pre-tool", &call), "in scope");
    denied(&hook(&nested, "pre-tool", &write_call(&nested, "../../Makefile")), "out");
}

#[test]
fn outside_of_agents_there_is_silence() {
    let agent = agent();
    let main = agent.repo.path();
    let nowhere = main.parent().expect("a parent").to_owned();
    // A host names the worktrees of its own subagents as we name ours.
    let foreign = main.join(".claude/worktrees/agent-01234567");
    let path = foreign.to_str().expect("UTF-8");
    agent.repo.git(["worktree", "add", "--quiet", "--detach", path]);
    for directory in [&main, &nowhere, &foreign] {
        for call in [
            write_call(directory, "README.md"),
            write_call(directory, "/etc/passwd"),
            json!({"tool_name": "Write", "tool_input": {}}),
            json!({"tool_name": "Agent"}),
        ] {
            assert_allowed(&hook(directory, "pre-tool", &call), &call.to_string());
        }
        for name in ["session-start", "stop"] {
            let call = json!({"hook_event_name": "Stop", "cwd": directory});
            assert_allowed(&hook(directory, name, &call), name);
        }
    }
}

#[test]
fn whoever_writes_into_an_agents_worktree_is_bound_by_its_scope() {
    let agent = agent();
    let main = agent.repo.path();
    let inside = |path: &str| agent.worktree.join(path).display().to_string();
    for path in ["src/x.rs", ".agent/review.md"] {
        assert_allowed(&hook(&main, "pre-tool", &write_call(&main, &inside(path))), path);
    }
    denied(&hook(&main, "pre-tool", &write_call(&main, &inside("README.md"))), "README");
    // A shell of the host that left the worktree does not leave the fence.
    let call = write_call(&main, "README.md");
    denied(&hook(&agent.worktree, "pre-tool", &call), "process in the worktree");
    let mut named = agent_command(&main);
    named.args(["hook", "pre-tool"]).env("GIT_AGENT_ID", &agent.id);
    denied(&feed(named, call.to_string().as_bytes()), "named");
}

#[test]
fn what_cannot_be_judged_is_denied_inside() {
    let agent = agent();
    let top = &agent.worktree;
    let feed_raw = |directory: &Path, bytes: &[u8]| {
        let mut command = agent_command(directory);
        command.args(["hook", "pre-tool"]);
        feed(command, bytes)
    };
    let long = vec![b' '; (8 << 20) + 10];
    for bytes in [&b""[..], b"{", b"{\"tool_name\":\"Write\"}", b"\xff\xfe", &long] {
        denied(&feed_raw(top, bytes), "unreadable");
        assert_allowed(&feed_raw(&agent.repo.path(), bytes), "unreadable, outside");
    }
    // Without its row nobody knows what the agent may do.
    agent.repo.git(["update-ref", "-d", "refs/notes/agents"]);
    let said = denied(&hook(top, "pre-tool", &write_call(top, "src/x.rs")), "no ledger");
    assert!(said.contains("cannot judge"), "{said}");
    assert_allowed(&hook(top, "pre-tool", &json!({"tool_name": "Read"})), "read");
    let mut unknown = agent_command(&agent.repo.path());
    unknown.args(["hook", "pre-tool"]).env("GIT_AGENT_ID", "6a48ca7b");
    let call = write_call(top, "src/x.rs").to_string();
    denied(&feed(unknown, call.as_bytes()), "unknown agent");
}

#[test]
fn temporary_files_are_nobodys_work_but_the_repository_stays_closed() {
    let agent = agent();
    let top = &agent.worktree;
    let temporary = agent.repo.path().parent().expect("a parent").to_owned();
    let judged = |path: &Path| {
        let mut command = agent_command(top);
        command.args(["hook", "pre-tool"]).env("TMPDIR", &temporary);
        let call = write_call(top, path.to_str().expect("UTF-8"));
        feed(command, call.to_string().as_bytes())
    };
    assert_allowed(&judged(&temporary.join("scratch/x")), "scratch");
    let main = agent.repo.path();
    for path in ["README.md", ".git/config", ".git/agents/x"] {
        denied(&judged(&main.join(path)), path);
    }
    denied(&judged(Path::new("/etc/passwd")), "elsewhere");
}

#[test]
fn a_shared_agent_writes_its_bundle_only() {
    let agent = agent_of(SHARED_TASK);
    let main = agent.repo.path();
    let bundle = main.join(".agent").join(&agent.id[..8]).join("plan.md");
    let answers = main.with_file_name("answers");
    fs::create_dir(&answers).expect("made");
    let answer = answers.join("a.md");
    let judged = |path: &str| {
        let mut command = agent_command(&main);
        command
            .args(["hook", "pre-tool"])
            .env("GIT_AGENT_OUTPUT_FILE", &answer)
            .env("GIT_AGENT_ID", &agent.id);
        feed(command, write_call(&main, path).to_string().as_bytes())
    };
    assert_allowed(&judged(bundle.to_str().expect("UTF-8")), "bundle");
    let said = denied(&judged("src/lib.rs"), "src");
    assert!(said.contains("the role read-only changes no files"), "{said}");
    denied(&judged(".git/agents/clone-id"), "state");
    // Its answer goes where the run says, and nothing else goes there.
    assert_allowed(&judged(answer.to_str().expect("UTF-8")), "answer");
    denied(&judged("../answers/b.md"), "beside the answer");
    symlink(main.join("src/lib.rs"), &answer).expect("linked");
    denied(&judged(answer.to_str().expect("UTF-8")), "a link");
}

#[test]
fn a_session_begins_with_its_rules() {
    let agent = agent();
    let call =
        json!({"hook_event_name": "SessionStart", "source": "compact", "cwd": agent.worktree});
    let output = hook(&agent.worktree, "session-start", &call);
    assert!(output.status.success() && output.stderr.is_empty(), "{}", describe(&output));
    let said = String::from_utf8_lossy(&output.stdout)
        .replace(&agent.id, "ID")
        .replace(&agent.worktree.display().to_string(), "WORKTREE");
    insta::assert_snapshot!(said, @r#"
    You are agent ID in the role edit-local. You work in WORKTREE and nowhere else. You MUST NOT invoke git.
    You must not start other agents.

    You may change only paths that match:

    - `src/**`

    Never, even where the list above matches:

    - `**/*.env`
    - `**/.env`
    - `**/.env.*`
    - `.git/**`
    - `.keisei/**`
    - `dist/**`
    - `node_modules/**`
    - `secrets/**`
    - `target/**`

    ## Deliverables

    Besides the work itself, leave these six files in `WORKTREE/.agent`. They are never committed, and work without them is rejected:

    - `spec.md`: the specification; it is already written, do not change it
    - `plan.md`: the steps you chose and why
    - `progress.json`: a JSON object; when all work is finished its `status` is "done"
    - `chatlog.md`: what was asked, answered and decided, in order
    - `handoffs.md`: what the next agent must know; "none" when there is nothing
    - `review.md`: your own review of the change, findings tagged [HIGH], [MEDIUM] or [LOW]
    "#);
}

#[test]
fn an_agent_may_end_when_its_bundle_is_complete_or_it_was_sent_back_three_times() {
    let agent = agent();
    let top = &agent.worktree;
    let names = ["plan.md", "progress.json", "chatlog.md", "handoffs.md", "review.md"];
    let stop = |event: &str| {
        let call = json!({"hook_event_name": event, "cwd": top, "stop_hook_active": false});
        hook(top, "stop", &call)
    };
    for event in ["Stop", "SubagentStop", "AfterAgent", "agentStop"] {
        let said = denied(&stop(event), event);
        assert!(said.starts_with(&format!("MISSING for {}:", agent.id)), "{said}");
        assert!(names.iter().all(|name| said.contains(name)), "{said}");
    }
    let again = json!({"hook_event_name": "Stop", "cwd": top, "stop_hook_active": true});
    for round in ["Round 2 of 3", "Round 3 of 3"] {
        let said = denied(&hook(top, "stop", &again), round);
        assert!(said.contains(round), "{said}");
    }
    for call in [
        again,
        json!({"hook_event_name": "stop", "cwd": top, "loop_count": 3}),
        json!({"unreadable": true}),
    ] {
        assert_allowed(&hook(top, "stop", &call), "let go");
    }
    for name in names {
        fs::write(top.join(".agent").join(name), "{\"status\": \"open\"}").expect("written");
    }
    let said = denied(&stop("Stop"), "not done");
    assert!(said.contains("progress.json: its `status` is not \"done\""), "{said}");
    fs::write(top.join(".agent/progress.json"), "{\"status\": \"done\"}").expect("written");
    assert_allowed(&stop("Stop"), "complete");
    fs::write(top.join(".agent/plan.md"), "").expect("written");
    assert!(denied(&stop("Stop"), "empty").contains("plan.md: it is empty"));
}

#[test]
fn an_agent_that_wants_to_end_hears_what_the_judge_finds() {
    let agent = agent_of(&format!(
        "{TASK}[checks]\ncommands = [\"echo the greeting is missing; test -f src/greeting.rs\"]\n[bundle]\nrequired = false\n"
    ));
    let top = &agent.worktree;
    let call = json!({"hook_event_name": "Stop", "cwd": top, "stop_hook_active": false});
    let in_a_run = || {
        let mut command = agent_command(top);
        command.args(["hook", "stop"]).env("GIT_AGENT_ID", &agent.id);
        feed(command, call.to_string().as_bytes())
    };
    assert_allowed(&in_a_run(), "no work");
    fs::write(top.join("src/other.rs"), "x").expect("written");
    fs::write(top.join("README.md"), "x").expect("written");
    let said = denied(&in_a_run(), "out of scope");
    assert!(said.contains("scope.not-in-whitelist: README.md"), "{said}");
    git_in(top, ["restore", "README.md"]);
    let said = denied(&in_a_run(), "a check fails");
    assert!(said.contains("the greeting is missing"), "{said}");
    // In a person's session the commands do not run.
    assert_allowed(&hook(top, "stop", &call), "a person's session");
    fs::write(top.join("src/greeting.rs"), "x").expect("written");
    assert_allowed(&in_a_run(), "acceptable");
    let row = agent.repo.agent_json(&["show", &agent.id]);
    assert_eq!(row["state"], "idle", "nothing was recorded: {row}");
}
