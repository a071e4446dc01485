use super::agent;
use crate::support::TestRepo;
use crate::support::agent::{agent_command, describe};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

const ALL: &str = "claude,codex,gemini,qwen,copilot,cursor,opencode";

fn init(repo: &TestRepo, arguments: &[&str]) -> Value {
    let mut all = vec!["init"];
    all.extend(arguments);
    repo.agent_json(&all)
}

fn actions(report: &Value) -> Vec<(&str, &str)> {
    let hosts = report["hosts"].as_array().expect("a list");
    hosts.iter().filter_map(|host| host["host"].as_str().zip(host["action"].as_str())).collect()
}

#[test]
fn hosts_are_registered_once_and_taken_out_whole() {
    let repo = TestRepo::with_commit();
    let files = [
        ".claude/settings.json",
        ".codex/hooks.json",
        ".gemini/settings.json",
        ".qwen/settings.json",
        ".github/hooks/git-agent.json",
        ".cursor/hooks.json",
        ".opencode/plugins/git-agent.ts",
    ];
    let dry = init(&repo, &["--host", ALL, "--dry-run"]);
    assert!(files.iter().all(|file| !repo.path().join(file).exists()));
    let first = init(&repo, &["--host", ALL]);
    assert_eq!(dry, first);
    assert!(actions(&first).iter().all(|(_, action)| *action == "created"), "{first}");
    let written = files.map(|file| fs::read_to_string(repo.path().join(file)).expect("written"));
    assert!(written.iter().all(|text| text.contains("git-agent")));
    let second = init(&repo, &["--host", ALL]);
    assert!(actions(&second).iter().all(|(_, action)| *action == "unchanged"), "{second}");
    // Seen by their directories.
    assert_eq!(actions(&init(&repo, &[])).len(), 7);
    let gone = init(&repo, &["--host", ALL, "--remove"]);
    assert!(actions(&gone).iter().all(|(_, action)| *action == "deleted"), "{gone}");
    assert!(files.iter().all(|file| !repo.path().join(file).exists()));
}

#[test]
fn in_the_users_own_settings_the_fence_is_in_every_directory() {
    let repo = TestRepo::with_commit();
    let home = repo.path().with_file_name("home");
    fs::create_dir_all(home.join(".claude")).expect("made");
    fs::write(home.join(".claude/settings.json"), "{\"model\": \"x\"}").expect("written");
    let init = |arguments: &[&str]| {
        let mut command = agent_command(&repo.path());
        command.args(["init", "--user", "--format=json"]).args(arguments);
        crate::support::agent::json_of({
            command.env("HOME", &home);
            command
        })
    };
    let used = init(&[]);
    assert_eq!(actions(&used), [("claude", "updated")], "{used}");
    assert_eq!(used["hosts"][0]["path"], "~/.claude/settings.json");
    let all = init(&["--host", ALL]);
    assert_eq!(actions(&all).len(), 7);
    let plugin = home.join(".config/opencode/plugins/git-agent.ts");
    assert!(plugin.exists() && home.join(".copilot/hooks/git-agent.json").exists());
    assert_eq!(repo.git(["status", "--porcelain", "--ignored"]), "");
    init(&["--host", ALL, "--remove"]);
    assert!(!plugin.exists());
    let left = fs::read_to_string(home.join(".claude/settings.json")).expect("readable");
    assert!(left.contains("model") && !left.contains("git-agent"), "{left}");
}

#[test]
fn what_others_wrote_stays() {
    let repo = TestRepo::with_commit();
    repo.write(".claude/settings.json", "{\n  // ours\n  \"model\": \"x\"\n}\n");
    let path = repo.path().join(".claude/settings.json");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("set");
    let before = fs::read(&path).expect("read");
    assert_eq!(actions(&init(&repo, &["--host=claude"])), [("claude", "updated")]);
    assert!(fs::read_to_string(&path).expect("read").contains("// ours"));
    assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
    init(&repo, &["--host=claude", "--remove"]);
    assert_eq!(fs::read(&path).expect("read"), before);
}

#[test]
fn a_file_that_cannot_be_edited_stops_all_of_them() {
    let repo = TestRepo::with_commit();
    let check = |code: &str, exit: i32, arguments: &[&str]| {
        let mut all = vec!["init"];
        all.extend(arguments);
        let output = repo.agent(&all);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(exit), "{}", describe(&output));
        assert!(said.contains(&format!("error[{code}]")) && said.contains("hint: "), "{said}");
        assert!(output.stdout.is_empty());
    };
    repo.write(".gemini/settings.json", "{ not json");
    check("host-settings-invalid", 3, &["--host=claude,gemini"]);
    assert!(!repo.path().join(".claude").exists(), "nothing was written");
    fs::write(repo.path().join(".gemini/settings.json"), b"\xff").expect("written");
    check("host-settings-invalid", 3, &["--host=gemini"]);
    fs::create_dir(repo.path().join(".claude")).expect("made");
    let outside = repo.path().with_file_name("settings.json");
    fs::write(&outside, "{}").expect("written");
    symlink(&outside, repo.path().join(".claude/settings.json")).expect("linked");
    check("host-settings-invalid", 3, &["--host=claude"]);
    assert_eq!(fs::read_to_string(&outside).expect("there"), "{}");
    repo.write(".opencode/plugins/git-agent.ts", "// somebody's\n");
    check("path-exists", 3, &["--host=opencode"]);
    assert_eq!(repo.agent(&["init", "--host=nobody"]).status.code(), Some(2));
}

#[test]
fn without_a_host_those_that_are_here_are_meant() {
    let agent = agent();
    let output = agent.repo.agent(&["init"]);
    assert_eq!(
        output.status.code(),
        Some(2),
        "our own worktrees are no sign of a host: {}",
        describe(&output)
    );
    agent.repo.write(".codex/config.toml", "");
    assert_eq!(actions(&init(&agent.repo, &[])), [("codex", "created")]);
    // In a linked worktree the files of that worktree are meant.
    let mut command = agent_command(&agent.worktree);
    command.args(["init", "--host=claude"]);
    assert!(command.status().expect("starts").success());
    assert!(agent.worktree.join(".claude/settings.json").is_file());
    assert!(!agent.repo.path().join(".claude/settings.json").exists());
}

#[test]
fn host_worktrees_and_notes_are_on_request() {
    let repo = TestRepo::with_commit();
    let settings = repo.path().join(".claude/settings.json");
    let events = |path: &Path| {
        let text = fs::read_to_string(path).expect("written");
        text.matches("hook worktree-").count()
    };
    init(&repo, &["--host=claude"]);
    assert_eq!(events(&settings), 0);
    init(&repo, &["--host=claude", "--worktrees"]);
    assert_eq!(events(&settings), 2);

    repo.git(["config", "notes.displayRef", "refs/notes/review"]);
    assert_eq!(
        init(&repo, &["--notes"]),
        json!({"schema": "git-agent.init/1", "hosts": [], "notes": "created"})
    );
    assert_eq!(init(&repo, &["--notes"])["notes"], "unchanged");
    let values = || repo.git(["config", "--get-all", "notes.displayRef"]);
    assert_eq!(values(), "refs/notes/review\nrefs/notes/agents");
    let report = repo.spawn();
    let log = repo.git(["log", "-1", report["branch"].as_str().expect("one")]);
    assert!(log.contains("\"e\":\"spawned\""), "{log}");
    assert_eq!(init(&repo, &["--notes", "--remove"])["notes"], "deleted");
    assert_eq!(values(), "refs/notes/review");
}
