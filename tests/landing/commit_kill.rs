//! A commit that dies at any step: see [`death`].

use super::{answer, require_sound, run, state};
use crate::support::death::{self, Order, Reached, die_at, steps_of};
use crate::verify::{Agent, refused};
use git_agent::ops::commit::STEPS;
use git_agent::ops::commit::commit;
use std::path::Path;

/// Not a test: the process that dies. It does nothing unless a step is named.
#[test]
fn child() {
    if let Some(order) = Order::received() {
        commit_with(&order.directory, &order.words[0], order.dying());
    }
}

fn commit_with(directory: &Path, agent: &str, reached: Reached) {
    let ctx = death::ctx(directory, reached);
    commit(&ctx, agent, "Add two", false).expect("committed");
}

fn at_work() -> Agent {
    let agent = Agent::new();
    agent.write("src/two.rs", "pub fn two() {}\n");
    std::fs::remove_file(agent.worktree.join("src/bin/tool.rs")).expect("removed");
    agent
}

#[test]
fn the_steps_are_reached_in_the_order_they_are_listed() {
    let agent = at_work();
    let path = agent.repo.path();
    let steps = steps_of(|reached| commit_with(&path, &agent.id, reached));
    assert_eq!(steps, STEPS);
}

#[test]
fn whatever_a_kill_leaves_the_work_is_committed_once_and_lands() {
    for step in STEPS {
        let agent = at_work();
        let child = "landing::commit_kill::child";
        die_at(child, &agent.repo.path(), step, &[&agent.id]);
        let again = run(&agent, "commit", &["-m", "Add two"]);
        match step {
            "staged" => assert!(again.status.success(), "after {step}"),
            _ => refused(&again, "nothing-to-land", 1),
        }
        let commits = ["rev-list", "--count", "main..HEAD"];
        assert_eq!(agent.git(&commits), "2", "the spawn's and the work's");
        assert_eq!(
            agent.git(&["show", "--name-status", "--format=%s", "HEAD"]),
            "Add two\n\nD\tsrc/bin/tool.rs\nA\tsrc/two.rs",
            "after {step}"
        );
        answer(&agent, "merge", &[]);
        assert_eq!(state(&agent), "merged", "after {step}");
        require_sound(&agent);
    }
}
