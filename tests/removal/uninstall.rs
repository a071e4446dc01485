//! `uninstall`: the repository is as it was before the first spawn.

use crate::support::agent::{TASK, describe};
use crate::support::death::{self, Order, ctx, steps_of};
use crate::support::{TestRepo, git_in, git_output};
use crate::verify::refused;
use git_agent::ops::uninstall::{self, STEPS, UninstallOptions};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use walkdir::WalkDir;

const EVERYTHING: UninstallOptions = UninstallOptions { ledger: true };

/// Not a test: the process that dies. It does nothing unless a step is named.
#[test]
fn child() {
    if let Some(order) = Order::received() {
        let ctx = ctx(&order.directory, order.dying());
        uninstall::execute(&ctx, EVERYTHING).expect("uninstalled");
    }
}

/// The whole repository but its objects and what git wrote for the commit of the test.
fn listing(repo: &TestRepo) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = WalkDir::new(repo.path()).into_iter();
    let entries = entries.filter_entry(|entry| !entry.path().ends_with(".git/objects"));
    entries
        .map(|entry| {
            let path = entry.expect("readable").into_path();
            let content = fs::read(&path).unwrap_or_default();
            (path, content)
        })
        .collect()
}

/// What git says about the configuration and the refs.
fn told(repo: &TestRepo) -> [String; 3] {
    [
        repo.git(["config", "-l", "--show-origin"]),
        repo.git(["for-each-ref"]),
        repo.git(["worktree", "list", "--porcelain"]),
    ]
}

fn text(report: &Value, key: &str) -> String {
    report[key].as_str().expect("a text").to_owned()
}

/// What a repository is left with after an agent's whole life, a pool and all that `init` offers.
fn used(repo: &TestRepo) {
    let agent = repo.spawn();
    let id = text(&agent, "agent_id");
    let run = repo.agent(&["run", &id, "--no-verify", "--", "sh", "-c", "echo x > src/x.rs"]);
    assert!(run.status.success(), "{}", describe(&run));
    repo.agent_json(&["send", "--type=notify", "--to=bob", "--payload=message=hello"]);
    repo.agent_json(&["discard", &id]);
    repo.agent_json(&["pool", "fill"]);
    repo.agent_json(&["init", "--host=claude,codex", "--notes", "--log-alias"]);
}

fn prepared() -> TestRepo {
    let repo = TestRepo::with_commit();
    repo.write(".config/git-agent.toml", "[pool]\nsize = 1\n");
    repo.commit_all("settings");
    repo
}

#[test]
fn everything_is_as_before_the_first_spawn() {
    let repo = prepared();
    // Without a last line end.
    repo.write(".git/info/exclude", "# mine\n/.agent-notes");
    let (before, said) = (listing(&repo), told(&repo));
    used(&repo);
    assert_ne!(said, told(&repo));
    let log = repo.git(["lg"]);
    assert_eq!(log.lines().count(), 2, "{log}");
    let planned = repo.agent_json(&["uninstall", "--ledger"]);
    let mut done = repo.agent_json(&["uninstall", "--ledger", "--yes"]);
    assert_eq!(done["dry_run"], false);
    done["dry_run"] = true.into();
    assert_eq!(planned, done);
    assert_eq!(done["lost"]["rows"], 1);
    assert_eq!(done["lost"]["logs"], 2);
    assert_eq!(done["lost"]["messages"], true);
    assert!(done["lost"]["kept_commits"].as_u64() > Some(0), "{done}");
    assert_eq!(said, told(&repo));
    let after = listing(&repo);
    assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
    assert!(before == after);
    // The next spawn finds nothing that is in its way.
    repo.spawn();
}

#[test]
fn the_ledger_and_kept_work_stay_unless_they_are_named() {
    let repo = prepared();
    used(&repo);
    let id = repo.agent_json(&["list", "--all"])["agents"][0]["short_id"].clone();
    let id = id.as_str().expect("an id").to_owned();
    let refs = repo.git(["for-each-ref", "refs/agents", "refs/notes"]);
    let done = repo.agent_json(&["uninstall", "--yes"]);
    assert_eq!(done["lost"]["rows"], 0);
    assert_eq!(refs, repo.git(["for-each-ref", "refs/agents", "refs/notes"]));
    assert!(!repo.path().join(".git/agents").exists());
    repo.agent_json(&["rescue", &id, "--branch", "back"]);
    assert_eq!(repo.git(["show", "back:src/x.rs"]), "x");
}

#[test]
fn an_agent_that_is_brought_back_afterwards_is_hidden_again() {
    let repo = TestRepo::with_commit();
    let agent = repo.spawn();
    fs::write(PathBuf::from(text(&agent, "worktree_abspath")).join("src/x.rs"), "")
        .expect("written");
    repo.agent_json(&["discard", &text(&agent, "agent_id")]);
    repo.agent_json(&["uninstall", "--yes"]);
    repo.agent_json(&["rescue", "--reopen", &text(&agent, "agent_id")]);
    assert_eq!(repo.git(["status", "--porcelain"]), "");
}

#[test]
fn what_was_there_before_and_what_others_need_stays() {
    let repo = TestRepo::with_commit();
    repo.git(["config", "extensions.worktreeConfig", "true"]);
    repo.write(".git/info/exclude", "/.claude/worktrees/\n");
    let (before, said) = (listing(&repo), told(&repo));
    let agent = repo.spawn();
    repo.agent_json(&["discard", &text(&agent, "agent_id")]);
    repo.agent_json(&["uninstall", "--ledger", "--yes"]);
    assert_eq!(said, told(&repo));
    assert!(before == listing(&repo));

    // A worktree of the user has settings of its own by now, and the list got another line.
    let repo = TestRepo::with_commit();
    let agent = repo.spawn();
    repo.agent_json(&["discard", &text(&agent, "agent_id")]);
    let beside = repo.path().with_file_name("mine");
    repo.git(["worktree", "add", "--quiet", beside.to_str().expect("UTF-8")]);
    git_in(&beside, ["config", "--worktree", "user.name", "Mine"]);
    let exclude = repo.path().join(".git/info/exclude");
    let lines = fs::read_to_string(&exclude).expect("a file") + "mine\n";
    fs::write(&exclude, &lines).expect("written");
    repo.git(["config", "agent.worktreeDir", "../{id}"]);
    let done = repo.agent_json(&["uninstall", "--yes"]);
    let kept = done["items"]
        .as_array()
        .expect("items")
        .iter()
        .filter(|item| item["action"] == "keep" && item["kind"] == "setting");
    let kept: Vec<_> = kept.map(|item| item["what"].as_str()).collect();
    assert_eq!(kept, [Some("extensions.worktreeConfig"), Some("agent.worktreeDir")]);
    assert_eq!(repo.git(["config", "agent.worktreeDir"]), "../{id}");
    assert_eq!(git_in(&beside, ["config", "user.name"]), "Mine");
    let left = fs::read_to_string(&exclude).expect("a file");
    assert!(!left.contains("worktrees") && left.ends_with("mine\n"), "{left}");
}

#[test]
fn a_bare_flag_and_a_separate_place_go_back_where_they_were() {
    let repo = TestRepo::with_commit();
    let bare = repo.path().with_file_name("bare.git");
    let clone = ["clone", "--quiet", "--bare", ".", bare.to_str().expect("UTF-8")];
    repo.git(clone);
    let said = git_in(&bare, ["config", "-l", "--show-origin"]);
    let task = repo.task_file(TASK);
    let agent = |words: &[&str]| {
        let output = crate::support::agent::agent_command(&bare).args(words).output();
        let output = output.expect("git-agent starts");
        assert!(output.status.success(), "{}", describe(&output));
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let spawned: Value =
        serde_json::from_str(&agent(&["spawn", &task, "--format=json"])).expect("JSON");
    assert_ne!(said, git_in(&bare, ["config", "-l", "--show-origin"]));
    agent(&["discard", &text(&spawned, "agent_id")]);
    agent(&["uninstall", "--yes"]);
    let mut before: Vec<&str> = said.lines().collect();
    let now = git_in(&bare, ["config", "-l", "--show-origin"]);
    let mut now: Vec<&str> = now.lines().collect();
    before.sort_unstable();
    now.sort_unstable();
    assert_eq!(before, now);
    assert!(!bare.join("config.worktree").exists());
}

#[test]
fn nothing_is_removed_while_an_agent_has_something_left() {
    let repo = TestRepo::with_commit();
    let agent = repo.spawn();
    let id = text(&agent, "short_id");
    let before = listing(&repo);
    for options in [&["uninstall"][..], &["uninstall", "--yes"]] {
        let output = repo.agent(options);
        refused(&output, "uninstall-refused", 3);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(&format!("git agent discard {id}")), "{said}");
    }
    assert!(before == listing(&repo));
    let inside = PathBuf::from(text(&agent, "worktree_abspath"));
    let output =
        crate::support::agent::agent_command(&inside).args(["uninstall", "--yes"]).output();
    refused(&output.expect("git-agent starts"), "orchestrator-only", 3);
}

#[test]
fn a_kill_at_any_step_leaves_what_the_next_one_completes() {
    let repo = prepared();
    let (before, said) = (listing(&repo), told(&repo));
    used(&repo);
    let mut saved = repo.save();
    for step in STEPS {
        death::die_at("removal::uninstall::child", &repo.path(), step, &[]);
        assert_eq!(repo.git(["fsck", "--strict", "--no-progress", "--no-dangling"]), "", "{step}");
        let done = repo.agent(&["uninstall", "--ledger", "--yes"]);
        assert!(done.status.success(), "{step}: {}", describe(&done));
        assert_eq!(said, told(&repo), "{step}");
        let after = listing(&repo);
        assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>(), "{step}");
        assert!(before == after, "{step}");
        saved.restore();
    }
    let steps = steps_of(|reached| {
        let ctx = ctx(&repo.path(), reached);
        uninstall::execute(&ctx, EVERYTHING).expect("uninstalled");
    });
    let ours: Vec<_> = steps.iter().filter(|step| STEPS.contains(&step.as_str())).collect();
    assert_eq!(ours, STEPS.iter().collect::<Vec<_>>());
}

#[test]
fn an_alias_of_the_user_is_neither_replaced_nor_removed() {
    let repo = TestRepo::with_commit();
    repo.git(["config", "alias.lg", "log --graph"]);
    let output = repo.agent(&["init", "--log-alias"]);
    refused(&output, "usage", 2);
    repo.agent_json(&["init", "--log-alias=ll"]);
    assert!(git_output(&repo.path(), ["ll"]).status.success());
    // A removal takes one out, so there is never a second one.
    let output = repo.agent(&["init", "--log-alias=l3"]);
    assert!(describe(&output).contains("alias.ll is the alias"), "{}", describe(&output));
    assert_eq!(repo.agent_json(&["init", "--log-alias", "--remove"])["log_alias"], "deleted");
    assert_eq!(repo.git(["config", "alias.lg"]), "log --graph");
    assert!(!git_output(&repo.path(), ["config", "alias.ll"]).status.success());
}

#[test]
fn what_the_user_had_set_before_stays_to_the_byte() {
    // Unusual, but git reads it: no line end at the end, a comment, a key in capitals, line ends of another system.
    let repo = prepared();
    let config = repo.path().join(".git/config");
    let mut text = fs::read_to_string(&config).expect("a file");
    text.push_str("; mine\r\n[Notes]\n\tDisplayRef = refs/notes/agents\n[alias]\n\tlog2 = log\n[core] ; twice\n\tabbrev=9");
    fs::write(&config, &text).expect("written");
    let host = "{\n  // mine\n  \"hooks\": {\n    \"Stop\": [\n      {\"hooks\": [{\"type\": \"command\", \"command\": \"git-agent hook stop && ./mine\"}]},\n    ]\n  },\n  \"model\": \"x\"}";
    repo.write(".claude/settings.json", host);
    repo.write(".git/info/exclude", "");
    let before = listing(&repo);
    used(&repo);
    assert_ne!(before, listing(&repo));
    let done = repo.agent_json(&["uninstall", "--ledger", "--yes"]);
    assert!(!done.to_string().contains("displayRef"), "{done}");
    let after = listing(&repo);
    for (path, content) in &before {
        let now = after.get(path).map(|now| String::from_utf8_lossy(now));
        assert_eq!(now.as_deref(), Some(&*String::from_utf8_lossy(content)), "{}", path.display());
    }
    assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
    // Where the user has changed the file since, what we put in goes and all else stays.
    used(&repo);
    let mine = fs::read_to_string(&config).expect("a file") + "[user]\n\tmine = 1\n";
    fs::write(&config, &mine).expect("written");
    repo.agent_json(&["uninstall", "--ledger", "--yes"]);
    let left = fs::read_to_string(&config).expect("a file");
    assert!(left.starts_with(&text) && left.ends_with("mine = 1\n"), "{left}");
    assert!(!left.to_lowercase().contains("worktreeconfig"), "{left}");
}

#[test]
fn the_only_copy_of_some_work_is_never_removed() {
    let repo = prepared();
    used(&repo);
    let agents = repo.path().join(".git/agents");
    let id = repo.agent_json(&["list", "--all"])["agents"][0]["short_id"].clone();
    let unread = agents.join(id.as_str().expect("an id")).join("clone.git.123.tmp");
    fs::create_dir_all(&unread).expect("made");
    fs::write(unread.join("HEAD"), "garbled").expect("written");
    for words in [&["uninstall", "--yes"][..], &["uninstall", "--yes", "--ledger"], &["uninstall"]]
    {
        refused(&repo.agent(words), "uninstall-refused", 3);
        let said = describe(&repo.agent(words));
        assert!(said.contains("clone.git.123.tmp"), "{said}");
    }
    assert!(unread.join("HEAD").exists());
    fs::remove_dir_all(&unread).expect("removed");
    let planned = repo.agent_json(&["uninstall"]);
    let task = format!("{}/task.toml", id.as_str().expect("an id"));
    assert!(planned["items"].to_string().contains(&task), "{planned}");
    repo.agent_json(&["uninstall", "--yes"]);
}

#[test]
fn what_is_wrong_with_settings_of_others_is_in_its_way_no_more() {
    let repo = TestRepo::with_commit();
    let settings = repo.path().join(".claude/settings.json");
    repo.write(".claude/settings.json", "{ bad");
    let spawned = repo.agent_json(&["spawn", "do it", "--scope=src"]);
    repo.agent_json(&["discard", spawned["agent_id"].as_str().expect("an id")]);
    repo.agent_json(&["uninstall", "--yes"]);
    assert_eq!(std::fs::read_to_string(&settings).expect("read"), "{ bad");
    std::fs::remove_file(&settings).expect("removed");
    std::os::unix::fs::symlink("/etc/hostname", &settings).expect("linked");
    repo.agent_json(&["uninstall", "--yes"]);
    // What names us is looked at.
    std::fs::remove_file(&settings).expect("removed");
    repo.write(".claude/settings.json", "{ \"git-agent\"");
    let refused = repo.agent(&["uninstall", "--yes"]);
    assert!(describe(&refused).contains("host-settings-invalid"), "{}", describe(&refused));
}
