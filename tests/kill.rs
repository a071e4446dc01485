//! A process that dies at any step of a spawn leaves nothing that blocks the next one, and the next one
//! cleans up after it.

/// At random moments, in a mixture of verbs.
mod random;
/// At random moments of one verb.
mod verbs;

use crate::support::agent::{SHARED_TASK, TASK, agent_command, describe, json_of};
use crate::support::death::{self, Order, ctx, ctx_with, steps_of};
use crate::support::{TestRepo, git_in};
use git_agent::agents::context::ctx::Ctx;
use git_agent::agents::context::ctx::Seams;
use git_agent::agents::upkeep::half_made;
use git_agent::ops::spawn;
use git_agent::ops::spawn::STEPS;
use git_agent::ops::spawn::SpawnOptions;
use git_agent::wire::file::task_file;
use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::path::Path;

/// Not a test: the process that dies. It does nothing unless a step is named.
#[test]
fn child() {
    if let Some(order) = Order::received() {
        let options = SpawnOptions {
            clone: order.words.get(1).is_some_and(|word| word == "clone"),
            sparse: order.words.get(1).is_some_and(|word| word == "sparse"),
            ..SpawnOptions::default()
        };
        spawn_as(&ctx(&order.directory, order.dying()), &order.words[0], &options);
    }
}

fn spawn_with(ctx: &Ctx, task: &str) {
    spawn_as(ctx, task, &SpawnOptions::default());
}

fn spawn_as(ctx: &Ctx, task: &str, options: &SpawnOptions) {
    half_made::sweep(ctx).expect("swept");
    let draft = task_file::parse("task.toml", task.as_bytes());
    let plan = spawn::plan(ctx, draft, options).expect("a plan");
    spawn::execute(ctx, plan).expect("an agent");
}

pub(crate) fn die_at(repo: &TestRepo, step: &str, task: &str) {
    death::die_at("kill::child", &repo.path(), step, &[task]);
}

#[test]
fn the_steps_are_reached_in_the_order_they_are_listed() {
    let repo = TestRepo::with_commit();
    let steps = steps_of(|reached| spawn_with(&ctx(&repo.path(), reached), TASK));
    assert_eq!(steps, STEPS);
}

#[test]
fn a_branch_name_that_a_discard_gave_back_is_not_given_again() {
    let repo = TestRepo::with_commit();
    let ctx = ctx_with(&repo.path(), Seams::real());
    let draft = task_file::parse("task.toml", TASK.as_bytes());
    let plan = spawn::plan(&ctx, draft, &SpawnOptions::default()).expect("a plan");
    let planned = plan.place.branch.clone().expect("a branch");
    let name = planned.trim_start_matches("refs/heads/");
    // Another agent takes the planned name and gives it back before the plan is carried out.
    let other = repo.spawn_task(TASK, &["--branch", name]);
    repo.agent_json(&["discard", other["agent_id"].as_str().expect("an id")]);
    spawn::execute(&ctx, plan).expect("an agent");
    let branches = repo.git(["branch", "--list", "--format=%(refname:short)", "agent/*"]);
    assert_eq!(branches, format!("{name}-2"));
    let task = repo.task_file(TASK);
    let output = repo.agent(&["spawn", &task, "--branch", name]);
    crate::verify::refused(&output, "branch-exists", 3);
    die_at(&repo, "branch", TASK);
    repo.agent_json(&["doctor", "--fix"]);
    let left = repo.git(["branch", "--list", "agent/*"]);
    assert_eq!(left.lines().count(), 1, "{left}");
}

#[test]
fn a_name_means_no_agent_whose_spawn_was_killed() {
    let named = format!("name = \"worker\"\n{TASK}");
    for step in ["spawning", "branch", "spawned"] {
        let repo = TestRepo::with_commit();
        let first = repo.spawn_task(&named, &[]);
        repo.agent_json(&["discard", "worker"]);
        die_at(&repo, step, &named);
        if step == "spawning" {
            repo.agent_json(&["doctor", "--fix"]);
            assert_eq!(repo.agent_json(&["show", "worker"])["agent_id"], first["agent_id"]);
        }
        let again = repo.agent(&["retry", "worker"]);
        let said = describe(&again);
        // One that was made but for its last step is there.
        assert!(again.status.success() || said.contains("is ready and cannot"), "{step}: {said}");
        assert_eq!(repo.agent_json(&["show", "worker"])["state"], "ready", "{step}");
    }
}

#[test]
fn whatever_a_kill_leaves_the_next_spawn_succeeds_and_cleans_up() {
    for step in STEPS {
        check(step, TASK);
    }
}

#[test]
fn the_same_for_agents_with_a_clone() {
    for step in ["populated", "clone-made", "cloned", "locked", "spawned"] {
        let repo = TestRepo::with_commit();
        death::die_at("kill::child", &repo.path(), step, &[TASK, "clone"]);
        let said = describe(&repo.agent(&["doctor"]));
        assert!(said.contains("was interrupted"), "after {step}: {said}");
        check_what_is_left(&repo, step, TASK);
        let clones = std::fs::read_dir(repo.path().join(".git/agents/clones"));
        let clones = clones.map(Iterator::count).unwrap_or_default();
        assert_eq!(clones, usize::from(step == "spawned"), "after {step}");
    }
}

#[test]
fn a_clone_gets_its_row_though_its_spawn_was_killed_and_no_link_in_it_is_followed() {
    for is_hostile in [false, true] {
        let repo = TestRepo::with_commit();
        death::die_at("kill::child", &repo.path(), "spawned", &[TASK, "clone"]);
        let agents = repo.agent_json(&["list", "--fast"]);
        let spawned = agents["agents"][0].clone();
        let clone = spawned["worktree_abspath"].as_str().expect("a place");
        let own = Path::new(clone).join(".git");
        let ledger = repo.git(["rev-parse", "refs/notes/agents"]);
        if is_hostile {
            std::fs::remove_dir(own.join("refs/tags")).expect("removed");
            symlink(repo.path().join(".git/refs/notes"), own.join("refs/notes")).expect("linked");
        }
        repo.agent_json(&["doctor", "--fix"]);
        assert_eq!(repo.git(["rev-parse", "refs/notes/agents"]), ledger);
        if is_hostile {
            continue;
        }
        // As in a container, where the repository cannot be seen.
        let alone = repo.path().with_file_name("alone");
        std::fs::rename(clone, &alone).expect("moved");
        std::fs::rename(repo.path(), repo.path().with_file_name("away")).expect("moved");
        let mut show = agent_command(&alone);
        show.args(["show", spawned["agent_id"].as_str().expect("an id"), "--format=json"]);
        assert_eq!(json_of(show)["state"], spawned["state"]);
        assert_eq!(git_in(&alone, ["fsck", "--strict", "--no-dangling"]), "");
    }
}

#[test]
fn the_same_for_agents_without_a_worktree() {
    for step in ["journal", "objects", "keep", "spawning", "files", "spawned"] {
        check(step, SHARED_TASK);
    }
}

fn check(step: &str, task: &str) {
    let repo = TestRepo::with_commit();
    die_at(&repo, step, task);
    check_what_is_left(&repo, step, task);
}

pub(crate) fn check_what_is_left(repo: &TestRepo, step: &str, task: &str) {
    assert_eq!(repo.git(["status", "--porcelain"]), "", "after {step}");
    assert_eq!(
        repo.git(["fsck", "--strict", "--no-progress", "--no-dangling"]),
        "",
        "after {step}"
    );

    let report = repo.spawn();
    let ours = report["worktree_abspath"].as_str().expect("a worktree");
    assert_eq!(git_in(Path::new(ours), ["status", "--porcelain"]), "");

    let finished = step == "spawned";
    let with_worktree = finished && task == TASK;
    let expected = if with_worktree { 3 } else { 2 };
    let worktrees = repo.git(["worktree", "list", "--porcelain"]);
    let count = |word: &str| worktrees.lines().filter(|line| line.starts_with(word)).count();
    assert_eq!(count("worktree "), expected, "after {step}: {worktrees}");
    assert_eq!(count("locked git-agent "), expected - 1, "after {step}: {worktrees}");
    let branches = repo.git(["for-each-ref", "refs/heads/agent"]);
    assert_eq!(branches.lines().count(), expected - 1, "after {step}: {branches}");
    for directory in ["spawning", "tmp", "trash"] {
        let left = std::fs::read_dir(repo.path().join(".git/agents").join(directory));
        let left: BTreeSet<_> = left
            .map(|entries| entries.map(|entry| entry.expect("readable").path()).collect())
            .unwrap_or_default();
        assert!(left.is_empty(), "after {step}: {left:?}");
    }
    let directories = std::fs::read_dir(repo.path().join(".claude/worktrees"));
    assert_eq!(directories.expect("ours").count(), expected - 1, "after {step}");
    let agents = repo.agent_json(&["list", "--all"]);
    for row in agents["agents"].as_array().expect("rows") {
        assert_ne!(row["state"], "spawning", "after {step}: {row}");
    }
    assert_eq!(
        repo.git(["fsck", "--strict", "--no-progress", "--no-dangling"]),
        "",
        "after {step}"
    );
}
