//! Another try of a task: from where the first one started, bound as that was, in a worktree of the same kind.

use crate::support::TestRepo;
use crate::support::agent::{TASK, describe};
use serde_json::{Value, json};
use std::path::Path;

/// Spawns the agent `first`, which then fails.
fn failed(repo: &TestRepo, words: &[&str]) -> Value {
    let spawned = repo.agent_json(&[&["spawn", "fix the typo", "--name=first"], words].concat());
    repo.agent_json(&["fail", "first", "-m", "no"]);
    spawned
}

fn retry(repo: &TestRepo) -> Value {
    repo.agent_json(&["retry", "first"])
}

fn worktree(agent: &Value) -> &Path {
    Path::new(agent["worktree_abspath"].as_str().expect("a path"))
}

#[test]
fn a_bundle_is_required_of_another_try_where_it_was_of_the_first() {
    let repo = TestRepo::with_commit();
    failed(&repo, &["--scope=src/**"]);
    let again = retry(&repo);
    std::fs::write(worktree(&again).join("src/lib.rs"), "pub fn one() {}\n").expect("written");
    let judged = repo.agent(&["verify", "first"]);
    assert!(judged.status.success(), "{}", describe(&judged));
    // A task file means the opposite where it says nothing.
    repo.spawn_task(TASK, &["--name=filed"]);
    repo.agent_json(&["fail", "filed", "-m", "no"]);
    let again = repo.agent_json(&["retry", "filed"]);
    std::fs::write(worktree(&again).join("src/lib.rs"), "pub fn one() {}\n").expect("written");
    let judged = repo.agent(&["verify", "filed"]);
    assert!(describe(&judged).contains("bundle.template"), "{}", describe(&judged));
}

#[test]
fn another_try_starts_from_the_branch_of_the_first() {
    let repo = TestRepo::with_commit();
    let main = repo.git(["rev-parse", "HEAD"]);
    repo.git(["branch", "release"]);
    failed(&repo, &["--base=release"]);
    repo.write("more.md", "more\n");
    repo.commit_all("more");
    let base = |agent: &Value| agent["base"].clone();
    assert_eq!(base(&retry(&repo)), json!({ "oid": main, "ref": "refs/heads/release" }));
    repo.agent_json(&["fail", "first", "-m", "no"]);
    repo.git(["branch", "--force", "release", "main"]);
    let release = repo.git(["rev-parse", "release"]);
    let again = retry(&repo);
    assert_eq!(base(&again), json!({ "oid": release, "ref": "refs/heads/release" }));
    // What is gone is not replaced by where the caller stands.
    repo.agent_json(&["fail", "first", "-m", "no"]);
    repo.git(["branch", "--delete", "--force", "release"]);
    let said = describe(&repo.agent(&["retry", "first"]));
    assert!(said.contains("[base-not-commit]") && said.contains("--base <rev>"), "{said}");
    let again = repo.agent_json(&["retry", "first", "--base", "main"]);
    assert_eq!(base(&again)["ref"], "refs/heads/main");
    repo.agent_json(&["fail", "first", "-m", "no"]);

    // A commit without a branch is the base of the next try, too.
    repo.agent_json(&["spawn", "do it", "--name=fixed", "--base", &main]);
    repo.agent_json(&["fail", "fixed", "-m", "no"]);
    assert_eq!(base(&repo.agent_json(&["retry", "fixed"])), json!({ "oid": main }));
}

#[test]
fn another_try_is_told_that_it_lacks_the_changes_of_the_first() {
    let repo = TestRepo::with_commit();
    let head = repo.git(["rev-parse", "HEAD"]);
    repo.write("src/lib.rs", "pub fn two() {}\n");
    failed(&repo, &["--with-changes"]);
    let again = retry(&repo);
    assert!(again["warnings"].to_string().contains("uncommitted changes"), "{again}");
    assert_eq!(again["base"]["oid"], head.as_str());
}

#[test]
fn another_try_gets_a_worktree_of_the_same_kind() {
    let repo = TestRepo::with_commit();
    repo.write("docs/a.md", "a\n");
    repo.write("lib/b", "b\n");
    repo.commit_all("wide");
    for (kind, words) in [
        ("clone", &["--isolation=clone"][..]),
        ("sparse", &["--sparse", "--scope=src/**"]),
        ("layered", &["--layered=auto"]),
        ("plain", &[]),
    ] {
        let first = failed(&repo, words);
        let again = retry(&repo);
        for key in ["isolation", "layered", "sparse"] {
            assert_eq!(again.get(key), first.get(key), "{kind}: {again}");
        }
        let holds = |agent: &Value, name: &str| worktree(agent).join(name).exists();
        assert_eq!(holds(&again, "docs/a.md"), holds(&first, "docs/a.md"), "{kind}");
        if kind == "sparse" {
            assert!(!holds(&again, "docs/a.md"));
            // With another scope, its directories are there as well.
            repo.agent_json(&["amend", "first", "--scope=lib/**"]);
            repo.agent_json(&["fail", "first", "-m", "no"]);
            let third = retry(&repo);
            assert!(holds(&third, "lib/b") && !holds(&third, "docs/a.md"), "{third}");
        }
        repo.agent_json(&["fail", "first", "-m", "no"]);
        repo.agent_json(&["discard", "first"]);
    }
    let said = retry(&repo)["warnings"].to_string();
    assert!(said.contains("--isolation") && !said.contains("briefing"), "{said}");
}

#[test]
fn a_briefing_that_went_with_the_first_try_is_missed_by_the_next_one() {
    let repo = TestRepo::with_commit();
    let task = format!("briefing = \"The token is in the safe.\"\n{TASK}");
    repo.spawn_task(&task, &["--name=first"]);
    // As long as the first one is there, so is what it was told.
    repo.agent_json(&["fail", "first", "-m", "no"]);
    let again = retry(&repo)["agent_id"].as_str().expect("an id").to_owned();
    repo.agent_json(&["discard", &again]);
    let said = repo.agent_json(&["retry", &again])["warnings"].to_string();
    assert!(said.contains("a briefing or a system prompt of the first try"), "{said}");
}
