//! A random life of a repository with agents: agents write, commands of ours run, a person does things by
//! hand with git, and after each step everything must still be there.
//!
//! What is held to be there is asked of git, not computed: the objects that refs, indexes and reflogs
//! reach, and the files on disk. A command of ours may take nothing out of that set; what an agent
//! overwrites, or a person destroys with git's own force, leaves it. The states of agents are held
//! against a map of what each command may lead to.
//!
//! A failure prints the seed and the story. `GIT_AGENT_MODEL_SEED=<n>` tells that story again (ids and times
//! differ, nothing else), `GIT_AGENT_MODEL_CASES=<n>` tells that many more than the few that fit into
//! a test run, `GIT_AGENT_MODEL_STEPS=<n>` makes each longer.

/// What agents do in their worktrees.
mod agents;
/// What a person does by hand.
mod by_hand;
/// What is there.
mod held;
/// The commands under test.
mod ours;
/// The state of one story, and what must hold after each step.
mod world;

use world::{Deed, World};

/// How many stories one test tells, and how long they are.
const CASES: u64 = 4;
const STEPS: usize = 60;

type Step = fn(&mut World) -> Option<Deed>;

/// Everything that can happen, and how often in comparison.
const DEEDS: &[(u32, Step)] = &[
    (8, ours::spawn),
    (2, ours::spawn_shared),
    (14, agents::write),
    (2, agents::remove),
    (3, agents::rename),
    (2, agents::change_mode),
    (2, agents::link),
    (5, agents::stage),
    (4, agents::stage_and_change),
    (2, agents::hide),
    (6, agents::commit),
    (2, agents::amend),
    (5, agents::finish_bundle),
    (4, by_hand::commit_on_main),
    (3, by_hand::leave_something_in_main),
    (2, by_hand::prune),
    (2, by_hand::collect_garbage),
    (1, by_hand::remove_worktree),
    (1, by_hand::remove_directory),
    (1, by_hand::remove_admin_directory),
    (1, by_hand::delete_branch),
    (2, by_hand::move_worktree),
    (2, by_hand::move_back),
    (5, ours::commit),
    (5, ours::verify),
    (12, ours::merge),
    (2, ours::merge_all),
    (2, ours::done),
    (1, ours::fail),
    (2, ours::reject),
    (2, ours::defer),
    (4, ours::discard),
    (4, ours::rescue),
    (4, ours::gc),
    (3, ours::doctor),
];

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn tell(seed: u64) {
    let mut world = World::new(seed);
    let steps = number("GIT_AGENT_MODEL_STEPS").map_or(STEPS, |steps| steps as usize);
    let total: u32 = DEEDS.iter().map(|(weight, _)| weight).sum();
    for _ in 0..steps {
        let mut ticket = world.random.below(total as usize) as u32;
        let fits = |(weight, _): &&(u32, Step)| match ticket.checked_sub(*weight) {
            Some(rest) => {
                ticket = rest;
                false
            }
            None => true,
        };
        let (_, step) = DEEDS.iter().find(fits).expect("weights add up");
        if let Some(deed) = step(&mut world) {
            world.check(&deed);
        }
    }
    world.clear_away();
}

/// Tells the stories of one test: seeds of its own, so that tests run side by side.
fn stories(test: u64) {
    if let Some(seed) = number("GIT_AGENT_MODEL_SEED") {
        if test == 0 {
            tell(seed);
        }
        return;
    }
    let cases = number("GIT_AGENT_MODEL_CASES").unwrap_or(CASES);
    for case in 0..cases {
        tell(test * 1_000_000 + case);
    }
}

#[test]
fn nothing_is_lost_in_any_story() {
    stories(0);
}

#[test]
fn nor_in_others_beside_them() {
    stories(1);
}
