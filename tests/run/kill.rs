//! A supervisor that dies at any step: see [`death`].

use super::processes::{FAMILY, assert_over, family};
use super::{beside, events, run_json, spawned};
use crate::support::TestRepo;
use crate::support::agent::TASK;
use crate::support::death::{self, Order, Reached, steps_of};
use git_agent::agents::context::ctx::Ctx;
use git_agent::agents::context::ctx::Env;
use git_agent::agents::context::ctx::Seams;
use git_agent::ops::run;
use git_agent::ops::run::Echo;
use git_agent::ops::run::FENCED_STEPS;
use git_agent::ops::run::RunOptions;
use git_agent::ops::run::RunTarget;
use git_agent::ops::run::STEPS;
use serde_json::Value;
use std::path::Path;

/// Not a test: the process that dies. It does nothing unless a step is named.
#[test]
fn child() {
    if let Some(order) = Order::received() {
        let [agent, script] = [0, 1].map(|at| order.words[at].as_str());
        run_with(&order.directory, agent, script, order.dying());
    }
}

fn run_with(directory: &Path, agent: &str, script: &str, reached: Reached) {
    let repo = git_agent::git::Repo::open(directory).expect("a repository");
    let env = Env {
        directory: directory.to_owned(),
        program: Some(env!("CARGO_BIN_EXE_git-agent").into()),
        temporary: directory.parent().map(Path::to_owned),
        ..Env::default()
    };
    let seams = Seams { reached, ..Seams::real() };
    let ctx = Ctx::new(repo, env, seams);
    let command = ["sh", "-c", script].map(Into::into).to_vec();
    let target = RunTarget::Agent(agent.to_owned());
    let options = RunOptions {
        allow_write: vec![directory.with_file_name("beside")],
        ..RunOptions::default()
    };
    let plan = run::plan(&ctx, target, command, options).expect("a plan");
    run::execute(&ctx, plan, Echo::default()).expect("a report");
}

fn die_at(repo: &TestRepo, id: &str, step: &str, script: &str) {
    let variables = [("BESIDE", beside(repo, ""))];
    let child = "run::kill::child";
    death::die_with(child, &repo.path(), step, &[id, script], &variables);
}

/// What `show` says of the last run once nobody holds the agent's lock.
fn last_run(repo: &TestRepo, id: &str) -> Value {
    loop {
        let run = repo.agent_json(&["show", id])["run"].clone();
        if run["state"] != "running" {
            return run;
        }
        crate::support::pause();
    }
}

fn problems(repo: &TestRepo, arguments: &[&str]) -> Vec<String> {
    let all = [&["doctor", "--format=json"], arguments].concat();
    let output = repo.agent(&all);
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let findings = report["findings"].as_array().expect("a list").iter();
    let problems = findings.filter(|finding| finding["severity"] == "problem");
    let codes = problems.map(|one| one["code"].as_str().expect("a code").to_owned());
    codes.collect()
}

#[test]
fn the_steps_are_reached_in_the_order_they_are_listed() {
    let (repo, id) = spawned(TASK);
    beside(&repo, "");
    let path = repo.path();
    let steps = steps_of(|reached| run_with(&path, &id, "true", reached));
    let fenced = crate::sandbox::level().is_some();
    let expected = STEPS.iter().filter(|step| fenced || !FENCED_STEPS.contains(step));
    assert_eq!(steps, expected.copied().collect::<Vec<_>>());
}

#[test]
fn whatever_a_kill_leaves_doctor_records_and_the_next_run_succeeds() {
    let fenced = crate::sandbox::level().is_some();
    for step in STEPS {
        if !fenced && FENCED_STEPS.contains(&step) {
            continue;
        }
        let (repo, id) = spawned(TASK);
        let script = "echo '// x' >> src/lib.rs; git commit -qam saved; exit 7";
        die_at(&repo, &id, step, script);
        // A command that was cut short had its time to end; one that ended is told of as it did.
        let (state, expected) = match step {
            "locked" | "run-repo" | "prepared" => (Value::Null, None),
            "started" => ("dead".into(), Some("exited status 137 (lost)")),
            "launched" => ("dead".into(), None),
            step if step == "ended" || FENCED_STEPS.contains(&step) => {
                ("dead".into(), Some("exited status 7"))
            }
            _ => ("exited".into(), Some("exited status 7")),
        };
        let run = last_run(&repo, &id);
        assert_eq!(run["state"], state, "after {step}");
        let dead = state == "dead";
        let dead = dead || matches!(step, "run-repo" | "prepared") && fenced;
        let found: &[&str] = if dead { &["runs.dead"] } else { &[] };
        assert_eq!(problems(&repo, &[]), found, "after {step}");
        assert!(problems(&repo, &["--fix"]).is_empty(), "after {step}");
        if let Some(expected) = expected {
            let log = events(&repo, &id);
            // What it commits is published as it comes, so these steps may come before its last command.
            let cut_short = FENCED_STEPS.contains(&step).then_some("exited status 143 (lost)");
            assert!(
                log.iter().any(|line| line == expected || Some(line.as_str()) == cut_short),
                "after {step}: {log:?}"
            );
        }
        if expected == Some("exited status 7") {
            let log = repo.git(["log", "--all", "--format=%s"]);
            assert!(log.lines().any(|line| line == "saved"), "after {step}: {log}");
        }
        assert_eq!(repo.git(["fsck", "--strict", "--no-dangling"]), "");
        let report = run_json(&repo, &id, &["--no-verify"], "true");
        let number = if state.is_null() { 1 } else { 2 };
        assert_eq!(report["run"], number, "after {step}");
        let row = repo.agent_json(&["show", &id]);
        assert!(row.get("irregular").is_none(), "after {step}: {row}");
    }
}

#[test]
fn the_next_run_records_a_dead_one_by_itself() {
    let (repo, id) = spawned(TASK);
    die_at(&repo, &id, "ended", "exit 7");
    run_json(&repo, &id, &["--no-verify"], "exit 8");
    let log = events(&repo, &id);
    assert_eq!(
        log[2..],
        ["started sh -c 'exit 7'", "exited status 7", "started sh -c 'exit 8'", "exited status 8"]
    );
}

/// A person takes a run that ended well for judged.
#[test]
fn work_of_which_the_judge_was_killed_is_not_done() {
    let is_judged = |step: &str| step == "verified";
    for step in ["ended", "exited", "verified"] {
        for asked in ["wait", "doctor", "verify"] {
            let (repo, id) = spawned(TASK);
            die_at(&repo, &id, step, "true");
            let state = || repo.agent_json(&["show", &id])["state"].clone();
            last_run(&repo, &id);
            assert_eq!(state(), "idle", "after {step}");
            let found: &[&str] = if is_judged(step) { &[] } else { &["runs.dead"] };
            assert_eq!(problems(&repo, &[]), found, "after {step}");
            match asked {
                "doctor" => assert!(problems(&repo, &["--fix"]).is_empty(), "after {step}"),
                verb => drop(repo.agent(&[verb, &id])),
            }
            let told = repo.agent(&["wait", &id, "--format=json"]);
            let report: Value = serde_json::from_slice(&told.stdout).expect("JSON");
            assert_eq!(told.status.code(), Some(1), "after {step}: {report:#}");
            let log = events(&repo, &id);
            let unjudged = log.iter().filter(|line| line.starts_with("unjudged")).count();
            assert_eq!(unjudged, usize::from(!is_judged(step)), "after {step}: {log:?}");
            if !is_judged(step) {
                assert_eq!(report["runs"][0]["verdict"], Value::Null, "after {step}: {report:#}");
                assert_eq!(report["runs"][0]["status"], "failed", "after {step}: {report:#}");
            }
            assert_eq!(problems(&repo, &[]), [] as [&str; 0], "after {step}");
        }
    }
}

#[test]
fn a_stash_of_a_run_that_was_killed_is_named_in_the_row() {
    if crate::sandbox::level().is_none() {
        return;
    }
    let (repo, id) = spawned(TASK);
    die_at(&repo, &id, "ended", "echo '// x' >> src/lib.rs; git stash --quiet");
    // Who finds the run dead asks for something else.
    repo.agent(&["verify", &id]);
    let log = events(&repo, &id);
    assert!(log.iter().any(|line| line.contains("stash")), "{log:?}");
}

#[test]
fn what_a_command_started_dies_with_whoever_ran_it() {
    let (repo, id) = spawned(TASK);
    let script = format!("{FAMILY} sleep 1000");
    // Waits for the command to have started everything, then is killed.
    let mut child = super::command(&repo, &id, &[], &script)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("starts");
    family(&repo);
    child.kill().expect("killed");
    child.wait().expect("ends");
    assert_eq!(last_run(&repo, &id)["state"], "dead");
    // The lock was held until nothing was left.
    assert_over(&repo);
    assert!(problems(&repo, &["--fix"]).is_empty());
    let last = events(&repo, &id).pop().expect("an event");
    assert_eq!(last, "exited status 143 (lost)");
}
