//! The child is this test binary run again: it rescues through the library and aborts as soon as it is told
//! that the chosen step is complete.

use super::{WRITTEN, assert_kept, busy, discarded};
use crate::support::{TestRepo, isolated};
use crate::verify::Agent;
use git_agent::ops::ctx::{Ctx, Env, Seams};
use git_agent::ops::rescue::{self, Destination, STEPS};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

const STEP: &str = "GIT_AGENT_TEST_RESCUE_STEP";
const AGENT: &str = "GIT_AGENT_TEST_RESCUE_AGENT";
const TO: &str = "GIT_AGENT_TEST_RESCUE_TO";

/// Not a test: the process that dies. It does nothing unless a step is named.
#[test]
fn child() {
    let (Ok(step), Ok(agent)) = (std::env::var(STEP), std::env::var(AGENT)) else {
        return;
    };
    let destination = match std::env::var(TO) {
        Ok(directory) => Destination::Directory(directory.into()),
        Err(_) => Destination::Branch("back".to_owned()),
    };
    let directory = std::env::current_dir().expect("a directory");
    rescue_with(&directory, &agent, destination, move |name| {
        if name == step {
            std::process::abort();
        }
    });
}

fn rescue_with(
    directory: &Path,
    agent: &str,
    destination: Destination,
    reached: impl Fn(&str) + Send + Sync + 'static,
) {
    let repo = git_agent::git::Repo::open(directory).expect("a repository");
    let env = Env {
        directory: directory.to_owned(),
        ..Env::default()
    };
    let seams = Seams {
        reached: Arc::new(reached),
        ..Seams::real()
    };
    let ctx = Ctx::new(repo, env, seams);
    let plan = rescue::plan(&ctx, agent, destination).expect("a plan");
    rescue::execute(&ctx, &plan).expect("rescued");
}

fn die_at(agent: &Agent, step: &str, to: Option<&Path>) {
    let mut child = isolated(
        std::env::current_exe().expect("this binary"),
        &agent.repo.path(),
    );
    child
        .args(["--exact", "removal::rescue_kill::child", "--nocapture"])
        .env(STEP, step)
        .env(AGENT, &agent.id);
    if let Some(to) = to {
        child.env(TO, to);
    }
    let output = child.output().expect("starts");
    assert!(!output.status.success(), "{step} was never reached");
}

fn place(repo: &TestRepo) -> PathBuf {
    repo.path().with_file_name("back").join("files")
}

fn assert_whole(to: &Path, when: &str) {
    let read = |name: &str| std::fs::read_to_string(to.join(name)).expect(when);
    assert_eq!(read("src/lib.rs"), WRITTEN[4], "{when}");
    assert_eq!(read("new dir/né\n.txt"), WRITTEN[5], "{when}");
    assert_eq!(read(".agent/plan.md"), WRITTEN[7], "{when}");
}

#[test]
fn the_steps_are_reached_in_the_order_they_are_listed() {
    let agent = busy();
    discarded(&agent, &[]);
    for destination in [
        Destination::Directory(place(&agent.repo)),
        Destination::RescuedBranch,
    ] {
        let expected = match destination {
            Destination::Directory(_) => &STEPS[..],
            _ => &STEPS[1..],
        };
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        let path = agent.repo.path();
        rescue_with(&path, &agent.id, destination, move |name| {
            log.lock().expect("unpoisoned").push(name.to_owned());
        });
        assert_eq!(*seen.lock().expect("unpoisoned"), expected);
    }
}

#[test]
fn whatever_a_kill_leaves_the_next_rescue_to_a_branch_finishes() {
    for step in &STEPS[1..] {
        let agent = busy();
        let report = discarded(&agent, &[]);
        die_at(&agent, step, None);
        let words = ["rescue", &agent.id, "--branch", "back"];
        let back = agent.repo.agent_json(&words);
        assert_eq!(back["rescued_branch"], "back", "after {step}");
        let tip = agent.repo.git(["rev-parse", "back"]);
        assert_eq!(report["salvage_oid"], tip, "after {step}");
        let log = agent.repo.agent_json(&["log", &agent.id]);
        let last = log["events"].as_array().expect("events").last().cloned();
        assert_eq!(last.expect("one")["event"], "rescued", "after {step}");
    }
}

#[test]
fn files_are_there_as_a_whole_or_not_at_all() {
    for step in STEPS {
        let agent = busy();
        discarded(&agent, &[]);
        let to = place(&agent.repo);
        die_at(&agent, step, Some(&to));
        if step == "filled" {
            assert!(!to.exists());
            let words = ["rescue", &agent.id, "--to", to.to_str().expect("UTF-8")];
            let back: Value = agent.repo.agent_json(&words);
            assert_eq!(back["rescued_directory"], words[3]);
        }
        assert_whole(&to, step);
        assert_kept(&agent.repo, &WRITTEN, step);
    }
}
