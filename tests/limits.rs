//! What agents may take of a machine.

/// Who may begin, and in which order.
mod admission;
/// Runs that take too much.
mod usage;

use crate::support::TestRepo;
use crate::support::agent::{TASK, agent_command, describe};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// A repository whose commit has these settings.
fn with_settings(text: &str) -> TestRepo {
    let repo = TestRepo::with_commit();
    repo.write(".config/git-agent.toml", text);
    repo.commit_all("settings");
    repo
}

/// A file outside of the repository, in a directory that commands may write.
fn beside(repo: &TestRepo, name: &str) -> PathBuf {
    let directory = repo.path().with_file_name("beside");
    std::fs::create_dir_all(&directory).expect("a directory");
    directory.join(name)
}

/// A run of a shell script for an agent; it finds that directory as `BESIDE`.
fn run(repo: &TestRepo, agent: &str, options: &[&str], script: &str) -> Command {
    let mut command = agent_command(&repo.path());
    command
        .args(["run", "--no-verify", "--format=json", "--allow-write"])
        .arg(beside(repo, ""))
        .args(options)
        .args([agent, "--", "sh", "-c", script])
        .env("BESIDE", beside(repo, ""))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn spawned(repo: &TestRepo) -> String {
    let agent = repo.spawn_task(TASK, &[]);
    agent["agent_id"].as_str().expect("an id").to_owned()
}

/// The error that a command ended with, as machines read it.
fn error(output: &Output) -> Value {
    let answer: Value = serde_json::from_slice(&output.stderr).expect("JSON");
    answer["error"].clone()
}

fn wait_for(path: &Path) {
    while !path.exists() {
        crate::support::pause();
    }
}

fn ended(child: Child) -> Output {
    let output = child.wait_with_output().expect("ends");
    assert!(output.status.success(), "{}", describe(&output));
    output
}

fn setting<'a>(config: &'a Value, key: &str) -> &'a Value {
    let all = config["settings"].as_array().expect("a list");
    let found = all.iter().find(|one| one["key"] == key);
    found.unwrap_or_else(|| panic!("{key} in {config:#}"))
}

#[test]
fn the_stricter_of_two_limits_holds_and_config_says_which() {
    let repo =
        with_settings("[limits]\njobs = 4\nmemory = \"4G\"\ncost_day = 20\ndisk_free = \"1G\"\n");
    for (key, value) in [
        ("agent.limits.jobs", "2"),
        ("agent.limits.memory", "8G"),
        ("agent.limits.diskFree", "2G"),
        ("agent.limits.costDay", "20.00"),
    ] {
        repo.git(["config", key, value]);
    }
    let config = repo.agent_json(&["config"]);
    let overruled = |key: &str| setting(&config, key)["overruled_by"].clone();
    assert_eq!(setting(&config, "limits.memory")["value"], "4.0 GiB");
    assert_eq!(setting(&config, "limits.cost_day")["value"], "$20.00");
    assert_eq!(overruled("limits.jobs"), "agent.limits.jobs");
    assert_eq!(overruled("agent.limits.memory"), "limits.memory");
    // More that stays free is stricter.
    assert_eq!(overruled("limits.disk_free"), "agent.limits.diskFree");
    assert_eq!(overruled("agent.limits.jobs"), Value::Null);
    assert_eq!(overruled("limits.cost_day"), Value::Null);
    assert_eq!(overruled("agent.limits.costDay"), Value::Null);
    let text = String::from_utf8(repo.agent(&["config"]).stdout).expect("UTF-8");
    assert!(text.contains("limits.memory is stricter"), "{text}");
}

#[test]
fn a_value_that_is_none_is_refused_with_its_place_and_loses_nothing() {
    let repo = with_settings("[limits]\njobs = 0\nmemory = 4\nagent = 3\ndisk = \"20 apples\"\n");
    let refused = repo.agent(&["spawn", "-m", "a task for an agent"]);
    assert_eq!(refused.status.code(), Some(2), "{}", describe(&refused));
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    for part in [
        "git-agent.toml:2:8: `jobs` is `0`",
        "git-agent.toml:3:10: `memory` is `4`",
        "git-agent.toml:4:1: unknown key `agent` in [limits]",
        "did you mean `agents`?",
        "git-agent.toml:5:8: `disk` is `20 apples`",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let repo = TestRepo::with_commit();
    let id = spawned(&repo);
    for (key, value, part) in [
        ("agent.limits.jobs", "many", "`jobs` is `many`"),
        ("agent.limits.job", "2", "did you mean agent.limits.jobs?"),
    ] {
        repo.git(["config", key, value]);
        let refused = repo.agent(&["run", &id, "--", "true"]);
        assert_eq!(refused.status.code(), Some(2), "{}", describe(&refused));
        let text = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(text.contains(part) && text.contains("git config --unset-all"), "{text}");
        repo.git(["config", "--unset", key]);
    }
    // A worktree's own configuration is the agent's to write, and limits nothing.
    repo.git(["config", "extensions.worktreeConfig", "true"]);
    repo.git(["config", "--worktree", "agent.limits.jobs", "many"]);
    let ran = repo.agent(&["run", "--no-verify", &id, "--", "true"]);
    assert!(ran.status.success(), "{}", describe(&ran));
}

#[test]
fn what_a_run_may_cost_is_the_least_of_all_who_say_so() {
    let repo = with_settings("[limits]\ncost = 2\n");
    let line = |task: &str, options: &[&str]| {
        let words = ["run", task, "--dry-run", "--host=claude"];
        repo.agent_json(&[&words, options].concat())["command"].to_string()
    };
    let plain = repo.task_file(TASK);
    assert!(line(&plain, &[]).contains(r#""--max-budget-usd","2""#));
    assert!(line(&plain, &["--max-cost=9"]).contains(r#""--max-budget-usd","2""#));
    assert!(line(&plain, &["--max-cost=0.5"]).contains(r#""--max-budget-usd","0.5""#));
    let modest = repo.task_file(&format!("{TASK}[limits]\ncost = 1\n"));
    assert!(line(&modest, &[]).contains(r#""--max-budget-usd","1""#));
}
