//! A clone that has the rows of agents that live in another one: what works there without what those agents
//! are bound by, what says that it is missing, and that the fetch which is named brings it.

use crate::removal::{busy, discarded};
use crate::support::agent::{SHARED_TASK, TASK, agent_command, describe, json_of};
use crate::support::{git_in, isolated};
use crate::verify::{Agent, refused};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Output;

/// The other clone, which has one agent that lives and one that was discarded, and this one.
struct Pair {
    lives: Agent,
    discarded: String,
    here: PathBuf,
}

impl Pair {
    /// This one has the branches and the ledger of the other, and no more.
    fn new() -> Pair {
        let gone = busy();
        discarded(&gone, &[]);
        let discarded = gone.id.clone();
        // A policy in the spawn commit would come with the branch.
        let lives = Agent::spawned_in(gone.repo, TASK).without_policy_in_spawn_commit();
        lives.write("src/two.rs", "");
        lives.commit("two");
        let here = lives.repo.path().with_file_name("here");
        let url = format!("file://{}", lives.repo.path().display());
        let to = here.to_str().expect("UTF-8");
        git_in(&lives.repo.path(), ["clone", "--quiet", &url, to]);
        let ledger = "refs/notes/agents:refs/notes/agents";
        git_in(&here, ["fetch", "--quiet", "origin", ledger]);
        Pair { lives, discarded, here }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let output = agent_command(&self.here).args(arguments).output();
        output.expect("git-agent starts")
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let mut command = agent_command(&self.here);
        command.args(arguments).arg("--format=json");
        json_of(command)
    }

    fn remote_branch(&self) -> String {
        format!("origin/{}", self.lives.branch)
    }

    /// Runs the command that an answer advises to fetch with.
    fn follow(&self, said: &str) {
        let (_, advised) = said.split_once("run git config ").expect("advice");
        let words = advised.lines().next().expect("a line").split('"').next().expect("a command");
        let program = format!("{} ", env!("CARGO_BIN_EXE_git-agent"));
        let line = format!("git config {}", words.replace("git agent ", &program));
        let fetched = isolated("sh", &self.here).args(["-c", &line]).output();
        let fetched = fetched.expect("starts");
        assert!(fetched.status.success(), "{line}: {}", describe(&fetched));
    }
}

#[test]
fn a_spawn_works_and_says_whose_scope_it_does_not_know() {
    let pair = Pair::new();
    let task = pair.lives.repo.task_file(TASK);
    let planned = pair.json(&["spawn", &task, "--dry-run"]);
    let refusal = pair.run(&["spawn", &task, "--exclusive"]);
    refused(&refusal, "scope-overlap", 3);
    let report = pair.json(&["spawn", &task]);
    for warnings in [&planned["warnings"], &report["warnings"]] {
        let warnings = warnings.as_array().expect("a list");
        assert_eq!(warnings.len(), 1, "{report:#}");
        let warning = warnings[0].as_str().expect("a text");
        let short = &pair.lives.id[..8];
        assert!(warning.contains("may meet") && warning.contains(short), "{warning}");
        assert!(!warning.contains(&pair.discarded[..8]), "{warning}");
    }
    pair.lives.repo.task_file(SHARED_TASK);
    assert_eq!(pair.json(&["spawn", &task])["warnings"], json!([]));
    pair.lives.repo.task_file(TASK);
    let ran = pair.run(&["run", report["agent_id"].as_str().expect("an id"), "--", "true"]);
    // It runs, and its work is not finished.
    assert_eq!(ran.status.code(), Some(1), "{}", describe(&ran));

    pair.follow(&describe(&refusal));
    let warnings = pair.json(&["spawn", &task])["warnings"].to_string();
    assert!(warnings.contains("the scope meets that of 2 live agents"), "{warnings}");
}

#[test]
fn looking_shows_what_there_is() {
    let pair = Pair::new();
    let shown = pair.json(&["show", &pair.lives.id]);
    for key in ["whitelist", "denylist", "checks"] {
        assert_eq!(shown.get(key), Some(&Value::Null), "{key}");
    }
    let text = describe(&pair.run(&["show", &pair.lives.id]));
    assert!(text.contains("May touch: not known in this clone"), "{text}");
    for question in ["--scopes", "--changes", "--merge", "--order"] {
        let report = pair.json(&["overlap", question]);
        let problem = json!({
            "agent_id": pair.lives.id,
            "short_id": &pair.lives.id[..8],
            "message": "its scope is not in this clone",
        });
        let problems = report["problems"].as_array().expect("a list");
        assert!(problems.contains(&problem), "{report:#}");
    }
}

#[test]
fn what_needs_the_policy_names_the_fetch_that_brings_it() {
    let pair = Pair::new();
    let (branch, id) = (pair.remote_branch(), pair.lives.id.as_str());
    let local = format!("refs/heads/{}", pair.lives.branch);
    git_in(&pair.here, ["update-ref", &local, &branch]);
    let wanting: [&[&str]; 3] =
        [&["diff", id], &["verify", id, "--tip", &branch], &["rescue", &pair.discarded]];
    for words in wanting {
        refused(&pair.run(words), "history-incomplete", 4);
    }
    pair.follow(&describe(&pair.run(wanting[0])));
    for words in wanting {
        let output = pair.run(words);
        let said = describe(&output);
        assert!(!said.contains("error["), "{words:?}: {said}");
    }
    let whitelist = &pair.json(&["show", id])["whitelist"];
    assert_eq!(*whitelist, json!(["src/**"]));
}

#[test]
fn a_united_keep_chain_holds_what_both_clones_kept() {
    let pair = Pair::new();
    let task = pair.lives.repo.task_file(TASK);
    pair.follow(&describe(&pair.run(&["diff", &pair.lives.id])));
    pair.json(&["spawn", &task]);
    let notes = "+refs/notes/agents:refs/notes/origin/agents";
    git_in(&pair.here, ["fetch", "--quiet", "origin", notes]);
    let tip = |name: &str| git_in(&pair.here, ["rev-parse", name]);
    let sides = [tip("refs/agents/keep"), tip("refs/agents/remote/origin/keep")];
    let united = pair.json(&["unite"]);
    let names: Vec<_> = united["refs"].as_array().expect("a list").iter().collect();
    assert!(names.iter().any(|one| one["ref"] == "refs/agents/keep"), "{united:#}");
    for side in &sides {
        git_in(&pair.here, ["merge-base", "--is-ancestor", side, "refs/agents/keep"]);
    }
    // A second time there is nothing to unite, and the copy is not needed any more.
    let once = tip("refs/agents/keep");
    pair.json(&["unite"]);
    assert_eq!(tip("refs/agents/keep"), once);
    for name in ["refs/agents/remote/origin/keep", "refs/notes/origin/agents"] {
        git_in(&pair.here, ["update-ref", "-d", name]);
    }
    let remote = format!("refs/remotes/{}", pair.remote_branch());
    git_in(&pair.here, ["update-ref", "-d", &remote]);
    git_in(&pair.here, ["reflog", "expire", "--expire=now", "--all"]);
    git_in(&pair.here, ["gc", "--quiet", "--prune=now"]);
    pair.json(&["rescue", &pair.discarded]);
    let doctor = describe(&pair.run(&["doctor"]));
    assert!(!doctor.contains("keep.missing"), "{doctor}");
    // What was kept can still be let go of on both sides of the union.
    let gone = pair.json(&["gc", "--expire-salvage", "0d", "--yes"]);
    let expired = gone["salvage"].as_array().expect("a list").iter();
    let ids: Vec<_> = expired.map(|item| item["agent_id"].clone()).collect();
    assert_eq!(ids, [json!(pair.discarded)], "{gone:#}");
}

/// Whether the branch travelled or not, and whatever the verb looks for first.
#[test]
fn what_needs_the_worktree_of_another_clone_is_refused_as_that() {
    let pair = Pair::new();
    let id = pair.lives.id.as_str();
    for branch in ["here", "gone"] {
        if branch == "gone" {
            let copy = format!("refs/remotes/{}", pair.remote_branch());
            git_in(&pair.here, ["update-ref", "-d", &copy]);
        }
        let verbs: [&[&str]; 7] = [
            &["path", id],
            &["commit", id, "-m", "work"],
            &["update", id],
            &["run", id, "--", "true"],
            &["hooks", "repair", id],
            &["amend", id, "--timeout=1h"],
            &["stop", id],
        ];
        for words in verbs {
            let output = pair.run(words);
            refused(&output, "agent-state", 3);
        }
        refused(&pair.run(&["discard", id]), "discard-refused", 3);
    }
    refused(&pair.run(&["pr", id]), "branch-foreign", 3);
    for words in [["merge", id], ["verify", id]] {
        let output = pair.run(&words);
        refused(&output, "agent-state", 3);
        assert!(describe(&output).contains("git fetch origin"), "{words:?}");
    }
}
