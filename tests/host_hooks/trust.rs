//! Whether a host runs the hooks that are registered: what it trusts, and where it looks for them.

use super::{Agent, agent_of, feed};
use crate::support::agent::{TASK, agent_command, describe, json_of};
use crate::support::{TestRepo, isolated};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A repository, and the home of its user.
fn stage() -> (TestRepo, PathBuf) {
    let repo = TestRepo::with_commit();
    let home = repo.path().with_file_name("home");
    fs::create_dir_all(&home).expect("made");
    (repo, home)
}

fn note(repo: &TestRepo, home: &Path, host: &str, more: &[&str]) -> String {
    let mut command = agent_command(&repo.path());
    command.args(["init", "--host", host, "--format=json"]);
    command.args(more).env("HOME", home);
    json_of(command)["hosts"][0]["note"].to_string()
}

fn put(home: &Path, name: &str, text: &str) {
    let file = home.join(name);
    fs::create_dir_all(file.parent().expect("a directory")).expect("made");
    fs::write(file, text).expect("written");
}

#[test]
fn codex_trusts_folders_and_each_hook() {
    let (repo, home) = stage();
    let top = fs::canonicalize(repo.path()).expect("there");
    let is_told =
        || note(&repo, &home, "codex", &[]).contains("codex  # then trust the folder, and /hooks");
    assert!(is_told(), "no configuration");
    let folder = format!("[projects.\"{}\"]\ntrust_level = ", top.display());
    let hook = format!(
        "[hooks.state.\"{}/.codex/hooks.json:pre_tool_use:0:0\"]\ntrusted_hash = \"sha256:1\"\n",
        top.display()
    );
    for (text, expected) in [
        (format!("{folder}\"trusted\"\n"), true),
        (hook.clone(), true),
        (format!("{folder}\"untrusted\"\n{hook}"), true),
        (format!("{folder}\"trusted\"\n{hook}"), false),
        ("[projects".to_owned(), true),
    ] {
        put(&home, ".codex/config.toml", &text);
        assert_eq!(is_told(), expected, "{text}");
    }
    // Of the user's own hooks there is no folder to trust.
    let of_user = || note(&repo, &home, "codex", &["--user"]);
    assert!(of_user().contains("/hooks"), "{}", of_user());
    let hook = hook.replace(&top.display().to_string(), &home.display().to_string());
    put(&home, ".codex/config.toml", &hook);
    assert_eq!(of_user(), "null");
}

#[test]
fn gemini_trusts_the_nearest_folder_that_it_has_a_rule_for() {
    let (repo, home) = stage();
    let top = fs::canonicalize(repo.path()).expect("there");
    let above = top.parent().expect("a directory");
    let is_told =
        || note(&repo, &home, "gemini", &[]).contains("gemini  # then /permissions trust");
    assert!(is_told(), "no rules");
    for (rules, expected) in [
        (json!({ top.to_str().unwrap_or_default(): "TRUST_FOLDER" }), false),
        (json!({ top.join("src").to_str().unwrap_or_default(): "TRUST_PARENT" }), false),
        (json!({ above.to_str().unwrap_or_default(): "TRUST_FOLDER" }), false),
        (
            json!({ above.to_str().unwrap_or_default(): "TRUST_FOLDER", top.to_str().unwrap_or_default(): "DO_NOT_TRUST" }),
            true,
        ),
        (json!({ "/elsewhere": "TRUST_FOLDER" }), true),
        (json!([]), true),
    ] {
        put(&home, ".gemini/trustedFolders.json", &rules.to_string());
        assert_eq!(is_told(), expected, "{rules}");
    }
    put(
        &home,
        ".gemini/settings.json",
        "{\"security\": {\"folderTrust\": {\"enabled\": false}}} // off",
    );
    assert!(!is_told(), "every folder is trusted");
}

#[test]
fn copilot_trusts_a_list_of_folders() {
    let (repo, home) = stage();
    let top = fs::canonicalize(repo.path()).expect("there");
    let is_told =
        || note(&repo, &home, "copilot", &[]).contains("trust the folder for all sessions");
    assert!(is_told(), "no list");
    for key in ["trusted_folders", "trustedFolders"] {
        put(&home, ".copilot/config.json", &format!("// managed\n{{\"{key}\": [\"/elsewhere\"]}}"));
        assert!(is_told(), "another folder");
        put(
            &home,
            ".copilot/config.json",
            &format!("// managed\n{{\"{key}\": [\"{}\"]}}", top.display()),
        );
        assert!(!is_told(), "{key}");
    }
    assert_eq!(note(&repo, &home, "copilot", &["--user"]), "null");
}

#[test]
fn doctor_names_a_host_that_does_not_trust_what_is_registered() {
    let (repo, home) = stage();
    let found = || -> Vec<Value> {
        let mut command = agent_command(&repo.path());
        command.args(["doctor", "--format=json"]).env("HOME", &home);
        let report = json_of(command);
        let all = report["findings"].as_array().expect("findings").iter();
        all.filter(|one| one["code"] == "settings.host-distrusts").cloned().collect()
    };
    assert_eq!(found(), [] as [Value; 0]);
    note(&repo, &home, "copilot", &[]);
    assert_eq!(found().len(), 1, "{:?}", found());
    let top = fs::canonicalize(repo.path()).expect("there");
    put(&home, ".copilot/config.json", &json!({"trusted_folders": [top]}).to_string());
    assert_eq!(found(), [] as [Value; 0]);
}

/// A commit in the worktree of an agent, from a shell of a session of Claude Code.
fn committed(agent: &Agent) -> String {
    let mut command = isolated("git", &agent.worktree);
    command.args(["commit", "--allow-empty", "-qm", "work"]).env("CLAUDECODE", "1");
    let output = command.output().expect("git starts");
    assert!(output.status.success(), "{}", describe(&output));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_session_whose_host_runs_no_hooks_hears_of_it_when_it_commits() {
    let unregistered = agent_of(TASK);
    assert_eq!(committed(&unregistered), "");
    let (repo, home) = stage();
    note(&repo, &home, "claude", &[]);
    repo.git(["add", "--all"]);
    repo.git(["commit", "-qm", "hooks"]);
    let report = repo.spawn();
    let text = |key: &str| report[key].as_str().unwrap_or_default().to_owned();
    let agent =
        Agent { id: text("agent_id"), worktree: PathBuf::from(text("worktree_abspath")), repo };
    let said = committed(&agent);
    assert!(said.contains("no hook of this session of claude"), "{said}");
    assert!(said.contains("git agent init --user"), "{said}");
    // A session that tells of itself has its hooks.
    let call = json!({"hook_event_name": "UserPromptSubmit", "session_id": "s", "cwd": agent.worktree, "prompt": "go"});
    let mut hook: Command = agent_command(&agent.worktree);
    hook.args(["hook", "prompt"]);
    assert!(feed(hook, call.to_string().as_bytes()).status.success());
    assert_eq!(committed(&agent), "");
}
