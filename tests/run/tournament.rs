//! Several agents on one task, of which the best is named.

use super::processes::{FAMILY, assert_over, family, send};
use super::{WORKS, beside};
use crate::support::TestRepo;
use crate::support::agent::{TASK, agent_command, describe};
use rustix::process::Signal;
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::process::{Output, Stdio};

/// Lets so many agents do two tasks in turn, of which one asks for more lines than the other.
fn compete(repo: &TestRepo, count: &str, script: &str, format: &str) -> Output {
    let task = |name: &str| {
        let path = beside(repo, &format!("{name}.toml"));
        let task = TASK.replace("second function", &format!("{name} function"));
        std::fs::write(&path, format!("name = \"{name}\"\n{task}")).expect("write a task");
        path
    };
    let mut command = agent_command(&repo.path());
    command
        .args(["run", "--jobs=2", "--best-of", count, format])
        .args([task("long"), task("short")])
        .args(["--", "sh", "-c", script, "sh", "{prompt}"]);
    command.output().expect("starts")
}

#[test]
fn the_best_is_ready_to_land_and_the_others_can_be_had() {
    let repo = TestRepo::with_commit();
    let script = format!(
        "{WORKS}
case \"$1\" in *long*) for n in 1 2 3 4 5 6 7 8 9; do echo \"// $n\" >> src/two.rs; done;; esac"
    );
    let output = compete(&repo, "3", &script, "--format=json");
    assert_eq!(output.status.code(), Some(0), "{}", describe(&output));
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let tournament = &answer["tournament"];
    let winner = tournament["winner"].as_str().expect("a winner");
    let attempts = tournament["attempts"].as_array().expect("attempts");
    let lines: Vec<_> = attempts.iter().map(|one| &one["changed_lines"]).collect();
    assert_eq!(lines, [1, 10, 10]);
    assert_eq!(attempts[0]["short_id"], winner);
    let names: Vec<_> = attempts
        .iter()
        .map(|one| {
            let shown = repo.agent_json(&["show", one["agent_id"].as_str().expect("an id")]);
            let state = (shown["state"].clone(), shown["deferred"].clone());
            let is_winner = one["short_id"] == winner;
            assert_eq!(state, ("done".into(), (!is_winner).into()), "{shown}");
            let log = repo.agent_json(&["log", one["agent_id"].as_str().expect("an id")]);
            let why = format!("lost to {winner}, the best of 3");
            assert_eq!(log.to_string().contains(&why), !is_winner, "{log:#}");
            shown["name"].as_str().expect("a name").to_owned()
        })
        .collect();
    assert_eq!(names[0], "short");
    assert!(names.contains(&"long".to_owned()) && names.contains(&"long-2".to_owned()));
    let won = &repo.agent_json(&["report"])["tournaments"];
    assert_eq!(won[0]["winner"], winner);
    let ids: Vec<_> = attempts.iter().map(|one| &one["short_id"]).collect();
    let places = won[0]["agents"].as_array().expect("agents");
    assert!(places.iter().map(|one| &one["short_id"]).eq(ids));
    // The train takes the winner alone.
    let train = repo.agent_json(&["train", "--all"]);
    assert_eq!(train["items"].as_array().map(Vec::len), Some(1));
    assert_eq!(train["items"][0]["short_id"], winner);
    let landed = repo.git(["show", "main:src/two.rs"]);
    assert_eq!(landed, "pub fn two() {}");
}

#[test]
fn hosts_take_turns_and_the_report_says_which_won() {
    let repo = TestRepo::with_commit();
    let programs = beside(&repo, "programs");
    std::fs::create_dir(&programs).expect("made");
    for (host, more) in [("claude", "echo '// more' >> src/two.rs"), ("codex", "")] {
        let program = programs.join(host);
        std::fs::write(&program, format!("#!/bin/sh\n{WORKS}\n{more}\n")).expect("written");
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&program, mode).expect("executable");
    }
    let task = repo.task_file(TASK);
    let path = std::env::var("PATH").expect("a path");
    let output = agent_command(&repo.path())
        .env("PATH", format!("{}:{path}", programs.display()))
        .args(["run", "--best-of=3", "--host=claude", "--host=codex"])
        .args(["--sandbox=off", &task])
        .output()
        .expect("starts");
    assert_eq!(output.status.code(), Some(0), "{}", describe(&output));
    let outcome = &repo.agent_json(&["report"])["tournaments"][0];
    let agents = outcome["agents"].as_array().expect("agents");
    let hosts: Vec<_> = agents.iter().map(|one| &one["host"]).collect();
    assert_eq!(hosts, ["codex", "claude", "claude"]);
    assert_eq!(outcome["winner"], agents[0]["short_id"]);
    let mut said = String::from_utf8_lossy(&output.stdout).replace(&task, "TASK");
    let mut told = String::from_utf8_lossy(&repo.agent(&["report"]).stdout).into_owned();
    for (number, agent) in agents.iter().enumerate() {
        let id = agent["short_id"].as_str().expect("an id");
        said = said.replace(id, &format!("ID{number}"));
        told = told.replace(id, &format!("ID{number}"));
    }
    let ranking: Vec<&str> = said.lines().filter(|line| line.starts_with("  ")).collect();
    let verdicts = ranking.iter().map(|line| line.split(", ").take(2).collect::<Vec<_>>());
    let expected = [
        ["  1. ID0 accepted", "1 line"],
        ["  2. ID1 accepted", "2 lines"],
        ["  3. ID2 accepted", "2 lines"],
    ];
    assert!(verdicts.eq(expected), "{said}");
    assert!(ranking[0].ends_with("TASK by codex"), "{said}");
    assert!(said.ends_with("to land the best, run git agent train ID0\n"), "{said}");
    assert!(told.ends_with("ID0 (codex) won against ID1 (claude), ID2 (claude)\n"), "{told}");
}

#[test]
fn work_that_may_not_land_does_not_win() {
    let repo = TestRepo::with_commit();
    let output = compete(&repo, "2", "exit 1", "--format=text");
    assert_eq!(output.status.code(), Some(1), "{}", describe(&output));
    // Text is for people, on a terminal or not.
    let said = String::from_utf8_lossy(&output.stdout);
    let last = said.lines().last();
    assert_eq!(last, Some("no work may land"), "{said}");
    let agent = repo.agent_json(&["list", "--all"])["agents"][0]["short_id"].clone();
    let agent = agent.as_str().expect("an id");
    for words in [
        &["run", "--best-of=2", agent, "--", "true"][..],
        &["run", "--host=claude", "--host=codex", "x.toml"],
    ] {
        let output = repo.agent(words);
        assert_eq!(output.status.code(), Some(2), "{}", describe(&output));
    }
}

#[test]
fn one_that_did_nothing_does_not_win() {
    let repo = TestRepo::with_commit();
    let script = format!("{WORKS}\ncase \"$1\" in *long*) rm src/two.rs;; esac");
    let output = compete(&repo, "2", &script, "--format=json");
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let winner = answer["tournament"]["winner"].as_str().expect("a winner");
    assert_eq!(repo.agent_json(&["show", winner])["name"], "short");
    repo.agent_json(&["train", winner]);
    let repo = TestRepo::with_commit();
    let output = compete(&repo, "2", &format!("{WORKS}\nrm src/two.rs"), "--format=text");
    assert_eq!(output.status.code(), Some(1), "{}", describe(&output));
    assert!(describe(&output).contains("no work may land"), "{}", describe(&output));
}

#[test]
fn one_that_is_asked_to_end_has_no_winner() {
    let repo = TestRepo::with_commit();
    let task = beside(&repo, "task.toml");
    std::fs::write(&task, TASK).expect("write a task");
    // One has ended when the signal comes, the other is at work.
    let script = format!("mkdir \"$BESIDE/ended\" && exit 0\n{FAMILY} sleep 1000");
    let child = agent_command(&repo.path())
        .args(["run", "--jobs=2", "--best-of=2", "--format=json", "--allow-write"])
        .arg(beside(&repo, ""))
        .arg(&task)
        .args(["--", "sh", "-c", &script])
        .env("BESIDE", beside(&repo, ""))
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    family(&repo);
    send(&child, Signal::TERM);
    let output = child.wait_with_output().expect("ends");
    assert_eq!(output.status.code(), Some(143), "{}", describe(&output));
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(answer.get("tournament"), None, "{answer}");
    assert_over(&repo);
}
