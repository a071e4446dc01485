//! A rescue that dies at any step: see [`death`].

use super::{WRITTEN, assert_kept, busy, discarded};
use crate::support::TestRepo;
use crate::support::death::{self, Order, Reached, steps_of};
use crate::verify::Agent;
use git_agent::ops::rescue;
use git_agent::ops::rescue::RescueDestination;
use git_agent::ops::rescue::{REOPEN_STEPS, STEPS};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Not a test: the process that dies. It does nothing unless a step is named.
#[test]
fn child() {
    let Some(order) = Order::received() else {
        return;
    };
    let destination = match order.words.get(1) {
        Some(word) if word == "--reopen" => RescueDestination::Agent,
        Some(directory) => RescueDestination::Directory(directory.into()),
        None => RescueDestination::Branch("back".to_owned()),
    };
    rescue_with(&order.directory, &order.words[0], destination, order.dying());
}

fn rescue_with(directory: &Path, agent: &str, destination: RescueDestination, reached: Reached) {
    let ctx = death::ctx(directory, reached);
    let plan = rescue::plan(&ctx, agent, destination).expect("a plan");
    rescue::execute(&ctx, &plan).expect("rescued");
}

fn die_at(agent: &Agent, step: &str, to: Option<&Path>) {
    let mut words = vec![agent.id.as_str()];
    words.extend(to.map(|to| to.to_str().expect("UTF-8")));
    let child = "removal::rescue_kill::child";
    death::die_at(child, &agent.repo.path(), step, &words);
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
    for destination in
        [RescueDestination::Directory(place(&agent.repo)), RescueDestination::RescuedBranch]
    {
        let expected = match destination {
            RescueDestination::Directory(_) => &STEPS[..],
            _ => &STEPS[1..],
        };
        let path = agent.repo.path();
        let steps = steps_of(|reached| rescue_with(&path, &agent.id, destination, reached));
        assert_eq!(steps, expected);
    }
    let path = agent.repo.path();
    let steps =
        steps_of(|reached| rescue_with(&path, &agent.id, RescueDestination::Agent, reached));
    assert_eq!(steps, REOPEN_STEPS);
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
        assert_eq!(report["salvage_commit"], tip, "after {step}");
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

#[test]
fn whatever_a_kill_leaves_of_an_agent_that_comes_back_the_next_call_finishes() {
    for (at, step) in REOPEN_STEPS.iter().enumerate() {
        let agent = busy();
        discarded(&agent, &[]);
        die_at(&agent, step, Some(Path::new("--reopen")));
        assert_kept(&agent.repo, &WRITTEN, step);
        if at % 2 == 1 {
            // Another command may come first, and take it away again.
            agent.repo.agent(&["gc", "--yes"]);
        }
        if *step != "told" {
            let words = ["rescue", &agent.id, "--reopen"];
            let back = agent.repo.agent_json(&words);
            assert_eq!(back["state"], "idle", "after {step}");
        }
        assert_whole(&agent.worktree, step);
        let shown = agent.repo.agent_json(&["show", &agent.id]);
        assert_eq!(shown["state"], "idle", "after {step}");
    }
}
