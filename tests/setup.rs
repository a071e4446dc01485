//! What the repository has done for its agents: ignored files that are copied into a new worktree, and commands at the
//! moments of an agent's life.

use crate::support::TestRepo;
use crate::support::agent::{TASK, describe};
use crate::verify::{Agent, refused};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::{Duration, SystemTime};

const NO_BUNDLE: &str = "[bundle]\nrequired = false\n";

fn settings(repo: &TestRepo, text: &str) {
    repo.write(".config/git-agent.toml", text);
    repo.commit_all("settings");
}

fn spawned(repo: &TestRepo, task: &str) -> (PathBuf, String) {
    let report = repo.spawn_task(task, &[]);
    let worktree = report["worktree_abspath"].as_str().expect("a path");
    (worktree.into(), report["warnings"].to_string())
}

fn read(directory: &Path, name: &str) -> Option<String> {
    fs::read_to_string(directory.join(name)).ok()
}

/// Settings whose hooks write down what they see, and an agent whose work can land.
fn with_hooks(more: &str) -> Agent {
    let repo = TestRepo::with_commit();
    let told = "echo \\\"$GIT_AGENT_HOOK $GIT_AGENT_HOOK_ID $GIT_AGENT_HOOK_BRANCH $GIT_AGENT_HOOK_WORKTREE $PWD ${GIT_AGENT_ID-none}\\\" >> .git/told";
    let moments = ["after_spawn", "before_merge", "after_merge", "before_discard"];
    let hooks = moments.map(|moment| format!("{moment} = [\"{told}\"]\n"));
    settings(&repo, &format!("[hooks]\n{}{more}", hooks.concat()));
    let agent = Agent::spawned_in(repo, &format!("{TASK}{NO_BUNDLE}"));
    agent.write("src/lib.rs", "pub fn two() {}\n");
    agent
}

fn verb(agent: &Agent, verb: &str, options: &[&str]) -> Output {
    agent.repo.agent(&[&[verb, agent.id.as_str()], options].concat())
}

/// What the hooks wrote down, a line for each command.
fn told(agent: &Agent) -> Vec<String> {
    let told = read(&agent.repo.path(), ".git/told").unwrap_or_default();
    told.lines().map(str::to_owned).collect()
}

fn moments(agent: &Agent) -> Vec<String> {
    let told = told(agent).into_iter();
    told.filter_map(|line| line.split(' ').next().map(str::to_owned)).collect()
}

#[test]
fn worktreeinclude_copies_what_it_matches_and_git_ignores() {
    let repo = TestRepo::with_commit();
    repo.write(".gitignore", ".env*\ncache/\n");
    repo.write(".worktreeinclude", ".env*\n!.env.production\ncache/\nnotes.txt\n");
    repo.commit_all("settings");
    for name in [".env", "sub/.env.local", ".env.production", "cache/a/b", "notes.txt"] {
        repo.write(name, name);
    }
    let (worktree, warnings) = spawned(&repo, TASK);
    for name in [".env", "sub/.env.local", "cache/a/b"] {
        assert_eq!(read(&worktree, name).as_deref(), Some(name));
    }
    // One is excepted, and one is not ignored.
    for name in [".env.production", "notes.txt"] {
        assert_eq!(read(&worktree, name), None, "{name}");
    }
    assert_eq!(warnings, "[]");
    // A task that says itself what to copy wins.
    let (worktree, _) = spawned(&repo, &format!("{TASK}[setup]\ncopy = [\"cache/**\"]\n"));
    assert_eq!(read(&worktree, ".env"), None);
    assert!(worktree.join("cache/a/b").exists());
}

#[test]
fn work_is_not_judged_without_what_was_there_before_it() {
    let repo = TestRepo::with_commit();
    settings(&repo, "[setup]\nrun = [\"echo a > made.txt\"]\n");
    let agent = Agent::spawned_in(repo, &format!("{TASK}{NO_BUNDLE}"));
    agent.write("src/lib.rs", "pub fn two() {}\n");
    let spawn = agent.repo.agent_json(&["show", &agent.id])["spawn_commit"].clone();
    let spawn = spawn.as_str().expect("a commit");
    let row = agent.repo.git(["notes", "--ref=agents", "show", spawn]);
    let events = row.lines().filter_map(|line| serde_json::from_str(line).ok());
    let mut baselines = events.filter_map(|event: Value| {
        let blob = event["d"]["baseline"].as_str();
        blob.map(str::to_owned)
    });
    let blob = baselines.next().expect("a baseline");
    let loose = Path::new(".git/objects").join(&blob[..2]).join(&blob[2..]);
    fs::remove_file(agent.repo.path().join(loose)).expect("removed");
    let said = describe(&verb(&agent, "verify", &[]));
    let sentence = format!(
        "work.unreadable {blob}, which says what [setup] made for the agent, is not in this clone"
    );
    assert!(said.contains(&sentence), "{said}");
}

#[test]
fn a_copied_file_keeps_its_time_and_permissions_and_is_written_through_no_link() {
    use std::os::unix::fs::PermissionsExt;
    let repo = TestRepo::with_commit();
    let outside = tempfile::tempdir().expect("a directory");
    // In the base commit `out` is a link that leads out; in the main worktree it is a directory now.
    std::os::unix::fs::symlink(outside.path(), repo.path().join("out")).expect("a link");
    repo.write(".gitignore", "*.bin\n");
    repo.commit_all("a link");
    fs::remove_file(repo.path().join("out")).expect("removed");
    repo.write("out/tool.bin", "tool");
    repo.write("deep/tool.bin", "tool");
    let original = repo.path().join("deep/tool.bin");
    fs::set_permissions(&original, fs::Permissions::from_mode(0o750)).expect("permissions");
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let file = fs::File::options().write(true).open(&original);
    file.expect("open").set_modified(long_ago).expect("a time");
    let (worktree, warnings) = spawned(&repo, &format!("{TASK}[setup]\ncopy = [\"**/*.bin\"]\n"));
    let copy = fs::metadata(worktree.join("deep/tool.bin")).expect("copied");
    assert_eq!(copy.modified().expect("a time"), long_ago);
    assert_eq!(copy.permissions().mode() & 0o777, 0o750);
    assert!(fs::read_dir(outside.path()).expect("a directory").next().is_none());
    assert!(warnings.contains("not copied") && warnings.contains("out/tool.bin"), "{warnings}");
}

#[test]
fn hooks_run_at_each_moment_in_the_main_worktree_and_know_the_agent() {
    let agent = with_hooks("");
    let branch = agent.git(&["symbolic-ref", "HEAD"]);
    assert!(verb(&agent, "merge", &[]).status.success());
    assert!(verb(&agent, "discard", &[]).status.success());
    let root = agent.repo.path();
    let (root, worktree) = (root.display(), agent.worktree.display());
    let line = |moment: &str| format!("{moment} {} {} {worktree} {root} none", agent.id, branch);
    let expected = ["after_spawn", "before_merge", "after_merge", "before_discard"].map(line);
    assert_eq!(told(&agent), expected);
}

#[test]
fn hooks_are_those_of_the_base_commit_and_can_be_left_out() {
    let agent = with_hooks("");
    // Neither the agent nor a later commit changes what was agreed on.
    agent.write(".config/git-agent.toml", "[hooks]\nbefore_merge = [\"touch .git/taken-in\"]\n");
    agent.repo.git(["rm", "--quiet", ".config/git-agent.toml"]);
    agent.repo.commit_all("without settings");
    fs::remove_dir_all(agent.worktree.join(".config")).expect("removed");
    agent.git(&["checkout", "--quiet", "--", ".config"]);
    assert!(verb(&agent, "merge", &["--no-hooks"]).status.success());
    assert_eq!(moments(&agent), ["after_spawn"]);
    assert!(verb(&agent, "discard", &[]).status.success());
    assert_eq!(moments(&agent), ["after_spawn", "before_discard"]);
    assert!(!agent.repo.path().join(".git/taken-in").exists());
}

#[test]
fn a_hook_that_fails_stops_what_it_comes_before() {
    let repo = TestRepo::with_commit();
    settings(
        &repo,
        "[hooks]\nafter_spawn = [\"false\"]\nbefore_merge = [\"test -f .git/allowed || { echo not yet; exit 3; }\"]\n\
         after_merge = [\"exit 4\"]\nbefore_discard = [\"exit 5\"]\n",
    );
    let report = repo.spawn_task(&format!("{TASK}{NO_BUNDLE}"), &[]);
    let warnings = report["warnings"].to_string();
    assert!(warnings.contains("the after_spawn command `false`"), "{warnings}");
    let agent = Agent::told_of(repo, &report);
    agent.write("src/lib.rs", "pub fn two() {}\n");
    let before = agent.repo.git(["rev-parse", "main"]);
    let output = verb(&agent, "merge", &[]);
    refused(&output, "hook-failed", 3);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("ended with status 3") && said.contains("caused by: not yet"), "{said}");
    assert_eq!(agent.repo.git(["rev-parse", "main"]), before);
    // A command after the landing can only be told of.
    agent.repo.write(".git/allowed", "");
    let landed = verb(&agent, "merge", &[]);
    let said = String::from_utf8_lossy(&landed.stderr);
    assert!(landed.status.success() && said.contains("`exit 4`"), "{said}");
    refused(&verb(&agent, "discard", &[]), "hook-failed", 3);
    assert!(agent.worktree.is_dir());
    assert!(verb(&agent, "discard", &["--no-hooks"]).status.success());
    assert!(!agent.worktree.exists());
}

#[test]
fn a_hook_that_calls_what_runs_it_comes_to_an_end() {
    let repo = TestRepo::with_commit();
    let program = env!("CARGO_BIN_EXE_git-agent");
    let again = format!("{program} discard $GIT_AGENT_HOOK_ID");
    settings(&repo, &format!("[hooks]\nbefore_discard = [\"echo x >> .git/called; {again}\"]\n"));
    let agent = Agent::spawned_in(repo, &format!("{TASK}{NO_BUNDLE}"));
    let output = verb(&agent, "discard", &[]);
    refused(&output, "hook-failed", 3);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("is inside of 4 others"), "{said}");
    assert_eq!(read(&agent.repo.path(), ".git/called").as_deref(), Some("x\nx\nx\nx\n"));
    assert!(agent.worktree.is_dir());
    assert!(verb(&agent, "discard", &["--no-hooks"]).status.success());
}

#[test]
fn a_command_before_a_landing_that_moves_the_target_is_named_and_does_so_a_few_times() {
    let repo = TestRepo::with_commit();
    let bump = "git commit --quiet --allow-empty --message=bump";
    settings(&repo, &format!("[hooks]\nbefore_merge = [\"{bump}\"]\n"));
    let report = repo.spawn_task(&format!("{TASK}{NO_BUNDLE}"), &[]);
    let agent = Agent::told_of(repo, &report);
    agent.write("src/lib.rs", "pub fn two() {}\n");
    let output = verb(&agent, "merge", &[]);
    refused(&output, "hook-failed", 3);
    assert!(describe(&output).contains("moves main"), "{}", describe(&output));
    assert_eq!(agent.repo.git(["log", "--format=%s", "main"]).matches("bump").count(), 3);
    assert!(verb(&agent, "merge", &["--no-hooks"]).status.success());
}
