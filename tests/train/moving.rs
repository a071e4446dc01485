//! A target that other processes move while a train checks.

use super::Fleet;
use super::kill::options;
use crate::support::agent::{agent_command, describe};
use crate::support::death;
use crate::support::{TestRepo, git_in, isolated};
use git_agent::agents::Ctx;
use git_agent::ops::train;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Eight agents, the sixth of which is bad.
fn fleet() -> Fleet {
    Fleet::with_parts(&["0", "1", "2", "3", "4", "bad", "6", "7"])
}

/// A train beside which another command runs once, as soon as the checks of the first stack are over.
fn train_beside(fleet: &Fleet, words: &[&str]) -> train::TrainReport {
    train::train(&beside(fleet, words), &options(None), &mut |_| {}).expect("a train")
}

/// Where another command runs once, as soon as the checks of the first stack are over.
fn beside(fleet: &Fleet, words: &[&str]) -> Ctx {
    let (path, is_first) = (fleet.repo.path(), AtomicUsize::new(0));
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let reached = Arc::new(move |step: &str| {
        if step == "checked" && is_first.fetch_add(1, Ordering::SeqCst) == 0 {
            let output = agent_command(&path).args(&words).output();
            let output = output.expect("starts");
            assert!(output.status.success(), "{}", describe(&output));
        }
    });
    death::ctx(&fleet.repo.path(), reached)
}

#[test]
fn a_question_that_comes_or_is_answered_while_checks_run_changes_no_agents_outcome() {
    let ask = ["send", "--type=clarify", "--from=a0", "--to=user", "which one?"];
    let payload = ["--payload", "context=two"];
    let ask = [&ask[..], &payload].concat();
    for asks_before in [true, false] {
        let fleet = Fleet::with_parts(&["0", "1", "2"]);
        let meanwhile: &[&str] = if asks_before {
            fleet.repo.agent_json(&ask);
            &["send", "--to=a0", "that one"]
        } else {
            &ask
        };
        let ctx = beside(&fleet, meanwhile);
        let report = train::merge_all(&ctx, &options(None)).expect("a round");
        for (number, item) in report.items.iter().enumerate() {
            assert_eq!(item.agent.short_id, fleet.agents[number][..8], "{report:#?}");
            let part = format!("parts/{number}");
            let Some(commit) = &item.commit else {
                assert!(asks_before && number == 0, "{report:#?}");
                assert_eq!(fleet.repo.git(["ls-tree", "main", &part]), "");
                continue;
            };
            let brought = fleet.repo.git(["diff", "--name-only", &format!("{commit}^"), commit]);
            assert_eq!(brought, part, "{report:#?}");
        }
        assert_eq!(report.items.len(), 3);
    }
}

fn outcomes_of(report: &train::TrainReport) -> Vec<&str> {
    let items = report.items.iter();
    items.map(|item| item.outcome.as_str()).collect()
}

/// A train while another process commits to the target after each of the first so many rounds of checks: between the answer and the landing.
fn train_with(fleet: &Fleet, moves: usize) -> train::TrainReport {
    let path = fleet.repo.path();
    let count = AtomicUsize::new(0);
    let moved = path.clone();
    let reached = Arc::new(move |step: &str| {
        if step == "checked" {
            let number = count.fetch_add(1, Ordering::SeqCst);
            if number < moves {
                let tree = git_in(&moved, ["rev-parse", "main^{tree}"]);
                let blob = git_in(&moved, ["hash-object", "-w", "check.sh"]);
                let entries = git_in(&moved, ["ls-tree", &tree]);
                let entries = format!("{entries}\n100644 blob {blob}\tmoved-{number}\n");
                let list = moved.with_file_name("entries");
                std::fs::write(&list, entries).expect("written");
                let script = format!(
                    "git update-ref refs/heads/main $(git commit-tree -p main -m moves $(git mktree < '{}'))",
                    list.display()
                );
                let ended = isolated("sh", &moved).args(["-c", &script]).status();
                assert!(ended.expect("starts").success());
                git_in(&moved, ["reset", "--hard", "--quiet"]);
            }
        }
    });
    let ctx = death::ctx(&path, reached);
    train::train(&ctx, &options(None), &mut |_| {}).expect("a train")
}

#[test]
fn a_target_that_moves_keeps_no_agent_from_landing_and_no_culprit_is_looked_for_again() {
    let quiet = train_with(&fleet(), 0);
    let fleet = fleet();
    let moved = train_with(&fleet, 8);
    for report in [&quiet, &moved] {
        let outcomes: Vec<&str> = report.items.iter().map(|item| item.outcome.as_str()).collect();
        let mut expected = ["landed"; 8];
        expected[5] = "rejected";
        assert_eq!(outcomes, expected, "{report:#?}");
    }
    assert!(
        moved.checks_run <= 2 * quiet.checks_run,
        "{} checks, {} on a quiet target",
        moved.checks_run,
        quiet.checks_run
    );
    // What others brought is still there.
    let names = fleet.repo.git(["ls-tree", "--name-only", "main"]);
    assert!(names.contains("moved-0"), "{names}");
    let checked = fleet.checked();
    assert!(checked.contains(&fleet.tree()), "what landed was checked");
    let log = fleet.repo.agent_json(&["log", &fleet.agents[5]]).to_string();
    assert_eq!(log.matches("commands.failed").count(), 1, "{log}");
    fleet.require_sound();
}

#[test]
fn what_is_declared_failed_or_put_off_while_a_train_checks_does_not_land() {
    for words in [
        &["mark", "fail", "a1", "-m", "It breaks the build."][..],
        &["mark", "defer", "a1", "-m", "Not this week."],
    ] {
        let fleet = Fleet::with_parts(&["0", "1", "2"]);
        // The checks of the whole stack are green, and then a person decides about one agent in it.
        let report = train_beside(&fleet, words);
        let outcomes = outcomes_of(&report);
        assert_eq!(outcomes, ["landed", "refused", "landed"], "{report:#?}");
        let refusal = report.items[1].error.as_ref().expect("an error");
        assert_eq!(refusal.code().name(), "agent-state", "{refusal}");
        let names = fleet.repo.git(["ls-tree", "--name-only", "main", "parts/"]);
        assert_eq!(names, "parts/0\nparts/2");
        fleet.require_sound();
    }
}

#[test]
fn a_culprit_that_is_discarded_while_a_train_checks_keeps_the_train_from_nothing() {
    let fleet = Fleet::with_parts(&["0", "bad", "2"]);
    let report = train_beside(&fleet, &["discard", "a1"]);
    let outcomes = outcomes_of(&report);
    assert_eq!(outcomes, ["landed", "rejected", "landed"], "{report:#?}");
    assert_eq!(fleet.state(1), "discarded");
    fleet.require_sound();
}

#[test]
fn what_was_built_upon_work_that_lands_is_judged_by_where_it_lands() {
    let repo = TestRepo::with_commit();
    let settings = "[checks]\ncommands = [\"test -f needed || ! test -f src/up\"]\n[bundle]\nrequired = false\n";
    repo.write(".config/git-agent.toml", settings);
    repo.commit_all("settings");
    let spawn = |name: &str, words: &[&str]| {
        let all = [&["spawn", "Add a file.", "--role", "edit-local"], words].concat();
        let report = repo.agent_json(&all);
        let text = |key: &str| report[key].as_str().expect(key).to_owned();
        let worktree = PathBuf::from(text("worktree_abspath"));
        fs::write(worktree.join("src").join(name), "new\n").expect("written");
        git_in(&worktree, ["add", "src"]);
        git_in(&worktree, ["commit", "--quiet", "-m", name]);
        repo.agent_json(&["done", &text("agent_id"), "--summary", name]);
        text("branch")
    };
    let low = spawn("low", &[]);
    spawn("up", &["--from", &low]);
    // Only with this the work above is sound, and the branch below does not have it.
    repo.write("needed", "needed\n");
    let before = repo.commit_all("needed");
    let answer = repo.agent_json(&["train", "--all", "--squash"]);
    let items = answer["items"].as_array().expect("items");
    assert!(items.iter().all(|item| item["outcome"] == "landed"), "{answer:#}");
    assert_eq!(answer["targets"][0]["before"], before.as_str(), "{answer:#}");
    for name in ["low", "up"] {
        assert_eq!(repo.git(["show", &format!("main:src/{name}")]), "new");
    }
}
