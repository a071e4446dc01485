//! What `[setup]` and the repository's `post-checkout` hook left in a worktree is neither judged nor landed.

use super::paths_of;
use crate::removal::{discard, discarded};
use crate::support::TestRepo;
use crate::support::agent::{TASK, describe};
use crate::verify::Agent;
use serde_json::json;
use std::fs;

/// What set-up commands do to the worktree of [`set_up`], none of it ignored and none of it in scope.
const SETUP: &str = "[setup]\nrun = [\"echo locked, and more >> package.lock; rm tool.cfg; echo made > made.txt; mkdir -p vendor/dep\", \
    \"echo a > vendor/dep/a; rm -r old; echo file > old; echo staged > staged.txt; git add staged.txt; chmod +x run.sh\"]\n";

/// Every path that they change.
const SET_UP: [&str; 8] = [
    "made.txt",
    "old",
    "old/a",
    "package.lock",
    "run.sh",
    "staged.txt",
    "tool.cfg",
    "vendor/dep/a",
];

/// An agent whose set-up leaves files that git does not ignore.
fn set_up() -> Agent {
    let repo = TestRepo::with_commit();
    for (name, text) in [
        ("package.lock", "locked\n"),
        ("tool.cfg", "setting\n"),
        ("old/a", "a\n"),
        ("run.sh", "#!/bin/sh\n"),
    ] {
        repo.write(name, text);
    }
    repo.commit_all("more");
    Agent::spawned_in(repo, &format!("{TASK}{SETUP}"))
}

fn found_paths(report: &serde_json::Value) -> Vec<&str> {
    let findings = report["findings"].as_array().expect("findings").iter();
    let paths = findings.map(|finding| finding["path"].as_str().unwrap_or("no path"));
    paths.collect()
}

#[test]
fn u1_what_setup_made_neither_lands_nor_counts_against_the_agent() {
    let agent = set_up();
    let report = agent.verify(&[]);
    assert_eq!(report["findings"], json!([]), "{report}");
    assert_eq!((&report["uncommitted"], &report["setup_paths"]), (&json!(0), &json!(8)));
    assert_eq!(report["merge"]["state"], "nothing");
    agent.write("src/two.rs", "pub fn two() {}\n");
    let report = agent.verify(&[]);
    assert_eq!(report["findings"], json!([]), "{report}");
    assert_eq!(report["uncommitted"], 1, "{report}");
    let said = describe(&agent.repo.agent(&["verify", &agent.id]));
    assert!(said.contains(", 8 paths from setup)\n"), "{said}");
    let check = agent.repo.agent_json(&["check", &agent.id, "--worktree"]);
    assert_eq!(check["checked"], 1, "{check}");
    let shown = agent.repo.agent_json(&["show", &agent.id]);
    assert_eq!((&shown["uncommitted"], &shown["out_of_scope"]), (&json!(1), &json!(0)));
    assert_eq!(shown["verdict"], "accept", "{shown}");
    let diff = agent.repo.agent(&["diff", &agent.id, "--name-only"]);
    assert_eq!(String::from_utf8_lossy(&diff.stdout), "src/two.rs\n");
    let commit = agent.repo.agent_json(&["commit", &agent.id, "-m", "Two"]);
    assert_eq!(commit["paths"], json!(["src/two.rs"]));
    agent.write("src/three.rs", "pub fn three() {}\n");
    let before = paths_of(&agent, "main");
    let merged = agent.repo.agent_json(&["merge", &agent.id]);
    assert_eq!(merged["uncommitted"], 1, "{merged}");
    let mut added = paths_of(&agent, "main");
    added.retain(|path| !before.contains(path));
    assert_eq!(added, ["src/three.rs", "src/two.rs"]);
    assert_eq!(agent.repo.git(["show", "main:package.lock"]), "locked");
    let gone = discarded(&agent, &[]);
    assert_eq!(gone["setup"], json!(SET_UP));
    assert!(gone["salvage_commit"].is_null(), "{gone}");
}

#[test]
fn u1_what_becomes_of_a_file_after_setup_is_work() {
    let check = |what: &str, paths: &[&str], change: &dyn Fn(&Agent)| {
        let agent = set_up();
        change(&agent);
        assert_eq!(found_paths(&agent.verify(&[])), paths, "{what}");
        let shown = agent.repo.agent_json(&["show", &agent.id]);
        assert_eq!(shown["out_of_scope"], paths.len(), "{what}: {shown}");
    };
    check("edited", &["made.txt", "package.lock"], &|agent| {
        agent.write("package.lock", "locked by the agent\n");
        agent.write("made.txt", "made by the agent\n");
    });
    check("removed", &["package.lock"], &|agent| {
        for name in ["package.lock", "made.txt"] {
            fs::remove_file(agent.worktree.join(name)).expect("remove");
        }
    });
    check("put back", &[], &|agent| {
        agent.git(&["checkout", "--quiet", "--", "package.lock", "tool.cfg", "run.sh"]);
    });
    check("staged", &["made.txt"], &|agent| {
        agent.git(&["add", "made.txt"]);
    });
    check("committed", &["made.txt"], &|agent| {
        agent.git(&["add", "made.txt"]);
        agent.git(&["commit", "--quiet", "--no-verify", "-m", "made"]);
    });
    check("another mode", &["made.txt"], &|agent| {
        use std::os::unix::fs::PermissionsExt;
        let place = agent.worktree.join("made.txt");
        fs::set_permissions(place, fs::Permissions::from_mode(0o755)).expect("chmod");
    });
    check("taken out of the index", &["README.md"], &|agent| {
        agent.git(&["rm", "--quiet", "--cached", "README.md"]);
        let exclude = agent.repo.path().join(".git/info/exclude");
        let text = fs::read_to_string(&exclude).expect("spawn wrote it");
        fs::write(&exclude, text + "README.md\n").expect("write");
    });
    check("a directory in its place", &["made.txt/inside"], &|agent| {
        fs::remove_file(agent.worktree.join("made.txt")).expect("remove");
        agent.write("made.txt/inside", "x\n");
    });
}

/// Only both sides of it together make a tree, so all of it is judged.
#[test]
fn u1_a_file_in_the_place_of_a_directory_that_setup_removed() {
    let agent = set_up();
    agent.write("old", "by the agent\n");
    let paths = agent.verify(&[]);
    let paths = found_paths(&paths);
    assert!(paths.contains(&"old") && paths.contains(&"old/a"), "{paths:?}");
}

#[test]
fn u1_what_setup_made_is_salvaged_where_that_is_asked_for() {
    let agent = set_up();
    let planned = discarded(&agent, &["--dry-run"]);
    assert_eq!(planned["setup"], json!(SET_UP));
    let said = describe(&discard(&agent, &["--dry-run"]));
    let names = "made.txt, old, old/a, package.lock, run.sh and 3 more";
    let line =
        format!("  not kept, because [setup] made it: {names} (--with-ignored keeps them)\n");
    assert!(said.contains(&line), "{said}");
    let gone = discarded(&agent, &["--with-ignored"]);
    assert!(gone["setup"].is_null(), "{gone}");
    let salvage = gone["salvage_commit"].as_str().expect("a salvage");
    let kept = agent.repo.git(["show", &format!("{salvage}:made.txt")]);
    assert_eq!(kept, "made");
}

/// Only work is salvaged, with what setup did to the very file.
#[test]
fn u1_a_salvage_holds_the_work_alone() {
    let agent = set_up();
    agent.write("src/two.rs", "pub fn two() {}\n");
    agent.write("package.lock", "locked, and more, and mine\n");
    let gone = discarded(&agent, &[]);
    let salvage = gone["salvage_commit"].as_str().expect("a salvage");
    let kept = agent.repo.git(["diff", "--name-only", "main", salvage]);
    assert_eq!(kept, "package.lock\nsrc/two.rs");
    let setup: Vec<_> = SET_UP.into_iter().filter(|path| *path != "package.lock").collect();
    assert_eq!(gone["setup"], json!(setup));
}

#[test]
fn u1_agents_with_the_same_setup_are_not_in_each_others_way() {
    let agent = set_up();
    let task = format!("{TASK}{SETUP}");
    let other = agent.repo.spawn_task(&task, &[]);
    let pairs = agent.repo.agent_json(&["overlap", "--changes"]);
    assert_eq!(pairs["pairs"], json!([]), "{pairs}");
    let listed = agent.repo.agent_json(&["list"]);
    for row in listed["agents"].as_array().expect("agents") {
        assert_eq!(row["uncommitted"], 0, "{listed}");
    }
    drop(other);
}

#[test]
fn u1_what_the_post_checkout_hook_made_is_no_work_either() {
    use std::os::unix::fs::PermissionsExt;
    let repo = TestRepo::with_commit();
    repo.write(".git/hooks/post-checkout", "#!/bin/sh\necho made > made.txt\n");
    let hook = repo.path().join(".git/hooks/post-checkout");
    fs::set_permissions(hook, fs::Permissions::from_mode(0o755)).expect("chmod");
    let agent = Agent::spawned_in(repo, TASK);
    assert!(agent.worktree.join("made.txt").exists());
    let report = agent.verify(&[]);
    assert_eq!((report["findings"].clone(), &report["setup_paths"]), (json!([]), &json!(1)));
}

#[test]
fn u1_a_setup_that_leaves_nothing_but_ignored_files_is_recorded_nowhere() {
    let repo = TestRepo::with_commit();
    repo.write(".gitignore", "/node_modules/\n");
    repo.commit_all("ignore");
    let run = "mkdir -p node_modules/husky .husky/_; echo '*' > .husky/_/.gitignore; echo h > .husky/_/h; echo x > node_modules/husky/x";
    let agent = Agent::spawned_in(repo, &format!("{TASK}[setup]\nrun = [\"{run}\"]\n"));
    agent.write("src/two.rs", "pub fn two() {}\n");
    let report = agent.verify(&[]);
    assert_eq!(report["findings"], json!([]), "{report}");
    assert_eq!(report["ignored_paths"], 2, "{report}");
    assert!(report["setup_paths"].is_null(), "{report}");
    let kept = agent.repo.git(["log", "--first-parent", "--format=%s", "refs/agents/keep"]);
    assert!(!kept.contains("setup"), "{kept}");
}
