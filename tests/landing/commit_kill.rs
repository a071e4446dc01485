//! The child is this test binary run again: it commits through the library and aborts as soon as it is told
//! that the chosen step is complete.

use super::{answer, require_sound, run, state};
use crate::support::isolated;
use crate::verify::{Agent, refused};
use git_agent::ops::commit::{STEPS, commit};
use git_agent::ops::ctx::{Ctx, Env, Seams};
use std::path::Path;
use std::sync::{Arc, Mutex};

const STEP: &str = "GIT_AGENT_TEST_COMMIT_STEP";
const AGENT: &str = "GIT_AGENT_TEST_COMMIT_AGENT";

/// Not a test: the process that dies. It does nothing unless a step is named.
#[test]
fn child() {
    let (Ok(step), Ok(agent)) = (std::env::var(STEP), std::env::var(AGENT)) else {
        return;
    };
    let directory = std::env::current_dir().expect("a directory");
    commit_with(&directory, &agent, move |name| {
        if name == step {
            std::process::abort();
        }
    });
}

fn commit_with(directory: &Path, agent: &str, reached: impl Fn(&str) + Send + Sync + 'static) {
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
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    commit_with(&agent.repo.path(), &agent.id, move |name| {
        log.lock().expect("unpoisoned").push(name.to_owned());
    });
    assert_eq!(*seen.lock().expect("unpoisoned"), STEPS);
}

#[test]
fn whatever_a_kill_leaves_the_work_is_committed_once_and_lands() {
    for step in STEPS {
        let agent = at_work();
        let mut child = isolated(
            std::env::current_exe().expect("this binary"),
            &agent.repo.path(),
        );
        child
            .args(["--exact", "landing::commit_kill::child", "--nocapture"])
            .env(STEP, step)
            .env(AGENT, &agent.id);
        let output = child.output().expect("starts");
        assert!(!output.status.success(), "{step} was never reached");
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
