use super::processes::{FAMILY, assert_over, family, send};
use super::{beside, events, spawned};
use crate::support::TestRepo;
use crate::support::agent::{TASK, agent_command, describe};
use rustix::process::Signal;
use serde_json::Value;
use std::process::{Command, Stdio};

/// Task files of these names.
fn tasks(repo: &TestRepo, names: &[&str]) -> Vec<String> {
    let write = |name: &&str| {
        let path = beside(repo, &format!("{name}.toml"));
        let task = TASK.replace("second function", &format!("function for {name}"));
        std::fs::write(&path, task).expect("write a task");
        path.to_str().expect("UTF-8").to_owned()
    };
    names.iter().map(write).collect()
}

fn batch(repo: &TestRepo, targets: &[String], options: &[&str], script: &str) -> Command {
    let mut command = agent_command(&repo.path());
    command
        .args(["run", "--no-verify", "--allow-write"])
        .arg(beside(repo, ""))
        .args(options)
        .args(targets)
        .args(["--", "sh", "-c", script])
        .env("TMPDIR", repo.path().parent().expect("a parent"))
        .env("BESIDE", beside(repo, ""));
    command
}

fn lines(bytes: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(bytes).expect("UTF-8");
    let parse = |line| serde_json::from_str(line).expect("JSON");
    text.lines().map(parse).collect()
}

#[test]
fn a_task_whose_quotes_were_left_out_is_shown_with_them() {
    let repo = TestRepo::with_commit();
    let words = ["fix", "the", "typo"].map(str::to_owned);
    let output = batch(&repo, &words, &[], "true").output().expect("starts");
    let said = describe(&output);
    assert_eq!(said.matches("error[").count(), 1, "{said}");
    assert!(said.contains("several words, run git agent run 'fix the typo' …"), "{said}");
    let output = repo.agent(&["run", "fix", "the", "typo"]);
    let said = describe(&output);
    assert!(said.contains("git agent run 'fix the typo' --host claude"), "{said}");
    let output = repo.agent(&["run", "typo"]);
    assert!(describe(&output).contains("git agent run -m typo -- <command>"), "{output:?}");
    // A command without the two dashes before it.
    let output = repo.agent(&["run", "fix it", "echo", "hi"]);
    assert!(describe(&output).contains("git agent run 'fix it' -- echo hi"), "{output:?}");
    let output = repo.agent(&["run", "typo", "--name", "fixer", "--", "true"]);
    let said = describe(&output);
    assert!(said.contains("typo is no task\n"), "{said}");
    assert!(said.contains("one word, run git agent run -m typo …"), "{said}");
}

#[test]
fn one_of_several_tasks_may_come_from_standard_input() {
    let repo = TestRepo::with_commit();
    let [file] = tasks(&repo, &["a"]).try_into().expect("one");
    let input = std::fs::File::open(&file).expect("there");
    let targets = ["-".to_owned(), file];
    let output = batch(&repo, &targets, &["--format=ndjson"], "true").stdin(input).output();
    let output = output.expect("starts");
    let rows = lines(&output.stdout);
    assert_eq!(rows.last().expect("a summary")["succeeded"], 2, "{}", describe(&output));
}

#[test]
fn one_failure_does_not_stop_the_rest() {
    let repo = TestRepo::with_commit();
    let mut targets = tasks(&repo, &["a", "b", "c"]);
    targets.insert(1, beside(&repo, "missing.toml").to_str().expect("UTF-8").to_owned());
    let script = "grep -q 'for b' && exit 3 || echo said";
    let output =
        batch(&repo, &targets, &["--jobs=2", "--format=ndjson"], script).output().expect("starts");
    assert_eq!(output.status.code(), Some(1), "{}", describe(&output));
    let mut rows = lines(&output.stdout);
    let summary = rows.pop().expect("a summary");
    assert_eq!(summary["schema"], "git-agent.run-batch/2");
    assert_eq!(summary["status"], "failed");
    let counts = ["succeeded", "failed", "left"].map(|key| summary[key].as_u64());
    assert_eq!(counts, [Some(2), Some(2), Some(0)]);
    let of = |target: &String| {
        let mut own = rows.iter().filter(|row| row["target"] == target.as_str());
        own.next().expect("a line for every target")
    };
    assert_eq!(rows.len(), 4);
    assert_eq!(of(&targets[0])["summary"], "said");
    assert_eq!(of(&targets[1])["error"]["code"], "task-unreadable");
    assert_eq!(of(&targets[2])["exit_code"], 3);
    assert_eq!(of(&targets[3])["status"], "success");
}

#[test]
fn as_many_work_at_once_as_were_allowed() {
    let repo = TestRepo::with_commit();
    let targets = tasks(&repo, &["a", "b", "c", "d", "e"]);
    // Everybody waits to see a second one, except the last, who is alone; nobody may see a third.
    let script = "
        mkdir \"$BESIDE/at.$GIT_AGENT_ID\"; echo >> \"$BESIDE/seen\"
        while [ $(ls -d \"$BESIDE\"/at.* | wc -l) -lt 2 ] && [ $(wc -l < \"$BESIDE/seen\") -lt 5 ]; do sleep 0.01; done
        count=$(ls -d \"$BESIDE\"/at.* | wc -l); rmdir \"$BESIDE/at.$GIT_AGENT_ID\"; [ $count -le 2 ]";
    let output =
        batch(&repo, &targets, &["--jobs=2", "--format=json"], script).output().expect("starts");
    assert!(output.status.success(), "{}", describe(&output));
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let runs = answer["items"].as_array().expect("a list").iter();
    let order: Vec<_> =
        runs.map(|run| run["target"].as_str().expect("a name").to_owned()).collect();
    assert_eq!(order, targets, "as they were named");
}

#[test]
fn a_request_to_end_ends_those_at_work_and_begins_no_more() {
    let (repo, id) = spawned(TASK);
    let mut targets = vec![id.clone()];
    targets.extend(tasks(&repo, &["never"]));
    let script = format!("{FAMILY} sleep 1000");
    let child = batch(&repo, &targets, &["--jobs=1", "--format=ndjson"], &script)
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    family(&repo);
    send(&child, Signal::TERM);
    let output = child.wait_with_output().expect("ends");
    assert_eq!(output.status.code(), Some(143));
    let summary = lines(&output.stdout).pop().expect("a summary");
    assert_eq!((&summary["failed"], &summary["left"]), (&1.into(), &1.into()));
    assert_over(&repo);
    let last = events(&repo, &id).pop().expect("an event");
    assert_eq!(last, "exited status 143 (stopped)");
    let all = repo.agent_json(&["list", "--all"]);
    assert_eq!(all["agents"].as_array().expect("a list").len(), 1);
}

#[test]
fn what_could_only_be_a_slip_is_refused() {
    let (repo, id) = spawned(TASK);
    let task = repo.task_file(TASK);
    let command = ["--", "true"];
    for (arguments, why) in [
        ([&["run", "--jobs=0", &id], &command[..]].concat(), "it takes one at least"),
        (vec!["spawn", "--jobs=0", &task], "it takes one at least"),
        ([&["run", "-", "-"], &command[..]].concat(), "standard input can be read once"),
        (vec!["spawn", "-", "-"], "standard input can be read once"),
    ] {
        let output = repo.agent(&arguments);
        let said = describe(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(why), "{arguments:?}: {said}");
    }
    let all = repo.agent_json(&["list", "--all"]);
    assert_eq!(all["agents"].as_array().expect("a list").len(), 1);
}
