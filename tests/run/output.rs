//! The file that an agent's answer goes to.

use crate::support::TestRepo;
use crate::support::agent::{SHARED_TASK, TASK, agent_command, describe};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::Output;

/// Writes its answer where the prompt says.
const ANSWER: &str = r#"file=$(sed -n 's/^Write your complete output to: `\(.*\)`$/\1/p'); test -n "$file" && echo answer > "$file"; echo brief"#;

fn run(repo: &TestRepo, target: &str, options: &[&str], script: &str) -> Output {
    let mut command = agent_command(&repo.path());
    command.args(["run", target, "--no-verify", "--format=json"]);
    command.args(options).args(["--", "sh", "-c", script]);
    command.output().expect("git-agent starts")
}

fn report(output: &Output) -> Value {
    assert!(output.status.success(), "{}", describe(output));
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

fn refused(output: &Output) -> (i32, String) {
    let error: Value = serde_json::from_slice(&output.stderr).expect("one JSON object");
    let message = error["error"]["message"].as_str().expect("a message");
    (output.status.code().expect("a status"), message.to_owned())
}

#[test]
fn an_answer_is_written_where_the_prompt_says_and_reported() {
    let repo = TestRepo::with_commit();
    let task = repo.task_file(&format!("{TASK}[output]\nfile = \"deep/report.md\"\n"));
    let report = report(&run(&repo, &task, &[], ANSWER));
    let file = PathBuf::from(report["output_file"].as_str().expect("a file"));
    assert!(file.ends_with(".agent/output/deep/report.md"), "{file:?}");
    assert_eq!(fs::read_to_string(file).expect("readable"), "answer\n");
    assert_eq!(
        (report["status"].as_str(), report["summary"].as_str()),
        (Some("success"), Some("brief"))
    );
    let worktree = PathBuf::from(report["spawn"]["worktree_abspath"].as_str().expect("one"));
    let status = crate::support::git_in(&worktree, ["status", "--porcelain"]);
    assert_eq!(status, "", "the answer is no part of the work");
}

#[test]
fn a_shared_agent_of_a_bare_repository_is_told_a_place_outside_of_it() {
    let repo = TestRepo::with_commit();
    let task = repo.path().join(repo.task_file(SHARED_TASK));
    repo.git(["clone", "--quiet", "--bare", ".", "../bare.git"]);
    let bare = repo.path().with_file_name("bare.git");
    // Hosts write to no directory of git's: the place has nothing in it yet, and is gone afterwards.
    let script = "test ! -e $GIT_AGENT_OUTPUT_FILE && echo x > $GIT_AGENT_OUTPUT_FILE; echo $GIT_AGENT_OUTPUT_FILE";
    let mut command = agent_command(&bare);
    command.arg("run").arg(&task).args([
        "--output=b.md",
        "--no-verify",
        "--format=json",
        "--",
        "sh",
        "-c",
        script,
    ]);
    let told = report(&command.output().expect("starts"));
    let file = PathBuf::from(told["output_file"].as_str().expect("a file"));
    assert!(file.starts_with(bare.join("agents")), "{file:?}");
    assert_eq!(fs::read_to_string(file).expect("readable"), "x\n");
    let place = PathBuf::from(told["summary"].as_str().expect("a path"));
    assert!(place.ends_with("b.md") && !place.starts_with(&bare), "{place:?}");
    assert!(!place.parent().expect("a directory").exists());
}

#[test]
fn a_shared_agent_writes_into_its_own_bundle() {
    let repo = TestRepo::with_commit();
    let task = repo.task_file(SHARED_TASK);
    let first = report(&run(&repo, &task, &["--output=deep/a.md"], ANSWER));
    let file = first["output_file"].as_str().expect("a file");
    let id = first["agent_id"].as_str().expect("an id");
    let output = repo.path().join(format!(".agent/{}/output", &id[..8]));
    assert_eq!(file, output.join("deep/a.md").to_str().expect("UTF-8"));
    assert_eq!(fs::read_to_string(file).expect("readable"), "answer\n");
    assert_eq!(repo.git(["status", "--porcelain"]), "");
    let script = "ln -sf /etc/passwd $GIT_AGENT_OUTPUT_FILE";
    let linked = report(&run(&repo, id, &["--output=b.md"], script));
    assert_eq!(linked["output_file"], Value::Null, "no link is followed");
}

#[test]
fn a_script_finds_the_file_in_its_environment() {
    let repo = TestRepo::with_commit();
    let task = repo.task_file(TASK);
    let script = "cp src/lib.rs \"$GIT_AGENT_OUTPUT_FILE\"";
    assert!(report(&run(&repo, &task, &["--output=a.md"], script))["output_file"].is_string());
    let unset = run(&repo, &task, &[], "echo \"<$GIT_AGENT_OUTPUT_FILE>\"");
    assert_eq!(report(&unset)["summary"], "<>");
}

#[test]
fn an_agent_type_brings_a_file_with_a_default_name() {
    let repo = TestRepo::with_commit();
    repo.write("_bmad/config.toml", "[agents.pm]\nname = \"John\"\n");
    repo.commit_all("a roster");
    let task = repo.task_file(TASK);
    let report = report(&run(&repo, &task, &["--agent-type=pm"], ANSWER));
    let file = report["output_file"].as_str().expect("a file");
    let (_, name) = file.split_once("/.agent/output/temp/pm-").expect("the default name");
    assert!(name.ends_with("Z.md") && name.len() == "20260101T000000Z.md".len(), "{name}");
}

#[test]
fn agents_of_one_type_that_work_at_once_write_into_files_of_their_own() {
    let repo = TestRepo::with_commit();
    repo.write("_bmad/config.toml", "[agents.pm]\nname = \"John\"\n");
    repo.commit_all("a roster");
    let shared = repo.path().with_file_name("answers");
    fs::create_dir(&shared).expect("made");
    repo.git(["config", "agent.outputDir", shared.to_str().expect("UTF-8")]);
    let task = repo.task_file(TASK);
    let mut command = agent_command(&repo.path());
    command
        .args(["run", "--no-verify", "--sandbox=off", "--agent-type=pm"])
        .args(["--jobs=4", "--format=json", &task, &task, &task, &task])
        .args(["--", "sh", "-c"])
        // Nobody writes before everybody has begun.
        .arg(format!(
            "touch {0}/at.$$; while [ $(ls {0} | grep -c at.) -lt 4 ]; do sleep 0.01; done; \
             echo $GIT_AGENT_ID > $GIT_AGENT_OUTPUT_FILE",
            shared.display()
        ));
    let report = report(&command.output().expect("git-agent starts"));
    let runs = report["items"].as_array().expect("a list");
    assert_eq!(runs.len(), 4);
    for run in runs {
        let file = run["output_file"].as_str().expect("a file");
        let id = run["agent_id"].as_str().expect("an id");
        assert_eq!(fs::read_to_string(file).expect("readable").trim(), id);
    }
}

#[test]
fn an_agent_that_runs_again_at_once_gets_another_file() {
    let repo = TestRepo::with_commit();
    repo.write("_bmad/config.toml", "[agents.pm]\nname = \"John\"\n");
    repo.commit_all("a roster");
    let agent = repo.spawn();
    let id = agent["agent_id"].as_str().expect("an id");
    let file = || report(&run(&repo, id, &["--agent-type=pm"], ANSWER))["output_file"].clone();
    assert_ne!(file(), file());
}

#[test]
fn a_name_under_which_nothing_was_written_is_free_again() {
    let repo = TestRepo::with_commit();
    let agent = repo.spawn();
    let id = agent["agent_id"].as_str().expect("an id");
    let script = "test -f \"$GIT_AGENT_OUTPUT_FILE\" && test ! -s \"$GIT_AGENT_OUTPUT_FILE\"";
    let nothing = report(&run(&repo, id, &["--output=x.md"], script));
    assert_eq!(nothing["output_file"], Value::Null);
    let bundle = PathBuf::from(agent["worktree_abspath"].as_str().expect("one")).join(".agent");
    assert!(!bundle.join("output/x.md").exists());
    assert!(report(&run(&repo, id, &["--output=x.md"], ANSWER))["output_file"].is_string());
}

#[test]
fn an_answer_that_was_not_written_is_null() {
    let repo = TestRepo::with_commit();
    let task = repo.task_file(TASK);
    let asked = report(&run(&repo, &task, &["--output=a.md"], "true"));
    assert_eq!(asked.get("output_file"), Some(&Value::Null));
    assert!(asked["warnings"][0].as_str().expect("a warning").starts_with("the agent wrote no"));
    let not_asked = report(&run(&repo, &task, &[], "true"));
    assert_eq!(not_asked.get("output_file"), None);
}

#[test]
fn names_that_lead_outside_are_refused_in_the_words_that_callers_know() {
    let repo = TestRepo::with_commit();
    let task = repo.task_file(TASK);
    let words = "output_file must be under {output_dir}; path traversal not allowed";
    for name in ["../x", "..\\x", "%2e%2e/x", "%252e%252e/x", "/etc/passwd", "a/../../x"] {
        let output = run(&repo, &task, &[&format!("--output={name}")], "true");
        assert_eq!(refused(&output), (2, words.to_owned()), "{name}");
    }
    assert!(!repo.path().join(".git/agents").exists(), "no agent was made");
}

#[test]
fn a_link_in_the_way_is_refused() {
    let repo = TestRepo::with_commit();
    let outside = repo.path().with_file_name("outside");
    fs::create_dir(&outside).expect("made");
    let agent = repo.spawn();
    let bundle = PathBuf::from(agent["worktree_abspath"].as_str().expect("one")).join(".agent");
    std::os::unix::fs::symlink(&outside, bundle.join("output")).expect("linked");
    let id = agent["agent_id"].as_str().expect("an id");
    let output = run(&repo, id, &["--output=x.md"], "true");
    let words = "output_file must be under {output_dir}; path traversal not allowed";
    assert_eq!(refused(&output), (2, words.to_owned()));
    assert_eq!(fs::read_dir(outside).expect("there").count(), 0);
}

#[test]
fn an_existing_file_is_refused_unless_it_may_be_overwritten() {
    let repo = TestRepo::with_commit();
    let agent = repo.spawn();
    let id = agent["agent_id"].as_str().expect("an id");
    report(&run(&repo, id, &["--output=x.md"], ANSWER));
    let again = run(&repo, id, &["--output=x.md"], ANSWER);
    let words = "output_file already exists; set allow_overwrite=true to overwrite";
    assert_eq!(refused(&again), (3, words.to_owned()));
    let allowed = run(&repo, id, &["--output=x.md", "--allow-overwrite"], ANSWER);
    assert!(report(&allowed)["output_file"].is_string());
}

#[test]
fn the_output_directory_can_be_set() {
    let repo = TestRepo::with_commit();
    let shared = repo.path().with_file_name("answers");
    repo.git(["config", "agent.outputDir", shared.to_str().expect("UTF-8")]);
    let task = repo.task_file(TASK);
    let report = report(&run(&repo, &task, &["--output=x.md", "--sandbox=off"], ANSWER));
    let expected = shared.join("x.md");
    assert_eq!(report["output_file"].as_str(), expected.to_str());
    let again = run(&repo, &task, &["--output=x.md"], "true");
    assert_eq!(again.status.code(), Some(3), "it belongs to all agents");
    repo.git(["config", "agent.outputDir", "../elsewhere"]);
    let climbing = run(&repo, &task, &["--output=x.md"], "true");
    assert!(refused(&climbing).1.starts_with("the setting agent.outputDir"));
}

#[test]
fn an_answer_outlives_its_worktree() {
    let repo = TestRepo::with_commit();
    let task = repo.task_file(TASK);
    let report = report(&run(&repo, &task, &["--output=x.md"], ANSWER));
    let id = report["agent_id"].as_str().expect("an id");
    let discarded = repo.agent(&["discard", id]);
    assert!(discarded.status.success(), "{}", describe(&discarded));
    let to = repo.path().with_file_name("rescued");
    let rescued = repo.agent(&["rescue", id, "--to", to.to_str().expect("UTF-8")]);
    assert!(rescued.status.success(), "{}", describe(&rescued));
    let file = to.join(".agent/output/x.md");
    assert_eq!(fs::read_to_string(file).expect("readable"), "answer\n");
}
