//! What the agent of a run is told, and who else gets to know.

use crate::support::agent::{TASK, agent_command, describe};
use crate::support::{TestRepo, git_in};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

const MANIFEST: &str = "\"name\",\"displayName\",\"module\"\n\"analyst\",\"Mary\",\"bmm\"\n";
const CREDENTIAL: &str = "Tr0ub4dor-and-3";

/// Runs an agent of [`TASK`] with these options and this shell script, without judging it.
fn run(repo: &TestRepo, options: &[&str], script: &str) -> Output {
    run_task(repo, TASK, options, script)
}

fn run_task(repo: &TestRepo, task: &str, options: &[&str], script: &str) -> Output {
    let task = repo.task_file(task);
    let mut command = agent_command(&repo.path());
    command.args(["run", &task, "--no-verify", "--format=json"]);
    command.args(options).args(["--", "sh", "-c", script]);
    command.output().expect("git-agent starts")
}

fn report(output: &Output) -> Value {
    assert!(output.status.success(), "{}", describe(output));
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

/// What the command of a run wrote to its standard output.
fn said(output: &Output) -> String {
    let path = report(output)["stdout_path"].as_str().map(PathBuf::from);
    fs::read_to_string(path.expect("a log")).expect("readable")
}

fn refused(output: &Output) -> String {
    assert!(output.stdout.is_empty(), "{}", describe(output));
    let error: Value = serde_json::from_slice(&output.stderr).expect("one JSON object");
    let code = error["error"]["code"].as_str().expect("a code");
    format!("{code}: {}", error["error"]["message"].as_str().expect("a message"))
}

fn beside(repo: &TestRepo, name: &str, content: &str) -> PathBuf {
    let path = repo.path().with_file_name(name);
    fs::write(&path, content).expect("written");
    path
}

#[test]
fn the_nearest_instructions_of_the_project_are_named() {
    let repo = TestRepo::with_commit();
    for file in ["AGENTS.md", "src/deep/CLAUDE.md", "src/deep/AGENTS.md", "docs/CLAUDE.md"] {
        repo.write(file, "Heed this.\n");
    }
    repo.commit_all("instructions");
    let task =
        TASK.replace("\"src/**\"", "\"src/*.rs\", \"src/deep/a/**\", \"docs/**\", \"README.md\"");
    assert_ne!(task, TASK);
    let told = said(&run_task(&repo, &task, &[], "grep '^- Read `'"));
    let files: Vec<_> = told.lines().filter_map(|line| line.split('`').nth(1)).collect();
    assert_eq!(files, ["AGENTS.md", "src/deep/AGENTS.md", "docs/CLAUDE.md"]);
}

#[test]
fn a_run_adds_to_what_the_task_says() {
    let repo = TestRepo::with_commit();
    repo.write("_bmad/_config/agent-manifest.csv", MANIFEST);
    repo.commit_all("a roster");
    let briefing = beside(&repo, "briefing", "Work at night.\n");
    let output = run_task(
        &repo,
        &format!("profile = \"secretary\"\nsystem_prompt = \"Be slow.\"\n{TASK}"),
        &[
            "--agent-type=analyst",
            "--profile=developer",
            "--system-prompt=Be quick.",
            &format!("--briefing=@{}", briefing.display()),
        ],
        "cat",
    );
    let prompt = said(&output);
    let start = prompt.find("## Persona").expect("a persona");
    let end = prompt.find("## Deliverables").expect("deliverables");
    insta::assert_snapshot!(&prompt[start..end], @r"
    ## Persona

    You are Mary.

    You are a software developer: read the code around a change first and follow its conventions. Make the smallest change that does the whole task, test it, and run the tests before you say that it works. Leave nothing unfinished without naming it. Before each tool call, write one sentence that says what it is for.

    ## Briefing

    Work at night.

    ## System Prompt

    Be quick.

    ## Task

    Add a second function to the library and test it.
    ");
    let kept = report(&output)["spawn"]["prompt_path"].as_str().map(fs::read_to_string);
    assert_eq!(kept.expect("a path").expect("readable"), prompt);
}

#[test]
fn the_prompt_is_nobody_elses_to_read() {
    use std::os::unix::fs::PermissionsExt;
    let repo = TestRepo::with_commit();
    let output = run(&repo, &[], "true");
    let path = report(&output)["spawn"]["prompt_path"].as_str().map(PathBuf::from);
    let mode = fs::metadata(path.expect("a path")).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_credential_in_a_briefing_stays_in_the_prompt() {
    let repo = TestRepo::with_commit();
    let told = format!("The password is {CREDENTIAL}.\n");
    let briefing = beside(&repo, "briefing", &told);
    let output = run(
        &repo,
        &[&format!("--briefing=@{}", briefing.display())],
        &format!("cat; echo {CREDENTIAL} >&2; printf {}", &CREDENTIAL[..5]),
    );
    let id = report(&output)["agent_id"].as_str().expect("an id").to_owned();
    assert_found_only_in(&repo, &[format!("agents/{}/prompt.md", &id[..8])]);
    let heard = said(&output);
    assert!(heard.contains("The password is [briefing]."), "{heard}");
    assert!(heard.ends_with(&CREDENTIAL[..5]), "{heard}");
    let answer = String::from_utf8_lossy(&output.stdout);
    assert!(answer.contains("[briefing]") && !answer.contains(CREDENTIAL), "{answer}");
}

#[test]
fn a_credential_in_a_task_stays_in_its_private_copies() {
    let repo = TestRepo::with_commit();
    let task = format!("briefing = \"token={CREDENTIAL}\"\n{TASK}");
    let output = run_task(&repo, &task, &[], "cat; echo x > src/new.rs");
    let id = report(&output)["agent_id"].as_str().expect("an id").to_owned();
    assert!(repo.agent(&["commit", &id, "-m", "work"]).status.success());
    let own = |file: &str| format!("agents/{}/{file}", &id[..8]);
    assert_found_only_in(&repo, &[own("prompt.md"), own("task.toml")]);
    repo.agent(&["discard", &id]);
    assert_found_only_in(&repo, &[]);
}

/// Looks for the credential in every object and in every file of the repository.
fn assert_found_only_in(repo: &TestRepo, private: &[String]) {
    let objects =
        git_in(&repo.path(), ["cat-file", "--batch-all-objects", "--batch", "--unordered"]);
    assert!(!objects.contains(CREDENTIAL), "an object holds the credential");
    let git_dir = repo.path().join(".git");
    // What is swept away at this moment is not there.
    let is_gone = |error: &walkdir::Error| {
        let error = error.io_error().map(std::io::Error::kind);
        error == Some(std::io::ErrorKind::NotFound)
    };
    let mut found: Vec<String> = walkdir::WalkDir::new(repo.path())
        .into_iter()
        .filter(|entry| !entry.as_ref().is_err_and(is_gone))
        .map(|entry| entry.expect("readable").into_path())
        .filter(|path| fs::read(path).is_ok_and(|bytes| holds(&bytes)))
        .map(|path| path.strip_prefix(&git_dir).unwrap_or(&path).display().to_string())
        .collect();
    found.sort();
    assert_eq!(found, private);
}

fn holds(bytes: &[u8]) -> bool {
    bytes.windows(CREDENTIAL.len()).any(|part| part == CREDENTIAL.as_bytes())
}

#[test]
fn a_prompt_with_a_briefing_is_refused_in_a_command_line() {
    let repo = TestRepo::with_commit();
    let task = repo.task_file(&format!("briefing = \"Work at night.\"\n{TASK}"));
    let refusal = repo.agent(&["run", &task, "--", "echo", "{prompt}"]);
    insta::assert_snapshot!(describe(&refusal), @r"
    ------- stderr -------
    error[prompt-exposed]: the prompt holds a briefing, so it cannot stand in a command line as {prompt}
    hint: leave it out to give the prompt on standard input, or name its file as {prompt_file}
    [exit status: 2]
    ");
    assert!(!repo.path().join(".git/agents").exists(), "nothing was made");
    let plain = repo.task_file(TASK);
    let output = repo.agent(&["run", &plain, "--no-verify", "--", "echo", "{prompt}"]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("## Task"));
}

#[test]
fn a_briefing_is_no_word_of_a_command_line() {
    let repo = TestRepo::with_commit();
    let output = run(&repo, &["--briefing=the password is x"], "true");
    insta::assert_snapshot!(refused(&output), @"usage: a briefing is not given as a word of the command line, which every process can read");
}

#[test]
fn a_task_that_was_changed_after_its_spawn_is_refused() {
    let repo = TestRepo::with_commit();
    let spawned = repo.spawn();
    let path = PathBuf::from(spawned["task_path"].as_str().expect("a path"));
    let forged = fs::read_to_string(&path).expect("readable").replace("Add", "Remove");
    fs::write(&path, forged).expect("written");
    let id = spawned["agent_id"].as_str().expect("an id");
    let output = repo.agent(&["run", id, "--format=json", "--", "true"]);
    let message = refused(&output).replace(&id[..8], "ID");
    insta::assert_snapshot!(message, @"agent-state: agent ID cannot be told its task: its task was changed after it was spawned");
}

#[test]
fn a_roster_can_be_named() {
    let repo = TestRepo::with_commit();
    let manifest = beside(&repo, "mine.csv", MANIFEST);
    let named = |path: &Path| {
        let named = format!("--agent-manifest={}", path.display());
        run(&repo, &[&named, "--agent-type=analyst"], "cat")
    };
    assert!(said(&named(&manifest)).contains("You are Mary."));

    repo.write("roster.csv", MANIFEST);
    let uncommitted = named(&repo.path().join("roster.csv"));
    assert_eq!(refused(&uncommitted), "roster-invalid: roster.csv is no file of the base commit");

    let agent = repo.spawn();
    let worktree = PathBuf::from(agent["worktree_abspath"].as_str().expect("a path"));
    fs::write(worktree.join("roster.csv"), MANIFEST).expect("written");
    let forged = refused(&named(&worktree.join("roster.csv")));
    assert!(forged.starts_with("roster-invalid: "), "{forged}");
    assert!(forged.ends_with(" can be changed by agents, so it is no roster"), "{forged}");
}

#[test]
fn model_and_turns_of_the_run_replace_those_of_the_task() {
    let repo = TestRepo::with_commit();
    let task = format!("model = \"a\"\nmax_iterations = 3\n{TASK}");
    let output = run_task(
        &repo,
        &task,
        &["--model=b", "--max-iterations=7"],
        "echo $GIT_AGENT_MODEL $GIT_AGENT_MAX_ITERATIONS {model} {max_iterations}",
    );
    assert_eq!(said(&output), "b 7 b 7\n");
}
