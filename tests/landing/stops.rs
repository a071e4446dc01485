//! The child is this test binary run again; it lands through the library and aborts, without any
//! destructor, as soon as it is told that the chosen step is complete.

use super::{answer, ready, require_sound, run, state};
use crate::support::agent::{agent_command, describe};
use crate::support::isolated;
use crate::verify::{Agent, refused};
use git_agent::error::Code;
use git_agent::ops::ctx::{Ctx, Env, Seams};
use git_agent::ops::merge::{self, MergeOptions, Method, STEPS};
use std::path::Path;
use std::sync::{Arc, Mutex};

const STEP: &str = "GIT_AGENT_TEST_LANDING_STEP";
const WHO: &str = "GIT_AGENT_TEST_LANDING_AGENT";
const SQUASH: &str = "GIT_AGENT_TEST_LANDING_SQUASH";

/// Not a test: the process that dies. It does nothing unless a step is named.
#[test]
fn child() {
    let Ok(step) = std::env::var(STEP) else {
        return;
    };
    let who = std::env::var(WHO).expect("an agent");
    let method = std::env::var(SQUASH).ok().map(|_| Method::Squash);
    let ctx = context(
        &std::env::current_dir().expect("a directory"),
        move |name| {
            if name == step {
                std::process::abort();
            }
        },
    );
    let options = MergeOptions {
        method,
        ..MergeOptions::default()
    };
    let plan = merge::plan(&ctx, &who, &options).expect("a plan");
    merge::execute(&ctx, &plan).expect("landed");
}

fn context(directory: &Path, reached: impl Fn(&str) + Send + Sync + 'static) -> Ctx {
    let repo = git_agent::git::Repo::open(directory).expect("a repository");
    let env = Env {
        directory: directory.to_owned(),
        ..Env::default()
    };
    let seams = Seams {
        reached: Arc::new(reached),
        ..Seams::real()
    };
    Ctx::new(repo, env, seams)
}

#[test]
fn the_steps_are_reached_in_the_order_they_are_listed() {
    let agent = ready();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let ctx = context(&agent.repo.path(), move |name| {
        log.lock().expect("unpoisoned").push(name.to_owned());
    });
    let plan = merge::plan(&ctx, &agent.id, &MergeOptions::default()).expect("a plan");
    merge::execute(&ctx, &plan).expect("landed");
    assert_eq!(*seen.lock().expect("unpoisoned"), STEPS);
}

/// Lands the work in a process that dies at a step.
pub fn die_at(agent: &Agent, step: &str, method: &str) {
    let mut child = isolated(
        std::env::current_exe().expect("this binary"),
        &agent.repo.path(),
    );
    child
        .args(["--exact", "landing::stops::child", "--nocapture"])
        .env(STEP, step)
        .env(WHO, &agent.id);
    if method == "--squash" {
        child.env(SQUASH, "1");
    }
    let output = child.output().expect("starts");
    assert!(!output.status.success(), "{step} was never reached");
}

fn check(step: &str, method: &str) {
    let agent = ready();
    let judged = agent.verify(&[]);
    die_at(&agent, step, method);
    if step == "merged" {
        assert_eq!(state(&agent), "merged");
        return;
    }
    answer(&agent, "merge", &[method]);
    assert_eq!(state(&agent), "merged", "after {step}");
    assert_eq!(
        judged["merged_tree"],
        agent.repo.git(["rev-parse", "main^{tree}"]),
        "after {step}"
    );
    assert_eq!(judged["tree"], agent.git(&["rev-parse", "HEAD^{tree}"]));
    let count = |range: &str| {
        agent
            .repo
            .git(["rev-list", "--count", "--first-parent", range])
    };
    let branch = agent.branch.as_str();
    // Spawn, the agent's commit, the work: made once, however often it was begun.
    assert_eq!(count(&format!("main~1..{branch}")), "3", "after {step}");
    let notes = agent.repo.git(["log", "-1", "--notes=agents", "main"]);
    assert!(notes.contains(&agent.id), "after {step}: {notes}");
    require_sound(&agent);
}

#[test]
fn whatever_a_kill_leaves_the_next_landing_finishes_it() {
    for step in STEPS {
        check(step, "--no-ff");
    }
}

#[test]
fn the_same_for_a_squash() {
    for step in ["moved", "landed", "pointed"] {
        check(step, "--squash");
    }
}

/// Plans, lets `meanwhile` happen, and carries the plan out, which must be told that it came too late.
fn check_race(meanwhile: impl Fn(&Agent)) {
    let agent = ready();
    let ctx = context(&agent.repo.path(), |_| {});
    let plan = merge::plan(&ctx, &agent.id, &MergeOptions::default()).expect("a plan");
    meanwhile(&agent);
    let main = agent.repo.git(["rev-parse", "main"]);
    let status = agent.repo.git(["status", "--porcelain"]);
    let error = merge::execute(&ctx, &plan).expect_err("too late");
    assert_eq!(error.code(), Code::LostRace);
    assert_eq!(error.code().exit().code(), 5);
    assert_eq!(agent.repo.git(["rev-parse", "main"]), main);
    assert_eq!(agent.repo.git(["status", "--porcelain"]), status);
    assert_eq!(state(&agent), "done");
    answer(&agent, "merge", &[]);
    require_sound(&agent);
}

#[test]
fn a_base_that_moved_loses_the_race() {
    check_race(|agent| {
        agent.repo.write("MORE.md", "more\n");
        agent.repo.commit_all("main moves again");
    });
}

#[test]
fn a_branch_that_moved_loses_the_race() {
    check_race(|agent| {
        agent.write("src/four.rs", "pub fn four() {}\n");
        agent.commit("four");
    });
}

#[test]
fn a_file_that_appears_after_the_plan_is_not_touched() {
    let agent = ready();
    let ctx = context(&agent.repo.path(), |_| {});
    let plan = merge::plan(&ctx, &agent.id, &MergeOptions::default()).expect("a plan");
    agent.repo.write("src/two.rs", "mine\n");
    let main = agent.repo.git(["rev-parse", "main"]);
    let error = merge::execute(&ctx, &plan).expect_err("in the way");
    assert_eq!(error.code(), Code::TargetDirty);
    assert_eq!(agent.repo.git(["rev-parse", "main"]), main);
    assert_eq!(agent.repo.git(["status", "--porcelain"]), "?? src/two.rs");
    let mine = std::fs::read_to_string(agent.repo.path().join("src/two.rs")).expect("mine");
    assert_eq!(mine, "mine\n");
    let output = run(&agent, "merge", &[]);
    refused(&output, "target-dirty", 3);
    assert!(describe(&output).contains("src/two.rs"));
}

#[test]
fn of_many_that_land_at_once_each_lands_or_is_told_to_try_again() {
    const AGENTS: usize = 4;
    let first = Agent::new();
    let repo = &first.repo;
    let ids: Vec<String> = (0..AGENTS)
        .map(|number| {
            let report = repo.spawn();
            let worktree = Path::new(report["worktree_abspath"].as_str().expect("a path"));
            for name in ["plan.md", "chatlog.md", "handoffs.md", "review.md"] {
                std::fs::write(worktree.join(".agent").join(name), "written\n").expect("written");
            }
            let progress = worktree.join(".agent/progress.json");
            std::fs::write(progress, "{\"status\": \"done\"}\n").expect("written");
            let file = worktree.join(format!("src/from_{number}.rs"));
            std::fs::write(file, "pub fn new() {}\n").expect("written");
            report["agent_id"].as_str().expect("an id").to_owned()
        })
        .collect();
    let barrier = Arc::new(std::sync::Barrier::new(AGENTS));
    let path = repo.path();
    std::thread::scope(|scope| {
        for id in &ids {
            let (barrier, path) = (Arc::clone(&barrier), &path);
            scope.spawn(move || {
                barrier.wait();
                loop {
                    let output = agent_command(path).args(["merge", id]).output();
                    let output = output.expect("starts");
                    match output.status.code() {
                        Some(0) => break,
                        Some(5) => {}
                        _ => panic!("{}", describe(&output)),
                    }
                }
            });
        }
    });
    for number in 0..AGENTS {
        assert!(path.join(format!("src/from_{number}.rs")).is_file());
    }
    let landings = repo.git(["rev-list", "--count", "--first-parent", "main"]);
    assert_eq!(landings, (AGENTS + 1).to_string());
    require_sound(&first);
}
