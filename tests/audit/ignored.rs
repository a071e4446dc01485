//! Files that git ignores are neither judged nor landed.

/// Neither is what was there before the agent.
mod setup;

use crate::removal::{discard, discarded};
use crate::support::TestRepo;
use crate::support::agent::{TASK, describe};
use crate::verify::Agent;
use serde_json::json;
use std::fs;
use std::process::Command;

/// What a tool leaves behind: its files, by their paths from where it ran.
type Litter = &'static [(&'static str, &'static str)];

/// What pytest, ruff and mypy write when they run, with the names and contents of their own ignore files.
const CACHES: Litter = &[
    (".pytest_cache/.gitignore", "# Created by pytest automatically.\n*\n"),
    (".pytest_cache/CACHEDIR.TAG", "Signature: 8a477f597d28d172789f06886806bc55\n"),
    (".pytest_cache/v/cache/nodeids", "[]\n"),
    (".ruff_cache/.gitignore", "# Automatically created by ruff.\n*\n"),
    (".ruff_cache/0.14.6/1234567890", "cache\n"),
    (".mypy_cache/.gitignore", "# Automatically created by mypy\n*\n"),
    (".mypy_cache/3.13/cache.json", "{}\n"),
];

/// A virtual environment as virtualenv, uv and Python 3.13's venv make it.
const ENVIRONMENT: Litter = &[
    ("src/.venv/.gitignore", "# created by virtualenv\n*\n"),
    ("src/.venv/pyvenv.cfg", "home = /usr/bin\n"),
    ("src/.venv/lib/python3.13/site-packages/six.py", "six = 6\n"),
];

/// What husky's install step writes.
const HUSKY: Litter = &[
    (".husky/_/.gitignore", "*"),
    (".husky/_/h", "#!/usr/bin/env sh\n"),
    (".husky/_/pre-commit", "#!/usr/bin/env sh\n. \"$(dirname \"$0\")/h\"\n"),
];

fn leave(agent: &Agent, litter: Litter) {
    for (path, content) in litter {
        agent.write(path, content);
    }
}

fn paths_of(agent: &Agent, tree: &str) -> Vec<String> {
    let listed = agent.repo.git(["ls-tree", "-r", "--name-only", tree]);
    listed.lines().map(str::to_owned).collect()
}

#[test]
fn u1_caches_with_an_ignore_file_of_their_own_are_no_work() {
    let agent = Agent::new();
    leave(&agent, CACHES);
    leave(&agent, ENVIRONMENT);
    leave(&agent, HUSKY);
    agent.write("src/two.rs", "pub fn two() {}\n");
    let report = agent.verify(&[]);
    assert_eq!(report["findings"], json!([]), "{report}");
    assert_eq!(report["uncommitted"], 1);
    assert_eq!(report["ignored_paths"], 5);
    let check = agent.repo.agent_json(&["check", &agent.id, "--worktree"]);
    assert_eq!(check["checked"], 1, "{check}");
    let shown = agent.repo.agent_json(&["show", &agent.id]);
    assert_eq!((&shown["uncommitted"], &shown["out_of_scope"]), (&json!(1), &json!(0)));
    let listed = agent.repo.agent_json(&["list"]);
    assert_eq!(listed["agents"][0]["uncommitted"], 1, "{listed}");
    let said = agent.repo.agent(&["verify", &agent.id]);
    assert!(describe(&said).contains(", 5 ignored paths)\n"), "{}", describe(&said));

    let merged = agent.repo.agent_json(&["merge", &agent.id]);
    assert_eq!(merged["uncommitted"], 1, "{merged}");
    assert_eq!(
        paths_of(&agent, "main"),
        ["README.md", "src/bin/tool.rs", "src/lib.rs", "src/two.rs"]
    );
    let gone = discarded(&agent, &[]);
    assert_eq!(
        gone["ignored"],
        json!([".husky/", ".mypy_cache/", ".pytest_cache/", ".ruff_cache/", "src/.venv/"])
    );
    assert!(gone["salvage_commit"].is_null(), "{gone}");
}

#[test]
fn u1_what_is_ignored_is_salvaged_where_that_is_asked_for() {
    let agent = Agent::new();
    leave(&agent, CACHES);
    leave(&agent, ENVIRONMENT);
    let salvage = discarded(&agent, &["--with-ignored"]);
    let salvage = salvage["salvage_commit"].as_str().expect("a salvage");
    let kept = paths_of(&agent, salvage);
    for (path, _) in CACHES.iter().chain(ENVIRONMENT) {
        assert!(kept.iter().any(|kept| kept == path), "{path}: {kept:?}");
    }
}

/// Hides two files in every place where ignore rules can be. What git would not add never lands, so there is nothing
/// to judge; the agent's way of hiding it is judged where that is itself a change.
#[test]
fn u1_what_an_agent_hides_never_lands() {
    let check = |way: &str, work: &[&str], hide: &dyn Fn(&Agent)| {
        let agent = Agent::new();
        agent.write("src/hidden.rs", "hidden\n");
        hide(&agent);
        let report = agent.verify(&[]);
        assert_eq!(report["findings"], json!([]), "{way}: {report}");
        let tree = report["tree"].as_str().expect("a tree");
        let before = paths_of(&agent, "main");
        let mut added = paths_of(&agent, tree);
        added.retain(|path| !before.contains(path));
        assert_eq!(added, work, "{way}");
        assert!(report["ignored_paths"].as_u64() > Some(0), "{way}");
        let said = describe(&discard(&agent, &["--dry-run"]));
        assert!(said.contains("src/hidden.rs"), "{way}: {said}");
    };
    check("a rule in scope", &["src/.gitignore"], &|agent| {
        agent.write("src/.gitignore", "hidden*\n");
    });
    check("a rule that hides itself", &[], &|agent| {
        agent.write("src/.gitignore", "*\n");
    });
    check("info/exclude", &[], &|agent| {
        let exclude = agent.repo.path().join(".git/info/exclude");
        let text = fs::read_to_string(&exclude).expect("spawn wrote it");
        fs::write(&exclude, text + "hidden*\n").expect("write");
    });
    check("the user's excludes file", &[], &|agent| {
        let file = agent.repo.path().with_file_name("excludes");
        fs::write(&file, "hidden*\n").expect("write");
        let file = file.to_str().expect("UTF-8");
        agent.repo.git(["config", "core.excludesFile", file]);
    });
}

#[test]
fn u1_a_changed_ignore_file_is_a_change_like_any_other() {
    let repo = TestRepo::with_commit();
    repo.write(".gitignore", "*.log\n");
    repo.commit_all("ignore");
    let agent = Agent::spawned_in(repo, TASK);
    agent.write(".gitignore", "*.log\n*.rs\n");
    agent.write("src/two.rs", "hidden\n");
    agent.write("README.md", "tracked files count whatever is ignored\n");
    let report = agent.verify(&[]);
    let findings = report["findings"].as_array().expect("findings");
    let paths: Vec<_> = findings.iter().map(|finding| &finding["path"]).collect();
    assert_eq!(paths, [".gitignore", "README.md"], "{report}");
    // Where a rule is taken away, what it hid is there to be judged.
    agent.git(&["checkout", "--quiet", "."]);
    agent.write("a.log", "out of scope\n");
    assert_eq!(agent.codes(), [""; 0]);
    agent.write(".gitignore", "");
    let report = agent.verify(&[]);
    let findings = report["findings"].as_array().expect("findings");
    let paths: Vec<_> = findings.iter().map(|finding| &finding["path"]).collect();
    assert_eq!(paths, [".gitignore", "a.log"], "{report}");
}

#[test]
fn u1_tracked_and_staged_files_count_however_they_are_ignored() {
    let repo = TestRepo::with_commit();
    repo.write("out/kept.txt", "tracked\n");
    repo.commit_all("a tracked file in a directory");
    let agent = Agent::spawned_in(repo, TASK);
    agent.write("src/.gitignore", "*\n");
    agent.write("out/.gitignore", "*\n");
    agent.write("out/kept.txt", "changed\n");
    agent.write("out/new.txt", "ignored\n");
    agent.write("src/lib.rs", "changed\n");
    agent.write("src/forced.rs", "forced\n");
    agent.git(&["add", "--force", "src/forced.rs"]);
    agent.write("src/forced.rs", "forced, then changed\n");
    let report = agent.verify(&[]);
    let findings = report["findings"].as_array().expect("findings");
    let paths: Vec<_> = findings.iter().map(|finding| &finding["path"]).collect();
    assert_eq!(paths, ["out/kept.txt"], "{report}");
    assert_eq!(report["uncommitted"], 3, "{report}");
    let tree = report["tree"].as_str().expect("a tree");
    let forced = agent.repo.git(["show", &format!("{tree}:src/forced.rs")]);
    assert_eq!(forced, "forced, then changed");
    assert!(!paths_of(&agent, tree).contains(&"out/new.txt".to_owned()));
}

#[test]
fn u1_no_rule_brings_the_bundle_back() {
    let agent = Agent::new();
    agent.write("src/two.rs", "pub fn two() {}\n");
    for (place, text) in [
        (".gitignore", "!.agent\n!/.agent/\n!/.agent/**\n.gitignore\n"),
        (".agent/.gitignore", "!*\n"),
    ] {
        agent.write(place, text);
    }
    let report = agent.verify(&[]);
    assert_eq!(report["findings"], json!([]), "{report}");
    assert_eq!(report["uncommitted"], 1, "{report}");
    let shown = agent.repo.agent_json(&["show", &agent.id]);
    assert_eq!(shown["uncommitted"], 1, "{shown}");
    let gone = discarded(&agent, &[]);
    assert_eq!(gone["ignored"], json!([".gitignore"]));
    assert!(gone["bundle_commit"].is_string(), "{gone}");
}

/// The excludes file that binds is the one of the configuration that the agent cannot write.
#[test]
fn u1_settings_of_the_worktree_hide_nothing() {
    let agent = Agent::new();
    let file = agent.repo.path().with_file_name("excludes");
    fs::write(&file, "*\n").expect("write");
    let file = file.to_str().expect("UTF-8").to_owned();
    agent.git(&["config", "--worktree", "core.excludesFile", &file]);
    agent.write("stolen.txt", "out of scope\n");
    assert_eq!(agent.git(&["status", "--porcelain"]), "", "git is deceived");
    let report = agent.verify(&[]);
    assert_eq!(report["findings"][0]["path"], "stolen.txt", "{report}");
    let shown = agent.repo.agent_json(&["show", &agent.id]);
    assert_eq!((&shown["uncommitted"], &shown["out_of_scope"]), (&json!(1), &json!(1)));
    let gone = discarded(&agent, &[]);
    assert!(gone["salvage_commit"].is_string(), "{gone}");
}

/// A row of a version before, which named the ignore rules of the spawn.
#[test]
fn u1_a_row_with_the_ignore_rules_of_its_spawn_is_still_a_row() {
    let agent = Agent::new();
    let note = agent.repo.git(["notes", "--ref=agents", "list"]);
    let commit = note.split(' ').nth(1).expect("a note").to_owned();
    let row = agent.repo.git(["notes", "--ref=agents", "show", &commit]);
    let lines = row.lines().map(|line| {
        let blob = "0123456789012345678901234567890123456789";
        let old = format!("\"d\":{{\"excludes\":[\"{blob}\"],\"policy\":");
        line.replace("\"d\":{\"policy\":", &old) + "\n"
    });
    let old: String = lines.collect();
    assert!(old.contains("excludes"), "{row}");
    let file = agent.repo.path().with_file_name("row");
    fs::write(&file, old).expect("write");
    let file = file.to_str().expect("UTF-8");
    agent.repo.git(["notes", "--ref=agents", "add", "-f", "-F", file, &commit]);
    agent.write("src/two.rs", "pub fn two() {}\n");
    assert_eq!(agent.verify(&[])["verdict"], "accept");
}

/// A FIFO in the place of a file of rules, to which nothing is ever written, keeps git waiting for ever. What cannot be
/// told is rejected, and all of it is kept.
#[test]
fn u1_rules_that_cannot_be_read_are_not_waited_for() {
    for place in [".gitignore", "src/new/.gitignore"] {
        let agent = Agent::new();
        agent.write("src/new/file", "untracked\n");
        let made = Command::new("mkfifo").arg(agent.worktree.join(place)).status();
        assert!(made.expect("mkfifo starts").success());
        assert_eq!(agent.codes(), ["worktree.unreadable"], "{place}");
        let listed = agent.repo.agent_json(&["list"]);
        assert!(listed["agents"][0]["uncommitted"].is_null(), "{listed}");
        let check = agent.repo.agent(&["check", &agent.id, "--worktree"]);
        assert_eq!(check.status.code(), Some(1), "{}", describe(&check));
        let gone = discarded(&agent, &[]);
        let salvage = gone["salvage_commit"].as_str().expect("a salvage");
        let kept = agent.repo.git(["diff", "--name-only", "main", salvage]);
        assert_eq!(kept, "src/new/file", "{place}");
    }
}

/// The tools themselves, where their registries can be reached; `ignored_tools.sh` has the steps.
#[test]
#[ignore = "installs programs from their registries: .ci/tools"]
fn u1_what_real_tools_leave_is_ignored() {
    for tool in ["husky", "mypy", "pytest", "ruff", "virtualenv"] {
        crate::hook_managers::run_script("ignored_tools.sh", "ignored-tools", tool);
    }
}
