//! `check`, as hooks and people meet it, with git as the witness of what changed.

/// What the library says changed, against `git diff`.
mod changes;
/// Paths that are asked about before they are written.
mod paths;

use crate::support::agent::{SHARED_TASK, TASK, agent_command, describe};
use crate::support::{PAST_HOOKS, TestRepo, git_in, git_output};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Output;

/// An agent of [`TASK`], whose scope is `src/**`.
struct Fenced {
    repo: TestRepo,
    worktree: PathBuf,
    id: String,
}

impl Fenced {
    fn new() -> Fenced {
        Fenced::of(TestRepo::with_commit())
    }

    fn of(repo: TestRepo) -> Fenced {
        let report = repo.spawn_task(TASK, &["--no-hooks"]);
        let text = |key: &str| report[key].as_str().expect(key).to_owned();
        Fenced { worktree: text("worktree_abspath").into(), id: text("agent_id"), repo }
    }

    fn write(&self, name: &str, content: &str) {
        let path = self.worktree.join(name);
        fs::create_dir_all(path.parent().expect("a directory")).expect("directories");
        fs::write(path, content).expect("written");
    }

    fn git(&self, arguments: &[&str]) -> String {
        git_in(&self.worktree, arguments)
    }

    /// What an agent gets past the hooks that would stop it.
    fn git_past_hooks(&self, arguments: &[&str]) -> String {
        self.git(&[&PAST_HOOKS[..], arguments].concat())
    }

    fn check(&self, arguments: &[&str]) -> Output {
        check_in(&self.worktree, arguments)
    }

    /// Lets git ask for a check whenever it runs that hook.
    fn install_hook(&self, name: &str) {
        let hook = self.repo.path().join(".git/hooks").join(name);
        fs::create_dir_all(hook.parent().expect("hooks")).expect("hooks");
        let program = env!("CARGO_BIN_EXE_git-agent");
        fs::write(&hook, format!("#!/bin/sh\nexec '{program}' check\n")).expect("hook");
        fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).expect("mode");
    }

    /// The violations: path, change and reason, one line each.
    fn violations(&self, arguments: &[&str]) -> Vec<String> {
        summary(&self.json(arguments))
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let output = self.check(&[arguments, &["--format=json"]].concat());
        let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
        let expected = i32::from(report["in_scope"] == false);
        assert_eq!(output.status.code(), Some(expected), "{}", describe(&output));
        report
    }
}

fn check_in(directory: &Path, arguments: &[&str]) -> Output {
    let mut command = agent_command(directory);
    command.arg("check").args(arguments);
    command.output().expect("git-agent starts")
}

fn summary(report: &Value) -> Vec<String> {
    let violations = report["violations"].as_array().expect("a list");
    violations
        .iter()
        .map(|violation| {
            let path = match &violation["path"] {
                Value::String(path) => path.clone(),
                bytes => bytes.to_string(),
            };
            let word = |key: &str| violation[key].as_str().expect(key).to_owned();
            format!("{path} {} {}", word("change"), word("reason"))
        })
        .collect()
}

#[test]
fn what_is_staged_in_scope_passes_in_silence() {
    let agent = Fenced::new();
    agent.write("src/lib.rs", "pub fn two() {}\n");
    agent.write("src/new.rs", "");
    agent.git(&["add", "src"]);
    let output = agent.check(&[]);
    assert!(output.status.success(), "{}", describe(&output));
    assert!(output.stdout.is_empty() && output.stderr.is_empty());
    let report = agent.json(&[]);
    assert_eq!(report["schema"], "git-agent.check/1");
    assert_eq!(report["agent_id"], agent.id.as_str());
    assert_eq!(report["checked"], 2);
}

#[test]
fn every_offending_path_is_named_with_the_glob_and_the_way_out() {
    let agent = Fenced::new();
    agent.write("src/app.env", "KEY=1\n");
    agent.write("a b.txt", "");
    agent.git(&["add", "--all"]);
    agent.git(&["mv", "README.md", "src/README.md"]);
    let output = agent.check(&["--staged"]);
    let id = &agent.id[..8];
    let expected = format!(
        "out of scope: 3 of 4 changes
  README.md (deleted)
    no glob of the whitelist matches it
    run: git restore --staged -- README.md
  a b.txt (added)
    no glob of the whitelist matches it
    run: git restore --staged -- 'a b.txt'
  src/app.env (added)
    the denylist has `**/*.env`
    run: git restore --staged -- src/app.env
agent {id} may touch: src/**
------- stderr -------
[exit status: 1]"
    );
    assert_eq!(describe(&output), expected);
    let report = agent.json(&[]);
    assert_eq!(
        report["violations"][2],
        json!({
            "path": "src/app.env",
            "change": "added",
            "reason": "denylist",
            "detail": "the denylist has `**/*.env`",
            "glob": "**/*.env",
            "fix": "git restore --staged -- src/app.env",
        })
    );
    agent.git(&["restore", "--staged", "--", "a b.txt", "src/app.env", "README.md"]);
    assert!(agent.check(&[]).status.success());
}

#[test]
fn outside_every_agents_worktree_nobody_is_judged() {
    let agent = Fenced::new();
    agent.repo.write("secrets/key", "");
    agent.repo.git(["add", "--force", "--all"]);
    for arguments in [&[][..], &["--worktree"], &["--path", "/etc/passwd"]] {
        let output = check_in(&agent.repo.path(), arguments);
        assert_eq!(describe(&output), "------- stderr -------\n[exit status: 0]");
    }
    // Whoever names the agent asks about its worktree.
    agent.write("secrets/key", "");
    let output = check_in(&agent.repo.path(), &[&agent.id, "--worktree"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{}", describe(&output));
    let file = agent.worktree.join("secrets/key");
    assert!(text.contains(&format!("run: rm -r -- {}\n", file.display())), "{text}");
}

#[test]
fn the_index_that_git_commits_is_the_one_that_is_judged() {
    let agent = Fenced::new();
    agent.install_hook("pre-commit");
    let commit = |arguments: &[&str]| {
        let words = [&["commit", "--quiet", "-m", "work"], arguments].concat();
        let output = git_output(&agent.worktree, words);
        (output.status.success(), describe(&output))
    };
    agent.write("README.md", "changed\n");
    agent.write("src/lib.rs", "changed\n");
    let (accepted, text) = commit(&["--all"]);
    assert!(!accepted && text.contains("README.md (modified)"), "{text}");
    let (accepted, text) = commit(&["--", "README.md"]);
    assert!(!accepted && text.contains("README.md (modified)"), "{text}");
    agent.git(&["add", "README.md"]);
    let (accepted, text) = commit(&["--", "src/lib.rs"]);
    assert!(accepted, "only src/lib.rs is committed: {text}");
    let (accepted, text) = commit(&[]);
    assert!(!accepted && text.contains("README.md (modified)"), "{text}");
}

#[test]
fn a_worktree_is_judged_with_all_that_git_sees_in_it() {
    let agent = Fenced::new();
    let check = |expected: &[&str]| assert_eq!(agent.violations(&["--worktree"]), expected);
    check(&[]);
    agent.write(".agent/plan.md", "the bundle is ignored\n");
    agent.write("src/mine.rs", "");
    check(&[]);
    agent.write("notes/a.txt", "");
    fs::remove_file(agent.worktree.join("README.md")).expect("removed");
    symlink("README.md", agent.worktree.join("README.md")).expect("linked");
    symlink("/etc", agent.worktree.join("src/etc")).expect("linked");
    symlink("../../..", agent.worktree.join("src/up")).expect("linked");
    symlink("../notes/none", agent.worktree.join("src/fine")).expect("linked");
    git_in(&agent.worktree, ["init", "--quiet", "nested"]);
    check(&[
        "README.md type changed not-in-whitelist",
        "nested/ untracked not-in-whitelist",
        "notes/a.txt untracked not-in-whitelist",
        "src/etc untracked symlink-target",
        "src/up untracked symlink-target",
    ]);
}

#[test]
fn a_bundle_may_be_written_and_never_committed() {
    let agent = Fenced::new();
    agent.write(".agent/plan.md", "plan\n");
    agent.git(&["add", "--force", ".agent/plan.md"]);
    assert_eq!(agent.violations(&[]), [".agent/plan.md added bundle"]);
    assert_eq!(agent.violations(&["--worktree"]), [""; 0]);
    assert_eq!(agent.violations(&["--path", ".agent/review.md"]), [""; 0]);
}

#[test]
fn each_commit_of_a_range_is_judged_by_itself() {
    let agent = Fenced::new();
    let base = agent.git(&["rev-parse", "HEAD"]);
    let commit = |name: &str, content: &str| {
        agent.write(name, content);
        agent.git(&["add", "--all"]);
        agent.git_past_hooks(&["commit", "--quiet", "-m", name]);
        agent.git(&["rev-parse", "HEAD"])
    };
    commit("src/lib.rs", "one\n");
    let broken = commit("README.md", "changed\n");
    agent.git_past_hooks(&["revert", "--no-edit", "HEAD"]);
    let report = agent.json(&["--range", &format!("{base}..")]);
    assert_eq!(report["checked"], 3);
    assert_eq!(
        summary(&report),
        ["README.md modified not-in-whitelist", "README.md modified not-in-whitelist"]
    );
    assert_eq!(report["violations"][0]["commit"], broken.as_str());
    assert_eq!(agent.violations(&["--range", "HEAD..HEAD"]), [""; 0]);
    for range in ["HEAD", "HEAD...HEAD~1"] {
        assert_eq!(agent.check(&["--range", range]).status.code(), Some(2));
    }
}

#[test]
fn a_merge_is_not_blamed_for_what_it_merges() {
    let agent = Fenced::new();
    agent.repo.write("README.md", "the base moves on\n");
    agent.repo.commit_all("base");
    let base = agent.git(&["rev-parse", "HEAD"]);
    agent.git(&["merge", "--quiet", "--no-ff", "--no-commit", "main"]);
    assert_eq!(agent.violations(&[]), [""; 0], "in the middle of it");
    agent.write("README.md", "and the agent adds to it\n");
    agent.git(&["add", "README.md"]);
    let evil = ["README.md modified not-in-whitelist"];
    assert_eq!(agent.violations(&[]), evil);
    agent.git_past_hooks(&["commit", "--quiet", "--no-edit"]);
    assert_eq!(agent.violations(&["--range", &format!("main..{base}")]), [""; 0]);
    assert_eq!(agent.violations(&["--range", "main..HEAD"]), evil);
}

#[test]
fn git_merge_asks_before_it_says_what_it_merges() {
    let agent = Fenced::new();
    agent.repo.write("README.md", "the base moves on\n");
    agent.repo.commit_all("base");
    agent.install_hook("pre-merge-commit");
    agent.git(&["merge", "--quiet", "--no-ff", "main"]);
    assert_eq!(agent.git(&["show", "HEAD:README.md"]), "the base moves on");
}

#[test]
fn names_that_nobody_can_read_are_quoted() {
    use std::os::unix::ffi::OsStrExt;
    let agent = Fenced::new();
    agent.write("line\nend", "");
    let bytes = std::ffi::OsStr::from_bytes(b"caf\xe9*");
    fs::write(agent.worktree.join(bytes), "").expect("written");
    agent.git(&["add", "--all"]);
    let report = agent.json(&[]);
    assert_eq!(report["violations"][0]["path"], json!({"bytes": "Y2Fm6So="}));
    assert_eq!(report["violations"][1]["path"], "line\nend");
    let text = String::from_utf8_lossy(&agent.check(&[]).stdout).into_owned();
    for part in [
        "  \"caf\\351*\" (added)\n",
        "    run: git restore --staged -- $':(literal)caf\\351*'\n",
        "  \"line\\nend\" (added)\n",
        "    run: git restore --staged -- $'line\\012end'\n",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    let fixes = report["violations"].as_array().expect("a list");
    for fix in fixes {
        let mut shell = crate::support::isolated("bash", &agent.worktree);
        shell.args(["-c", fix["fix"].as_str().expect("a command")]);
        assert!(shell.status().expect("starts").success(), "{fix}");
    }
    assert_eq!(agent.violations(&[]), [""; 0]);
}

#[test]
fn a_worktree_without_its_row_is_refused() {
    let agent = Fenced::new();
    agent.repo.git(["update-ref", "-d", "refs/notes/agents"]);
    let output = agent.check(&[]);
    assert_eq!(output.status.code(), Some(2), "{}", describe(&output));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let start = format!("error[agent-unknown]: this is the worktree of agent {}", &agent.id[..8]);
    assert!(text.starts_with(&start), "{text}");
    assert!(check_in(&agent.repo.path(), &[]).status.success());
}

#[test]
fn a_role_that_only_reads_may_change_nothing() {
    let repo = TestRepo::with_commit();
    let report = repo.spawn_task(SHARED_TASK, &[]);
    let id = report["agent_id"].as_str().expect("an id");
    repo.write("src/lib.rs", "changed\n");
    let output = check_in(&repo.path(), &[id, "--worktree", "--format=json"]);
    let report = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(summary(&report), ["src/lib.rs modified read-only"]);
}

#[test]
fn the_worktree_is_judged_by_the_ignore_rules_of_now() {
    let fenced = Fenced::new();
    fenced.write("src/two.rs", "in scope\n");
    fenced.write("hidden/file", "out of scope\n");
    fenced.write("seen/file", "out of scope\n");
    let exclude = fenced.repo.path().join(".git/info/exclude");
    let before = fs::read_to_string(&exclude).expect("spawn wrote it");
    fs::write(&exclude, format!("{before}hidden/\n")).expect("written");
    let output = fenced.check(&["--worktree", "--format=json"]);
    assert_eq!(output.status.code(), Some(1), "{}", describe(&output));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["checked"], 2);
    assert_eq!(report["violations"].as_array().map(Vec::len), Some(1));
    assert_eq!(report["violations"][0]["path"], "seen/file");
    assert_eq!(report["violations"][0]["change"], "untracked");
}
