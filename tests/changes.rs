//! `spawn --with-changes`: what is uncommitted here is where the agent starts, and never lands with its work.

use crate::support::agent::{TASK, describe, json_of};
use crate::support::{TestRepo, git_in};
use crate::verify::refused_json;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// Spawns an agent from a worktree with a staged, an unstaged, a new, a deleted and an ignored file.
fn spawned(repo: &TestRepo) -> (Value, PathBuf) {
    let top = repo.path();
    fs::write(top.join(".gitignore"), "*.log\n").expect("written");
    fs::write(top.join("notes.txt"), "one\ntwo\nthree\nfour\nfive\nsix\n").expect("written");
    fs::write(top.join("gone.txt"), "gone\n").expect("written");
    repo.git(["add", "."]);
    repo.git(["commit", "--quiet", "-m", "ground"]);
    fs::write(top.join("staged.txt"), "staged\n").expect("written");
    repo.git(["add", "staged.txt"]);
    fs::write(top.join("notes.txt"), "ONE\ntwo\nthree\nfour\nfive\nsix\n").expect("written");
    fs::write(top.join("new.txt"), "new\n").expect("written");
    fs::write(top.join("noise.log"), "noise\n").expect("written");
    fs::remove_file(top.join("gone.txt")).expect("removed");
    let task = TASK.replace("\"src/**\"", "\"src/**\", \"notes.txt\", \"new.txt\"");
    let report =
        repo.spawn_task(&format!("{task}[bundle]\nrequired = false\n"), &["--with-changes"]);
    let worktree = PathBuf::from(report["worktree_abspath"].as_str().expect("a path"));
    (report, worktree)
}

fn id(report: &Value) -> &str {
    report["agent_id"].as_str().expect("an id")
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

#[test]
fn all_that_git_add_would_take_is_the_base_and_stays_here_as_it_is() {
    let repo = TestRepo::with_commit();
    let index = |repo: &TestRepo| repo.git(["ls-files", "--stage"]);
    let (report, worktree) = spawned(&repo);
    let base = report["base"]["oid"].as_str().expect("an oid");
    assert_eq!(repo.git(["rev-parse", &format!("{base}^")]), repo.git(["rev-parse", "HEAD"]));
    assert_eq!(report["base"]["ref"], "refs/heads/main");
    // git itself says what it would commit.
    let status = repo.git(["status", "--porcelain"]);
    let mut here: Vec<&str> = status.lines().map(str::trim).collect();
    here.sort_unstable();
    let as_before = ["?? new.txt", "A  staged.txt", "D gone.txt", "M notes.txt"];
    assert_eq!(here, as_before, "nothing here has changed");
    let before = index(&repo);
    repo.git(["stash", "push", "--quiet", "--include-untracked"]);
    repo.git(["stash", "pop", "--quiet", "--index"]);
    assert_eq!(index(&repo), before);
    let alternate = repo.path().with_file_name("index");
    fs::copy(repo.path().join(".git/index"), &alternate).expect("copied");
    let mut add = crate::support::isolated("git", &repo.path());
    add.env("GIT_INDEX_FILE", &alternate).args(["add", "--all"]);
    assert!(add.status().expect("starts").success());
    let mut write = crate::support::isolated("git", &repo.path());
    write.env("GIT_INDEX_FILE", &alternate).arg("write-tree");
    let tree = String::from_utf8(write.output().expect("starts").stdout).expect("UTF-8");
    assert_eq!(repo.git(["rev-parse", &format!("{base}^{{tree}}")]), tree.trim());
    assert_eq!(git_in(&worktree, ["status", "--porcelain"]), "");
    assert_eq!(text(&worktree.join("notes.txt")).lines().next(), Some("ONE"));
    assert!(!worktree.join("noise.log").exists() && !worktree.join("gone.txt").exists());
}

#[test]
fn the_work_lands_without_the_changes_it_started_from() {
    let repo = TestRepo::with_commit();
    let (report, worktree) = spawned(&repo);
    let agent = id(&report);
    fs::write(worktree.join("src/two.rs"), "pub fn two() {}\n").expect("written");
    let notes = worktree.join("notes.txt");
    fs::write(&notes, text(&notes).replace("six", "SIX")).expect("written");
    let verdict = repo.agent_json(&["verify", agent]);
    assert_eq!(verdict["verdict"], "accept", "{verdict:#}");
    // What is shown of the agent is what it did beyond them.
    let shown = repo.agent_json(&["diff", agent]);
    let paths: Vec<_> = shown["changes"].as_array().expect("a list").iter().collect();
    assert_eq!(
        paths.iter().map(|one| &one["path"]).collect::<Vec<_>>(),
        ["notes.txt", "src/two.rs"]
    );
    assert_eq!(repo.agent_json(&["show", agent])["diff"]["insertions"], 2);
    // Any other way would bring the history, and with it the changes.
    for way in ["--no-ff", "--ff-only"] {
        let output = repo.agent(&["merge", agent, way, "--format=json"]);
        refused_json(&output, "agent-state", 3);
    }
    // The file that both changed is in the way here, as in any landing.
    let output = repo.agent(&["merge", agent, "--format=json"]);
    refused_json(&output, "target-dirty", 3);
    repo.git(["stash", "push", "--quiet", "--include-untracked"]);
    let landed = repo.agent_json(&["merge", agent]);
    assert_eq!(landed["outcome"], "merged", "{landed:#}");
    let changed = repo.git(["diff", "--stat=80", "--name-only", "HEAD^", "HEAD"]);
    assert_eq!(changed, "notes.txt\nsrc/two.rs");
    assert_eq!(repo.git(["rev-list", "--parents", "-1", "HEAD"]).split(' ').count(), 2);
    assert_eq!(text(&repo.path().join("notes.txt")), "one\ntwo\nthree\nfour\nfive\nSIX\n");
    let history = repo.git(["log", "--format=%s", "main"]);
    assert!(!history.contains("uncommitted changes"), "{history}");
    let message = repo.git(["log", "-1", "--format=%B"]);
    assert!(!message.contains("uncommitted") && !message.contains("Agent-Changes"), "{message}");
    repo.git(["stash", "pop", "--quiet"]);
    assert_eq!(text(&repo.path().join("notes.txt")), "ONE\ntwo\nthree\nfour\nfive\nSIX\n");
    // What comes after the first landing lands by itself.
    fs::write(worktree.join("src/three.rs"), "pub fn three() {}\n").expect("written");
    repo.agent_json(&["merge", agent]);
    assert_eq!(repo.git(["diff", "--name-only", "HEAD^", "HEAD"]), "src/three.rs");
    assert_eq!(repo.git(["fsck", "--strict", "--no-dangling", "--no-progress"]), "");
}

#[test]
fn neither_the_changes_nor_what_an_update_brought_are_shown_as_the_agents() {
    let repo = TestRepo::with_commit();
    let (report, worktree) = spawned(&repo);
    let agent = id(&report);
    let shown = |path: &str| {
        let diff = repo.agent_json(&["diff", agent]);
        let changes = diff["changes"].as_array().expect("a list");
        let paths: Vec<_> = changes.iter().map(|one| &one["path"]).collect();
        assert_eq!(paths, [path], "{diff:#}");
        assert_eq!(repo.agent_json(&["show", agent])["diff"]["insertions"], 1);
        let patch = describe(&repo.agent(&["diff", agent, "--stat"]));
        assert!(patch.contains("1 file changed"), "{patch}");
    };
    for (at, path) in ["src/two.rs", "src/three.rs"].into_iter().enumerate() {
        fs::write(worktree.join(path), "pub fn more() {}\n").expect("written");
        repo.agent_json(&["commit", agent, "-m", "more"]);
        shown(path);
        repo.git(["stash", "push", "--quiet", "--include-untracked"]);
        fs::write(repo.path().join(format!("other-{at}.txt")), "other\n").expect("written");
        repo.git(["add", "."]);
        repo.git(["commit", "--quiet", "-m", "other"]);
        repo.git(["stash", "pop", "--quiet", "--index"]);
        repo.agent_json(&["update", agent]);
        shown(path);
        repo.agent_json(&["merge", agent]);
        assert_eq!(repo.git(["diff", "--name-only", "HEAD^", "HEAD"]), path);
    }
}

#[test]
fn what_it_takes_back_after_a_landing_lands_although_a_commit_was_reworded() {
    let repo = TestRepo::with_commit();
    let (report, worktree) = spawned(&repo);
    let agent = id(&report);
    for name in ["src/two.rs", "src/three.rs"] {
        fs::write(worktree.join(name), name).expect("written");
        repo.agent_json(&["commit", agent, "-m", name]);
    }
    repo.agent_json(&["merge", agent]);
    git_in(&worktree, ["commit", "--quiet", "--no-verify", "--amend", "-m", "better words"]);
    git_in(&worktree, ["rm", "--quiet", "src/two.rs"]);
    repo.agent_json(&["commit", agent, "-m", "two was wrong"]);
    let diff = repo.agent_json(&["diff", agent]);
    assert_eq!(diff["changes"].as_array().map(Vec::len), Some(1), "{diff:#}");
    assert_eq!(diff["changes"][0]["path"], "src/two.rs", "{diff:#}");
    assert_eq!(repo.agent_json(&["merge", agent])["outcome"], "merged");
    assert_eq!(repo.git(["diff", "--name-only", "HEAD^", "HEAD"]), "src/two.rs");
    assert_eq!(text(&worktree.join("notes.txt")).lines().next(), Some("ONE"));
}

#[test]
fn it_lands_as_well_when_the_changes_were_committed_or_came_to_something_else() {
    let repo = TestRepo::with_commit();
    let (report, worktree) = spawned(&repo);
    let agent = id(&report);
    let notes = worktree.join("notes.txt");
    fs::write(&notes, text(&notes).replace("six", "SIX")).expect("written");
    // Their owner goes on with them, and commits.
    let here = repo.path().join("notes.txt");
    fs::write(&here, "ONE and a half\ntwo\nthree\nfour\nfive\nsix\n").expect("written");
    repo.git(["add", "."]);
    repo.git(["commit", "--quiet", "-m", "mine"]);
    let landed = repo.agent_json(&["merge", agent]);
    assert_eq!(landed["outcome"], "merged", "{landed:#}");
    assert_eq!(text(&here), "ONE and a half\ntwo\nthree\nfour\nfive\nSIX\n");
    assert_eq!(repo.git(["diff", "--name-only", "HEAD^", "HEAD"]), "notes.txt");
}

#[test]
fn work_on_top_of_the_changes_themselves_conflicts_until_they_are_committed() {
    let repo = TestRepo::with_commit();
    let (report, worktree) = spawned(&repo);
    let agent = id(&report);
    fs::write(worktree.join("new.txt"), "newer\n").expect("written");
    let output = repo.agent(&["merge", agent, "--format=json"]);
    refused_json(&output, "not-accepted", 3);
    assert!(describe(&output).contains("new.txt"), "{}", describe(&output));
    // An update brings nothing where the target has not moved.
    let verdict = describe(&repo.agent(&["verify", agent]));
    assert!(verdict.contains("commit your own changes on refs/heads/main first"), "{verdict}");
    assert_eq!(repo.git(["log", "-1", "--format=%s"]), "ground");
    repo.git(["add", "."]);
    repo.git(["commit", "--quiet", "-m", "mine"]);
    assert_eq!(repo.agent_json(&["merge", agent])["outcome"], "merged");
    assert_eq!(text(&repo.path().join("new.txt")), "newer\n");
}

#[test]
fn a_train_lands_it_alone_and_nothing_takes_its_branch_away() {
    let hub = crate::support::hub::Hub::new(1);
    let clone = &hub.clones[0];
    fs::write(clone.join("mine.txt"), "mine\n").expect("written");
    let run = |words: &[&str]| {
        let mut command = crate::support::agent::agent_command(clone);
        command.args(words).arg("--format=json");
        command
    };
    let report = json_of(run(&["spawn", "-m", "add two", "--with-changes", "--no-bundle"]));
    let worktree = PathBuf::from(report["worktree_abspath"].as_str().expect("a path"));
    fs::write(worktree.join("two.txt"), "two\n").expect("written");
    let agent = id(&report);
    json_of(run(&["commit", agent, "-m", "two"]));
    refused_json(&run(&["pr", agent]).output().expect("starts"), "agent-state", 3);
    json_of(run(&["sync"]));
    let there = git_in(&hub.bare, ["for-each-ref", "--format=%(refname)", "refs/heads"]);
    assert_eq!(there, "refs/heads/main");
    json_of(run(&["mark", "done", agent, "--summary", "two"]));
    let train = json_of(run(&["train", "--all"]));
    assert_eq!(git_in(clone, ["diff", "--name-only", "HEAD^", "HEAD"]), "two.txt", "{train:#}");
    // A clean worktree has nothing to start from but HEAD, and a bare repository has no worktree.
    fs::remove_file(clone.join("mine.txt")).expect("removed");
    let clean = json_of(run(&["spawn", "-m", "add three", "--with-changes", "--no-bundle"]));
    assert_eq!(clean["base"]["oid"], git_in(clone, ["rev-parse", "HEAD"]).as_str());
    let mut bare = crate::support::agent::agent_command(&hub.bare);
    bare.args(["spawn", "-m", "add four", "--with-changes", "--format=json"]);
    refused_json(&bare.output().expect("starts"), "usage", 2);
}
