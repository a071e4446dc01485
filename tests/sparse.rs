//! `spawn --sparse`: a worktree of the scope's directories, with git as the witness.

use crate::support::agent::{TASK, describe};
use crate::support::{TestRepo, death, git_in};
use crate::verify::refused;
use std::fs;
use std::path::{Path, PathBuf};

const NO_BUNDLE: &str = "[bundle]\nrequired = false\n";
/// What an agent that may touch `src/**` does not get.
const OUTSIDE: [&str; 3] = ["docs/a.md", "lib/deep/x", "lib/y"];

fn wide() -> TestRepo {
    let repo = TestRepo::with_commit();
    repo.write(".config/tool.toml", "");
    repo.write(".githooks/note", "");
    repo.write("src/deep/one.rs", "\n");
    for name in OUTSIDE {
        repo.write(name, name);
    }
    repo.commit_all("wide");
    repo
}

fn sparse(repo: &TestRepo, task: &str) -> (String, PathBuf) {
    let report = repo.spawn_task(task, &["--sparse"]);
    assert!(report["sparse"].to_string().contains("src"), "{report}");
    let text = |key: &str| report[key].as_str().expect("a text").to_owned();
    assert_eq!(report["warnings"], serde_json::json!([]));
    (text("agent_id"), text("worktree_abspath").into())
}

/// That the worktree is as git keeps one: no change, and every file outside the cone in the index alone.
fn require_sparse(worktree: &Path) {
    assert_eq!(git_in(worktree, ["status", "--porcelain"]), "");
    let listed = git_in(worktree, ["ls-files", "-t"]);
    for line in listed.lines() {
        let (tag, name) = line.split_once(' ').expect("a tag");
        let is_outside = name.starts_with("docs/") || name.starts_with("lib/");
        assert_eq!(tag, if is_outside { "S" } else { "H" }, "{name}");
        assert_eq!(worktree.join(name).exists(), !is_outside, "{name}");
    }
    assert!(OUTSIDE.iter().all(|name| listed.contains(name)), "{listed}");
    // Git itself finds nothing to do.
    git_in(worktree, ["sparse-checkout", "reapply"]);
    assert_eq!(git_in(worktree, ["ls-files", "-t"]), listed);
}

#[test]
fn work_in_a_sparse_worktree_is_judged_and_lands_whole() {
    let repo = wide();
    repo.git(["config", "core.hooksPath", "./.githooks"]);
    let (id, worktree) = sparse(&repo, &format!("{TASK}{NO_BUNDLE}"));
    require_sparse(&worktree);
    let cone = git_in(&worktree, ["sparse-checkout", "list"]);
    assert_eq!(cone, ".agent\n.config\n.githooks\nsrc");
    // The main worktree is as it was, and other agents get everything.
    let hidden = repo.git(["ls-files", "-t"]);
    assert!(hidden.lines().all(|line| line.starts_with("H ")), "{hidden}");
    let whole = repo.spawn();
    let whole = Path::new(whole["worktree_abspath"].as_str().expect("a path"));
    assert!(whole.join("lib/deep/x").exists());
    assert_eq!(git_in(whole, ["status", "--porcelain"]), "");

    // The target moves on outside the cone, and the agent works.
    repo.write("lib/y", "moved on\n");
    repo.write("docs/b.md", "new\n");
    let moved = repo.commit_all("on");
    fs::write(worktree.join("src/two.rs"), "pub fn two() {}\n").expect("written");
    repo.agent_json(&["commit", &id, "-m", "two"]);
    assert_eq!(repo.agent_json(&["update", &id])["outcome"], "updated");
    require_sparse(&worktree);

    // What is written outside the cone is judged by the scope.
    let clean = repo.agent(&["check", &id]);
    assert!(clean.status.success(), "{}", describe(&clean));
    fs::create_dir(worktree.join("docs")).expect("made");
    fs::write(worktree.join("docs/a.md"), "overwritten\n").expect("written");
    for verb in ["check", "verify"] {
        let judged = repo.agent(&[verb, &id]);
        let said = describe(&judged);
        assert!(!judged.status.success() && said.contains("docs/a.md"), "{said}");
        assert!(!said.contains("lib/"), "{said}");
    }
    fs::remove_dir_all(worktree.join("docs")).expect("removed");

    let landed = repo.agent(&["merge", &id]);
    assert!(landed.status.success(), "{}", describe(&landed));
    let changed = repo.git(["diff", "--name-status", &moved, "HEAD"]);
    assert_eq!(changed, "A\tsrc/two.rs");
    assert_eq!(repo.git(["status", "--porcelain"]), "");
}

#[test]
fn everyone_is_told_what_a_sparse_worktree_holds() {
    let repo = wide();
    let task = repo.task_file(TASK);
    let held = ".agent .config src and the files beside them and at the top\n";
    for words in [&["spawn", &task, "--sparse", "--dry-run"][..], &["spawn", &task, "--sparse"]] {
        let output = repo.agent(words);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.contains(held), "{}", describe(&output));
    }
    let listed = repo.agent_json(&["list"]);
    let id = listed["agents"][0]["agent_id"].as_str().expect("an id");
    let shown = repo.agent_json(&["show", id]);
    assert_eq!(shown["sparse"], serde_json::json!([".agent", ".config", "src"]));
    assert!(describe(&repo.agent(&["show", id])).contains(held));

    // The agent is told in its first prompt and in those that `run` makes, which know what was added.
    let prompt = repo.path().join(".git/agents").join(&id[..8]).join("prompt.md");
    let prompt = fs::read_to_string(prompt).expect("a prompt");
    assert!(prompt.contains("it holds `.agent`, `.config`, `src`, the files"), "{prompt}");
    let worktree = Path::new(shown["worktree_abspath"].as_str().expect("a path"));
    git_in(worktree, ["sparse-checkout", "add", "lib/deep"]);
    let shown = repo.agent_json(&["show", id]);
    assert_eq!(shown["sparse"], serde_json::json!([".agent", ".config", "lib/deep", "src"]));
    let run = repo.agent(&["run", id, "--no-verify", "--", "cat"]);
    assert!(
        describe(&run).contains("`.config`, `lib/deep`, `src`, the files"),
        "{}",
        describe(&run)
    );

    // A whole one has nothing to say.
    let whole = repo.spawn();
    assert!(whole.get("sparse").is_none(), "{whole}");
    let shown = repo.agent_json(&["show", whole["agent_id"].as_str().expect("an id")]);
    assert!(shown.get("sparse").is_none(), "{shown}");
}

#[test]
fn what_a_discard_keeps_and_a_set_up_leaves_has_every_file() {
    let repo = wide();
    repo.write(".gitignore", "*.local\n");
    repo.commit_all("ignore");
    repo.write("docs/app.local", "settings\n");
    // What set-up stages is staged no longer; the rest of the index stays as it is.
    let setup =
        "[setup]\ncopy = [\"docs/app.local\"]\nrun = [\"touch src/made && git add src/made\"]\n";
    let (id, worktree) = sparse(&repo, &format!("{TASK}{setup}"));
    assert!(worktree.join("docs/app.local").exists());
    let listed = git_in(&worktree, ["ls-files", "-t"]);
    assert!(OUTSIDE.iter().all(|name| listed.contains(&format!("S {name}"))), "{listed}");
    assert_eq!(git_in(&worktree, ["status", "--porcelain"]), "?? src/made");

    fs::write(worktree.join("src/lib.rs"), "changed\n").expect("written");
    repo.agent_json(&["discard", &id]);
    repo.agent_json(&["rescue", &id, "--branch", "back"]);
    let changed = repo.git(["diff", "--name-status", "HEAD", "back"]);
    assert!(changed.contains("M\tsrc/lib.rs") && !changed.contains("D\t"), "{changed}");
}

#[test]
fn what_cannot_be_sparse_is_refused_or_whole() {
    let repo = wide();
    let task = repo.task_file(TASK);
    let clone = repo.agent(&["spawn", &task, "--sparse", "--isolation=clone"]);
    refused(&clone, "usage", 2);
    let words = ["spawn", "-m", "Change every file of the library.", "--scope", "**/*.rs"];
    let report = repo.agent_json(&[&words[..], &["--sparse"]].concat());
    assert!(report["warnings"].to_string().contains("`**/*.rs`"), "{report}");
    let worktree = Path::new(report["worktree_abspath"].as_str().expect("a path"));
    assert!(worktree.join("lib/deep/x").exists());
}

#[test]
fn a_kill_leaves_nothing_of_a_sparse_worktree() {
    for step in ["narrowed", "populated"] {
        let repo = wide();
        death::die_at("kill::child", &repo.path(), step, &[TASK, "sparse"]);
        crate::kill::check_what_is_left(&repo, step, TASK);
    }
}

#[test]
fn a_sparse_worktree_comes_back_as_sparse_as_it_was() {
    let repo = wide();
    let (id, worktree) = sparse(&repo, &format!("{TASK}{NO_BUNDLE}"));
    git_in(&worktree, ["sparse-checkout", "add", "lib/deep"]);
    let before = git_in(&worktree, ["sparse-checkout", "list"]);
    for back in [&["rescue", &id, "--reopen"][..], &["undo"]] {
        fs::write(worktree.join("src/lib.rs"), "// work\n").expect("written");
        fs::write(worktree.join("src/new.rs"), "// new\n").expect("written");
        repo.agent_json(&["discard", &id]);
        repo.agent_json(back);
        assert_eq!(git_in(&worktree, ["sparse-checkout", "list"]), before, "{back:?}");
        assert_eq!(git_in(&worktree, ["status", "--porcelain"]), " M src/lib.rs\n?? src/new.rs");
        let is_there = |name: &str| worktree.join(name).exists();
        assert_eq!(OUTSIDE.map(is_there), [false, true, true], "{back:?}");
    }
    // One that was made whole meanwhile stays whole.
    git_in(&worktree, ["sparse-checkout", "disable"]);
    repo.agent_json(&["discard", &id]);
    repo.agent_json(&["rescue", &id, "--reopen"]);
    assert!(OUTSIDE.iter().all(|name| worktree.join(name).exists()));
}
