use super::{beside, command, read, run_json, spawned};
use crate::support::agent::{TASK, describe};
use crate::support::{git_in, isolated};
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;

const MODEL_TASK: &str = r#"role = "edit-local"
task = "Add a second function to the library and test it."
briefing = "The token is ghp_0123456789abcdefghij0123456789abcdef."
model = "sonnet"
max_iterations = 7
[scope]
whitelist = ["src/**"]
"#;

#[test]
fn the_environment_says_where_it_is_and_ties_it_to_no_repository() {
    let (repo, id) = spawned(MODEL_TASK);
    let script = "env > \"$BESIDE/env\"; stat -c %a \"$TMPDIR\"; touch \"$TMPDIR/x\"; ls -d \"$GIT_AGENT_SPOOL\"";
    let mut command = command(&repo, &id, &["--no-verify", "--format=json"], script);
    for name in git_in(&repo.path(), ["rev-parse", "--local-env-vars"]).lines() {
        // What would keep our own git from working is not among what is tried.
        if ["GIT_PREFIX", "GIT_INDEX_FILE", "GIT_IMPLICIT_WORK_TREE"].contains(&name) {
            command.env(name, "x");
        }
    }
    let output = command
        .env("GIT_DIR", repo.path().join(".git"))
        .env("GIT_WORK_TREE", repo.path())
        .env("GIT_AGENT_DEPTH", "2")
        .env_remove("TMPDIR")
        .output()
        .expect("starts");
    assert!(output.status.success(), "{output:?}");
    let text = read(beside(&repo, "env"));
    let env: BTreeMap<&str, &str> = text.lines().filter_map(|line| line.split_once('=')).collect();
    let worktree = repo.agent_json(&["path", &id]);
    let spool = repo.path().join(".git/agents/spool").join(&id[..8]);
    for (name, value) in [
        ("GIT_AGENT_ID", id.as_str()),
        ("GIT_AGENT_DEPTH", "3"),
        ("GIT_AGENT_WORKTREE", worktree["worktree_abspath"].as_str().expect("a path")),
        ("GIT_AGENT_SPOOL", spool.to_str().expect("UTF-8")),
        ("GIT_AGENT_MODEL", "sonnet"),
        ("GIT_AGENT_MAX_ITERATIONS", "7"),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_EDITOR", "true"),
    ] {
        assert_eq!(env.get(name), Some(&value), "{name}");
    }
    for name in git_in(&repo.path(), ["rev-parse", "--local-env-vars"]).lines() {
        // The sandbox has settings of its own for git.
        if name != "GIT_CONFIG_COUNT" {
            assert_eq!(env.get(name), None, "{name}");
        }
    }
    let temporary = env["TMPDIR"];
    assert!(temporary.starts_with(&format!("/tmp/git-agent-tmp-run-{}-", &id[..8])), "{temporary}");
    assert!(!std::path::Path::new(temporary).exists(), "{temporary}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["summary"], format!("700\n{}", spool.display()));
    let log = report["stdout_path"].as_str().expect("a path");
    let mode = std::fs::metadata(log).expect("a log").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_worktree_that_its_command_has_closed_is_opened_to_its_owner() {
    let (repo, id) = spawned(TASK);
    run_json(&repo, &id, &["--no-verify"], "chmod 500 .");
    let place = repo.agent_json(&["path", &id])["worktree_abspath"].clone();
    let mode = std::fs::metadata(place.as_str().expect("a path")).expect("there").permissions();
    assert_eq!(mode.mode() & 0o700, 0o700);
}

#[test]
fn a_command_has_no_terminal_to_ask_questions_on() {
    let (repo, id) = spawned(TASK);
    let report = run_json(&repo, &id, &["--no-verify"], "(: < /dev/tty) 2>/dev/null || echo none");
    assert_eq!(report["summary"], "none");
}

#[test]
fn a_command_is_handed_no_descriptor_of_ours() {
    let (repo, id) = spawned(TASK);
    let script = "ls /proc/$$/fd";
    let report = run_json(&repo, &id, &["--no-verify"], script);
    // Whoever started the tests may have left some open for everybody; the fence closes those, too.
    let bare = isolated("sh", &repo.path()).args(["-c", script]).output();
    let bare = String::from_utf8(bare.expect("starts").stdout).expect("UTF-8");
    let numbers = |text: &str| -> BTreeSet<String> { text.lines().map(str::to_owned).collect() };
    let given = numbers(report["summary"].as_str().expect("a text"));
    assert!(given.is_subset(&numbers(&bare)), "{given:?} of {bare}");
    assert!(given.contains("2"), "{given:?}");
}

#[test]
fn the_prompt_is_standard_input_unless_a_word_names_it() {
    // With its briefing the prompt may not be a word.
    let lines = MODEL_TASK.lines().filter(|line| !line.starts_with("briefing"));
    let (repo, id) = spawned(&lines.collect::<Vec<_>>().join("\n"));
    let prompt = read(repo.path().join(format!(".git/agents/{}/prompt.md", &id[..8])));
    let given = |arguments: &[&str]| {
        let output =
            repo.agent(&[&["run", &id, "--no-verify", "--format=json", "--"], arguments].concat());
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        read(report["stdout_path"].as_str().expect("a path"))
    };
    assert_eq!(given(&["cat"]), prompt);
    assert_eq!(given(&["sh", "-c", "printf %s \"$1\"; cat", "-", "{prompt}"]), prompt);
    assert_eq!(given(&["sh", "-c", "cat \"$1\" -", "-", "{prompt_file}"]), prompt);
    let words = given(&[
        "printf",
        "%s,",
        "--model={model}",
        "{max_iterations}",
        "{id}",
        "{worktree}",
        "{x}",
    ]);
    let worktree = repo.agent_json(&["path", &id]);
    let worktree = worktree["worktree_abspath"].as_str().expect("a path");
    assert_eq!(words, format!("--model=sonnet,7,{id},{worktree},{{x}},"));
}

#[test]
fn a_placeholder_that_would_be_empty_is_refused() {
    let (repo, id) = spawned(TASK);
    let output = repo.agent(&["run", &id, "--", "echo", "--model={model}"]);
    insta::assert_snapshot!(describe(&output), @r"
    ------- stderr -------
    error[usage]: the command has {model}, and neither the task nor the run names a model
    hint: to name one, run git agent run --model <model> …
    [exit status: 2]
    ");
}

#[test]
fn twenty_turns_are_what_an_agent_has_when_nobody_says() {
    let (repo, id) = spawned(TASK);
    let said = |options: &[&str]| {
        let script = "echo $GIT_AGENT_MAX_ITERATIONS {max_iterations}";
        run_json(&repo, &id, options, script)["summary"].clone()
    };
    assert_eq!(said(&[]), "20 20");
    assert_eq!(said(&["--max-iterations=3"]), "3 3");
}

#[test]
fn what_is_secret_is_not_recorded() {
    let (repo, id) = spawned(MODEL_TASK);
    let words = [
        "run",
        &id,
        "--no-verify",
        "--quiet",
        "--",
        "true",
        "{prompt_file}",
        "--key=sk-0123456789abcdef0123",
    ];
    let output = repo.agent(&words);
    assert!(output.status.success(), "{output:?}");
    let ledger = repo.git(["log", "-p", "refs/notes/agents"]);
    assert!(ledger.contains("true {prompt_file} --key=[secret]"), "{ledger}");
    assert!(!ledger.contains("ghp_") && !ledger.contains("sk-0"), "{ledger}");
}
