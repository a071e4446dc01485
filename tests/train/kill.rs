//! A train that dies at any step (see [`death`]) leaves the target green, and running it again completes it.

use super::Fleet;
use crate::support::agent::describe;
use crate::support::death::{self, Order};
use git_agent::agents::context::ctx::Ctx;
use git_agent::ops::train::{self, Order as TrainOrder, TrainOptions, TrainReport};
use std::time::Duration;

/// Where it matters whether a train dies.
const STEPS: [&str; 8] =
    ["check-ready", "checked", "rejected", "advanced", "moved", "landed", "forgotten", "merged"];

/// Not a test: the process that dies. It does nothing unless a step is named.
#[test]
fn child() {
    if let Some(order) = Order::received() {
        run(&death::ctx(&order.directory, order.dying()));
    }
}

fn run(ctx: &Ctx) -> TrainReport {
    train::train(ctx, &options(None), &mut |_| {}).expect("a train")
}

/// A train of all agents, in the order in which they were spawned.
pub fn options(push: Option<String>) -> TrainOptions {
    TrainOptions {
        agents: Vec::new(),
        into: None,
        push,
        method: None,
        order: TrainOrder::Spawned,
        jobs: 1,
        max_runs: None,
        limit: Duration::from_secs(60),
        keep_going: false,
        sandbox: git_agent::domain::life::sandbox::Mode::Auto,
        dry_run: false,
        now: false,
        no_hooks: false,
        no_land: false,
    }
}

fn fleet() -> Fleet {
    Fleet::with_parts(&["one", "bad", "three"])
}

#[test]
fn a_train_that_dies_at_any_step_leaves_the_target_green_and_goes_on() {
    // What lies between is the same for every landing and has tests of its own.
    for step in STEPS {
        let fleet = fleet();
        let start = fleet.tree();
        death::die_at("train::kill::child", &fleet.repo.path(), step, &[]);
        let tree = fleet.tree();
        let green = fleet.checked();
        assert!(
            tree == start || green.contains(&tree),
            "after {step}: the target is at a tree that was checked"
        );
        if step == "check-ready" {
            let doctor = describe(&fleet.repo.agent(&["doctor"]));
            assert!(doctor.contains("is what a killed train left"), "{doctor}");
        }
        let report = run(&death::ctx(&fleet.repo.path(), death::unwatched()));
        let parts = fleet.repo.git(["ls-tree", "--name-only", "main:parts"]);
        assert_eq!(parts, "0\n2", "after {step}: {report:#?}");
        let states: Vec<String> = (0..3).map(|agent| fleet.state(agent)).collect();
        assert_eq!(states, ["merged", "idle", "merged"], "{step}");
        // What was green was not checked a second time; what a check ran on when the train died has no answer.
        let checked = fleet.checked();
        let below = fleet.repo.git(["rev-parse", "main^1^{tree}"]);
        let green = checked.iter().filter(|one| **one == below);
        assert_eq!(green.count(), 1, "after {step}: {checked:?}");
        // The worktree of a check that the first train did not get to remove goes with the next check, or so.
        fleet.repo.agent(&["doctor", "--fix"]);
        fleet.require_sound();
    }
}

#[test]
fn a_train_that_dies_in_a_warm_worktree_leaves_it_to_no_agent() {
    for step in ["slot-taken", "check-ready"] {
        let (fleet, name) = Fleet::with_pool(&["one"]);
        death::die_at("train::kill::child", &fleet.repo.path(), step, &[]);
        let pool = fleet.repo.agent_json(&["pool"]);
        assert_eq!(pool["slots"][0]["state"], "broken", "after {step}: {pool}");
        assert_ne!(fleet.warm(), name, "after {step}");
        run(&death::ctx(&fleet.repo.path(), death::unwatched()));
        assert_eq!(fleet.state(0), "merged", "after {step}");
        fleet.warm();
        fleet.require_sound();
    }
}
