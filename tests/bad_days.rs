//! Unusual repositories and impossible requests: each works, or is a typed error that leaves nothing.

use crate::support::agent::{TASK, agent_command, describe, json_of};
use crate::support::{TestRepo, assert_unchanged, git_in, git_output, isolated, snapshot};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// Runs a command that must fail with this code and status, saying nothing on standard output.
fn refused(mut command: Command, code: &str, status: i32) -> Value {
    let output = command.arg("--format=json").output().expect("starts");
    assert_eq!(output.status.code(), Some(status), "{}", describe(&output));
    assert!(output.stdout.is_empty(), "{}", describe(&output));
    let error: Value = serde_json::from_slice(&output.stderr)
        .unwrap_or_else(|_| panic!("no JSON: {}", describe(&output)));
    assert_eq!(error["schema"], "git-agent.error/2");
    assert_eq!(error["error"]["code"], code, "{error}");
    error
}

/// Spawns with extra arguments, which must be refused and change nothing.
fn spawn_refused(repo: &TestRepo, arguments: &[&str], code: &str, status: i32) -> Value {
    let task = repo.task_file(TASK);
    let before = snapshot(&repo.path());
    let mut command = agent_command(&repo.path());
    command.args(["spawn", &task]).args(arguments);
    let error = refused(command, code, status);
    assert_unchanged(&before, &snapshot(&repo.path()), code);
    error
}

fn spawn_in(directory: &Path, task: &str) -> Output {
    agent_command(directory).args(["spawn", task, "--format=json"]).output().expect("starts")
}

/// Spawns in a directory, which must work, and gives the worktree's path.
fn spawned_in(directory: &Path, task: &str) -> std::path::PathBuf {
    let output = spawn_in(directory, task);
    assert!(output.status.success(), "{}", describe(&output));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let worktree = Path::new(report["worktree_abspath"].as_str().expect("a worktree")).to_owned();
    assert_eq!(git_in(&worktree, ["status", "--porcelain"]), "");
    worktree
}

#[test]
fn impossible_requests_are_typed_and_leave_nothing() {
    let repo = TestRepo::with_commit();
    repo.git(["branch", "taken"]);
    repo.git(["branch", "above/below"]);
    let blob = repo.git(["rev-parse", "HEAD:README.md"]);
    let outside = repo.path().with_file_name("occupied");
    fs::create_dir(&outside).expect("made");
    fs::write(outside.join("file"), "x").expect("written");
    let occupied = outside.to_str().expect("UTF-8");
    let in_git = repo.path().join(".git/inside");
    let in_git = in_git.to_str().expect("UTF-8");
    let long = "a".repeat(245);
    let cases: &[(&[&str], &str, i32)] = &[
        (&["--base=no-such-thing"], "base-not-commit", 2),
        (&["--base", &blob], "base-not-commit", 2),
        (&["--branch=taken"], "branch-exists", 3),
        (&["--branch=taken/below"], "branch-exists", 3),
        (&["--branch=above"], "branch-exists", 3),
        (&["--branch=-x"], "branch-invalid", 2),
        (&["--branch=a..b"], "branch-invalid", 2),
        (&["--branch=.a"], "branch-invalid", 2),
        (&["--branch=/a"], "branch-invalid", 2),
        (&["--branch=a.lock"], "branch-invalid", 2),
        (&["--branch=a b"], "branch-invalid", 2),
        (&["--branch=a;b"], "branch-invalid", 2),
        (&["--branch", &long], "branch-invalid", 2),
        (&["--name=a b"], "usage", 2),
        (&["--parent=0123456789ab"], "agent-unknown", 2),
        (&["--path", in_git], "path-invalid", 2),
        (&["--no-default-deny"], "task-invalid", 2),
        (&["--base=HEAD", "--dry-run", "--branch=taken"], "branch-exists", 3),
    ];
    for (arguments, code, status) in cases {
        spawn_refused(&repo, arguments, code, *status);
    }
    // This one is found only when the directory is made; git objects are all that stays.
    let task = repo.task_file(TASK);
    let mut command = agent_command(&repo.path());
    command.args(["spawn", &task, "--path", occupied]);
    refused(command, "path-exists", 3);
    assert_eq!(repo.git(["for-each-ref", "refs/heads/agent"]), "");
    assert_eq!(repo.git(["worktree", "list"]).lines().count(), 1);
    assert_eq!(fs::read_dir(&outside).expect("there").count(), 1);
    assert_eq!(repo.git(["status", "--porcelain"]), "");
}

#[test]
fn a_branch_called_agent_blocks_with_a_hint() {
    let repo = TestRepo::with_commit();
    repo.git(["branch", "agent"]);
    let task = repo.task_file(TASK);
    let mut command = agent_command(&repo.path());
    command.args(["spawn", &task]);
    let error = refused(command, "branch-exists", 3);
    assert!(error["error"]["hints"][0].as_str().expect("a hint").contains("--branch"));
    assert_eq!(repo.git(["worktree", "list"]).lines().count(), 1);
}

#[test]
fn no_repository_no_commit() {
    let repo = TestRepo::empty();
    spawn_refused(&repo, &[], "head-unborn", 4);
    let nowhere = repo.path().with_file_name("nowhere");
    fs::create_dir(&nowhere).expect("made");
    let task = repo.task_file(TASK);
    let mut command = agent_command(&nowhere);
    command.args(["spawn", &task]);
    refused(command, "repo-not-found", 4);
}

#[test]
fn formats_that_libgit2_cannot_open_are_named() {
    let cases = [("--ref-format=reftable", "reftable"), ("--object-format=sha256", "sha256")];
    for (option, word) in cases {
        let repo = TestRepo::with_commit();
        let odd = repo.path().with_file_name("odd");
        let made = git_output(&repo.path(), ["init", "-q", option, odd.to_str().expect("UTF-8")]);
        if !made.status.success() {
            // This git is too old to make one, so its users cannot meet it either.
            continue;
        }
        git_in(&odd, ["commit", "-q", "--allow-empty", "-m", "first"]);
        let task = repo.task_file(TASK);
        let mut command = agent_command(&odd);
        command.args(["spawn", &task]);
        let error = refused(command, "repo-unsupported-format", 4);
        let message = error["error"]["message"].as_str().expect("a message");
        assert!(message.contains(word), "{message}");
        // A hook for all repositories lets every commit there be.
        let mut command = agent_command(&odd);
        let checked = command.args(["check", "--staged"]).output().expect("starts");
        assert!(checked.status.success() && checked.stderr.is_empty(), "{checked:?}");
        // The advice works.
        let hint = error["error"]["hints"][0].as_str().expect("a hint");
        let (_, advice) = hint.split_once(", run ").expect("a command");
        let copy = repo.path().with_file_name(format!("copy-{word}"));
        let advice = advice
            .replace("<repository>", ".")
            .replace("<directory>", copy.to_str().expect("UTF-8"));
        let copied = isolated("sh", &odd).args(["-c", &advice]).output();
        assert!(copied.expect("starts").status.success(), "{advice}");
        let mut command = agent_command(&copy);
        command.args(["list", "--format=json"]);
        json_of(command);
        let commits = git_in(&copy, ["rev-list", "--all", "--count"]);
        assert_eq!(commits, "1", "{advice}");
    }
}

#[test]
fn no_ref_moves_while_git_receives_a_push() {
    let repo = TestRepo::with_commit();
    let before = repo.git(["for-each-ref"]);
    let mut command = agent_command(&repo.path());
    command.env("GIT_QUARANTINE_PATH", repo.path().join(".git/objects/incoming"));
    command.args(["send", "--type=notify", "--to=bob", "--payload=message=hi"]);
    refused(command, "repo-read-only", 4);
    assert_eq!(repo.git(["for-each-ref"]), before);
}

#[test]
fn without_an_identity_one_stands_in_and_a_warning_says_so() {
    let repo = TestRepo::with_commit();
    let task = repo.task_file(TASK);
    let mut command = agent_command(&repo.path());
    for who in ["AUTHOR", "COMMITTER"] {
        command.env_remove(format!("GIT_{who}_NAME"));
        command.env_remove(format!("GIT_{who}_EMAIL"));
    }
    let output = command.args(["spawn", &task, "--format=json"]).output().expect("starts");
    assert!(output.status.success(), "{}", describe(&output));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let warning = report["warnings"][0].as_str().expect("a warning");
    assert!(warning.contains("git config --global user.name"), "{warning}");
    let commit = report["spawn_commit"].as_str().expect("a commit");
    assert_eq!(
        repo.git(["log", "-1", "--format=%an <%ae>|%cn <%ce>", commit]),
        "git-agent <git-agent@localhost>|git-agent <git-agent@localhost>"
    );
}

#[test]
fn dates_are_read_as_git_reads_them() {
    let repo = TestRepo::with_commit();
    let task = repo.task_file(TASK);
    let spawn = |date: &str| {
        let mut command = agent_command(&repo.path());
        command.env("GIT_COMMITTER_DATE", date).args(["spawn", &task]);
        command
    };
    for (date, read) in [
        ("2026-01-02T03:04:05 -0930", "2026-01-02 03:04:05 -0930"),
        ("1600000000 +0545", "2020-09-13 18:11:40 +0545"),
    ] {
        let output = spawn(date).arg("--format=json").output().expect("starts");
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let branch = report["branch"].as_str().expect("a branch");
        let said = repo.git(["log", "-1", "--format=%ci", branch]);
        assert_eq!(said, read);
    }
    assert!(spawn("").output().expect("starts").status.success());
    let error = refused(spawn("garbage"), "git-failed", 4);
    let causes = error["error"]["causes"].to_string();
    assert!(causes.contains("invalid date format: garbage"), "{causes}");
}

#[test]
fn a_shallow_clone_works() {
    let repo = TestRepo::with_commit();
    repo.write("more.txt", "more\n");
    repo.commit_all("second commit");
    let clone = repo.path().with_file_name("shallow");
    let url = format!("file://{}", repo.path().display());
    repo.git(["clone", "-q", "--depth=1", &url, clone.to_str().expect("UTF-8")]);
    spawned_in(&clone, &repo.task_file(TASK));
    assert_eq!(git_in(&clone, ["fsck", "--strict", "--no-progress"]), "");
}

#[test]
fn a_bare_repository_works() {
    let repo = TestRepo::with_commit();
    let bare = repo.path().with_file_name("project.git");
    repo.git(["clone", "-q", "--bare", ".", bare.to_str().expect("UTF-8")]);
    let worktree = spawned_in(&bare, &repo.task_file(TASK));
    assert!(worktree.starts_with(&bare));
    assert!(worktree.join("src/lib.rs").is_file());
    let log = git_in(&bare, ["reflog", "show", "refs/notes/agents"]);
    assert_eq!(log.lines().count(), 2, "the ledger has a reflog: {log}");
}

#[test]
fn a_branch_that_a_bare_repository_holds_from_now_on_is_told_of_once() {
    let repo = TestRepo::with_commit();
    let bare = repo.path().with_file_name("project.git");
    repo.git(["clone", "-q", "--bare", ".", bare.to_str().expect("UTF-8")]);
    let own = repo.path().with_file_name("own");
    git_in(&bare, ["worktree", "add", "-q", own.to_str().expect("UTF-8"), "main"]);
    git_in(&own, ["switch", "-q", "-c", "other"]);
    let spawn = || {
        let words = ["spawn", "-m", "do it", "--scope", "src/**", "--format=json"];
        let output = agent_command(&bare).args(words).output().expect("starts");
        let said: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        said["warnings"].to_string()
    };
    let is_told = spawn().contains("git switch --ignore-other-worktrees");
    // Only a git that does so is said to.
    let switched = git_output(&own, ["switch", "-q", "main"]);
    assert_eq!(is_told, !switched.status.success());
    git_in(&own, ["switch", "-q", "--ignore-other-worktrees", "main"]);
    assert!(!spawn().contains("--ignore-other-worktrees"));
}

#[test]
fn a_bare_repository_behind_a_git_file_works() {
    let repo = TestRepo::with_commit();
    let project = repo.path().with_file_name("project");
    fs::create_dir(&project).expect("made");
    let bare = project.join(".bare");
    repo.git(["clone", "-q", "--bare", ".", bare.to_str().expect("UTF-8")]);
    fs::write(project.join(".git"), "gitdir: ./.bare\n").expect("written");
    let worktree = spawned_in(&project, &repo.task_file(TASK));
    let project = fs::canonicalize(project).expect("there");
    assert!(worktree.starts_with(project.join(".claude/worktrees")));
}

#[test]
fn a_git_directory_apart_works_once_the_settings_name_the_main_worktree() {
    let repo = TestRepo::with_commit();
    let apart = repo.path().with_file_name("apart.git");
    let apart = apart.to_str().expect("UTF-8");
    repo.git(["init", "--quiet", "--separate-git-dir", apart]);
    let error = spawn_refused(&repo, &[], "main-worktree-unknown", 4);
    let hint = error["error"]["hints"][0].as_str().expect("a hint");
    // A hook that asks whether it is in an agent's worktree is not kept from its work.
    assert!(repo.agent(&["check"]).status.success());
    let command = hint.split("run ").nth(1).expect("a command");
    let named = isolated("sh", &repo.path()).args(["-c", command]).status();
    assert!(named.expect("starts").success());

    let report = repo.spawn_task(&format!("{TASK}[bundle]\nrequired = false\n"), &[]);
    let worktree = Path::new(report["worktree_abspath"].as_str().expect("a path"));
    fs::write(worktree.join("src/new.rs"), "// new\n").expect("written");
    let id = report["agent_id"].as_str().expect("an id");
    // From a linked worktree, where git does not see the main one.
    let linked = repo.path().with_file_name("linked");
    repo.git(["worktree", "add", "--quiet", "--detach", linked.to_str().expect("UTF-8")]);
    let mut merge = agent_command(&linked);
    merge.args(["merge", id, "--format=json"]);
    let landed = json_of(merge);
    assert_eq!(landed["worktrees"], serde_json::json!([repo.path()]));
    assert_eq!(repo.git(["status", "--porcelain"]), "");
    assert!(repo.path().join("src/new.rs").is_file());
    assert!(repo.agent(&["discard", id]).status.success());
}

#[test]
fn a_submodule_works_and_its_worktrees_are_its_own() {
    let repo = TestRepo::with_commit();
    let outer = repo.path().with_file_name("outer");
    repo.git(["init", "-q", outer.to_str().expect("UTF-8")]);
    let inner = repo.path();
    git_in(
        &outer,
        [
            "-c",
            "protocol.file.allow=always",
            "submodule",
            "--quiet",
            "add",
            inner.to_str().expect("UTF-8"),
            "inner",
        ],
    );
    let worktree = spawned_in(&outer.join("inner"), &repo.task_file(TASK));
    assert!(worktree.starts_with(fs::canonicalize(outer.join("inner")).expect("there")));
    let listed = git_in(&outer.join("inner"), ["worktree", "list"]);
    assert_eq!(listed.lines().count(), 2, "{listed}");
}

#[test]
fn a_subdirectory_a_linked_worktree_and_a_symlinked_root_lead_to_the_same_root() {
    let repo = TestRepo::with_commit();
    let task = repo.task_file(TASK);
    let expected = repo.path().join(".claude/worktrees");
    assert!(spawned_in(&repo.path().join("src/bin"), &task).starts_with(&expected));

    let linked = repo.path().with_file_name("linked");
    repo.git(["worktree", "add", "-q", "-b", "side", linked.to_str().expect("UTF-8")]);
    assert!(spawned_in(&linked, &task).starts_with(&expected));

    let link = repo.path().with_file_name("link");
    std::os::unix::fs::symlink(repo.path(), &link).expect("linked");
    assert!(spawned_in(&link, &task).starts_with(&expected));
}

#[test]
fn a_hook_with_git_variables_set_is_no_different() {
    let repo = TestRepo::with_commit();
    let task = repo.task_file(TASK);
    let binary = env!("CARGO_BIN_EXE_git-agent");
    let hook = repo.path().join(".git/hooks/pre-commit");
    fs::create_dir_all(hook.parent().expect("hooks")).expect("hooks");
    let script =
        format!("#!/bin/sh\nexec '{binary}' spawn '{task}' --format=json > spawned.json\n");
    fs::write(&hook, script).expect("written");
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).expect("permissions");
    repo.write("README.md", "# Changed\n");
    let committed = isolated("git", &repo.path())
        .args(["commit", "-q", "-a", "-m", "from a hook"])
        .output()
        .expect("starts");
    assert!(committed.status.success(), "{}", describe(&committed));
    assert_eq!(repo.git(["show", "HEAD:README.md"]), "# Changed");
    assert_eq!(repo.git(["worktree", "list"]).lines().count(), 2);
    fs::remove_file(repo.path().join("spawned.json")).expect("there");
    assert_eq!(repo.git(["status", "--porcelain"]), "");
}

#[test]
fn an_agent_may_not_spawn_agents() {
    let repo = TestRepo::with_commit();
    let task = repo.task_file(TASK);
    let mut command = agent_command(&repo.path());
    command.args(["spawn", &task]).env("GIT_AGENT_ID", "6a48ca7b");
    refused(command, "recursion-refused", 3);
}

#[test]
fn a_moved_repository_keeps_its_worktrees() {
    let repo = TestRepo::with_commit();
    let worktree = repo.spawn()["worktree_abspath"].as_str().expect("one").to_owned();
    let moved = repo.path().with_file_name("moved");
    fs::rename(repo.path(), &moved).expect("moved");
    let inside = moved.join(worktree.rsplit_once("/repo/").expect("inside").1);
    git_in(&moved, ["worktree", "repair", inside.to_str().expect("UTF-8")]);
    assert_eq!(git_in(&inside, ["status", "--porcelain"]), "");
    git_in(&moved, ["gc", "-q"]);
    fs::rename(&moved, repo.path()).expect("moved back");
}

#[test]
fn a_worktree_directory_from_the_settings() {
    let repo = TestRepo::with_commit();
    repo.git(["config", "agent.worktreeDir", "../trees/{repo}-{slug}"]);
    repo.git(["config", "agent.bundleDir", "notes/bundle"]);
    let report = repo.spawn();
    let worktree = Path::new(report["worktree_abspath"].as_str().expect("one"));
    let parent = repo.path().with_file_name("trees");
    assert_eq!(worktree, parent.join("repo-add-a-second-function-to-the"));
    assert!(worktree.join("notes/bundle/spec.md").is_file());
    assert_eq!(git_in(worktree, ["status", "--porcelain"]), "");
    repo.git(["config", "agent.bundleDir", "../out"]);
    spawn_refused(&repo, &[], "path-invalid", 2);
}

/// As a power loss leaves it. libgit2 would read such a file without end.
#[test]
fn an_object_whose_file_ends_early_holds_no_command_up() {
    let repo = TestRepo::with_commit();
    let spawned = repo.spawn_task(TASK, &["--name=x"]);
    let worktree = Path::new(spawned["worktree_abspath"].as_str().expect("a worktree"));
    fs::write(worktree.join("src/lib.rs"), "pub fn lib() {}\n").expect("written");
    git_in(worktree, ["add", "--all"]);
    git_in(worktree, ["commit", "--quiet", "--message=work"]);
    let branch = spawned["branch"].as_str().expect("a branch");
    let objects = ["", "~1", "^{tree}", ":src", ":src/lib.rs"].map(|of| format!("{branch}{of}"));
    let others = ["main", "main^{tree}", "refs/notes/agents", "refs/notes/agents^{tree}"];
    for object in objects.iter().map(String::as_str).chain(others) {
        let oid = repo.git(["rev-parse", object]);
        let file = repo.path().join(".git/objects").join(&oid[..2]).join(&oid[2..]);
        let whole = fs::read(&file).expect("a file of its own");
        fs::remove_file(&file).expect("removed");
        fs::write(&file, &whole[..whole.len() / 2]).expect("written");
        for words in [
            &["list"][..],
            &["show", "x"],
            &["diff", "x"],
            &["verify", "x"],
            &["merge", "-n", "x"],
            &["discard", "-n", "x"],
            &["gc", "-n"],
            &["doctor"],
        ] {
            let mut command = isolated("timeout", &repo.path());
            command.args(["60", env!("CARGO_BIN_EXE_git-agent")]).args(words);
            let output = command.output().expect("starts");
            let said = describe(&output);
            assert!(
                output.status.code().is_some_and(|code| code <= 4),
                "{object} {words:?}: {said}"
            );
        }
        fs::write(&file, &whole).expect("written");
    }
    git_in(worktree, ["fsck", "--strict"]);
    assert_eq!(git_in(worktree, ["log", "-1", "--format=%s"]), "work");
}
