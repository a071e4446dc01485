//! `run`: what a command finds, how it ends, what is recorded of it.

/// Runs that go on without their caller: `run --background`, `ps`, `wait`, `stop`, `logs`.
mod background;
/// Several at once.
mod batch;
/// What a command is given: words, variables, standard input.
mod command;
mod cost;
/// A person in an agent's worktree.
mod enter;
mod hosts;
/// Death at every step.
mod kill;
/// An agent that spawns, runs and lands others, and one that tries for more.
mod lead;
mod output;
/// Roles that take over from each other.
mod pipeline;
/// What is left of a command when it is over: nothing.
mod processes;
mod prompt;
/// What an agent says of itself, and what a run makes of it.
mod said;
mod tournament;

use crate::support::TestRepo;
use crate::support::agent::{SHARED_TASK, TASK, agent_command, describe};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Writes the files that the judge asks for, and work in scope.
const WORKS: &str = r#"
for name in plan chatlog handoffs review; do echo written > .agent/$name.md; done
echo '{"status": "done"}' > .agent/progress.json
echo 'pub fn two() {}' > src/two.rs
"#;

/// `run` for a task or an agent, with the shell as command.
fn command(repo: &TestRepo, target: &str, options: &[&str], script: &str) -> Command {
    let mut command = agent_command(&repo.path());
    command
        .arg("run")
        .args(options)
        .arg("--allow-write")
        .arg(beside(repo, ""))
        .args([target, "--", "sh", "-c", script])
        .env("TMPDIR", repo.path().parent().expect("a parent"))
        .env("BESIDE", beside(repo, ""));
    command
}

/// A file that is in no repository, in a directory that commands may write.
fn beside(repo: &TestRepo, name: &str) -> PathBuf {
    let directory = repo.path().with_file_name("beside");
    std::fs::create_dir_all(&directory).expect("a directory");
    directory.join(name)
}

fn run(repo: &TestRepo, target: &str, options: &[&str], script: &str) -> Output {
    command(repo, target, options, script).output().expect("starts")
}

/// The answer of a run, whatever its status.
fn run_json(repo: &TestRepo, target: &str, options: &[&str], script: &str) -> Value {
    let output = run(repo, target, &[options, &["--format=json"]].concat(), script);
    assert!(output.stderr.is_empty(), "{}", describe(&output));
    let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    let code = output.status.code().expect("a status");
    let is_rejected = report["status"] == "rejected";
    let expected = if is_rejected { 1.into() } else { report["exit_code"].clone() };
    assert_eq!(expected, code, "{report}");
    report
}

/// A repository with an agent, and its id.
fn spawned(task: &str) -> (TestRepo, String) {
    let repo = TestRepo::with_commit();
    let agent = repo.spawn_task(task, &[]);
    let id = agent["agent_id"].as_str().expect("an id").to_owned();
    (repo, id)
}

/// The kinds and details of an agent's events.
fn events(repo: &TestRepo, id: &str) -> Vec<String> {
    let log = repo.agent_json(&["log", id]);
    let events = log["events"].as_array().expect("a list").iter();
    let text = |event: &Value, key: &str| event[key].as_str().unwrap_or_default().to_owned();
    let lines = events.map(|event| format!("{} {}", text(event, "event"), text(event, "detail")));
    lines.collect()
}

fn read(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(path.as_ref()).expect("readable")
}

#[test]
fn a_task_becomes_an_agent_that_works_and_is_judged() {
    let repo = TestRepo::with_commit();
    let task = repo.task_file(TASK);
    let report = run_json(&repo, &task, &[], WORKS);
    assert_eq!(report["schema"], "git-agent.run/2");
    assert_eq!(
        [&report["status"], &report["ended"], &report["verdict"]],
        ["success", "exit", "accept"]
    );
    assert_eq!(report["verify"]["schema"], "git-agent.verify/2");
    assert_eq!(report["timeout_ms"], 300_000);
    let id = report["agent_id"].as_str().expect("an id");
    assert_eq!(report["spawn"]["agent_id"], id);
    let agent = repo.agent_json(&["show", id]);
    assert_eq!(agent["state"], "done");
    assert_eq!(agent["run"]["state"], "exited");
    assert_eq!(agent["run"]["exit_code"], 0);
    let kinds: Vec<_> = events(&repo, id)
        .iter()
        .map(|line| line.split(' ').next().expect("a kind").to_owned())
        .collect();
    assert_eq!(kinds, ["spawning", "spawned", "started", "exited", "verified"]);
}

#[test]
fn rejected_work_is_told_of_and_is_no_success() {
    let (repo, id) = spawned(TASK);
    let report = run_json(&repo, &id, &[], "echo x > out-of-scope");
    assert_eq!([&report["status"], &report["verdict"]], ["rejected", "reject"]);
    assert_eq!(report["exit_code"], 0, "the command's own");
    assert_eq!(repo.agent_json(&["show", &id])["state"], "idle");
}

#[test]
fn a_command_that_fails_leaves_everything_as_it_is() {
    let (repo, id) = spawned(TASK);
    let report = run_json(&repo, &id, &[], "echo half > src/half.rs; exit 3");
    assert_eq!(report["status"], "failed");
    assert!(report.get("verdict").is_none(), "{report}");
    let agent = repo.agent_json(&["show", &id]);
    assert_eq!(agent["state"], "failed");
    let path = repo.agent_json(&["path", &id]);
    let worktree = Path::new(path["worktree_abspath"].as_str().expect("a path"));
    assert_eq!(read(worktree.join("src/half.rs")), "half\n");
}

#[test]
fn runs_are_numbered_and_keep_their_logs() {
    let (repo, id) = spawned(TASK);
    for number in 1..=2 {
        let script = format!("echo out {number}; echo err {number} >&2");
        let report = run_json(&repo, &id, &["--no-verify"], &script);
        assert_eq!(report["run"], number);
        assert_eq!(report["summary"], format!("out {number}"));
        assert!(report.get("verdict").is_none(), "{report}");
        let path = |key: &str| report[key].as_str().expect("a path").to_owned();
        assert_eq!(read(path("stdout_path")), format!("out {number}\n"));
        assert_eq!(read(path("stderr_path")), format!("err {number}\n"));
    }
    let log = events(&repo, &id);
    assert_eq!(
        log[2..],
        [
            "started sh -c 'echo out 1; echo err 1 >&2'",
            "exited status 0",
            "started sh -c 'echo out 2; echo err 2 >&2'",
            "exited status 0"
        ]
    );
}

#[test]
fn standard_output_is_the_commands_own() {
    let (repo, id) = spawned(TASK);
    let output =
        run(&repo, &id, &["--sandbox=off"], r"printf 'a\033[1mb\377'; echo err >&2; exit 9");
    assert_eq!(output.stdout, b"a\x1b[1mb\xff");
    let told = String::from_utf8_lossy(&output.stderr);
    let told = told.replace(repo.path().to_str().expect("UTF-8"), "<root>");
    let told = told.replace(&id[..8], "<id8>");
    let took = told.find(" (").expect("a duration")..told.find(")\n").expect("its end");
    let told = told.replace(&told[took], " (<time>");
    insta::assert_snapshot!(told, @r"
    err
    run 1 of <id8> ended with status 9 (<time>)
      output: git agent show --output <id8>
    ");
    let output = run(&repo, &id, &["--quiet"], "echo out; echo err >&2; exit 9");
    assert_eq!(describe(&output), "------- stderr -------\n[exit status: 9]");
}

#[test]
fn a_reader_that_goes_away_does_not_end_the_command() {
    let (repo, id) = spawned(TASK);
    let script = "yes | head -c 1000000; echo end > \"$BESIDE/end\"";
    let mut child = command(&repo, &id, &["--no-verify"], script)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("starts");
    drop(child.stdout.take());
    assert!(child.wait().expect("ends").success());
    assert_eq!(read(beside(&repo, "end")), "end\n");
    let log = repo.path().join(format!(".git/agents/{}/run/1.out", &id[..8]));
    assert_eq!(log.metadata().expect("a log").len(), 1_000_000);
}

#[test]
fn ends_are_told_apart() {
    let (repo, id) = spawned(TASK);
    let check = |options: &[&str], script: &str, ended: &str, code: i32| {
        let report = run_json(&repo, &id, options, script);
        assert_eq!(report["ended"], ended, "{script}");
        assert_eq!(report["exit_code"], code, "{script}");
        assert_eq!(report["timed_out"], ended == "timeout", "{script}");
    };
    check(&[], "exit 124", "exit", 124);
    check(&[], "kill -9 $$", "signal", 137);
    check(&["--timeout=1s"], "sleep 1000", "timeout", 124);
    let text = describe(&run(&repo, &id, &["--timeout=1s"], "sleep 1000"));
    assert!(text.contains(" exceeded its time limit of 1.0 s\n"), "{text}");
    let waited = describe(&repo.agent(&["wait", &id]));
    assert!(waited.contains(" exceeded its time limit of 1.0 s"), "{waited}");
    // Whoever kills the process that watches over it goes with it. A sandbox refuses that.
    check(&["--sandbox=off"], "kill -9 $PPID; exec sleep 1000", "lost", 137);
}

#[test]
fn a_command_that_is_none_is_said_as_a_shell_says_it() {
    let (repo, id) = spawned(TASK);
    let check = |word: &str, status: i32, code: &str| {
        let output = repo.agent(&["run", &id, "--", word]);
        assert_eq!(output.status.code(), Some(status), "{word}");
        assert!(describe(&output).contains(code), "{}", describe(&output));
    };
    check("no-such-command", 127, "error[command-not-found]");
    check("./no-such-command", 127, "error[command-not-found]");
    check("/dev/null", 126, "error[command-not-runnable]");
    // One that is on nobody's path is noticed before anything is made.
    let task = repo.task_file(TASK);
    repo.agent(&["run", &task, "--", "no-such-command"]);
    let agents = repo.agent_json(&["list", "--all"]);
    assert_eq!(agents["agents"].as_array().expect("a list").len(), 1);
}

#[test]
fn the_time_limit_is_the_callers_or_the_tasks() {
    let (repo, id) = spawned(&format!("{TASK}[run]\ntimeout = \"90s\"\n"));
    let report = run_json(&repo, &id, &["--no-verify"], "true");
    assert_eq!(report["timeout_ms"], 90_000);
    let report = run_json(&repo, &id, &["--no-verify", "--timeout=2m"], "true");
    assert_eq!(report["timeout_ms"], 120_000);
    let output = run(&repo, &id, &["--timeout=0s"], "true");
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_format_that_a_run_cannot_answer_in_is_refused_before_it() {
    let (repo, id) = spawned(TASK);
    let output = run(&repo, &id, &["--format=sarif"], "echo x > \"$BESIDE/ran\"");
    assert_eq!(output.status.code(), Some(2), "{}", describe(&output));
    assert!(!beside(&repo, "ran").exists());
}

#[test]
fn a_shared_agent_works_in_the_root_and_is_not_judged() {
    let repo = TestRepo::with_commit();
    let task = repo.task_file(SHARED_TASK);
    let report = run_json(&repo, &task, &[], "pwd; echo $GIT_AGENT_WORKTREE");
    let root = repo.path().display().to_string();
    assert_eq!(report["summary"], format!("{root}\n{root}"));
    assert!(report.get("verdict").is_none(), "{report}");
}

#[test]
fn an_agent_may_not_run_agents() {
    let (repo, id) = spawned(TASK);
    let task = repo.task_file(TASK);
    for target in [&id, &task] {
        let output =
            command(&repo, target, &[], "true").env("GIT_AGENT_ID", &id).output().expect("starts");
        assert_eq!(output.status.code(), Some(3), "{target}");
        assert!(describe(&output).contains("error[recursion-refused]"));
    }
}

#[test]
fn an_agent_that_is_gone_is_not_started() {
    let (repo, id) = spawned(TASK);
    repo.agent_json(&["discard", &id]);
    let output = run(&repo, &id, &[], "true");
    assert_eq!(output.status.code(), Some(3), "{}", describe(&output));
    assert!(describe(&output).contains("error[agent-state]"));
}
