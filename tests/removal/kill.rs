//! The child is this test binary run again: it discards through the library and aborts, without any
//! destructor, as soon as it is told that the chosen step is complete.

use super::{WRITTEN, assert_gone, assert_kept, busy, discarded};
use crate::support::isolated;
use crate::verify::Agent;
use git_agent::ops::ctx::{Ctx, Env, Seams};
use git_agent::ops::discard::{self, DiscardOptions, STEPS};
use std::path::Path;
use std::sync::{Arc, Mutex};

const STEP: &str = "GIT_AGENT_TEST_STEP";
const AGENT: &str = "GIT_AGENT_TEST_AGENT";

/// Not a test: the process that dies. It does nothing unless a step is named.
#[test]
fn child() {
    let (Ok(step), Ok(agent)) = (std::env::var(STEP), std::env::var(AGENT)) else {
        return;
    };
    let directory = std::env::current_dir().expect("a directory");
    discard_with(&directory, &agent, move |name| {
        if name == step {
            std::process::abort();
        }
    });
}

fn discard_with(directory: &Path, agent: &str, reached: impl Fn(&str) + Send + Sync + 'static) {
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
    let plan = discard::plan(&ctx, agent, DiscardOptions::default()).expect("a plan");
    discard::execute(&ctx, plan).expect("discarded");
}

fn die_at(agent: &Agent, step: &str) {
    let output = isolated(
        std::env::current_exe().expect("this binary"),
        &agent.repo.path(),
    )
    .args(["--exact", "removal::kill::child", "--nocapture"])
    .env(STEP, step)
    .env(AGENT, &agent.id)
    .output()
    .expect("starts");
    assert!(!output.status.success(), "{step} was never reached");
}

#[test]
fn the_steps_are_reached_in_the_order_they_are_listed() {
    let agent = busy();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    discard_with(&agent.repo.path(), &agent.id, move |name| {
        log.lock().expect("unpoisoned").push(name.to_owned());
    });
    assert_eq!(*seen.lock().expect("unpoisoned"), STEPS);
}

#[test]
fn whatever_a_kill_leaves_the_next_discard_finishes() {
    for step in STEPS {
        let agent = busy();
        die_at(&agent, step);
        let report = discarded(&agent, &[]);
        assert_eq!(report["state"], "discarded", "after {step}");
        assert!(report.get("irregular").is_none(), "after {step}: {report}");
        assert_gone(&agent, step);
        assert_kept(&agent.repo, &WRITTEN, step);
    }
}

#[test]
fn what_is_written_while_it_is_discarded_is_kept_too() {
    for step in ["kept", "salvaged", "aside"] {
        let agent = busy();
        let worktree = agent.worktree.clone();
        let name = format!(".agent-{}.leaving", &agent.id[..8]);
        let aside = worktree.with_file_name(name);
        discard_with(&agent.repo.path(), &agent.id, move |reached| {
            if reached == step {
                let there = if worktree.is_dir() { &worktree } else { &aside };
                std::fs::write(there.join("late.txt"), "late\n").expect("write");
            }
        });
        assert_gone(&agent, step);
        assert_kept(&agent.repo, &[&WRITTEN[..], &["late\n"]].concat(), step);
    }
}
