use super::{ctx_at, fsck, open};
use crate::support::TestRepo;
use crate::support::agent::{TASK, agent_command, describe, json_of};
use git_agent::agents::upkeep::spool::post_spool;
use git_agent::store::files::layout;
use git_agent::store::ledger::Ledger;
use serde_json::Value;
use std::path::PathBuf;

/// A repository with an agent that has a spool.
pub(super) fn fenced() -> (TestRepo, String, PathBuf) {
    let test = TestRepo::with_commit();
    let agent = test.spawn_task(TASK, &["--name=worker"]);
    let id = agent["agent_id"].as_str().expect("an id").to_owned();
    let spool = layout::spools_dir(&test.path().join(".git")).join(&id[..8]);
    std::fs::create_dir_all(&spool).expect("a spool");
    (test, id, spool)
}

pub(super) fn send_spooled(test: &TestRepo, spool: &std::path::Path, text: &str) -> Value {
    let mut command = agent_command(&test.path());
    command
        .args(["send", "--type=notify", "--from=mallory", "--to=b", "--format=json"])
        .args(["--payload", &format!("message={text}")])
        .env("GIT_AGENT_SPOOL", spool);
    json_of(command)
}

/// Who sent what to a name, as far as it is unread.
pub(super) fn inbox(test: &TestRepo, name: &str) -> Vec<(String, String)> {
    let report = test.agent_json(&["receive", "--peek", "--agent", name]);
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let messages = report["messages"].as_array().expect("messages").iter();
    messages.map(|message| (text(&message["from"]), text(&message["summary"]))).collect()
}

#[test]
fn a_spooled_message_comes_from_the_agent_whatever_it_claims() {
    let (test, id, spool) = fenced();
    let sent = send_spooled(&test, &spool, "hello");
    assert_eq!(sent["status"], "spooled");
    assert_eq!(sent["from"], id);
    assert_eq!(sent.get("message_id"), None);
    assert_eq!(test.git(["for-each-ref", "refs/agents/mail"]), "", "no ref was written");
    let repo = open(&test);
    let agent = Ledger::new(&repo).find(&id).expect("the agent");
    assert_eq!(post_spool(&ctx_at(&test, 0), &agent).expect("posted"), 1);
    assert_eq!(inbox(&test, "b"), [(id, "hello".to_owned())]);
    assert_eq!(post_spool(&ctx_at(&test, 0), &agent).expect("posted"), 0);
    fsck(&test);
}

#[test]
fn rubbish_comes_back_by_name_and_hurts_nobody() {
    let (test, id, spool) = fenced();
    std::fs::write(spool.join("a.json"), "{").expect("write");
    std::fs::write(spool.join("half.tmp"), "{").expect("write");
    std::os::unix::fs::symlink("/etc/passwd", spool.join("b.json")).expect("link");
    std::fs::create_dir_all(spool.join("c.json/d")).expect("directory");
    std::fs::create_dir(spool.join(".aws")).expect("a place of a host's sandbox");
    rustix_fifo(&spool.join("e.json"));
    send_spooled(&test, &spool, "good");
    // Whoever receives next collects it: nobody else works for this agent.
    let report = test.agent_json(&["receive", "--agent=b"]);
    assert_eq!(report["messages"][0]["summary"], "good");
    let notes = inbox(&test, &id);
    assert_eq!(notes.len(), 4, "{notes:?}");
    assert!(notes.iter().all(|(from, _)| from == "git-agent"));
    for name in ["a.json", "b.json", "c.json", "e.json"] {
        assert!(notes.iter().any(|(_, text)| text.contains(name)), "{name}: {notes:?}");
    }
    let left: Vec<_> = std::fs::read_dir(&spool).expect("readable").flatten().collect();
    assert_eq!(left.len(), 2, "what is half written or hidden stays");
}

/// A FIFO, which would hang whoever opens it.
fn rustix_fifo(path: &std::path::Path) {
    let status = std::process::Command::new("mkfifo").arg(path).status();
    assert!(status.expect("mkfifo").success());
}

#[test]
fn a_receipt_in_a_spool_is_for_the_agent_alone() {
    let (test, id, spool) = fenced();
    let sent = ["send", "--type=notify", "--payload=message=hello"];
    test.agent_json(&[&sent[..], &["--to", &id]].concat());
    let other = test.agent_json(&[&sent[..], &["--to", "b"]].concat());
    let mut command = agent_command(&test.path());
    command.args(["receive", "--format=json", "--agent", &id]);
    command.env("GIT_AGENT_SPOOL", &spool);
    assert_eq!(json_of(command)["count"], 1);
    let forged =
        format!(r#"{{"schema":"git-agent.received/1","messages":[{}]}}"#, other["message_id"]);
    std::fs::write(spool.join("z.json"), forged).expect("write");
    let agent = Ledger::new(&open(&test)).find(&id).expect("the agent");
    post_spool(&ctx_at(&test, 0), &agent).expect("posted");
    assert_eq!(inbox(&test, "b").len(), 1, "it was not for the agent");
    let notes = inbox(&test, &id);
    assert!(
        matches!(&notes[..], [(from, text)] if from == "git-agent" && text.contains("z.json")),
        "{notes:?}"
    );
    assert_eq!(test.agent_json(&["archive", "--agent", &id])["count"], 1);
}

#[test]
fn what_a_running_agent_sends_arrives_while_it_runs() {
    let (test, id, _) = fenced();
    let program = env!("CARGO_BIN_EXE_git-agent");
    // It ends when its question is answered.
    let script = format!(
        "'{program}' send --type notify --to b --payload message=question && '{program}' receive --wait >answer"
    );
    let child = agent_command(&test.path())
        .args(["run", &id, "--no-verify", "--", "sh", "-c", &script])
        .spawn()
        .expect("starts");
    let asked = test.agent_json(&["receive", "--agent=b", "--wait"]);
    assert_eq!(asked["messages"][0]["from"], id.as_str());
    let answer = ["send", "--type=notify", "--payload=message=answer", "--to", &id];
    test.agent_json(&answer);
    assert!(child.wait_with_output().expect("ends").status.success());
    assert_eq!(test.agent_json(&["archive", "--agent", &id])["count"], 1);
}

/// The answers of these commands, run one after the other by an agent that has two messages.
fn answers_in_run(commands: &[&str]) -> (TestRepo, String, Vec<Value>) {
    let (test, id, _) = fenced();
    for text in ["one", "two"] {
        let text = format!("--payload=message={text}");
        test.agent_json(&["send", "--type=notify", &text, "--to", &id]);
    }
    let program = env!("CARGO_BIN_EXE_git-agent");
    let lines = commands.iter().map(|words| format!("'{program}' {words} --format=json; "));
    let script = format!("{{ {} }} > answers 2>&1; true", lines.collect::<String>());
    let output = test.agent(&["run", &id, "--no-verify", "--quiet", "--", "sh", "-c", &script]);
    assert!(output.status.success(), "{}", describe(&output));
    let worktree = test.agent_json(&["path", &id])["worktree_abspath"].clone();
    let answers = PathBuf::from(worktree.as_str().expect("a path")).join("answers");
    let text = std::fs::read_to_string(answers).expect("written");
    let answers = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let answers = answers.collect();
    (test, id, answers)
}

#[test]
fn a_running_agent_gets_each_message_once() {
    for (first, left) in [("receive", 0), ("receive --ack=later", 2)] {
        let limited = format!("{first} --limit=1");
        let (test, id, answers) = answers_in_run(&[&limited, first, first]);
        let counts: Vec<&Value> = answers.iter().map(|answer| &answer["count"]).collect();
        assert_eq!(counts, [1, 1, 0], "{answers:?}");
        // Those to be acknowledged come back after a while.
        assert_eq!(test.agent_json(&["inbox", "--agent", &id])["count"], left, "{first}");
    }
}

#[test]
fn a_running_agent_receives_nothing_of_others() {
    let (test, id, spool) = fenced();
    let sent = ["send", "--type=notify", "--payload=message=hello", "--to=b"];
    test.agent_json(&sent);
    let mut command = agent_command(&test.path());
    command.args(["receive", "--format=json", "--agent=b"]).env("GIT_AGENT_SPOOL", &spool);
    let output = command.output().expect("runs");
    let said = describe(&output);
    assert!(
        said.contains("orchestrator-only") && said.contains("git agent inbox --agent 'b'"),
        "{said}"
    );
    assert_eq!(inbox(&test, "b").len(), 1);
    assert_eq!(test.agent_json(&["inbox", "--agent", &id])["count"], 0, "nothing came back");
}

#[test]
fn of_several_receivers_of_a_running_agent_each_message_goes_to_one() {
    let (test, id, _) = fenced();
    let place = test.agent_json(&["path", &id])["worktree_abspath"].clone();
    let worktree = PathBuf::from(place.as_str().expect("a path"));
    for text in ["one", "two", "three"] {
        test.agent_json(&["send", "--to", &id, text]);
    }
    let program = env!("CARGO_BIN_EXE_git-agent");
    let script =
        format!("for k in 1 2 3; do {program} receive --format=ndjson > src/$k 2>&1 & done; wait");
    test.agent(&["run", &id, "--", "sh", "-c", &script]);
    let count = |name: &str| {
        let said = std::fs::read_to_string(worktree.join("src").join(name)).expect("readable");
        said.matches("\"message_id\"").count()
    };
    assert_eq!(["1", "2", "3"].map(count).iter().sum::<usize>(), 3);
}

#[test]
fn doctor_names_a_spool_that_nobody_collects() {
    let (test, id, spool) = fenced();
    send_spooled(&test, &spool, "hello");
    let said = test.agent(&["doctor", "--format=json"]);
    assert!(String::from_utf8_lossy(&said.stdout).contains("mail.spool-waiting"));
    test.agent(&["doctor", "--fix"]);
    assert_eq!(inbox(&test, "b"), [(id, "hello".to_owned())]);
}

#[test]
fn a_spool_of_any_number_of_files_is_posted_a_part_at_a_time() {
    let (test, id, spool) = fenced();
    for number in 0..600 {
        std::fs::write(spool.join(format!("{number:04}.json")), "rubbish").expect("written");
    }
    let agent = Ledger::new(&open(&test)).find(&id).expect("the agent");
    let count = || std::fs::read_dir(&spool).expect("listed").count();
    let posted = post_spool(&ctx_at(&test, 0), &agent).expect("posted");
    assert!((1..=256).contains(&posted), "{posted}");
    assert!(count() >= 600 - 256, "the rest is where it was");
    while count() > 0 {
        let before = count();
        post_spool(&ctx_at(&test, 0), &agent).expect("posted");
        post_spool(&ctx_at(&test, 0), &agent).expect("posted");
        assert!(count() < before, "nothing was taken");
    }
}

#[test]
fn what_a_running_agent_sends_is_answered_with_its_id() {
    let test = TestRepo::with_commit();
    let agent = test.spawn_task(TASK, &[]);
    let id = agent["agent_id"].as_str().expect("an id");
    let program = env!("CARGO_BIN_EXE_git-agent");
    let script =
        format!("{program} send --type notify --to user --payload message=hello --format json");
    let words = ["run", id, "--no-verify", "--format=json", "--", "sh", "-c", &script];
    let run: Value = serde_json::from_slice(&test.agent(&words).stdout).expect("a report");
    let log = run["stdout_path"].as_str().expect("a log");
    let sent = std::fs::read(log).expect("readable");
    let sent: Value = serde_json::from_slice(&sent).expect("one answer");
    assert_eq!(sent["status"], "sent");
    let inbox = test.agent_json(&["receive", "--peek", "--agent", "user"]);
    assert_eq!(inbox["messages"][0]["message_id"], sent["message_id"]);
    assert!(sent["message_id"].is_string(), "{sent}");
}
