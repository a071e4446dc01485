//! `list` and `show`: every column against real git.

/// The quick look at a worktree, against a whole `git status`.
pub mod glance;
/// Ahead and behind.
mod histories;
/// With whom an agent overlaps.
mod overlap;
/// Filters, orders and the ways to read it.
mod reading;
/// The verdict column.
mod verdicts;

use crate::support::agent::{SHARED_TASK, TASK, agent_command, describe, json_of};
use crate::support::terminal::{Streams, shown};
use crate::support::{TestRepo, isolated};
use crate::verify::Agent;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Stdio;

/// The only row there is.
fn row(repo: &TestRepo) -> Value {
    let listed = repo.agent_json(&["list", "--all"]);
    let rows = listed["agents"].as_array().expect("rows");
    assert_eq!(rows.len(), 1);
    rows[0].clone()
}

#[test]
fn what_a_configuration_ignores_that_the_environment_names_is_no_work() {
    let agent = Agent::new();
    agent.write("note.swp", "mine");
    let beside = |name: &str| agent.repo.path().with_file_name(name);
    let (settings, ignored) = (beside("settings"), beside("ignored"));
    std::fs::write(&ignored, "*.swp\n").expect("written");
    let text = format!("[core]\n\texcludesFile = {}\n", ignored.display());
    std::fs::write(&settings, text).expect("written");
    for (named, uncommitted) in [(settings.as_path(), 0), (Path::new("/dev/null"), 1)] {
        let mut command = agent_command(&agent.repo.path());
        command.env("GIT_CONFIG_GLOBAL", named);
        command.args(["list", "--format=json"]);
        let listed = json_of(command);
        assert_eq!(listed["agents"][0]["uncommitted"], uncommitted, "{listed:#}");
    }
}

#[test]
fn how_the_user_s_own_git_reads_paths_changes_no_answer() {
    let agent = Agent::new();
    agent.write("src/new.rs", "pub fn new() {}\n");
    for variable in ["GIT_ICASE_PATHSPECS", "GIT_GLOB_PATHSPECS", "GIT_NOGLOB_PATHSPECS"] {
        for words in [["diff", &agent.id], ["verify", &agent.id]] {
            let mut command = agent_command(&agent.repo.path());
            command.env(variable, "1").args(words).arg("--format=json");
            let said = json_of(command).to_string();
            assert!(
                said.contains("src/new.rs") || said.contains("\"accept\""),
                "{variable}: {said}"
            );
        }
    }
}

#[test]
fn what_the_user_s_own_ignore_file_names_is_no_work() {
    let agent = Agent::new();
    agent.write("note.swp", "mine");
    let config = agent.repo.path().with_file_name("config");
    std::fs::create_dir_all(config.join("git")).expect("made");
    for (rule, uncommitted) in [("*.swp\n", 0), ("*.bak\n", 1)] {
        std::fs::write(config.join("git/ignore"), rule).expect("written");
        let mut git = isolated("git", &agent.worktree);
        git.env("XDG_CONFIG_HOME", &config);
        let status = git.args(["status", "--porcelain"]).output();
        let told = String::from_utf8(status.expect("git starts").stdout).expect("UTF-8");
        assert_eq!(lines(&told), uncommitted);
        let mut command = agent_command(&agent.repo.path());
        command.env("XDG_CONFIG_HOME", &config);
        command.args(["list", "--format=json"]);
        let listed = json_of(command);
        assert_eq!(listed["agents"][0]["uncommitted"], uncommitted, "{listed:#}");
    }
}

/// How many lines git prints.
fn lines(text: &str) -> usize {
    text.lines().count()
}

/// An agent with a committed and uncommitted changes, in and out of scope, on a `main` that moved on.
fn at_work() -> Agent {
    let agent = Agent::new();
    agent.write("src/two.rs", "pub fn two() {}\n");
    agent.commit("two");
    agent.write("src/two.rs", "pub fn two() -> u32 {\n    2\n}\n");
    agent.write("docs/a.md", "out of scope\n");
    agent.write("docs/b.md", "out of scope\n");
    agent.git(&["mv", "src/lib.rs", "src/moved.rs"]);
    agent.repo.write("NOTES.md", "moved on\n");
    agent.repo.commit_all("main moves on");
    agent
}

#[test]
fn counts_are_those_of_git() {
    let agent = at_work();
    let row = row(&agent.repo);
    let range = format!("main...{}", agent.branch);
    let counts = agent.repo.git(["rev-list", "--left-right", "--count", &range]);
    // The spawn commit is no work.
    let ahead = row["ahead"].as_u64().expect("a count") + 1;
    assert_eq!(format!("{}\t{ahead}", row["behind"]), counts);
    let status = agent.git(&["status", "--porcelain", "-uall", "--no-renames"]);
    assert_eq!(row["uncommitted"], lines(&status));
    assert_eq!(row["tip"], agent.git(&["rev-parse", "HEAD"]).as_str());
    assert_eq!(row["target"]["oid"], agent.repo.git(["rev-parse", "main"]).as_str());
}

#[test]
fn out_of_scope_is_what_verify_finds_out_of_scope() {
    let agent = at_work();
    agent.write("docs/c.md", "and committed\n");
    agent.git(&["add", "docs/c.md"]);
    agent.git(&["commit", "--quiet", "--no-verify", "-m", "out"]);
    let verdict = agent.verify(&[]);
    let found = verdict["findings"].as_array().expect("findings");
    let out = found.iter().filter(|finding| {
        let code = finding["code"].as_str().expect("a code");
        code.starts_with("scope.")
    });
    assert_eq!(row(&agent.repo)["out_of_scope"], out.count());
    assert_eq!(row(&agent.repo)["out_of_scope"], 3);
}

#[test]
fn a_merge_of_the_base_is_no_work_of_the_agent() {
    let agent = at_work();
    agent.git(&["add", "src"]);
    agent.git(&["commit", "--quiet", "--no-verify", "-m", "in scope"]);
    for name in ["a.md", "b.md"] {
        std::fs::remove_file(agent.worktree.join("docs").join(name)).expect("remove");
    }
    agent.git(&["merge", "--quiet", "--no-verify", "-m", "merge", "main"]);
    let row = row(&agent.repo);
    assert_eq!((&row["out_of_scope"], &row["behind"]), (&json!(0), &json!(0)));
}

#[test]
fn what_a_merge_may_have_added_out_of_scope_is_not_guessed_at() {
    let agent = Agent::new();
    agent.write("src/two.rs", "pub fn two() {}\n");
    agent.commit("two");
    agent.repo.write("NOTES.md", "main's\n");
    agent.repo.commit_all("main moves on");
    agent.git(&["merge", "--quiet", "--no-commit", "--no-ff", "main"]);
    agent.write("NOTES.md", "altered in the merge\n");
    agent.git(&["add", "NOTES.md"]);
    agent.git(&["commit", "--quiet", "--no-verify", "-m", "merge"]);
    assert_eq!(row(&agent.repo)["out_of_scope"], Value::Null);
}

#[test]
fn the_bundle_counts_files_that_verify_would_accept() {
    let repo = TestRepo::with_commit();
    repo.spawn();
    assert_eq!(row(&repo)["bundle"], json!({"good": 1, "of": 6}));
    let agent = Agent::new();
    assert_eq!(row(&agent.repo)["bundle"], json!({"good": 6, "of": 6}));
    agent.write(".agent/spec.md", "a wish of mine\n");
    agent.write(".agent/progress.json", "{\"status\": \"nearly\"}\n");
    assert_eq!(row(&agent.repo)["bundle"], json!({"good": 4, "of": 6}));
}

#[test]
fn a_shared_agent_has_no_branch_to_count_on() {
    let repo = TestRepo::with_commit();
    repo.spawn_task(SHARED_TASK, &[]);
    let row = row(&repo);
    for key in ["tip", "ahead", "behind", "uncommitted", "out_of_scope", "bundle"] {
        assert_eq!(row.get(key), None, "{key}");
    }
    assert_eq!(row.get("verdict"), None);
}

#[test]
fn what_cannot_be_told_is_null() {
    let agent = Agent::new();
    std::fs::rename(&agent.worktree, agent.worktree.with_extension("away")).expect("rename");
    let without_worktree = row(&agent.repo);
    for key in ["uncommitted", "out_of_scope", "bundle"] {
        assert_eq!(without_worktree[key], Value::Null, "{key}");
    }
    assert_eq!(without_worktree["ahead"], 0);
    agent.repo.git(["update-ref", "-d", &format!("refs/heads/{}", agent.branch)]);
    let without_branch = row(&agent.repo);
    for key in ["tip", "ahead", "behind"] {
        assert_eq!(without_branch[key], Value::Null, "{key}");
        assert!(without_branch.get(key).is_some());
    }
}

#[test]
fn a_broken_worktree_does_not_take_the_others_away() {
    let agent = Agent::new();
    let other = agent.repo.spawn_task(TASK, &["--name=other"]);
    std::fs::write(agent.worktree.join(".git"), "nonsense\n").expect("write");
    let listed = agent.repo.agent_json(&["list"]);
    assert_eq!(listed["agents"][0]["uncommitted"], Value::Null);
    assert_eq!(listed["agents"][1]["agent_id"], other["agent_id"]);
    assert_eq!(listed["agents"][1]["uncommitted"], 0);
}

#[test]
fn show_knows_what_list_knows() {
    let agent = at_work();
    let (listed, shown) = (row(&agent.repo), agent.repo.agent_json(&["show", &agent.id]));
    for (key, value) in listed.as_object().expect("an object") {
        assert_eq!(shown[key], *value, "{key}");
    }
    let text = String::from_utf8(agent.repo.agent(&["show", &agent.id]).stdout).expect("UTF-8");
    for line in [
        "Ahead:     1 to land, 1 behind\n",
        "Dirty:     5 paths not committed\n",
        "Scope:     2 paths out of scope\n",
        "Bundle:    6 of 6 files\n",
    ] {
        assert!(text.contains(line), "{text}");
    }
}

#[test]
fn looking_changes_nothing() {
    let agent = at_work();
    let state = || {
        let mut files = crate::support::snapshot(&agent.repo.path());
        // Disposable copies of what is elsewhere.
        files.retain(|path, _| !path.to_string_lossy().contains("/.git/agents/cache"));
        files
    };
    let before = state();
    row(&agent.repo);
    agent.repo.agent_json(&["show", &agent.id]);
    crate::support::assert_unchanged(&before, &state(), "list");
}

#[test]
fn a_worktree_that_was_taken_away_is_told() {
    let agent = Agent::new();
    let (repo, id, top) = (&agent.repo, &agent.id, &agent.worktree);
    let tip = agent.git(&["rev-parse", "HEAD"]);
    let row = || row(repo);
    assert_eq!(row().get("worktree_gone"), None);
    std::fs::remove_dir_all(top).expect("removed");
    assert_eq!(row()["worktree_gone"], true);
    let table = repo.agent(&["list"]);
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    assert!(table.contains("ready, worktree gone"), "{table}");
    let shown = repo.agent(&["show", id]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("--reopen"), "{shown}");
    repo.agent_json(&["rescue", id, "--reopen"]);
    assert_eq!(row().get("worktree_gone"), None);
    // Git's own record may go as well.
    repo.git(["worktree", "remove", "--force", "--force", top.to_str().expect("UTF-8")]);
    assert_eq!(row()["worktree_gone"], true);
    assert_eq!(row()["tip"], tip.as_str());
}

/// What a command prints on a terminal of 80 columns, without its styles.
fn on_80_columns(repo: &TestRepo, arguments: &[&str]) -> String {
    let (seen, is_success) = said_on_80_columns(repo, arguments);
    assert!(is_success, "{seen}");
    seen
}

fn said_on_80_columns(repo: &TestRepo, arguments: &[&str]) -> (String, bool) {
    let mut command = agent_command(&repo.path());
    command.args(arguments).stderr(Stdio::null()).env("NO_COLOR", "1");
    let (seen, status) = shown(&mut command, (24, 80), Streams::Output);
    (seen, status.success())
}

#[test]
fn a_list_fits_the_terminal_and_cuts_no_word() {
    let agent = Agent::new();
    let task = "Make the words of this task long enough to be cut, elsewhere";
    agent.repo.agent_json(&["spawn", task, "--name=a-longer-name"]);
    let seen = on_80_columns(&agent.repo, &["list"]);
    assert!(seen.lines().all(|line| line.chars().count() <= 80), "{seen}");
    let row = seen.lines().find(|line| line.contains("a-longer-name"));
    let shown = row.and_then(|row| row.split_once("Make")).expect("the task").1;
    let shown = format!("Make{}", shown.trim_end().trim_end_matches('…'));
    assert!(shown.len() < task.len() && task.starts_with(&format!("{shown} ")), "{seen}");
    let whole = agent.repo.agent(&["list"]);
    assert!(String::from_utf8_lossy(&whole.stdout).contains(task));
}

#[test]
fn show_has_the_whole_task_what_was_changed_and_the_last_output() {
    let agent = Agent::new();
    let task = format!("{}\nlast words of it", "a task of many words ".repeat(12).trim_end());
    agent.repo.agent_json(&["spawn", &task, "--name=long"]);
    let command = "printf 'new\\n%.0s' 1 2 3 >> README.md; seq 1 9; printf '\\033[2Jend\\n'";
    let run = agent.repo.agent(&["run", "long", "--no-verify", "--", "sh", "-c", command]);
    assert!(run.status.success(), "{run:?}");
    let objects = || agent.repo.git(["count-objects", "-v"]);
    let before = objects();
    let shown = agent.repo.agent_json(&["show", "long"]);
    assert_eq!(shown["task"], task.as_str());
    assert_eq!(shown["diff"], serde_json::json!({"files": 1, "insertions": 3, "deletions": 0}));
    let piped = agent.repo.agent(&["show", "long"]);
    let piped = String::from_utf8_lossy(&piped.stdout).into_owned();
    for text in [on_80_columns(&agent.repo, &["show", "long"]), piped] {
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        let words: Vec<_> = text.split_whitespace().collect();
        assert!(words.join(" ").contains(&task.replace('\n', " ")), "{text}");
        assert!(text.contains("Changed:   1 file, +3 -0\n"), "{text}");
        assert!(text.contains("\nLast output:\n  6\n  7\n  8\n  9\n"), "{text}");
        assert!(!text.contains('\u{1b}') && text.contains("  \\u{1b}[2Jend\n"), "{text:?}");
    }
    // What was compared is not left in the repository.
    assert_eq!(objects(), before);
    // A log in whose place a reader would wait is passed over.
    let log = agent.repo.path().join(".git/agents");
    let log = log.join(shown["short_id"].as_str().expect("an id")).join("run/1.out");
    std::fs::remove_file(&log).expect("removed");
    assert!(std::process::Command::new("mkfifo").arg(&log).status().expect("starts").success());
    agent.repo.agent_json(&["show", "long"]);
}

#[test]
fn every_line_of_an_answer_fits_the_terminal() {
    let agent = Agent::new();
    let task = "Make the words of this task long enough to be cut, as it is on a terminal";
    let words = ["spawn", task, "--name=a-much-longer-name", "--parent", &agent.id];
    agent.repo.agent_json(&words);
    for words in [
        &["doctor"][..],
        &["tree"],
        &["config"],
        &["setup", "pool"],
        &["setup", "shell", "--dry-run"],
        &["doctor", "hooks", "status"],
    ] {
        // `doctor` ends with another status where it finds something.
        let (seen, _) = said_on_80_columns(&agent.repo, words);
        // What is to be copied is not broken, such as the directories of this test.
        let place = agent.repo.path().display().to_string();
        let is_wide = |line: &&str| line.chars().count() > 80 && !line.contains(&place);
        assert_eq!(seen.lines().find(is_wide), None, "{words:?}\n{seen}");
    }
}

#[test]
fn a_terminal_that_does_not_say_how_wide_it_is_gets_every_word() {
    let agent = Agent::new();
    let mut command = agent_command(&agent.repo.path());
    command.arg("list").stderr(Stdio::null());
    let (seen, status) = shown(&mut command, (0, 0), Streams::Output);
    assert!(status.success());
    let task = "Add a second function to the library and test it.";
    assert!(seen.contains(task), "{seen}");
}

#[test]
fn a_long_name_leaves_room_for_the_others() {
    let repo = TestRepo::with_commit();
    repo.spawn_task(TASK, &["--name", &"n".repeat(63)]);
    repo.spawn_task(TASK, &["--name=fixer"]);
    let text = on_80_columns(&repo, &["list"]);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert!(lines.iter().all(|line| line.chars().count() <= 80), "{text}");
    assert!(lines[0].contains("VERDICT") || lines[0].contains("SCOPE"), "{text}");
    assert!(lines[1].contains(" nnnnnnnnnnn") && lines[1].contains("…  ready"), "{text}");
    assert!(lines[2].contains(" fixer  "), "{text}");
}

#[test]
fn what_is_written_after_a_landing_keeps_an_agent_in_the_list() {
    let agent = Agent::new();
    agent.write("src/one.rs", "pub fn one() {}\n");
    agent.repo.agent_json(&["merge", &agent.id]);
    let listed = || agent.repo.agent_json(&["list"])["agents"].clone();
    assert_eq!(listed(), json!([]));
    agent.write("src/one.rs", "pub fn one() {}\npub fn two() {}\n");
    let rows = listed();
    assert_eq!(
        (&rows[0]["agent_id"], &rows[0]["state"], &rows[0]["uncommitted"]),
        (&json!(agent.id), &json!("idle"), &json!(1)),
        "{rows}"
    );
    // The rows alone tell nothing of files.
    assert_eq!(agent.repo.agent_json(&["list", "--fast"])["agents"], json!([]));
    agent.repo.agent_json(&["merge", &agent.id]);
    assert_eq!(listed(), json!([]));
}

#[test]
fn settings_that_cannot_be_used_hide_no_agent() {
    let agent = Agent::new();
    agent.repo.write(".config/git-agent.toml", "[limits]\nagnts = 3\n");
    agent.repo.commit_all("settings");
    for verb in [&["list"][..], &["report"], &["show", &agent.id]] {
        let output = agent.repo.agent(verb);
        let said = describe(&output);
        assert!(output.status.success() && said.contains("ready"), "{said}");
        assert_eq!(said.contains("run git agent doctor"), verb[0] == "list", "{said}");
    }
    let output = agent.repo.agent(&["doctor"]);
    let said = describe(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("settings.unusable") && said.contains("git-agent.toml:2"), "{said}");
}
