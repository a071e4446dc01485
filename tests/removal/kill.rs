//! The child is this test binary run again: it discards through the library and aborts, without any
//! destructor, as soon as it is told that the chosen step is complete.

use super::{WRITTEN, assert_gone, assert_kept, busy, discarded};
use crate::support::{git_in, isolated};
use crate::verify::Agent;
use git_agent::error::{Code, Result};
use git_agent::ops::ctx::{Ctx, Env, Seams};
use git_agent::ops::discard::{self, DiscardOptions, STEPS};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

const STEP: &str = "GIT_AGENT_TEST_STEP";
const AGENT: &str = "GIT_AGENT_TEST_AGENT";
/// Where a repository appears while the worktree is aside, which no salvage can hold.
const LATE: &str = "GIT_AGENT_TEST_LATE";

/// Not a test: the process that dies. It does nothing unless a step is named.
#[test]
fn child() {
    let (Ok(step), Ok(agent)) = (std::env::var(STEP), std::env::var(AGENT)) else {
        return;
    };
    let directory = std::env::current_dir().expect("a directory");
    let late = std::env::var(LATE);
    let died = try_discard(&directory, &agent, move |name| {
        if let (Ok(place), "aside") = (&late, name) {
            make_repository(Path::new(place));
        }
        if name == step {
            std::process::abort();
        }
    });
    died.expect("discarded");
}

fn discard_with(directory: &Path, agent: &str, reached: impl Fn(&str) + Send + Sync + 'static) {
    try_discard(directory, agent, reached).expect("discarded");
}

fn try_discard(
    directory: &Path,
    agent: &str,
    reached: impl Fn(&str) + Send + Sync + 'static,
) -> Result<()> {
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
    discard::execute(&ctx, plan).map(drop)
}

fn make_repository(place: &Path) {
    std::fs::create_dir(place).expect("made");
    git_in(place, ["init", "--quiet"]);
    std::fs::write(place.join("file"), "in no commit\n").expect("written");
}

fn aside(agent: &Agent) -> PathBuf {
    let name = format!(".agent-{}.leaving", &agent.id[..8]);
    agent.worktree.with_file_name(name)
}

fn die_at(agent: &Agent, step: &str) {
    die_in(agent, step, &[]);
}

fn die_in(agent: &Agent, step: &str, more: &[(&str, &Path)]) {
    let output = isolated(
        std::env::current_exe().expect("this binary"),
        &agent.repo.path(),
    )
    .args(["--exact", "removal::kill::child", "--nocapture"])
    .env(STEP, step)
    .env(AGENT, &agent.id)
    .envs(more.iter().copied())
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
        let (worktree, aside) = (agent.worktree.clone(), aside(&agent));
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

#[test]
fn a_discard_that_must_refuse_gives_the_worktree_its_name_back() {
    let agent = busy();
    let late = aside(&agent).join("late");
    let error = try_discard(&agent.repo.path(), &agent.id, move |name| {
        if name == "aside" {
            make_repository(&late);
        }
    });
    assert_eq!(error.expect_err("refused").code(), Code::DiscardRefused);
    assert_back(&agent);
}

/// Its worktree is where it was, whole, and can be discarded once nothing is in the way.
fn assert_back(agent: &Agent) {
    assert!(!aside(agent).exists());
    let late = agent.worktree.join("late");
    if late.exists() {
        let text = std::fs::read_to_string(late.join("file")).expect("there");
        assert_eq!(text, "in no commit\n");
        std::fs::remove_dir_all(late).expect("removed");
    }
    let lib = std::fs::read_to_string(agent.worktree.join("src/lib.rs"));
    assert_eq!(lib.expect("there"), WRITTEN[4]);
    agent.git(&["status"]);
    discarded(agent, &[]);
    assert_gone(agent, "afterwards");
    assert_kept(&agent.repo, &WRITTEN, "afterwards");
}

#[test]
fn doctor_gives_a_worktree_its_name_back_after_a_kill() {
    for step in ["aside", "proven", "back"] {
        let agent = busy();
        let late = aside(&agent).join("late");
        match step {
            "back" => die_in(&agent, step, &[(LATE, &late)]),
            _ => die_at(&agent, step),
        }
        let report = agent.repo.agent_json(&["doctor", "--fix"]);
        let fixed = report["fixed"].as_array().expect("fixed");
        let count = usize::from(step != "back");
        assert_eq!(fixed.len(), count, "after {step}: {report:#}");
        assert_back(&agent);
    }
}
