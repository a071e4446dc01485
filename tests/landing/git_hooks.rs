//! The git hooks that `[merge] hooks` names, which run on what would land.

use super::{answer, require_sound, run};
use crate::support::TestRepo;
use crate::support::agent::{TASK, describe};
use crate::verify::{Agent, refused};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const SETTINGS: &str = "[merge]\nhooks = [\"pre-commit\"]\n";

/// An agent with committed and uncommitted work in a repository with these settings, and a `main` that has moved on.
fn ready(settings: &str) -> Agent {
    let repo = TestRepo::with_commit();
    repo.write(".config/git-agent.toml", settings);
    repo.write(".gitignore", "*.o\n");
    repo.commit_all("settings");
    let agent = Agent::spawned_in(repo, TASK);
    agent.write("src/two.rs", "pub fn two() {}\n");
    agent.commit("two");
    agent.write("src/lib.rs", "pub fn one() -> u32 {\n    11\n}\n");
    agent.repo.write("NOTES.md", "moved on\n");
    agent.repo.commit_all("main moves on");
    agent
}

/// Writes a hook in which every line has to succeed.
fn hook(directory: &Path, lines: &str) {
    fs::create_dir_all(directory).expect("made");
    let file = directory.join("pre-commit");
    fs::write(&file, format!("#!/bin/sh\nset -e\n{lines}\n")).expect("written");
    fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).expect("set");
}

fn hooks(agent: &Agent) -> PathBuf {
    agent.repo.path().join(".git/hooks")
}

/// Commits on `main` without asking the hook that is tried.
fn commit(agent: &Agent, message: &str) {
    agent.repo.git(["add", "--all"]);
    agent.repo.git(["commit", "--quiet", "--no-verify", "-m", message]);
}

/// The landing is refused with these words, and leaves nothing behind.
fn require_refused(agent: &Agent, words: &[&str]) {
    let before = agent.repo.git(["rev-parse", "main"]);
    let output = run(agent, "merge", &[]);
    refused(&output, "hook-refused", 3);
    for words in words {
        assert!(describe(&output).contains(words), "{}", describe(&output));
    }
    assert_eq!(agent.repo.git(["rev-parse", "main"]), before);
    assert_eq!(agent.repo.git(["status", "--porcelain"]), "");
    let worktrees = agent.repo.git(["worktree", "list"]);
    assert_eq!(worktrees.lines().count(), 2, "{worktrees}");
}

#[test]
fn a_hook_sees_what_would_land_as_a_commit_on_the_target_has_it() {
    let agent = ready(&format!("{SETTINGS}[setup]\nrun = [\"echo x > made.o\"]\n"));
    let main = agent.repo.git(["rev-parse", "main"]);
    let lines = format!(
        "test \"$(git diff --cached --name-only | xargs)\" = 'src/lib.rs src/two.rs'
test \"$(git rev-parse HEAD)\" = {main}
git diff --quiet
git diff --cached --quiet -- NOTES.md
test -f NOTES.md -a -f made.o
grep -q 11 src/lib.rs
test \"$(git rev-parse --show-toplevel)\" = \"$PWD\""
    );
    // What hooks of a kind do: trees, stashes, a look at the status.
    let writes = "git write-tree >&2\ngit stash create >kept.o\ngit stash store $(cat kept.o)\ngit status >&2";
    hook(&hooks(&agent), &format!("{lines}\n{writes}\nexit 7"));
    require_refused(&agent, &["pre-commit", "status 7", "--no-hooks"]);
    hook(&hooks(&agent), &format!("{lines}\n{writes}"));
    answer(&agent, "merge", &[]);
    assert_eq!(agent.repo.git(["stash", "list"]), "");
    require_sound(&agent);
}

#[test]
fn a_hook_runs_in_the_fence() {
    let agent = ready(SETTINGS);
    let outside = agent.repo.path().join("outside.o");
    let shared = agent.repo.path().join(".git/shared");
    let tries =
        [&outside, &shared].map(|path| format!("! echo x 2>/dev/null >'{}'", path.display()));
    hook(&hooks(&agent), &tries.join("\n"));
    answer(&agent, "merge", &[]);
    assert!(!outside.exists() && !shared.exists());
    require_sound(&agent);
}

#[test]
fn what_a_hook_says_or_changes_keeps_work_from_landing() {
    for (lines, words) in [
        ("echo too long a line; exit 1", "too long a line"),
        ("echo '// formatted' >>src/two.rs", "changed files"),
        ("echo '// formatted' >>src/two.rs; git add src/two.rs", "changed files"),
        ("rm src/two.rs", "changed files"),
        ("echo x >new.rs", "changed files"),
        ("chmod +x src/lib.rs", "changed files"),
    ] {
        let agent = ready(SETTINGS);
        hook(&hooks(&agent), lines);
        require_refused(&agent, &[words]);
        hook(&hooks(&agent), "echo x >ignored.o");
        answer(&agent, "merge", &[]);
        require_sound(&agent);
    }
}

#[test]
fn hooks_are_found_where_git_finds_them() {
    let agent = ready(SETTINGS);
    // A hook that is asked for and is not there is no hook that agrees.
    require_refused(&agent, &["cannot find a hook named pre-commit"]);
    // Outside of the worktree, and in the tree, as a repository that shares its hooks has it.
    let elsewhere = agent.repo.path().with_file_name("hooks-of-all");
    hook(&elsewhere, "echo from elsewhere; exit 1");
    let set = |place: &str| agent.repo.git(["config", "core.hooksPath", place]);
    set(elsewhere.to_str().expect("UTF-8"));
    require_refused(&agent, &["from elsewhere"]);
    hook(&agent.repo.path().join(".githooks"), "echo from the tree; exit 1");
    commit(&agent, "hooks for all");
    set(".githooks");
    require_refused(&agent, &["from the tree"]);
    hook(&agent.repo.path().join(".githooks"), "grep -q 11 src/lib.rs");
    commit(&agent, "a hook that agrees");
    answer(&agent, "merge", &[]);
    require_sound(&agent);
}

#[test]
fn hooks_that_are_not_asked_for_do_not_run() {
    let fails = "exit 1";
    let agent = ready("");
    hook(&hooks(&agent), fails);
    answer(&agent, "merge", &[]);
    // The target decides as it is now, and not the commit that the agent started from.
    let agent = ready("");
    hook(&hooks(&agent), fails);
    agent.repo.write(".config/git-agent.toml", SETTINGS);
    commit(&agent, "ask the hook");
    require_refused(&agent, &["status 1"]);
    answer(&agent, "merge", &["--no-hooks"]);
    require_sound(&agent);
}

#[test]
fn an_unknown_hook_is_a_mistake_in_the_settings() {
    let agent = ready("");
    agent.repo.write(".config/git-agent.toml", "[merge]\nhooks = [\"pre-push\"]\n");
    agent.repo.commit_all("no such hook");
    let output = run(&agent, "merge", &[]);
    refused(&output, "settings-invalid", 2);
    assert!(describe(&output).contains("pre-push"), "{}", describe(&output));
}

#[test]
fn a_train_leaves_behind_what_a_hook_refuses() {
    let repo = TestRepo::with_commit();
    repo.write(".config/git-agent.toml", SETTINGS);
    repo.commit_all("settings");
    hook(
        &repo.path().join(".git/hooks"),
        "test $(git diff --cached --name-only | wc -l) = 1\n! grep -qx bad src/*",
    );
    let add = |name: &str, content: &str| {
        let spawned = repo.spawn_task(TASK, &["--name", name]);
        let agent = Agent::told_of(TestRepo::empty(), &spawned);
        agent.write(&format!("src/{name}"), content);
        for file in ["plan.md", "chatlog.md", "handoffs.md", "review.md"] {
            agent.write(&format!(".agent/{file}"), "written\n");
        }
        agent.write(".agent/progress.json", "{\"status\": \"done\"}\n");
        repo.agent_json(&["done", name]);
    };
    add("one", "good\n");
    add("two", "bad\n");
    add("three", "good\n");
    let output = repo.agent(&["train", "--all", "--format=json"]);
    assert_eq!(output.status.code(), Some(1), "{}", describe(&output));
    let landed = repo.git(["ls-tree", "--name-only", "-r", "main", "src"]);
    assert_eq!(
        landed.lines().collect::<Vec<_>>(),
        ["src/bin/tool.rs", "src/lib.rs", "src/one", "src/three"],
        "{}",
        describe(&output)
    );
    assert!(describe(&output).contains("hook-refused"));
}
