//! Several agents that are discarded by one command.

use super::assert_kept;
use crate::support::TestRepo;
use crate::support::agent::{TASK, agent_command, describe};
use crate::support::death::{self, Order, Reached, steps_of};
use crate::support::git_in;
use git_agent::ops::discard::{DiscardOptions, STEPS, discard_each};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Agents of one repository, each with a commit of its own and a file that is in none.
struct Crew {
    repo: TestRepo,
    ids: Vec<String>,
    worktrees: Vec<PathBuf>,
}

impl Crew {
    fn of(count: usize) -> Crew {
        let repo = TestRepo::with_commit();
        let (mut ids, mut worktrees) = (Vec::new(), Vec::new());
        for number in 0..count {
            let agent = repo.spawn_task(TASK, &[]);
            let text = |key: &str| agent[key].as_str().expect(key).to_owned();
            let worktree = PathBuf::from(text("worktree_abspath"));
            fs::write(worktree.join("src/new.rs"), committed(number)).expect("written");
            git_in(&worktree, ["add", "src/new.rs"]);
            git_in(&worktree, ["commit", "--quiet", "--message=work"]);
            fs::write(worktree.join("loose.txt"), loose(number)).expect("written");
            ids.push(text("agent_id"));
            worktrees.push(worktree);
        }
        Crew { repo, ids, worktrees }
    }

    fn words(&self) -> Vec<&str> {
        self.ids.iter().map(String::as_str).collect()
    }

    /// Where the files of an agent are now, if anywhere.
    fn files(&self, number: usize) -> Option<PathBuf> {
        let worktree = &self.worktrees[number];
        let aside = format!(".agent-{}.leaving", &self.ids[number][..8]);
        let places = [worktree.clone(), worktree.with_file_name(aside)];
        places.into_iter().find(|place| place.exists())
    }

    /// Fails unless each agent has its files, or they are kept.
    fn assert_whole_or_kept(&self, when: &str) {
        let objects = self.repo.git(["rev-list", "--objects", "refs/agents/keep"]);
        for number in 0..self.ids.len() {
            for (name, text) in [("src/new.rs", committed(number)), ("loose.txt", loose(number))] {
                let is_whole = self.files(number).is_some_and(|files| {
                    fs::read_to_string(files.join(name)).is_ok_and(|found| found == text)
                });
                let file = self.repo.path().with_file_name("content");
                fs::write(&file, &text).expect("written");
                let oid = self.repo.git(["hash-object", file.to_str().expect("UTF-8")]);
                assert!(
                    is_whole || objects.contains(&oid),
                    "{when}: {name} of agent {number} is lost"
                );
            }
        }
    }

    fn discard(&self, words: &[&str]) -> Value {
        self.repo.agent_json(&[&["discard"], words].concat())
    }

    fn assert_gone(&self, when: &str) {
        for (id, worktree) in self.ids.iter().zip(&self.worktrees) {
            let row = self.repo.agent_json(&["show", id]);
            assert_eq!(row["state"], "discarded", "{when}: {row}");
            assert!(row.get("irregular").is_none(), "{when}: {row}");
            assert!(!worktree.exists(), "{when}");
        }
        let branches = self.repo.git(["for-each-ref", "refs/heads/agent"]);
        assert_eq!(branches, "", "{when}");
        let texts: Vec<String> =
            (0..self.ids.len()).flat_map(|number| [committed(number), loose(number)]).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        assert_kept(&self.repo, &texts, when);
    }
}

fn committed(number: usize) -> String {
    format!("// committed by {number}\n")
}

fn loose(number: usize) -> String {
    format!("not committed by {number}\n")
}

/// Not a test: the process that dies. It does nothing unless a step is named.
#[test]
fn child() {
    if let Some(order) = Order::received() {
        discard_with(&order.directory, &order.words, order.dying());
    }
}

fn discard_with(directory: &Path, ids: &[String], reached: Reached) {
    let ctx = death::ctx(directory, reached);
    discard_each(&ctx, ids, DiscardOptions::default(), &mut |done| {
        done.expect("discarded");
    });
}

#[test]
fn what_they_have_in_common_is_written_once() {
    let crew = Crew::of(3);
    let repo = &crew.repo;
    repo.git(["pack-refs", "--all"]);
    let moves = |name: &str| repo.git(["reflog", name]).lines().count();
    let before = [moves("refs/agents/keep"), moves("refs/notes/agents")];
    let steps = steps_of(|reached| discard_with(&repo.path(), &crew.ids, reached));
    let mut expected = vec!["aside"; 3];
    expected.extend(["kept", "salvaged"]);
    expected.extend(["proven", "trashed", "unlinked"].repeat(3));
    expected.extend(["discarded", "unbranched", "unbranched", "unbranched"]);
    assert_eq!(steps, expected);
    let after = [moves("refs/agents/keep"), moves("refs/notes/agents")];
    assert_eq!(after, [before[0] + 1, before[1] + 2]);
    let subjects = repo.git(["log", "-2", "--format=%s", "refs/notes/agents"]);
    assert_eq!(subjects, "agent: discarded 3 agents\nagent: salvaged 3 agents");
    // Each agent has a link of its own, which can be let go of without the others'.
    let links = ["log", "-3", "--first-parent", "--format=%s", "refs/agents/keep"];
    let links = repo.git(links);
    let expected = crew.ids.iter().rev().map(|id| format!("agent: keep discard {id}"));
    assert_eq!(links, expected.collect::<Vec<_>>().join("\n"));
    crew.assert_gone("at once");
    repo.agent_json(&["rescue", &crew.ids[1]]);
}

/// A process that stands in a worktree may write until it is removed, and others are looked at the while.
#[test]
fn what_is_written_into_one_while_another_is_looked_at_is_kept() {
    let crew = Crew::of(2);
    let worktree = &crew.worktrees[0];
    // The index proves the file unchanged: not its content, which is read again in any case.
    let file = fs::File::open(worktree.join("src/new.rs")).expect("there");
    let then = SystemTime::now() - Duration::from_secs(100);
    file.set_modified(then).expect("aged");
    git_in(worktree, ["update-index", "--refresh"]);
    let aside = worktree.with_file_name(format!(".agent-{}.leaving", &crew.ids[0][..8]));
    let late = "// overwritten!!!\n";
    assert_eq!(late.len(), committed(0).len());
    let reached = move |step: &str| {
        if step == "kept" {
            fs::write(aside.join("src/new.rs"), late).expect("written");
        }
    };
    discard_with(&crew.repo.path(), &crew.ids, Arc::new(reached));
    crew.assert_gone("together");
    assert_kept(&crew.repo, &[late], "together");
}

/// One kill after the other: what each leaves, the next command goes on with.
#[test]
fn a_kill_at_any_step_leaves_each_of_them_whole_or_kept() {
    let crew = Crew::of(3);
    for step in STEPS {
        let child = "removal::several::child";
        death::die_at(child, &crew.repo.path(), step, &crew.words());
        crew.assert_whole_or_kept(step);
        let left = (0..3).filter(|number| crew.files(*number).is_some());
        let expected = match step {
            "kept" | "salvaged" | "aside" | "proven" => 3,
            "trashed" | "unlinked" => 2,
            _ => 0,
        };
        assert_eq!(left.count(), expected, "after {step}");
    }
    crew.discard(&crew.words());
    crew.assert_gone("after all kills");
}

#[test]
fn one_that_fails_does_not_stop_the_others() {
    let crew = Crew::of(3);
    let locked = format!(".git/worktrees/agent-{}/locked", &crew.ids[1][..8]);
    fs::write(crew.repo.path().join(&locked), "mine\n").expect("written");
    // The same agent twice, and one that there is not.
    let [first, second, third] = crew.words()[..] else {
        panic!("three agents");
    };
    let output = agent_command(&crew.repo.path())
        .args(["discard", first, second, first, "nobody", third])
        .arg("--format=json")
        .output()
        .expect("starts");
    assert_eq!(output.status.code(), Some(3), "{}", describe(&output));
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let told: Vec<_> = answer["items"]
        .as_array()
        .expect("items")
        .iter()
        .map(|item| {
            let code = item["error"]["code"].as_str();
            let state = item["state"].as_str();
            (item["target"].as_str().expect("a name"), code.or(state).unwrap_or_default())
        })
        .collect();
    let expected = [
        (first, "discarded"),
        (second, "discard-refused"),
        (first, "discarded"),
        ("nobody", "agent-unknown"),
        (third, "discarded"),
    ];
    assert_eq!(told, expected);
    assert!(crew.worktrees[1].join("loose.txt").exists());
    fs::write(crew.repo.path().join(locked), format!("git-agent {}\n", &second[..8]))
        .expect("written");
    crew.discard(&[second]);
    crew.assert_gone("in the end");
}

/// A worktree that is in another one goes before it.
#[test]
fn what_is_in_the_way_of_one_may_go_with_those_before_it() {
    let repo = TestRepo::with_commit();
    let outer = repo.spawn_task(TASK, &[]);
    let text = |agent: &Value, key: &str| agent[key].as_str().expect(key).to_owned();
    let inside = format!("{}/inner", text(&outer, "worktree_abspath"));
    let inner = repo.spawn_task(TASK, &["--path", &inside]);
    let (outer, inner) = (text(&outer, "agent_id"), text(&inner, "agent_id"));
    let answer = repo.agent_json(&["discard", &inner, &outer]);
    assert_eq!(answer["succeeded"], 2, "{answer}");
}
