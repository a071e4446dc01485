//! Agent hosts started by a recipe, with programs that stand in for them.

use crate::support::TestRepo;
use crate::support::agent::{TASK, agent_command, answer_of, describe};
use crate::support::terminal::{Streams, shown};
use crate::verify::refused_json;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// A repository, and a directory with a program of the host's name that tells its arguments on standard
/// error and its standard input's first line.
pub(super) struct Stage {
    pub(super) repo: TestRepo,
    pub(super) programs: PathBuf,
}

impl Stage {
    pub(super) fn with(host: &str, answer: &str) -> Stage {
        let repo = TestRepo::with_commit();
        let programs = repo.path().with_file_name("programs");
        fs::create_dir(&programs).expect("made");
        let program = programs.join(host);
        let script = format!(
            "#!/bin/sh\nfor word in \"$@\"; do echo \"<$word>\" >&2; done\nhead -n 1 >&2\ncat <<'END'\n{answer}\nEND\n"
        );
        fs::write(&program, script).expect("written");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("executable");
        Stage { repo, programs }
    }

    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        let task = self.repo.task_file(&format!("model = \"m\"\nmax_iterations = 7\n{TASK}"));
        let mut command = agent_command(&self.repo.path());
        let path = std::env::var("PATH").expect("a path");
        command
            .env("PATH", format!("{}:{path}", self.programs.display()))
            .args(["run", &task, "--no-verify", "--sandbox=off"])
            .args(arguments);
        command
    }

    fn run(&self, arguments: &[&str]) -> Value {
        let output = self.command(arguments).arg("--format=json").output();
        json(&output.expect("git-agent starts"))
    }
}

pub(super) fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", describe(output));
    answer_of(output)
}

/// What the stand-in told, with `ID`, `ID8`, `REPO` and `PROGRAM` in place of what differs from run to run.
fn heard(stage: &Stage, report: &Value) -> String {
    let path = report["stderr_path"].as_str().expect("a log");
    let id = report["agent_id"].as_str().expect("an id");
    let text = fs::read_to_string(path).expect("readable");
    text.replace(id, "ID")
        .replace(&id[..8], "ID8")
        .replace(&stage.repo.path().display().to_string(), "REPO")
        .replace(env!("CARGO_BIN_EXE_git-agent"), "PROGRAM")
}

#[test]
fn claude_gets_its_flags_and_the_prompt_and_is_quoted() {
    let stage = Stage::with("claude", r#"{"type":"result","result":"All done."}"#);
    let report = stage.run(&["--host=claude"]);
    insta::assert_snapshot!(heard(&stage, &report), @r"
    <--settings>
    <REPO/.git/agents/ID8/run/1.hooks/settings.json>
    <-p>
    <--output-format>
    <stream-json>
    <--verbose>
    <--permission-mode>
    <acceptEdits>
    <--model>
    <m>
    <--max-turns>
    <7>
    # Agent ID
    ");
    assert_eq!(report["summary"], "All done.");
}

/// Two steps of a session as claude writes them, and its end.
const SESSION: &str = r#"{"type":"system","subtype":"init","session_id":"5e55"}
{"type":"assistant","message":{"content":[{"type":"text","text":"I look around."},{"type":"tool_use","name":"Bash","input":{"command":"ls -l"}}]}}
{"type":"user","message":{"content":[{"type":"tool_result","content":"total 0"}]}}
{"type":"assistant","message":{"content":[{"type":"text","text":"Done."}]}}
{"type":"result","result":"Done.","session_id":"5e55","total_cost_usd":0.25,"modelUsage":{"m":{"inputTokens":10,"outputTokens":5}}}"#;

/// What a command writes to a terminal of 80 columns, once it has ended well.
fn seen_by_a_person(mut command: Command) -> String {
    let (seen, status) = shown(command.env("NO_COLOR", "1"), (24, 80), Streams::Both);
    assert!(status.success(), "{seen}");
    seen
}

#[test]
fn on_a_terminal_a_person_sees_what_a_host_does_and_what_it_cost() {
    let stage = Stage::with("claude", SESSION);
    let seen = seen_by_a_person(stage.command(&["--host=claude"]));
    assert!(seen.contains("I look around.\n  > Bash ls -l\nDone.\n"), "{seen}");
    assert!(seen.contains("  cost $0.25, 10 tokens in, 5 out\n"), "{seen}");
    assert!(!seen.contains("\"type\"") && !seen.contains("total 0"), "{seen}");
    // A program that reads gets every line as the host wrote it, and so does the log.
    let piped = Stage::with("claude", SESSION).command(&["--host=claude"]).output();
    let piped = piped.expect("starts");
    assert!(String::from_utf8_lossy(&piped.stdout).starts_with(SESSION), "{piped:?}");
    let agents = stage.repo.agent_json(&["list", "--all"]);
    let id = agents["agents"][0]["agent_id"].as_str().expect("an id").to_owned();
    let log = stage.repo.agent(&["show", "--output", &id]);
    assert!(String::from_utf8_lossy(&log.stdout).starts_with(SESSION), "{log:?}");
    let shown = stage.repo.agent(&["show", &id]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("Last output:\n  I look around.\n  > Bash ls -l\n  Done.\n"), "{shown}");
}

#[test]
fn pieces_of_a_message_are_shown_as_one() {
    let piece = |words: &str| {
        format!(r#"{{"type":"message","role":"assistant","content":"{words}","delta":true}}"#)
    };
    let call =
        r#"{"type":"tool_use","tool_name":"run_shell_command","parameters":{"command":"ls"}}"#;
    let stream = [piece("I lo"), piece("ok."), call.to_owned(), piece("Done.")].join("\n");
    let stage = Stage::with("gemini", &stream);
    let seen = seen_by_a_person(stage.command(&["--host=gemini"]));
    // What the stand-in writes to standard error may come in between.
    let shown: Vec<_> = seen
        .lines()
        .filter(|line| ["I lo", "  > ", "Done"].iter().any(|start| line.starts_with(start)))
        .collect();
    let expected = ["I look.", "  > run_shell_command ls", "Done."];
    assert_eq!(shown, expected, "{seen}");
}

/// Each host that can go on, the first line that it writes, and the words with which it goes on; `ID` is the agent's.
const GOING_ON: [(&str, &str, &str); 6] = [
    ("claude", r#"{"type":"system","session_id":"5e55"}"#, "<--resume>\n<5e55>\n"),
    ("codex", r#"{"type":"thread.started","thread_id":"5e55"}"#, "<resume>\n<5e55>\n"),
    ("gemini", r#"{"type":"init","session_id":"5e55"}"#, "<--resume>\n<5e55>\n"),
    ("qwen", r#"{"type":"system","session_id":"5e55"}"#, "<--resume>\n<5e55>\n"),
    ("opencode", r#"{"type":"step_start","sessionID":"5e55"}"#, "<--session>\n<5e55>\n"),
    // It writes nothing of its session before its end, so it is given a name.
    ("copilot", "", "<--session-id>\n<NAMED>\n"),
];

/// Starts a host that writes one line and then works until it is ended, hands the run to `end`, goes on with its session, and gives what the
/// host heard then.
fn cut_off(host: &str, line: &str, end: impl FnOnce(&Stage, &str, Child)) -> String {
    let stage = Stage::with(host, "");
    let begun = stage.programs.join("begun");
    let script = format!(
        "#!/bin/sh\nfor word in \"$@\"; do echo \"<$word>\" >&2; done\ncat >&2\n[ -e {0} ] && exit\n\
         echo '{line}'; touch {0}; while :; do sleep 0.01; done\n",
        begun.display()
    );
    fs::write(stage.programs.join(host), script).expect("written");
    let mut command = stage.command(&["--format=json"]);
    command.arg(format!("--host={host}"));
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let child = child.expect("starts");
    let agents = || stage.repo.agent_json(&["list", "--all"])["agents"].clone();
    while !begun.exists() {
        crate::support::pause();
    }
    let id = agents()[0]["agent_id"].as_str().expect("an id").to_owned();
    let log = format!(".git/agents/{}/run/1.out", &id[..8]);
    while !fs::read_to_string(stage.repo.path().join(&log)).is_ok_and(|log| log.contains(line)) {
        crate::support::pause();
    }
    end(&stage, &id, child);
    while agents()[0]["run"]["state"] == "running" {
        crate::support::pause();
    }
    let path = std::env::var("PATH").expect("a path");
    let mut again = agent_command(&stage.repo.path());
    again.env("PATH", format!("{}:{path}", stage.programs.display()));
    again.args(["run", "--resume", &id, "-m", "rename it", "--no-verify"]);
    let report = json(&again.args(["--sandbox=off", "--format=json"]).output().expect("starts"));
    // The name of the first run's session.
    let named = format!("{}00000001", &id[..id.len() - 8]);
    let report_path = report["stderr_path"].as_str().expect("a log");
    let heard = fs::read_to_string(report_path).expect("readable");
    heard.replace(&named, "NAMED")
}

#[test]
fn a_host_that_was_stopped_goes_on_with_its_session_and_hears_why() {
    for (host, line, words) in GOING_ON {
        let heard = cut_off(host, line, |stage, id, mut child| {
            assert!(stage.repo.agent(&["stop", id]).status.success());
            child.wait().expect("ended");
        });
        assert!(heard.contains(words), "{host}: {heard}");
        assert!(heard.contains("\nrename it\n"), "{host}: {heard}");
    }
}

#[test]
fn a_host_goes_on_with_its_session_after_a_kill_of_everything_above_it() {
    for (host, line, words) in GOING_ON {
        let heard = cut_off(host, line, |_, _, mut child| {
            child.kill().expect("killed");
            child.wait().expect("dead");
        });
        assert!(heard.contains(words), "{host}: {heard}");
    }
}

#[test]
fn what_a_host_tells_of_its_session_is_kept_in_the_row() {
    let answer = r#"{"type":"result","result":"Done.","session_id":"5e55","total_cost_usd":0.25,"modelUsage":{"m":{"inputTokens":10,"outputTokens":5}}}"#;
    let stage = Stage::with("claude", answer);
    let report = stage.run(&["--host=claude"]);
    let id = report["agent_id"].as_str().expect("an id");
    let kept = |run: &Value| {
        let keys = ["session_id", "cost_usd", "input_tokens", "output_tokens"];
        keys.map(|key| run[key].to_string()).join(" ")
    };
    let expected = r#""5e55" 0.25 10 5"#;
    assert_eq!(kept(&report), expected);
    let shown = stage.repo.agent_json(&["show", id]);
    assert_eq!(kept(&shown["run"]), expected, "{shown}");
    let listed = stage.repo.agent_json(&["list", "--all"]);
    assert_eq!(kept(&listed["agents"][0]["run"]), expected, "{listed}");
    let output = stage.repo.agent(&["log", id]);
    let log = String::from_utf8_lossy(&output.stdout);
    assert!(log.contains("status 0, cost 0.25 USD"), "{log}");
}

#[test]
fn a_session_that_goes_on_with_a_text_has_its_answer() {
    let answer = r#"{"type":"result","result":"Done.","session_id":"5e55"}"#;
    let stage = Stage::with("claude", answer);
    let first = stage.run(&["--host=claude"]);
    let id = first["agent_id"].as_str().expect("an id");
    let question = ["--payload=question=which?", "--payload=context=x"];
    let ask = ["send", "--type=clarify", "--to=user", "--from", id];
    stage.repo.agent_json(&[&ask[..], &question].concat());
    let state = || stage.repo.agent_json(&["show", id])["state"].clone();
    assert_eq!(state(), "waiting");
    let path = std::env::var("PATH").expect("a path");
    let mut again = agent_command(&stage.repo.path());
    again.env("PATH", format!("{}:{path}", stage.programs.display()));
    again.args(["run", "--resume", id, "-m", "this one", "--no-verify", "--format=json"]);
    json(&again.output().expect("starts"));
    assert_eq!(state(), "done");
}

#[test]
fn a_host_that_is_briefed_has_no_session_to_go_on_with() {
    let answer = r#"{"type":"result","result":"Done.","session_id":"5e55"}"#;
    let stage = Stage::with("claude", answer);
    let task = stage.repo.task_file(&format!("briefing = \"Work at night.\"\n{TASK}"));
    let call = |words: &[&str]| {
        let path = std::env::var("PATH").expect("a path");
        let mut command = agent_command(&stage.repo.path());
        command.env("PATH", format!("{}:{path}", stage.programs.display()));
        command.args(words).arg("--format=json").output().expect("starts")
    };
    let first = json(&call(&["run", &task, "--no-verify", "--sandbox=off", "--host=claude"]));
    let id = first["agent_id"].as_str().expect("an id");
    let question = ["--payload=question=which?", "--payload=context=x"];
    let ask = ["send", "--type=clarify", "--to=user", "--from", id];
    stage.repo.agent_json(&[&ask[..], &question].concat());
    refused_json(&call(&["run", "--resume", id, "-m", "more"]), "agent-state", 3);
    // The answer waits for a run that can hear it.
    let sent = json(&call(&["send", "--to", id, "the second"]));
    assert_eq!(sent["waking"], Value::Null, "{sent}");
    assert_eq!(stage.repo.agent_json(&["show", id])["run"]["run"], 1);
}

#[test]
fn an_answer_wakes_the_agent_that_asked() {
    let stage = Stage::with("claude", "");
    let answer = r#"{"type":"result","result":"Done.","session_id":"5e55","total_cost_usd":0.25}"#;
    let script = format!(
        "#!/bin/sh\nfor word in \"$@\"; do echo \"<$word>\" >&2; done\ncat >&2\necho '{answer}'\n"
    );
    fs::write(stage.programs.join("claude"), script).expect("written");
    let first = stage.run(&["--host=claude", "--model=opus", "--max-cost=1", "--timeout=90s"]);
    let id = first["agent_id"].as_str().expect("an id");
    let ask = || {
        let question = ["--payload=question=which?", "--payload=context=x"];
        let ask = ["send", "--type=clarify", "--to=user", "--from", id];
        stage.repo.agent_json(&[&ask[..], &question].concat())
    };
    // A person answers where they stand, which may be another agent's worktree.
    let other = stage.repo.agent_json(&["spawn", "look at the library"]);
    let here = other["worktree_abspath"].as_str().expect("a path").to_owned();
    let answer = |question: &Value, more: &[&str]| {
        let path = std::env::var("PATH").expect("a path");
        let mut command = agent_command(Path::new(&here));
        command.env("PATH", format!("{}:{path}", stage.programs.display()));
        let question = question["message_id"].as_str().expect("an id");
        command.args([
            "send",
            "--type=notify",
            "--format=json",
            "--to",
            id,
            "--reply-to",
            question,
        ]);
        command.args(["--payload", "message=take the second"]).args(more);
        json(&command.output().expect("starts"))
    };
    let shown = || stage.repo.agent_json(&["show", id]);
    let question = ask();
    assert_eq!(shown()["state"], "waiting");
    assert_eq!(answer(&question, &["--no-wake"])["waking"], Value::Null);
    let question = ask();
    // Neither the agent itself nor one that was not asked answers it from behind its fence.
    let number = question["message_id"].as_str().expect("an id");
    let program = env!("CARGO_BIN_EXE_git-agent");
    let reply = format!("{program} send --to {id} --reply-to {number} yes");
    let other_id = other["agent_id"].as_str().expect("an id");
    let replied = stage.repo.agent(&["run", other_id, "--no-verify", "--", "sh", "-c", &reply]);
    assert!(replied.status.success(), "{}", describe(&replied));
    assert_eq!(shown()["state"], "waiting");
    assert_eq!(stage.repo.agent_json(&["receive", "--peek", "--agent", id])["count"], 2);
    let sent = answer(&question, &[]);
    assert_eq!(sent["waking"], serde_json::json!([id]), "{sent}");
    // The run has begun when its sender is told of it.
    assert_eq!(shown()["run"]["run"], 2);
    // The work of the stand-in is rejected, and its status is that of the run.
    let ended = stage.repo.agent(&["wait", id, "--format=json"]);
    let ended: Value = serde_json::from_slice(&ended.stdout).expect("JSON");
    let log = ended["runs"][0]["stderr_path"].as_str().expect("a log");
    let heard = fs::read_to_string(log).expect("readable");
    assert!(heard.contains("<--resume>\n<5e55>\n"), "{heard}");
    assert!(heard.contains("Your question is answered: take the second"), "{heard}");
    // Who was asked may answer from behind its fence, which begins no run: who started that one is told, and `wait` does not say
    // that there is no answer.
    let question = ["--payload=question=which?", "--payload=context=x"];
    let to_other = ["send", "--type=clarify", "--to", other_id, "--from", id];
    let question = stage.repo.agent_json(&[&to_other[..], &question].concat());
    assert_eq!(shown()["state"], "waiting");
    let number = question["message_id"].as_str().expect("an id");
    let reply = format!("{program} send --to {id} --reply-to {number} yes");
    let words = ["run", other_id, "--no-verify", "--", "sh", "-c", &reply];
    let replied = describe(&stage.repo.agent(&words));
    assert!(replied.contains("is answered, and nothing runs for it"), "{replied}");
    assert_ne!(shown()["state"], "waiting");
    // What bound the run that asked binds this one.
    assert!(heard.contains("<--model>\n<opus>\n"), "{heard}");
    assert!(heard.contains("<--max-budget-usd>\n<0.75>\n"), "{heard}");
    assert_eq!(ended["runs"][0]["timeout_ms"], 90_000);
    assert_ne!(shown()["state"], "waiting");
    // Where there is no room for it, the sender is not kept waiting.
    stage.repo.git(["config", "agent.limits.jobs", "1"]);
    let go = stage.programs.join("go");
    let wait = format!("until test -e {}; do sleep 0.02; done", go.display());
    let at_work = ["run", other["agent_id"].as_str().expect("an id"), "--background", "--"];
    let began = stage.repo.agent(&[&at_work[..], &["sh", "-c", &wait]].concat());
    assert!(began.status.success(), "{}", describe(&began));
    let sent = answer(&ask(), &[]);
    assert!(sent["warnings"].to_string().contains("goes on when there is room for it"), "{sent}");
    fs::write(go, "").expect("written");
    while shown()["run"]["run"] != 3 || shown()["run"]["state"] != "exited" {
        crate::support::pause();
    }
    let question = ask();
    fs::remove_file(stage.programs.join("claude")).expect("removed");
    let sent = answer(&question, &[]);
    assert_eq!(sent["waking"], Value::Null, "{sent}");
    assert!(sent["warnings"].to_string().contains("does not go on [command-not-found]"), "{sent}");
}

#[test]
fn an_answer_that_a_run_does_not_hear_any_more_lets_the_agent_go_on() {
    let stage = Stage::with("claude", "");
    let directory = stage.programs.display();
    // It asks, is answered while it works, and ends its turn without a look: another one does the rest.
    let script = format!(
        "#!/bin/sh\nfor word in \"$@\"; do echo \"<$word>\" >&2; done\ncat >&2\n\
         case \"$*\" in *--resume*) ;; *)\n\
         git-agent send --type=clarify --to=user --payload=question=which? --payload=context=x >&2\n\
         until test -e {directory}/go; do sleep 0.02; done;; esac\n\
         echo '{{\"type\":\"result\",\"result\":\"Done.\",\"session_id\":\"5e55\"}}'\n"
    );
    fs::write(stage.programs.join("claude"), script).expect("written");
    let began = stage.command(&["--host=claude", "--background", "--format=json"]).output();
    let began = json(&began.expect("starts"));
    let id = began["agent_id"].as_str().expect("an id");
    let shown = || stage.repo.agent_json(&["show", id]);
    while shown()["state"] != "waiting" {
        crate::support::pause();
    }
    let inbox = stage.repo.agent_json(&["inbox", "--agent=user"]);
    let question = inbox["messages"][0]["message_id"].as_str().expect("an id").to_owned();
    let answer = ["send", "--type=notify", "--to", id, "--reply-to", &question];
    let sent = stage.repo.agent_json(&[&answer[..], &["--payload=message=the second"]].concat());
    assert_eq!(sent["waking"], Value::Null, "{sent}");
    assert_eq!(shown()["state"], "running");
    fs::write(stage.programs.join("go"), "").expect("written");
    loop {
        let now = shown();
        if now["run"]["run"] == 2 && now["run"]["state"] == "exited" {
            break;
        }
        let half_done = now["run"]["run"] == 1 && now["state"] == "done";
        assert!(!half_done, "half of it would land: {now}");
        crate::support::pause();
    }
    let ended = stage.repo.agent(&["wait", id, "--format=json"]);
    let log = answer_of(&ended)["runs"][0]["stderr_path"].as_str().expect("a log").to_owned();
    let heard = fs::read_to_string(log).expect("readable");
    assert!(heard.contains("Your question is answered: the second"), "{heard}");
}

#[test]
fn a_host_that_tells_what_it_costs_is_ended_in_time() {
    let stage = Stage::with("opencode", "");
    let step = r#"{"type":"step_finish","sessionID":"5e55","part":{"cost":0.6,"tokens":{"input":10,"output":5}}}"#;
    let script = format!(
        "#!/bin/sh\ncat > /dev/null\necho '{step}'; echo '{step}'; while :; do sleep 0.01; done\n"
    );
    fs::write(stage.programs.join("opencode"), script).expect("written");
    let output = stage.command(&["--host=opencode", "--max-cost=1", "--format=json"]).output();
    let output = output.expect("starts");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(output.status.code(), Some(125), "{report}");
    assert_eq!(report["ended"], "limit-cost");
    assert_eq!(report["cost_usd"], 1.2);
}

#[test]
fn a_later_run_goes_on_with_the_session_of_the_last() {
    let answer = r#"{"type":"result","result":"Done.","session_id":"5e55","total_cost_usd":0.25}"#;
    let stage = Stage::with("claude", answer);
    let first = stage.run(&["--host=claude"]);
    let id = first["agent_id"].as_str().expect("an id");
    let path = std::env::var("PATH").expect("a path");
    let again = |arguments: &[&str]| {
        let mut command = agent_command(&stage.repo.path());
        command.env("PATH", format!("{}:{path}", stage.programs.display()));
        command.args(["run", id, "--no-verify", "--format=json"]);
        command.args(arguments).output().expect("git-agent starts")
    };
    let second = json(&again(&["--sandbox=off", "--host=claude", "--resume", "--max-cost=2.5"]));
    let told = heard(&stage, &second);
    assert!(told.contains("<--max-budget-usd>\n<2.5>\n<--resume>\n<5e55>\n"), "{told}");
    assert!(told.contains("You are agent ID again"), "{told}");
    // After a discard too, once the agent is back where it was.
    let words = ["discard", id];
    assert!(stage.repo.agent(&words).status.success());
    let refused = again(&["--host=claude", "--resume"]);
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(text.contains(&format!("git agent rescue {} --reopen", &id[..8])), "{text}");
    stage.repo.agent_json(&["rescue", id, "--reopen"]);
    let third = json(&again(&["--sandbox=off", "--host=claude", "--resume"]));
    let told = heard(&stage, &third);
    assert!(told.contains("<--resume>\n<5e55>\n"), "{told}");
    assert_eq!(again(&["--host=aider", "--resume"]).status.code(), Some(2));
    // Another host has had no session with it.
    assert_eq!(again(&["--host=codex", "--resume"]).status.code(), Some(3));
    let other = stage.repo.spawn();
    let other = other["agent_id"].as_str().expect("an id");
    let untold = stage.repo.agent(&["run", other, "--host=claude", "--resume"]);
    let text = String::from_utf8_lossy(&untold.stderr).into_owned();
    assert!(text.contains("told of a session to go on with"), "{text}");
    // The other agent is younger, and what it cost is not known.
    let listed = stage.repo.agent_json(&["list", "--all", "--sort=cost"]);
    assert_eq!(listed["agents"][0]["agent_id"], id);
    assert_eq!(listed["agents"][1]["agent_id"], other);
}

#[test]
fn what_a_session_cost_is_shared_among_its_runs() {
    // Claude Code counts on where it goes on; what it is told to write is the sum of both.
    let stage = Stage::with("claude", "");
    let script = "#!/bin/sh\ncase \"$*\" in *--resume*) usd=0.75 in=30;; *) usd=0.5 in=10;; esac\n\
         printf '{\"type\":\"result\",\"session_id\":\"s\",\"total_cost_usd\":%s,\"modelUsage\":{\"m\":{\"inputTokens\":%s}}}' $usd $in\n";
    fs::write(stage.programs.join("claude"), script).expect("written");
    let counted = |run: &Value| ["cost_usd", "input_tokens"].map(|key| run[key].to_string());
    let first = stage.run(&["--host=claude"]);
    assert_eq!(counted(&first), ["0.5", "10"]);
    let id = first["agent_id"].as_str().expect("an id");
    let path = std::env::var("PATH").expect("a path");
    let mut again = agent_command(&stage.repo.path());
    again.env("PATH", format!("{}:{path}", stage.programs.display()));
    again.args(["run", "--resume", id, "--no-verify", "--sandbox=off"]);
    let again = again.arg("--format=json").output().expect("starts");
    assert_eq!(counted(&json(&again)), ["0.25", "20"]);
    assert_eq!(counted(&stage.repo.agent_json(&["show", id])["run"]), ["0.25", "20"]);
}

#[test]
fn a_killed_run_that_goes_on_leaves_the_prompt_of_the_agent_as_it_was() {
    let stage = Stage::with("claude", "");
    let [ready, go] = ["ready", "go"].map(|name| stage.programs.join(name));
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *--resume*) cat > '{}'; until [ -e '{}' ]; do sleep 0.01; done ;; esac\n\
         printf '{{\"result\":\"Done.\",\"session_id\":\"s\"}}'\n",
        ready.display(),
        go.display()
    );
    fs::write(stage.programs.join("claude"), script).expect("written");
    let first = stage.run(&["--host=claude"]);
    let id = first["agent_id"].as_str().expect("an id");
    let own = stage.repo.path().join(".git/agents").join(&id[..8]);
    let prompt = fs::read_to_string(own.join("prompt.md")).expect("a prompt");
    let path = std::env::var("PATH").expect("a path");
    let mut again = agent_command(&stage.repo.path());
    again.env("PATH", format!("{}:{path}", stage.programs.display()));
    again.args(["run", id, "--host=claude", "--sandbox=off", "--resume"]);
    let mut killed = again.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts");
    while !fs::read_to_string(&ready).is_ok_and(|told| told.ends_with('\n')) {
        crate::support::pause();
    }
    killed.kill().expect("killed");
    killed.wait().expect("dead");
    let kept = fs::read_to_string(own.join("prompt.md"));
    assert_eq!(kept.expect("a prompt"), prompt);
    fs::write(&go, "").expect("written");
    while stage.repo.agent_json(&["show", id])["run"]["state"] == "running" {
        crate::support::pause();
    }
    assert!(own.join("run-prompt.md").exists());
    stage.repo.agent(&["doctor", "--fix"]);
    assert!(!own.join("run-prompt.md").exists());
}

#[test]
fn a_fenced_host_finds_what_it_recorded_of_its_last_session() {
    let stage = Stage::with("claude", "");
    // It counts its sessions in its home.
    let script = "#!/bin/sh\necho >> \"$CLAUDE_CONFIG_DIR/projects/log\"\n\
                  wc -l < \"$CLAUDE_CONFIG_DIR/projects/log\" | xargs printf '{\"result\":\"%s\",\"session_id\":\"s\"}'\n";
    fs::write(stage.programs.join("claude"), script).expect("written");
    let path = std::env::var("PATH").expect("a path");
    let task = stage.repo.task_file(TASK);
    let run = |target: &str, more: &[&str]| {
        let mut command = agent_command(&stage.repo.path());
        command.env("PATH", format!("{}:{path}", stage.programs.display()));
        command.args(["run", target, "--host=claude", "--no-verify", "--format=json"]);
        json(&command.args(more).output().expect("git-agent starts"))
    };
    let first = run(&task, &[]);
    if first["sandbox"]["enforced"] == "off" {
        return;
    }
    assert_eq!(first["summary"], "1");
    let id = first["agent_id"].as_str().expect("an id");
    assert_eq!(run(id, &["--resume"])["summary"], "2");
}

#[test]
fn a_session_that_is_no_plain_word_is_not_kept() {
    let answer = r#"{"type":"result","result":"Done.","session_id":"a b","total_cost_usd":-1.0}"#;
    let stage = Stage::with("claude", answer);
    let report = stage.run(&["--host=claude"]);
    let id = report["agent_id"].as_str().expect("an id");
    let shown = stage.repo.agent_json(&["show", id]);
    assert_eq!(shown["run"]["session_id"], Value::Null);
    assert_eq!(shown["run"]["cost_usd"], Value::Null);
}

#[test]
fn codex_gets_its_flags_and_the_prompt_and_is_quoted() {
    let answer = r#"{"type":"item.completed","item":{"type":"agent_message","text":"All done."}}"#;
    let stage = Stage::with("codex", answer);
    let report = stage.run(&["--host=codex"]);
    insta::assert_snapshot!(heard(&stage, &report), @r#"
    <-c>
    <hooks.PostToolUse=[{ hooks = [{ command = "PROGRAM hook post-tool", statusMessage = "scope", timeout = 60, type = "command" }], matcher = ".*" }]>
    <-c>
    <hooks.PreToolUse=[{ hooks = [{ command = "PROGRAM hook pre-tool", statusMessage = "scope", timeout = 10, type = "command" }], matcher = "^(Bash|apply_patch|spawn_agent|mcp__.*)$" }]>
    <-c>
    <hooks.SessionStart=[{ hooks = [{ command = "PROGRAM hook session-start", type = "command" }] }]>
    <-c>
    <hooks.Stop=[{ hooks = [{ command = "PROGRAM hook stop", timeout = 600, type = "command" }] }]>
    <-c>
    <allow_login_shell=false>
    <--dangerously-bypass-hook-trust>
    <-c>
    <sandbox_workspace_write.writable_roots=["REPO/.git/agents/spool/ID8"]>
    <exec>
    <--json>
    <-s>
    <workspace-write>
    <-m>
    <m>
    <->
    # Agent ID
    "#);
    assert_eq!(report["summary"], "All done.");
    let warning = report["warnings"][0].as_str().expect("a warning");
    assert!(warning.starts_with("codex has no flag for max_iterations"), "{warning}");
}

#[test]
fn aider_is_given_the_file_of_the_prompt() {
    let stage = Stage::with("aider", "done");
    let report = stage.run(&["--host=aider"]);
    let prompt = report["spawn"]["prompt_path"].as_str().expect("a path");
    let prompt = prompt.replace(&stage.repo.path().display().to_string(), "REPO");
    let id = report["agent_id"].as_str().expect("an id");
    let prompt = prompt.replace(&id[..8], "ID8");
    assert!(heard(&stage, &report).contains(&format!("<--message-file>\n<{prompt}>\n")));
}

#[test]
fn the_shell_runs_a_line_with_the_prompt_on_its_input() {
    let stage = Stage::with("unused", "");
    let task = stage.repo.task_file(TASK);
    let output = agent_command(&stage.repo.path())
        .args(["run", &task, "--no-verify", "--quiet", "--format=json", "--host=shell"])
        .args(["--", "grep -c '^## ' | tr -d '\n'; echo \" $1\"", "word"])
        .output()
        .expect("git-agent starts");
    assert_eq!(json(&output)["summary"], "4 word");
    let nothing = stage.command(&["--host=shell"]).output().expect("starts");
    assert_eq!(nothing.status.code(), Some(2));
}

#[test]
fn a_dry_run_prints_the_command_line_and_makes_nothing() {
    let stage = Stage::with("gemini", "");
    let output = stage
        .command(&["--host=gemini", "--dry-run", "--", "--debug"])
        .output()
        .expect("git-agent starts");
    insta::assert_snapshot!(String::from_utf8_lossy(&output.stdout), @"gemini -p '' --output-format stream-json --skip-trust --approval-mode auto_edit -m m --debug");
    assert!(!stage.repo.path().join(".git/agents").exists());
}

#[test]
fn a_dry_run_needs_no_host() {
    let repo = TestRepo::with_commit();
    let task = repo.task_file(TASK);
    let output = agent_command(&repo.path())
        .env("PATH", repo.path().with_file_name("no-programs"))
        .args(["run", &task, "--host=claude", "--sandbox=off", "--dry-run"])
        .output()
        .expect("git-agent starts");
    assert!(output.status.success(), "{}", describe(&output));
    let line = String::from_utf8_lossy(&output.stdout);
    assert!(line.starts_with("claude -p "), "{line}");
}

#[test]
fn a_host_that_is_not_installed_is_named() {
    let repo = TestRepo::with_commit();
    let task = repo.task_file(TASK);
    let programs = repo.path().with_file_name("no-programs");
    let output = agent_command(&repo.path())
        .env("PATH", programs)
        .args(["run", &task, "--host=claude"])
        .output()
        .expect("git-agent starts");
    assert_eq!(output.status.code(), Some(127), "{}", describe(&output));
    assert!(String::from_utf8_lossy(&output.stderr).contains("claude"));
}

#[test]
fn a_task_may_limit_what_its_session_costs() {
    let repo = TestRepo::with_commit();
    let task = repo.task_file(&format!("{TASK}[limits]\ncost = 3\n"));
    let run = |arguments: &[&str]| {
        let words = ["run", &task, "--dry-run"];
        let report = repo.agent_json(&[&words, arguments].concat());
        report["command"].to_string()
    };
    let line = run(&["--host=claude"]);
    assert!(line.contains(r#""--max-budget-usd","3""#), "{line}");
    let line = run(&["--host=claude", "--max-cost=0.5"]);
    assert!(line.contains(r#""--max-budget-usd","0.5""#), "{line}");
    // What it may cost is no part of what it is.
    let dna = |task: &str| repo.agent_json(&["spawn", "--dry-run", task])["dna"].clone();
    assert_eq!(dna(&task), dna(&repo.task_file(TASK)));
}
