//! What a run makes of an agent, cell by cell of the table in docs/run.md.

use super::{WORKS, beside, command};
use crate::support::TestRepo;
use crate::support::agent::{TASK, describe};
use serde_json::{Value, json};
use std::fs;
use std::process::Stdio;

/// How a run can end that is no success.
const ENDS: [&str; 5] = ["status", "signal", "timeout", "stop", "kill"];

/// Runs a command that says `said` of itself and ends like `end`; gives the status of `run`, and the agent.
fn run(said: &str, end: &str) -> (Option<i32>, TestRepo, String) {
    let repo = TestRepo::with_commit();
    let id = repo.spawn_task(TASK, &[])["agent_id"].as_str().expect("an id").to_owned();
    let program = env!("CARGO_BIN_EXE_git-agent");
    let declare = match said {
        "done" => format!("{program} done --summary 'all of it';"),
        "fail" => format!("{program} fail --reason 'no idea';"),
        _ => String::new(),
    };
    let end_of = match end {
        "accept" => "true",
        "reject" => "echo x > README.md",
        "status" => "exit 7",
        "signal" => "kill -9 $$",
        _ => "touch \"$BESIDE/ready\"; exec sleep 1000",
    };
    let script = format!("{WORKS} {declare} {end_of}");
    let options: &[&str] = if end == "timeout" { &["--timeout=2s"] } else { &[] };
    let mut child = command(&repo, &id, options, &script)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("starts");
    if ["stop", "kill"].contains(&end) {
        while !beside(&repo, "ready").exists() {
            assert!(child.try_wait().expect("known").is_none(), "{said}, {end}");
            crate::support::pause();
        }
        if end == "stop" {
            repo.agent_json(&["stop", &id]);
        } else {
            child.kill().expect("killed");
        }
    }
    let status = child.wait().expect("over");
    if end == "kill" {
        // The next command records the end that the killed one could not.
        let waited = repo.agent(&["wait", &id]);
        assert!(!waited.status.success(), "{}", describe(&waited));
    }
    (status.code(), repo, id)
}

/// The cells of a line of the table, without their quotes.
fn cells(line: &str) -> Vec<String> {
    let cells = line.trim_matches('|').split('|');
    cells.map(|cell| cell.trim().replace('`', "")).collect()
}

#[test]
fn what_an_agent_says_of_itself_stands() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/run.md");
    let page = fs::read_to_string(page).expect("a page");
    let mut lines =
        page.lines().skip_while(|line| !line.starts_with("| `mark` called in the run |"));
    assert_eq!(
        cells(lines.next().expect("a table"))[1..],
        ["status 0, accepted", "status 0, rejected", "other status, signal, timeout, stop, kill"]
    );
    let rows: Vec<Vec<String>> = lines.skip(1).take(2).map(cells).collect();
    let said: Vec<&str> = rows.iter().map(|row| row[0].as_str()).collect();
    assert_eq!(said, ["none, or done", "fail"]);
    let state_of = |cell: &str| cell.split(',').next().expect("a state").to_owned();
    for (said, row) in [("", &rows[0]), ("done", &rows[0]), ("fail", &rows[1])] {
        for end in ["accept", "reject"].iter().chain(&ENDS) {
            let expected = match *end {
                "accept" => state_of(&row[1]),
                "reject" => state_of(&row[2]),
                _ => state_of(&row[3]),
            };
            require(said, end, &expected);
        }
    }
}

#[track_caller]
fn require(said: &str, end: &str, expected: &str) {
    let what = format!("said {said:?}, ended by {end}");
    let (status, repo, id) = run(said, end);
    let shown = repo.agent_json(&["show", &id]);
    assert_eq!(shown["state"], expected, "{what}: {shown:#}");
    let is_success = (said, end) != ("fail", "accept") && end == "accept";
    assert_eq!(status == Some(0), is_success, "{what}");
    if end == "accept" && said == "fail" {
        assert_eq!(status, Some(1), "{what}");
    }
    if end == "reject" {
        assert_eq!(shown["findings"][0], "scope.not-in-whitelist", "{what}");
    }
    if expected == "failed" {
        let summary = shown["summary"].as_str().expect("a reason");
        assert_eq!(summary == "no idea", said == "fail", "{what}: {summary}");
    }
    // Looking at it, as often as one likes, changes nothing.
    let events = |id: &str| repo.agent_json(&["log", id])["events"].as_array().map(Vec::len);
    let before = events(&id);
    repo.agent(&["verify", &id]);
    repo.agent(&["list"]);
    assert_eq!(repo.agent_json(&["show", &id])["state"], expected, "{what}");
    // Nor does a round of landings take what failed.
    if expected == "failed" {
        let main = repo.git(["rev-parse", "main"]);
        for round in [&["merge", "--all"][..], &["train", "--all"]] {
            repo.agent(round);
        }
        assert_eq!(repo.git(["rev-parse", "main"]), main, "{what}");
        assert_eq!(repo.agent_json(&["show", &id])["state"], "failed", "{what}");
        assert!(before <= events(&id), "{what}");
    }
}

#[test]
fn a_failure_that_was_said_is_in_the_answer_until_a_person_says_otherwise() {
    // A clone of its own has a ledger of its own, in which it would be lost.
    for isolation in ["worktree", "clone"] {
        let repo = TestRepo::with_commit();
        let spawned = repo.spawn_task(TASK, &["--isolation", isolation]);
        let id = spawned["agent_id"].as_str().expect("an id").to_owned();
        let program = env!("CARGO_BIN_EXE_git-agent");
        let script = format!("{WORKS} {program} fail --reason 'no idea'");
        let output = command(&repo, &id, &["--format=json"], &script).output().expect("starts");
        assert_eq!(output.status.code(), Some(1), "{}", describe(&output));
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(
            (&report["status"], &report["failure"], &report["verdict"]),
            (&json!("failed"), &json!("no idea"), &json!("accept"))
        );
        let again = repo.agent(&["fail", &id, "--reason=once more"]);
        crate::verify::refused(&again, "agent-state", 3);
        // By name it is a person who takes it.
        assert_eq!(repo.agent_json(&["done", &id])["state"], "done");
        assert_eq!(repo.agent_json(&["merge", &id])["outcome"], "merged");
    }
}

#[test]
fn work_that_cannot_be_judged_is_not_done() {
    for said in ["true", "done"] {
        let repo = TestRepo::with_commit();
        let spawned = repo.spawn_task(TASK, &[]);
        let [id, branch] = ["agent_id", "branch"].map(|key| spawned[key].as_str().expect("text"));
        let gate = beside(&repo, "gate");
        let made = std::process::Command::new("mkfifo").arg(&gate).status();
        assert!(made.expect("starts").success());
        let declare = match said {
            "done" => format!("{} done --summary 'all of it'", env!("CARGO_BIN_EXE_git-agent")),
            _ => said.to_owned(),
        };
        let script = format!("{WORKS} {declare}; read -r line <\"$BESIDE/gate\"");
        let options = ["--format=json", "--sandbox=off"];
        let child = command(&repo, id, &options, &script).stdout(Stdio::piped()).spawn();
        let child = child.expect("starts");
        let mut opened = fs::OpenOptions::new().write(true).open(&gate).expect("it reads");
        repo.git(["update-ref", "-d", &format!("refs/heads/{branch}")]);
        std::io::Write::write_all(&mut opened, b"go\n").expect("written");
        let output = child.wait_with_output().expect("over");
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!((&report["status"], &report["verdict"]), (&json!("failed"), &Value::Null));
        let shown = repo.agent_json(&["show", id]);
        assert_eq!(shown["state"], "idle", "{said}: {shown:#}");
        let log = repo.agent_json(&["log", id])["events"].clone();
        let last = log.as_array().and_then(|events| events.last()).expect("events").clone();
        assert_eq!(last["event"], "unjudged", "{said}: {last:#}");
    }
}

#[test]
fn work_that_cannot_be_read_is_not_done() {
    let repo = TestRepo::with_commit();
    let spawned = repo.spawn_task(TASK, &[]);
    let id = spawned["agent_id"].as_str().expect("an id");
    let script = format!("{WORKS} truncate -s 3G src/huge.bin");
    let output = command(&repo, id, &["--format=json"], &script).output().expect("starts");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["verdict"], "reject", "{report:#}");
    assert_eq!(repo.agent_json(&["show", id])["state"], "idle");
    let log = repo.agent_json(&["log", id])["events"].clone();
    let last = log.as_array().and_then(|events| events.last()).expect("events").clone();
    assert_eq!(last["event"], "unjudged", "{last:#}");
}

#[test]
fn work_whose_worktree_is_gone_is_not_done() {
    let repo = TestRepo::with_commit();
    let spawned = repo.spawn_task(TASK, &["--layered=off"]);
    let id = spawned["agent_id"].as_str().expect("an id");
    let place = spawned["worktree_abspath"].as_str().expect("a path");
    let script = format!("{WORKS} rm -rf '{place}'");
    let options = ["--format=json", "--sandbox=off"];
    let output = command(&repo, id, &options, &script).output().expect("starts");
    assert_eq!(output.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["verdict"], Value::Null, "{report:#}");
    assert!(report["warnings"].to_string().contains("is gone"), "{report:#}");
    assert_eq!(repo.agent_json(&["show", id])["state"], "idle");
}
