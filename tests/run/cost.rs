//! A limit on what a session costs, with what each real host wrote in the middle of a session (`fixtures/streams`).

use super::hosts::{Stage, json};
use serde_json::Value;
use std::fs;
use std::process::Output;

/// A session of a host that never ends by itself after its recorded output.
fn endless(host: &str, recorded: &str) -> Stage {
    let stage = Stage::with(host, "");
    let recorded = format!("{}/fixtures/streams/{recorded}", env!("CARGO_MANIFEST_DIR"));
    let script =
        format!("#!/bin/sh\ncat > /dev/null\ncat '{recorded}'\nwhile :; do sleep 0.01; done\n");
    fs::write(stage.programs.join(host), script).expect("written");
    stage
}

fn run(stage: &Stage, host: &str, usd: &str) -> Output {
    let (host, usd) = (format!("--host={host}"), format!("--max-cost={usd}"));
    let mut command = stage.command(&[&host, &usd, "--format=json"]);
    command.output().expect("git-agent starts")
}

fn ended_by_its_cost(output: &Output) -> Value {
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(output.status.code(), Some(125), "{report}");
    assert_eq!(report["ended"], "limit-cost");
    report
}

#[test]
fn a_host_that_tells_its_cost_is_ended_by_that() {
    let stage = endless("aider", "aider.txt");
    let report = ended_by_its_cost(&run(&stage, "aider", "0.005"));
    assert_eq!(report["cost_usd"], 0.0069);
}

#[test]
fn tokens_and_a_price_make_a_cost() {
    for (host, key) in [
        ("qwen", "agent.host.qwen.price"),
        // It counts no cost for a model that it does not know. The task's model is `m`.
        ("opencode", "agent.model.m.price"),
    ] {
        let stage = endless(host, &format!("{host}.txt"));
        stage.repo.git(["config", key, "100000/200000"]);
        let report = ended_by_its_cost(&run(&stage, host, "3.5"));
        // 20 tokens given and 10 made.
        assert_eq!(report["cost_usd"], 4.0, "{report}");
        let id = report["agent_id"].as_str().expect("an id");
        let shown = stage.repo.agent_json(&["show", id]);
        assert_eq!(shown["run"]["cost_usd"], 4.0, "{shown}");
    }
}

#[test]
fn a_host_whose_cost_is_not_known_in_time_is_not_started() {
    for (host, hint) in [
        ("codex", "--timeout"),
        ("gemini", "--timeout"),
        ("copilot", "--timeout"),
        ("qwen", "git config agent.host.qwen.price"),
    ] {
        let stage = endless(host, &format!("{host}.txt"));
        let output = run(&stage, host, "1");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains(&format!("{host} tells ")), "{told}");
        assert!(told.contains(hint), "{told}");
        let listed = stage.repo.agent_json(&["list", "--all"]);
        assert_eq!(listed["agents"], serde_json::json!([]));
        // A limit of the clone holds for all hosts, and who does not insist on it is told.
        stage.repo.git(["config", "agent.limits.cost", "1"]);
        let plan = stage
            .command(&[&format!("--host={host}")])
            .args(["--dry-run", "--format=json"])
            .output();
        let warnings = json(&plan.expect("starts"))["warnings"].to_string();
        assert!(warnings.contains(&format!("{host} tells ")), "{warnings}");
    }
}

#[test]
fn a_host_that_ends_itself_ends_by_the_same_name() {
    let stage = Stage::with("claude", "");
    let ends = |usd: &str, status: u8| {
        let result = format!(r#"{{"type":"result","session_id":"s","total_cost_usd":{usd}}}"#);
        let script = format!(
            "#!/bin/sh\necho \"$*\" >&2\ncat > /dev/null\necho '{result}'\nexit {status}\n"
        );
        fs::write(stage.programs.join("claude"), script).expect("written");
        let output = run(&stage, "claude", "1");
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        (output.status.code(), report)
    };
    let (status, report) = ends("1.5", 1);
    assert_eq!((status, &report["ended"]), (Some(125), &"limit-cost".into()));
    let log = report["stderr_path"].as_str().expect("a log");
    let words = fs::read_to_string(log).expect("readable");
    assert!(words.contains("--max-budget-usd 1"), "{words}");
    // A failure below the limit is a failure.
    let (status, report) = ends("0.5", 1);
    assert_eq!((status, &report["ended"]), (Some(1), &"exit".into()));
}

#[test]
fn a_cost_that_nothing_counted_is_told() {
    let stage = Stage::with("opencode", "");
    let recorded = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/streams/opencode.txt");
    let script = format!("#!/bin/sh\ncat > /dev/null\ncat '{recorded}'\n");
    fs::write(stage.programs.join("opencode"), script).expect("written");
    let warnings = json(&run(&stage, "opencode", "1"))["warnings"].to_string();
    assert!(warnings.contains("opencode counted no cost"), "{warnings}");
    stage.repo.git(["config", "agent.host.opencode.price", "a lot"]);
    let refused = run(&stage, "opencode", "1");
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{told}");
    assert!(told.contains("`a lot` is not a price"), "{told}");
}
