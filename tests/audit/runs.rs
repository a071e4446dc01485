//! The state of an agent after its runs, and what a name means.

use crate::support::TestRepo;
use crate::support::agent::{TASK, agent_command, describe, json_of};
use crate::verify::{Agent, refused};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Writes the files that the judge asks for, and work in scope.
const WORKS: &str = r#"
for name in plan chatlog handoffs review; do echo written > .agent/$name.md; done
echo '{"status": "done"}' > .agent/progress.json
echo 'pub fn two() {}' > src/two.rs
"#;

/// Goes on when the test says so.
const GATED: &str = "while [ ! -e \"$BESIDE/go\" ]; do sleep 0.01; done;";

/// A directory that no repository holds and that commands may write.
fn beside(repo: &TestRepo) -> PathBuf {
    let directory = repo.path().with_file_name("beside");
    std::fs::create_dir_all(&directory).expect("a directory");
    directory
}

fn run_command(repo: &TestRepo, target: &str, options: &[&str], script: &str) -> Command {
    let mut command = agent_command(&repo.path());
    command
        .arg("run")
        .args(options)
        .arg("--allow-write")
        .arg(beside(repo))
        .args([target, "--", "sh", "-c", script])
        .env("TMPDIR", repo.path().parent().expect("a parent"))
        .env("BESIDE", beside(repo))
        .env("PROGRAM", env!("CARGO_BIN_EXE_git-agent"));
    command
}

fn run(repo: &TestRepo, target: &str, options: &[&str], script: &str) -> Output {
    let mut command = run_command(repo, target, options, script);
    command.output().expect("starts")
}

fn go(repo: &TestRepo) {
    std::fs::write(beside(repo).join("go"), "").expect("write");
}

fn text(report: &Value, key: &str) -> String {
    report[key].as_str().expect(key).to_owned()
}

fn spawned(repo: &TestRepo, arguments: &[&str]) -> String {
    text(&repo.spawn_task(TASK, arguments), "agent_id")
}

/// The kinds of an agent's events.
fn kinds(repo: &TestRepo, id: &str) -> Vec<String> {
    let log = repo.agent_json(&["log", id]);
    let events = log["events"].as_array().expect("events").iter();
    events.map(|event| text(event, "event")).collect()
}

fn state(repo: &TestRepo, id: &str) -> String {
    text(&repo.agent_json(&["show", id]), "state")
}

/// A JSON answer and the status it came with.
fn ask(repo: &TestRepo, words: &[&str]) -> (Value, i32) {
    let output = repo.agent(&[words, &["--format=json"]].concat());
    let answer = serde_json::from_slice(&output.stdout);
    let answer = answer.unwrap_or_else(|_| panic!("{}", describe(&output)));
    (answer, output.status.code().expect("a status"))
}

/// Every reader says that this agent, the only one, failed and why.
#[track_caller]
fn require_failed(repo: &TestRepo, id: &str, reason: &str) {
    let shown = repo.agent_json(&["show", id]);
    assert_eq!((&shown["state"], &shown["summary"]), (&json!("failed"), &json!(reason)));
    let listed = repo.agent_json(&["list"]);
    assert_eq!(listed["agents"][0]["state"], "failed");
    let running = repo.agent_json(&["list", "--state=running"]);
    assert_eq!(running["agents"], json!([]));
    assert_eq!(repo.agent_json(&["tree"])["agents"][0]["state"], "failed");
    assert_eq!(repo.agent_json(&["ps"])["runs"], json!([]));
    let told = repo.agent_json(&["report"]);
    assert_eq!(told["states"], json!([{ "state": "failed", "count": 1 }]));
    let spans = told["agents"][0]["spans"].as_array().expect("spans");
    assert_eq!(spans.last().expect("one")["state"], "failed", "{spans:?}");
    assert!(told["agents"][0]["runs"][0]["ended_at"].is_string(), "{told}");
    let (round, code) = ask(repo, &["merge", "--all", "--dry-run"]);
    assert_eq!((&round["close"]["unfinished"], code), (&json!([]), 1), "{round}");
    let decision = &round["items"][0];
    assert_eq!((&decision["outcome"], &decision["reason"]), (&json!("failed"), &json!(reason)));
}

#[test]
fn u2_a_run_that_ends_badly_fails_its_agent_with_that_reason() {
    let cases: [(&[&str], &str, &str); 3] = [
        (&[], "exit 7", "run 1 ended with status 7"),
        (&[], "kill -9 $$", "run 1 was ended by signal 9"),
        (&["--timeout=1s"], "sleep 1000", "run 1 exceeded its time limit of 1 s"),
    ];
    for (options, script, reason) in cases {
        let repo = TestRepo::with_commit();
        let id = spawned(&repo, &[]);
        run(&repo, &id, options, script);
        require_failed(&repo, &id, reason);
        // Another run re-opens it, and what it comes to counts.
        run(&repo, &id, &["--background"], GATED);
        assert_eq!(state(&repo, &id), "running");
        repo.agent_json(&["stop", &id]);
        let shown = repo.agent_json(&["show", &id]);
        assert_eq!(shown["summary"], "run 2 was stopped");
        let output = run(&repo, &id, &[], WORKS);
        assert!(output.status.success(), "{}", describe(&output));
        let shown = repo.agent_json(&["show", &id]);
        assert_eq!((&shown["state"], shown.get("summary")), (&json!("done"), None));
    }
}

#[test]
fn u2_a_run_that_succeeds_is_followed_by_its_verdict() {
    let repo = TestRepo::with_commit();
    let (judged, rejected) = (spawned(&repo, &[]), spawned(&repo, &[]));
    let (unjudged, waiting) = (spawned(&repo, &[]), spawned(&repo, &[]));
    run(&repo, &judged, &[], WORKS);
    run(&repo, &rejected, &[], "true");
    run(&repo, &unjudged, &["--no-verify"], WORKS);
    assert_eq!(state(&repo, &judged), "done");
    assert_eq!(state(&repo, &rejected), "idle");
    assert_eq!(state(&repo, &unjudged), "done");
    assert_eq!(state(&repo, &waiting), "ready", "nothing worked in it");
    let (round, code) = ask(&repo, &["merge", "--all"]);
    let verdicts: Vec<_> =
        round["items"].as_array().expect("agents").iter().map(|one| text(one, "outcome")).collect();
    // Both have the same work, so the second one changes nothing any more.
    assert_eq!(verdicts, ["merged", "idle", "already-merged", "ready"]);
    assert_eq!(code, 0, "something landed");
}

/// An agent whose supervisor was killed, and nothing of whose command is left.
fn killed(repo: &TestRepo) -> String {
    let id = spawned(repo, &[]);
    let mut supervisor = run_command(repo, &id, &[], "touch \"$BESIDE/ready\"; sleep 1000")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("starts");
    while !beside(repo).join("ready").exists() {
        assert!(supervisor.try_wait().expect("known").is_none(), "it works");
        crate::support::pause();
    }
    supervisor.kill().expect("killed");
    supervisor.wait().expect("ends");
    while repo.agent_json(&["show", &id])["run"]["state"] == "running" {
        crate::support::pause();
    }
    id
}

#[test]
fn u2_readers_tell_of_a_killed_supervisor_and_write_nothing() {
    let repo = TestRepo::with_commit();
    let id = killed(&repo);
    let ledger = repo.git(["rev-parse", "refs/notes/agents"]);
    let reason = "run 1 ended when its supervisor was killed";
    require_failed(&repo, &id, reason);
    let page = repo.agent(&["report", "--html=-"]);
    assert!(page.status.success(), "{}", describe(&page));
    let swept = repo.agent_json(&["gc"]);
    assert_eq!(swept["agents"][0]["action"], "keep", "{swept}");
    assert_eq!(repo.git(["rev-parse", "refs/notes/agents"]), ledger);
    assert_eq!(kinds(&repo, &id), ["spawning", "spawned", "started"]);
}

#[test]
fn u2_the_next_writer_records_a_killed_supervisor() {
    let writers: [(&[&str], &str); 6] = [
        (&["reject"], "rejected"),
        (&["defer"], "deferred"),
        (&["done"], "done"),
        (&["fail", "--reason=it hung"], "failed"),
        (&["wait"], ""),
        (&["merge", "--all"], ""),
    ];
    for (words, event) in writers {
        let repo = TestRepo::with_commit();
        let id = killed(&repo);
        let named = if words[0] == "merge" { "--order=spawned" } else { &id };
        let output = repo.agent(&[words, &[named]].concat());
        let mut expected = vec!["spawning", "spawned", "started", "exited"];
        expected.extend((!event.is_empty()).then_some(event));
        assert_eq!(kinds(&repo, &id), expected, "{words:?}: {}", describe(&output));
        let shown = repo.agent_json(&["show", &id]);
        assert!(shown.get("irregular").is_none(), "{shown}");
        assert_eq!(shown["run"]["ended"], "lost");
    }
}

#[test]
fn u3_a_name_means_the_live_agent_else_the_newest() {
    let repo = TestRepo::with_commit();
    let means = |name: &str| text(&repo.agent_json(&["show", name]), "agent_id");
    let first = spawned(&repo, &["--name=fixer"]);
    repo.agent_json(&["discard", &first]);
    assert_eq!(means("fixer"), first);
    let second = spawned(&repo, &["--name=fixer"]);
    assert_eq!(means("fixer"), second, "the other one is discarded");
    assert!(run(&repo, &second, &[], WORKS).status.success());
    repo.agent_json(&["merge", "fixer"]);
    assert_eq!(means("fixer"), second, "the newest");
    let third = repo.spawn_task(TASK, &["--name=fixer"]);
    assert_eq!(third["warnings"], json!([]));
    let third = text(&third, "agent_id");
    assert_eq!(means("fixer"), third, "the other one is merged");

    let fourth = repo.spawn_task(TASK, &["--name=fixer"]);
    let warnings = fourth["warnings"].to_string();
    assert!(warnings.contains(&third[..8]), "{warnings}");
    let fourth = text(&fourth, "agent_id");
    let output = repo.agent(&["show", "fixer"]);
    refused(&output, "agent-ambiguous", 2);
    let error = describe(&output);
    assert!(error.contains("names 2 agents"), "{error}");
    assert!(error.contains(&third) && error.contains(&fourth), "{error}");
    assert!(!error.contains(&first) && !error.contains(&second), "{error}");
}

#[test]
fn u3_the_advice_after_a_round_leads_to_no_ambiguous_name() {
    let repo = TestRepo::with_commit();
    let named = format!("name = \"fixer\"\n{TASK}");
    let first = text(&repo.spawn_task(&named, &[]), "agent_id");
    repo.agent_json(&["done", &first]);
    repo.agent_json(&["reject", &first]);
    let (round, _) = ask(&repo, &["merge", "--all"]);
    let ways = round["close"]["ways"].as_array().expect("ways");
    let retry = ways.iter().find(|way| way["way"] == "retry").expect("one");
    let advice = retry["commands"][0].as_str().expect("a command");
    let program = Path::new(env!("CARGO_BIN_EXE_git-agent")).parent().expect("a directory");
    let path = format!("{}:{}", program.display(), std::env::var("PATH").expect("a path"));
    let mut shell = crate::support::isolated("sh", &repo.path());
    shell.args(["-c", &format!("{advice} --format=json")]).env("PATH", path);
    let second = json_of(shell);
    assert_eq!(second["warnings"], json!([]));
    let shown = repo.agent_json(&["show", "fixer"]);
    assert_eq!(shown["agent_id"], second["agent_id"]);
}

/// Waits until no process works for an agent.
fn until_idle(repo: &TestRepo) {
    while repo.agent_json(&["ps"])["runs"] != json!([]) {
        crate::support::pause();
    }
}

#[test]
fn u7_wait_tells_of_runs_that_ended_before() {
    let repo = TestRepo::with_commit();
    let (one, two) = (spawned(&repo, &[]), spawned(&repo, &[]));
    assert!(run(&repo, &one, &["--background"], "exit 7").status.success());
    until_idle(&repo);
    assert!(run(&repo, &two, &["--background"], "exit 8").status.success());
    until_idle(&repo);
    let (looked, code) = ask(&repo, &["wait", "--any", "--timeout=0s"]);
    assert_eq!((&looked["runs"][0]["agent_id"], code), (&json!(one), 7), "the first that ended");
    let (told, code) = ask(&repo, &["wait"]);
    assert_eq!(told["runs"].as_array().map(Vec::len), Some(1), "{told}");
    let run_two = &told["runs"][0];
    assert_eq!(
        (&run_two["agent_id"], &run_two["status"], code),
        (&json!(two), &json!("failed"), 8)
    );
    let (nothing, code) = ask(&repo, &["wait"]);
    assert_eq!((&nothing["runs"], code), (&json!([]), 0), "all were told of");
    assert_eq!(ask(&repo, &["wait", &one]).1, 7, "by name again");
    // Whoever waited for a run in the foreground knows how it ended.
    run(&repo, &one, &[], "exit 9");
    assert_eq!(ask(&repo, &["wait"]).1, 0);
    run(&repo, &one, &["--background"], GATED);
    repo.agent_json(&["stop", &one]);
    assert_eq!(ask(&repo, &["wait"]).0["runs"], json!([]));
    // What goes on and what has ended are waited for together.
    run(&repo, &one, &["--background"], "exit 7");
    until_idle(&repo);
    run(&repo, &two, &["--background"], GATED);
    go(&repo);
    let (both, code) = ask(&repo, &["wait"]);
    assert_eq!((both["runs"].as_array().map(Vec::len), code), (Some(2), 7));
}

#[test]
fn u7_wait_tells_of_a_run_in_the_background_that_was_killed() {
    let repo = TestRepo::with_commit();
    let id = spawned(&repo, &[]);
    let script = "touch \"$BESIDE/ready\"; sleep 1000";
    let begun = run(&repo, &id, &["--background", "--format=json"], script);
    let begun: Value = serde_json::from_slice(&begun.stdout).expect("JSON");
    let pid = begun["pid"].as_u64().expect("a process").to_string();
    let killed = crate::support::isolated("kill", &repo.path()).args(["-9", &pid]).status();
    assert!(killed.expect("starts").success());
    until_idle(&repo);
    let (told, code) = ask(&repo, &["wait"]);
    let run = &told["runs"][0];
    assert_eq!((&run["agent_id"], &run["ended"]), (&json!(id), &json!("lost")), "{told}");
    assert_ne!(code, 0);
    assert_eq!(state(&repo, &id), "failed");
}

#[test]
fn u12_a_run_whose_work_is_rejected_is_no_success() {
    let repo = TestRepo::with_commit();
    let id = spawned(&repo, &[]);
    let output = run(&repo, &id, &["--format=json"], "true");
    assert_eq!(output.status.code(), Some(1), "{}", describe(&output));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&report["status"], &report["verdict"]), (&json!("rejected"), &json!("reject")));
    assert_eq!(report["exit_code"], 0, "the command's own");
    // The same in the background, and among several.
    run(&repo, &id, &["--background"], "true");
    let (told, code) = ask(&repo, &["wait"]);
    assert_eq!((&told["runs"][0]["status"], code), (&json!("rejected"), 1));
    let several = run(&repo, &id, &["--jobs=1", "--format=json"], "true");
    assert_eq!(several.status.code(), Some(1), "{}", describe(&several));
    let several: Value = serde_json::from_slice(&several.stdout).expect("JSON");
    assert_eq!((&several["status"], &several["failed"]), (&json!("failed"), &json!(1)));
}

#[test]
fn h18_an_agent_that_judges_itself_early_goes_on() {
    let agent = Agent::new();
    agent.write("README.md", "out of scope\n");
    let by_place = || {
        let mut command = agent_command(&agent.worktree);
        command.args(["verify", &agent.id]);
        command
    };
    let by_name = || {
        let mut command = agent_command(&agent.repo.path());
        command.args(["verify", &agent.id]).env("GIT_AGENT_ID", &agent.id);
        command
    };
    for mut command in [by_place(), by_name()] {
        let output = command.output().expect("starts");
        assert_eq!(output.status.code(), Some(1), "{}", describe(&output));
        assert_eq!(state(&agent.repo, &agent.id), "idle");
    }
    assert_eq!(kinds(&agent.repo, &agent.id), ["spawning", "spawned"]);
    let mut done = agent_command(&agent.worktree);
    done.args(["done", "--summary=all of it", "--format=json"]);
    assert_eq!(json_of(done)["state"], "done");
    // Nor does an agent accept its own work, and others judge it as ever.
    std::fs::remove_file(agent.worktree.join("README.md")).expect("removed");
    agent.git(&["checkout", "--quiet", "--", "README.md"]);
    agent.write("src/two.rs", "pub fn two() {}\n");
    assert!(by_place().output().expect("starts").status.success());
    assert_eq!(kinds(&agent.repo, &agent.id), ["spawning", "spawned", "done"]);
    assert_eq!(agent.verify(&[])["verdict"], "accept");
    assert_eq!(kinds(&agent.repo, &agent.id).last().expect("one"), "verified");
}

#[test]
fn h18_an_agent_may_judge_itself_within_its_run() {
    let ask = |words: &str| {
        format!("\"$PROGRAM\" {words} >> \"$BESIDE/said\" 2>&1; echo $? >> \"$BESIDE/status\";")
    };
    let verify = ask("verify \"$GIT_AGENT_ID\"");
    let cases = [
        (ask("done --summary='lib: add two'"), "done", "verified", "done"),
        (ask("fail --reason='no idea'") + "exit 7;", "failed", "exited", "failed"),
    ];
    for (declare, event, last, expected) in cases {
        let repo = TestRepo::with_commit();
        let id = spawned(&repo, &[]);
        let output = run(&repo, &id, &[], &format!("{verify} {WORKS} {verify} {declare}"));
        let read = |name: &str| std::fs::read_to_string(beside(&repo).join(name)).expect("written");
        let said = format!("{}{}", read("said"), describe(&output));
        assert_eq!(read("status"), "1\n0\n0\n", "{said}");
        let log = kinds(&repo, &id);
        let told = ["spawning", "spawned", "started", event, "exited"];
        assert_eq!(log[..5], told, "{said}");
        assert_eq!(log.last().expect("one"), last);
        let by = &repo.agent_json(&["log", &id])["events"][3]["by"];
        assert_eq!(by, id.as_str());
        assert_eq!(state(&repo, &id), expected, "{said}");
    }
}

#[test]
fn u17_a_merge_that_is_refused_leaves_an_unfinished_agent_running() {
    let repo = TestRepo::with_commit();
    let early = spawned(&repo, &[]);
    for words in [&["merge", &early][..], &["merge", &early, "--dry-run"]] {
        refused(&repo.agent(words), "not-accepted", 3);
        assert_eq!(kinds(&repo, &early), ["spawning", "spawned"]);
    }
    let empty = Agent::new();
    refused(&empty.repo.agent(&["merge", &empty.id]), "nothing-to-land", 1);
    assert_eq!(state(&empty.repo, &empty.id), "ready");
    let ready = Agent::new();
    ready.write("src/two.rs", "pub fn two() {}\n");
    let planned = ready.repo.agent_json(&["merge", &ready.id, "--dry-run"]);
    assert_eq!(planned["outcome"], "planned");
    assert_eq!(state(&ready.repo, &ready.id), "idle", "a dry run");
    ready.repo.agent_json(&["merge", &ready.id]);
    assert_eq!(state(&ready.repo, &ready.id), "merged");
}

#[test]
fn u17_what_is_said_after_a_verdict_is_the_subject_of_the_landing() {
    let agent = Agent::new();
    agent.write("src/two.rs", "pub fn two() {}\n");
    assert_eq!(agent.verify(&[])["verdict"], "accept");
    let done = ["done", &agent.id, "--summary=lib: add two"];
    assert_eq!(agent.repo.agent_json(&done)["summary"], "lib: add two");
    agent.repo.agent_json(&["merge", &agent.id]);
    let subject = agent.repo.git(["log", "-1", "--format=%s", "main"]);
    assert_eq!(subject, format!("merge({}): lib: add two", &agent.id[..8]));
    // A rejecting verdict can be answered too, and is given again.
    let agent = Agent::new();
    agent.write("README.md", "out of scope\n");
    assert_eq!(agent.verify(&[])["verdict"], "reject");
    agent.repo.agent_json(&["done", &agent.id, "--summary=see there"]);
    assert_eq!(state(&agent.repo, &agent.id), "done");
    assert_eq!(agent.verify(&[])["verdict"], "reject");
    assert_eq!(state(&agent.repo, &agent.id), "idle");
}

#[test]
fn u17_inside_a_worktree_its_agent_needs_no_name() {
    let agent = Agent::new();
    for verb in ["show", "log", "path"] {
        let mut command = agent_command(&agent.worktree.join("src"));
        command.args([verb, "--format=json"]);
        assert_eq!(json_of(command)["agent_id"], agent.id.as_str(), "{verb}");
        refused(&agent.repo.agent(&[verb]), "usage", 2);
    }
}

#[test]
fn u17_a_decision_records_no_reason_that_was_not_given() {
    let repo = TestRepo::with_commit();
    for (verb, state) in [("reject", "rejected"), ("defer", "done")] {
        let id = spawned(&repo, &[]);
        repo.agent_json(&["done", &id, "--summary=all of it"]);
        let decided = repo.agent_json(&[verb, &id]);
        assert_eq!((&decided["state"], decided.get("summary")), (&json!(state), None));
        let log = repo.agent_json(&["log", &id]);
        let last = log["events"].as_array().expect("events").last().expect("one");
        assert_eq!(last.get("detail"), None, "{last}");
    }
}

#[test]
fn u17_a_round_in_which_nothing_landed_is_told_by_its_status() {
    let repo = TestRepo::with_commit();
    let round = || ask(&repo, &["merge", "--all"]).1;
    assert_eq!(round(), 0, "there is no agent");
    let id = spawned(&repo, &[]);
    assert_eq!(round(), 1, "it is still at work");
    repo.agent_json(&["fail", &id, "--reason=no idea"]);
    assert_eq!(round(), 1, "it failed");
    repo.agent_json(&["defer", &id]);
    assert_eq!(round(), 0, "that was decided");
    let other = spawned(&repo, &[]);
    assert_eq!(round(), 1, "another one is at work");
    run(&repo, &other, &[], WORKS);
    assert_eq!(round(), 0, "it landed");
    repo.agent_json(&["reject", &id]);
    assert_eq!(round(), 0, "nothing is left to land");
}
