//! A discard that dies at any step: see [`death`].

use super::{WRITTEN, assert_gone, assert_kept, busy, discarded};
use crate::support::agent::{agent_command, describe, json_of};
use crate::support::death::{self, Order, Reached, steps_of};
use crate::support::git_in;
use crate::verify::Agent;
use git_agent::error::{Code, Result};
use git_agent::ops::discard;
use git_agent::ops::discard::DiscardOptions;
use git_agent::ops::discard::STEPS;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Not a test: the process that dies. It does nothing unless a step is named.
#[test]
fn child() {
    let Some(order) = Order::received() else {
        return;
    };
    let (agent, late) = (order.words[0].clone(), order.words.get(1).cloned());
    let dying = order.dying();
    let died = try_discard(
        &order.directory,
        &agent,
        Arc::new(move |name| {
            if let (Some(place), "aside") = (&late, name) {
                make_repository(Path::new(place));
            }
            dying(name);
        }),
    );
    died.expect("discarded");
}

fn discard_with(directory: &Path, agent: &str, reached: Reached) {
    try_discard(directory, agent, reached).expect("discarded");
}

fn try_discard(directory: &Path, agent: &str, reached: Reached) -> Result<()> {
    let ctx = death::ctx(directory, reached);
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
    die_in(agent, step, &[&agent.id]);
}

/// As [`die_at`], with a place where a repository appears while the worktree is aside, which no salvage can hold.
fn die_beside(agent: &Agent, step: &str, late: &Path) {
    die_in(agent, step, &[&agent.id, late.to_str().expect("UTF-8")]);
}

fn die_in(agent: &Agent, step: &str, words: &[&str]) {
    death::die_at("removal::kill::child", &agent.repo.path(), step, words);
}

#[test]
fn the_steps_are_reached_in_the_order_they_are_listed() {
    let agent = busy();
    let path = agent.repo.path();
    let steps = steps_of(|reached| discard_with(&path, &agent.id, reached));
    assert_eq!(steps, STEPS);
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
fn what_a_kill_put_aside_does_not_land_without_its_uncommitted_part() {
    let agent = busy();
    die_at(&agent, "aside");
    let before = agent.repo.git(["rev-parse", "main"]);
    let rows = agent.repo.git(["rev-parse", "refs/notes/agents"]);
    for verb in ["merge", "verify"] {
        let output = agent.repo.agent(&[verb, &agent.id]);
        assert_eq!(output.status.code(), Some(3), "{}", describe(&output));
        assert!(describe(&output).contains("half discarded"), "{}", describe(&output));
    }
    assert_eq!(agent.repo.git(["rev-parse", "refs/notes/agents"]), rows, "no verdict");
    assert_eq!(agent.repo.git(["rev-parse", "main"]), before);
}

#[test]
fn what_a_kill_put_aside_of_a_merged_agent_is_found_and_put_back() {
    let agent = Agent::new();
    agent.write("src/one.rs", "one\n");
    agent.commit("one");
    agent.repo.agent_json(&["merge", &agent.id]);
    agent.write("src/later.rs", "later\n");
    die_at(&agent, "aside");
    let found = describe(&agent.repo.agent(&["doctor"]));
    assert!(found.contains("worktrees.put-aside"), "{found}");
    agent.repo.agent(&["doctor", "--fix"]);
    assert_eq!(agent.git(&["status", "--porcelain"]), "?? src/later.rs");
    assert_eq!(agent.repo.agent_json(&["show", &agent.id])["state"], "idle");
}

#[test]
fn what_is_written_while_it_is_discarded_is_kept_too() {
    for step in ["aside", "kept", "salvaged"] {
        let agent = busy();
        let aside = aside(&agent);
        let reached = move |reached: &str| {
            if reached == step {
                std::fs::write(aside.join("late.txt"), "late\n").expect("write");
            }
        };
        discard_with(&agent.repo.path(), &agent.id, Arc::new(reached));
        assert_gone(&agent, step);
        assert_kept(&agent.repo, &[&WRITTEN[..], &["late\n"]].concat(), step);
    }
}

/// After the worktree has its hidden name, and for work also after it was kept, by a process that stands inside.
#[test]
fn what_changes_in_the_hidden_worktree_is_kept_as_it_is_then() {
    type Change = fn(&Path);
    let changes: [(Change, &str); 6] = [
        (|top| write(top, "src/one.rs", "Committed\n"), "Committed\n"),
        (|top| write(top, "src/lib.rs", "modified lat\n"), "modified lat\n"),
        (|top| write(top, "new dir/né\n.txt", "untracket\n"), "untracket\n"),
        (
            |top| {
                write(top, "src/other.rs", "Replaced!\n");
                let (from, to) = (top.join("src/other.rs"), top.join("src/one.rs"));
                std::fs::rename(from, to).expect("renamed");
            },
            "Replaced!\n",
        ),
        (|top| write(top, ".agent/plan.md", "The plan\n"), "The plan\n"),
        (
            |top| {
                write(top, "src/staged.rs", "staged late\n");
                git_in(top, ["add", "src/staged.rs"]);
                write(top, "src/staged.rs", "and changed\n");
            },
            "staged late\n",
        ),
    ];
    for (number, (change, text)) in changes.into_iter().enumerate() {
        // A file that no name was given, and that was as in the index when it was looked at, is not looked at again.
        let steps = if number == 0 { &["aside"][..] } else { &["aside", "salvaged"] };
        for step in steps {
            let agent = busy();
            let aside = aside(&agent);
            let reached = move |reached: &str| {
                if reached == *step {
                    change(&aside);
                }
            };
            discard_with(&agent.repo.path(), &agent.id, Arc::new(reached));
            assert_gone(&agent, text);
            let expected = match *step {
                "salvaged" => [&WRITTEN[..], &[text]].concat(),
                // Only what is there when it is looked at.
                _ => vec![text],
            };
            assert_kept(&agent.repo, &expected, text);
        }
    }
}

fn write(top: &Path, name: &str, text: &str) {
    std::fs::write(top.join(name), text).expect("written");
}

#[test]
fn a_discard_that_must_refuse_gives_the_worktree_its_name_back() {
    let agent = busy();
    let late = aside(&agent).join("late");
    let reached = move |name: &str| {
        if name == "aside" {
            make_repository(&late);
        }
    };
    let error = try_discard(&agent.repo.path(), &agent.id, Arc::new(reached));
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
    for step in ["aside", "kept", "salvaged", "proven", "back"] {
        let agent = busy();
        let late = aside(&agent).join("late");
        match step {
            "back" => die_beside(&agent, step, &late),
            _ => die_at(&agent, step),
        }
        let mut doctor = agent_command(&agent.repo.path());
        doctor.args(["doctor", "--fix", "--format=json"]);
        // Where no other test leaves something to be found.
        doctor.env("TMPDIR", agent.repo.path().with_file_name("temporary"));
        let report = json_of(doctor);
        let fixed = report["fixed"].as_array().expect("fixed");
        let count = usize::from(step != "back");
        assert_eq!(fixed.len(), count, "after {step}: {report:#}");
        assert_back(&agent);
    }
}

#[test]
fn doctor_completes_a_discard_that_has_kept_everything() {
    for step in git_agent::ops::discard::STEPS {
        let agent = busy();
        die_at(&agent, step);
        let mut doctor = agent_command(&agent.repo.path());
        doctor.args(["doctor", "--fix", "--format=json"]);
        doctor.env("TMPDIR", agent.repo.path().with_file_name("temporary"));
        let report = json_of(doctor);
        let is_kept = !["aside", "kept", "salvaged", "proven"].contains(&step);
        // Nothing that was kept is called gone.
        let said = report.to_string();
        assert!(
            !said.contains("worktrees.removed") && !said.contains("directory-gone"),
            "{step}: {report:#}"
        );
        let row = agent.repo.agent_json(&["show", &agent.id]);
        if is_kept {
            assert_eq!(row["state"], "discarded", "{step}: {report:#}");
            assert!(!aside(&agent).exists() && !agent.worktree.exists(), "{step}");
        } else {
            assert_ne!(row["state"], "discarded", "{step}: {report:#}");
            discarded(&agent, &[]);
        }
        assert_gone(&agent, step);
        assert_kept(&agent.repo, &WRITTEN, step);
        let mut again = agent_command(&agent.repo.path());
        again.args(["doctor", "--format=json"]);
        again.env("TMPDIR", agent.repo.path().with_file_name("temporary"));
        let output = again.output().expect("starts");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(!said.contains("\"worktrees."), "{step}: {said}");
    }
}
