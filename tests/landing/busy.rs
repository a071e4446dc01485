//! No landing takes an agent in which something runs; what comes after a landing lands with the next one.

use super::stops::die_at;
use super::{answer, run, state};
use crate::support::agent::{agent_command, answer_of, describe};
use crate::support::isolated;
use crate::verify::{Agent, refused};
use git_agent::domain::AgentId;
use git_agent::store::files::{layout, lock};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

/// Every command that takes an agent's work, as it is called for one.
const LANDINGS: [&[&str]; 5] =
    [&["merge"], &["merge", "--squash"], &["train"], &["pr"], &["update"]];

fn call(agent: &Agent, words: &[&str]) -> Output {
    let (verb, options) = words.split_first().expect("a verb");
    run(agent, verb, options)
}

/// An agent with finished work in scope, which a target that moved on takes.
fn finished() -> Agent {
    let agent = Agent::new();
    agent.write("src/two.rs", "pub fn half() {}\n");
    agent.repo.write("NOTES.md", "moved on\n");
    agent.repo.commit_all("main moves on");
    agent.repo.agent_json(&["done", &agent.id]);
    agent
}

fn beside(agent: &Agent) -> PathBuf {
    let directory = agent.repo.path().with_file_name("beside");
    fs::create_dir_all(&directory).expect("a directory");
    directory
}

/// Starts a run that goes on until [`go`].
fn start(agent: &Agent, before: &str, after: &str) {
    let script = format!("{before}; while [ ! -e \"$BESIDE/go\" ]; do sleep 0.01; done; {after}");
    let output = agent_command(&agent.repo.path())
        .args(["run", "--background", "--allow-write"])
        .arg(beside(agent))
        .args([&agent.id, "--", "sh", "-c", &script])
        .env("TMPDIR", agent.repo.path().parent().expect("a parent"))
        .env("BESIDE", beside(agent))
        .output()
        .expect("starts");
    assert!(output.status.success(), "{}", describe(&output));
}

/// Starts a run, and waits until it has done half of its work; the rest it commits after [`go`].
fn start_half_done(agent: &Agent) {
    start(
        agent,
        "echo 'pub fn half() {}' > src/run.rs; touch \"$BESIDE/ready\"",
        "echo 'pub fn whole() {}' > src/run.rs; git add src/run.rs; git commit -q -m rest",
    );
    while !beside(agent).join("ready").exists() {
        crate::support::pause();
    }
}

fn go(agent: &Agent) -> Output {
    fs::write(beside(agent).join("go"), "").expect("written");
    agent.repo.agent(&["wait", &agent.id])
}

/// Refused by every landing, with nothing moved, and named by a round that goes on without it.
#[track_caller]
fn require_busy(agent: &Agent, what: &str) {
    let main = agent.repo.git(["rev-parse", "main"]);
    for words in LANDINGS {
        let output = call(agent, words);
        let said = describe(&output);
        refused(&output, "agent-busy", 3);
        for way in ["git agent stop", "git agent wait"] {
            assert!(said.contains(way), "{what}: {words:?}: {said}");
        }
        // The branch does not move beneath a run, so what would be refused as well is not advised.
        let is_no_way = words == ["update"] && what == "a run";
        assert_eq!(said.contains("--now"), !is_no_way, "{what}: {words:?}: {said}");
        if is_no_way {
            refused(&call(agent, &["update", "--now"]), "agent-busy", 3);
        }
    }
    let round = agent.repo.agent(&["merge", "--all", "--format=json"]);
    let round: Value = serde_json::from_slice(&round.stdout).expect("JSON");
    let named = &round["close"]["unfinished"][0]["agent_id"];
    assert_eq!(named, agent.id.as_str(), "{what}: {round}");
    assert_eq!(agent.repo.git(["rev-parse", "main"]), main, "{what}");
    let (_, kept) = gc(agent);
    assert_eq!(kept, "keep", "{what}");
}

fn gc(agent: &Agent) -> (String, String) {
    let report = agent.repo.agent_json(&["gc"]);
    let item = &report["agents"][0];
    let text = |key: &str| item[key].as_str().unwrap_or_default().to_owned();
    (text("why"), text("action"))
}

fn file(agent: &Agent, name: &str) -> String {
    agent.repo.git(["show", &format!("main:{name}")])
}

#[test]
fn a_run_that_goes_on_is_not_taken() {
    let agent = finished();
    start(&agent, "echo 'pub fn half() {}' > src/run.rs", "echo 'pub fn full() {}' >> src/run.rs");
    assert_eq!(state(&agent), "running");
    require_busy(&agent, "a run");
    let ended = go(&agent);
    assert!(ended.status.success(), "{}", describe(&ended));
    answer(&agent, "merge", &[]);
    assert!(file(&agent, "src/run.rs").contains("full"));
    assert_eq!(state(&agent), "merged");
}

#[test]
fn short_commands_for_one_agent_wait_for_one_another() {
    for words in [&["merge"][..], &["update"], &["amend", "--deny=docs/**"], &["discard"]] {
        let agent = finished();
        agent.commit("two");
        let common = agent.repo.path().join(".git");
        let id = AgentId::parse(&agent.id).expect("an id");
        // As another command of this program holds it.
        let held = lock::hold(&common, &layout::live_lock(id)).expect("a lock");
        let log = beside(&agent).join("log");
        let mut command = agent_command(&agent.repo.path());
        command.args([words[0], &agent.id]).args(&words[1..]);
        command.env("GIT_AGENT_LOG", "debug").stdout(Stdio::null());
        command.stderr(fs::File::create(&log).expect("a log"));
        let mut child = command.spawn().expect("starts");
        let said = || fs::read_to_string(&log).expect("a log");
        while !said().contains("waits for another command") {
            let ended = child.try_wait().expect("a child");
            assert!(ended.is_none(), "{words:?}: {}", said());
        }
        drop(held);
        let status = child.wait().expect("ends");
        assert!(status.success(), "{words:?}: {}", said());
    }
}

#[test]
fn now_takes_what_is_there_and_the_rest_lands_with_the_next_landing() {
    for method in ["--no-ff", "--squash"] {
        let agent = finished();
        start_half_done(&agent);
        let report = answer(&agent, "merge", &[method, "--now"]);
        assert_eq!(report["outcome"], "merged", "{method}: {report}");
        assert!(file(&agent, "src/run.rs").contains("half"), "{method}");
        assert_eq!(state(&agent), "running", "{method}");
        // What goes on in it keeps its worktree and its prompt.
        let prompt = format!(".git/agents/{}/prompt.md", &agent.id[..8]);
        assert!(agent.repo.path().join(prompt).exists(), "{method}");
        let worktrees = agent.repo.git(["worktree", "list", "--porcelain"]);
        assert!(worktrees.contains("locked"), "{method}: {worktrees}");

        let ended = go(&agent);
        assert!(ended.status.success(), "{method}: {}", describe(&ended));
        assert_eq!(state(&agent), "done", "{method}");
        let report = answer(&agent, "merge", &[method]);
        assert_eq!(report["outcome"], "merged", "{method}: {report}");
        assert_eq!(file(&agent, "src/run.rs"), "pub fn whole() {}", "{method}");
        assert_eq!(state(&agent), "merged", "{method}");
        refused(&run(&agent, "merge", &[method]), "agent-state", 3);
        let fsck = ["fsck", "--strict", "--no-progress", "--no-dangling"];
        assert_eq!(agent.repo.git(fsck), "");
    }
}

#[test]
fn what_a_run_drops_after_a_landing_stays_and_what_it_takes_away_is_shown_and_goes() {
    for method in ["--no-ff", "--squash"] {
        let agent = finished();
        start(
            &agent,
            "for name in one dropped; do echo > src/$name.rs; git add src/$name.rs; git commit -qm $name; done; \
             echo > src/kept.rs; echo gone > src/gone.rs; touch \"$BESIDE/ready\"",
            "git reset -q --hard HEAD~1; echo > src/kept.rs; echo new > src/new.rs; git add src/new.rs; \
             git commit -qm new; rm -f src/gone.rs",
        );
        let branch_has = |subject| {
            let last = agent.repo.git(["log", "-1", "--format=%s", &agent.branch]);
            last == subject
        };
        // What a run commits comes to its branch a little later.
        while !beside(&agent).join("ready").exists() || !branch_has("dropped") {
            crate::support::pause();
        }
        answer(&agent, "merge", &[method, "--now"]);
        let ended = go(&agent);
        assert!(ended.status.success(), "{method}: {}", describe(&ended));
        let diff = answer(&agent, "diff", &[]);
        let paths = diff["changes"].as_array().expect("a list");
        let paths: Vec<_> = paths.iter().map(|one| &one["path"]).collect();
        assert_eq!(paths, ["src/gone.rs", "src/new.rs"], "{method}: {diff:#}");
        let before = agent.repo.git(["rev-parse", "main"]);
        answer(&agent, "merge", &[method]);
        let changed = agent.repo.git(["diff", "--name-only", &before, "main"]);
        assert_eq!(changed, "src/gone.rs\nsrc/new.rs", "{method}");
    }
}

/// The steps of a landing of work in which a run goes on: the work is committed, but on no branch.
const NOW_STEPS: [&str; 8] =
    ["locked", "emptied", "written", "indexed", "moved", "landed", "forgotten", "merged"];

/// The problems that `doctor` finds, by code.
fn doctor(agent: &Agent) -> Vec<String> {
    let output = agent.repo.agent(&["doctor", "--format=json"]);
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let findings = report["findings"].as_array().expect("findings").iter();
    let findings = findings.filter(|one| one["severity"] == "problem");
    let codes = findings.map(|one| one["code"].as_str().expect("a code").to_owned());
    codes.collect()
}

/// The commits that landed, as the agent's row says.
fn landings(agent: &Agent) -> Vec<String> {
    let row = agent.repo.agent_json(&["show", &agent.id]);
    let spawn = row["spawn_commit"].as_str().expect("a commit");
    let note = agent.repo.git(["notes", "--ref=agents", "show", spawn]);
    let events = note.lines().filter_map(|line| serde_json::from_str(line).ok());
    events
        .filter(|event: &Value| event["e"] == "merged")
        .map(|event| event["d"]["commit"].as_str().expect("a commit").to_owned())
        .collect()
}

#[test]
fn a_landing_beside_a_run_that_is_killed_costs_neither_of_them_anything() {
    for step in NOW_STEPS {
        let agent = finished();
        start_half_done(&agent);
        die_at(&agent, step, "--now");
        let prompt = format!(".git/agents/{}/prompt.md", &agent.id[..8]);
        assert!(agent.repo.path().join(&prompt).exists(), "after {step}");
        let found = doctor(&agent);
        assert!(!found.contains(&"debris.briefing".to_owned()), "after {step}: {found:?}");
        let ended = go(&agent);
        // Until the next landing has written down what the killed one brought, the target and the work seem to conflict.
        let is_unrecorded = ["landed", "forgotten"].contains(&step);
        let status = ended.status.code();
        assert!(
            status == Some(0) || is_unrecorded && status == Some(1),
            "{step}: {}",
            describe(&ended)
        );
        let report = answer(&agent, "merge", &[]);
        assert_eq!(report["outcome"], "merged", "after {step}: {report}");
        assert_eq!(file(&agent, "src/run.rs"), "pub fn whole() {}", "after {step}");
        assert_eq!(file(&agent, "src/two.rs"), "pub fn half() {}", "after {step}");
        assert_eq!(agent.repo.git(["status", "--porcelain"]), "", "after {step}");
        assert!(!agent.repo.path().join(prompt).exists(), "after {step}");
        for landed in landings(&agent) {
            let is_ancestor = ["merge-base", "--is-ancestor", &landed, "main"];
            agent.repo.git(is_ancestor);
        }
        let fsck = ["fsck", "--strict", "--no-progress", "--no-dangling"];
        assert_eq!(agent.repo.git(fsck), "", "after {step}");
        assert_eq!(doctor(&agent), [""; 0], "after {step}");
    }
}

#[test]
fn the_prompt_of_a_run_that_goes_on_after_a_landing_is_nothing_for_the_doctor() {
    let agent = finished();
    start(&agent, "touch \"$BESIDE/ready\"", "echo 'pub fn more() {}' > src/run.rs");
    while !beside(&agent).join("ready").exists() {
        crate::support::pause();
    }
    answer(&agent, "merge", &["--now"]);
    assert_eq!(doctor(&agent), [""; 0]);
    let fixed = agent.repo.agent(&["doctor", "--fix"]);
    assert!(fixed.status.success(), "{}", describe(&fixed));
    let prompt = format!(".git/agents/{}/prompt.md", &agent.id[..8]);
    assert!(agent.repo.path().join(&prompt).exists());
    let ended = go(&agent);
    assert!(ended.status.success(), "{}", describe(&ended));
    answer(&agent, "merge", &[]);
    assert!(!agent.repo.path().join(prompt).exists());
}

#[test]
fn a_question_without_an_answer_makes_an_agent_waiting() {
    let agent = Agent::new();
    agent.write("src/two.rs", "pub fn two() {}\n");
    let short = &agent.id[..8];
    let send = |words: &[&str]| {
        let sent = agent.repo.agent_json(&[&["send"], words].concat());
        sent["message_id"].as_str().expect("an id").to_owned()
    };
    let ask = || {
        let question = ["--type=clarify", "--from", short, "--to=user"];
        send(
            &[&question[..], &["--payload", "question=which?", "--payload", "context=two"]]
                .concat(),
        )
    };
    let before = state(&agent);
    let notify = ["--type=notify", "--payload=message=this one"];
    // By a reply, and by any message of those who were asked.
    let first = ask();
    assert_eq!(state(&agent), "waiting");
    send(&[&notify[..], &["--from=another", "--to", short]].concat());
    assert_eq!(state(&agent), "waiting", "that one was not asked");
    send(&[&notify[..], &["--from=another", "--to", short, "--reply-to", &first]].concat());
    assert_eq!(state(&agent), before);
    ask();
    let second = ask();
    assert_eq!(state(&agent), "waiting");
    let said =
        send(&[&notify[..], &["--from=user", "--to", short, "--reply-to", &second]].concat());
    assert_eq!(state(&agent), "waiting", "what names one question answers that one");
    send(&[&notify[..], &["--from=user", "--to", short, "--reply-to", &said]].concat());
    assert_eq!(state(&agent), "waiting", "and so does what goes on from its answer");
    send(&[&notify[..], &["--from=user", "--to", short]].concat());
    assert_eq!(state(&agent), before);
    // Nothing waits in the way of a landing, and what is decided is decided.
    ask();
    answer(&agent, "merge", &[]);
    assert_eq!(state(&agent), "merged");
}

/// A program that calls a hook of an agent host, and stays until it is killed.
struct Host {
    child: Child,
    input: std::process::ChildStdin,
    output: BufReader<std::process::ChildStdout>,
}

impl Host {
    fn start(agent: &Agent) -> Host {
        let script = beside(agent).join("host.sh");
        let program = env!("CARGO_BIN_EXE_git-agent");
        let text = format!(
            "while read -r hook; do read -r call; printf '%s' \"$call\" | {program} hook \"$hook\" >/dev/null 2>&1; echo \"$?\"; done\n"
        );
        fs::write(&script, text).expect("written");
        // Not in the worktree: only its hooks tell of it.
        let mut child = isolated("sh", &beside(agent))
            .arg(&script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("starts");
        Host {
            input: child.stdin.take().expect("a pipe"),
            output: BufReader::new(child.stdout.take().expect("a pipe")),
            child,
        }
    }

    /// Calls a hook and gives its status.
    fn call(&mut self, agent: &Agent, hook: &str, more: &Value) -> String {
        let mut call = json!({ "cwd": agent.worktree, "session_id": "s" });
        let members = call.as_object_mut().expect("an object");
        members.extend(more.as_object().expect("an object").clone());
        writeln!(self.input, "{hook}\n{call}").expect("written");
        let mut status = String::new();
        self.output.read_line(&mut status).expect("read");
        status.trim().to_owned()
    }
}

#[test]
fn a_session_of_a_host_is_at_work_from_its_prompt_until_it_stops() {
    let agent = finished();
    let mut host = Host::start(&agent);
    let write = json!({ "tool_name": "Write", "tool_input": { "file_path": "src/three.rs", "content": "x" } });
    assert_eq!(host.call(&agent, "session-start", &json!({})), "0");
    assert_eq!(state(&agent), "done", "it waits for its first prompt");
    assert_eq!(host.call(&agent, "prompt", &json!({})), "0");
    assert_eq!(state(&agent), "running");
    require_busy(&agent, "a prompt");
    assert_eq!(host.call(&agent, "notification", &json!({})), "0");
    assert_eq!(state(&agent), "waiting");
    require_busy(&agent, "a permission");
    assert_eq!(host.call(&agent, "pre-tool", &write), "0");
    assert_eq!(state(&agent), "running");
    // It is sent back to work while its work is not acceptable.
    agent.write("README.md", "out of scope\n");
    let stop = json!({ "hook_event_name": "Stop" });
    assert_eq!(host.call(&agent, "stop", &stop), "2");
    assert_eq!(state(&agent), "running");
    agent.git(&["checkout", "--quiet", "--", "README.md"]);
    assert_eq!(host.call(&agent, "stop", &stop), "0");
    assert_eq!(state(&agent), "done");
    // A host reminds of a session that waits for its next prompt, too.
    assert_eq!(host.call(&agent, "notification", &json!({})), "0");
    assert_eq!(state(&agent), "done");
    // A tool call alone is work as well, until the process is gone.
    assert_eq!(host.call(&agent, "pre-tool", &write), "0");
    require_busy(&agent, "a tool call");
    host.child.kill().expect("killed");
    host.child.wait().expect("over");
    assert_eq!(state(&agent), "done");
    answer(&agent, "merge", &[]);
    assert_eq!(state(&agent), "merged");
}

#[test]
fn a_session_ends_ready_and_the_end_of_one_is_the_end_of_its_work() {
    let agent = Agent::new();
    // The six files are no work.
    assert_eq!(state(&agent), "ready");
    let mut host = Host::start(&agent);
    assert_eq!(host.call(&agent, "prompt", &json!({})), "0");
    assert_eq!(state(&agent), "running");
    assert_eq!(host.call(&agent, "session-end", &json!({})), "0");
    assert_eq!(state(&agent), "idle");
    drop(host.input);
    host.child.wait().expect("over");
}

#[test]
fn a_process_that_stands_in_the_worktree_is_at_work() {
    let agent = finished();
    let mut child = Command::new("sleep")
        .arg("1000")
        .current_dir(agent.worktree.join("src"))
        .spawn()
        .expect("starts");
    require_busy(&agent, "a process");
    let said = describe(&run(&agent, "merge", &[]));
    assert!(said.contains(&format!("process {} (sleep)", child.id())), "{said}");
    child.kill().expect("killed");
    child.wait().expect("over");
    // Whoever calls from inside is not in its own way, nor what it pipes the answer through.
    let mut command = Command::new("sh");
    let script = format!("{} pr --dry-run {} | cat", env!("CARGO_BIN_EXE_git-agent"), agent.id);
    let output =
        command.args(["-c", &script]).current_dir(&agent.worktree).output().expect("starts");
    assert!(!describe(&output).contains("agent-busy"), "{}", describe(&output));
    answer(&agent, "merge", &[]);
}

#[test]
fn work_after_a_landing_re_opens_the_agent() {
    for method in ["--no-ff", "--squash", "--ff-only"] {
        let agent = Agent::new();
        agent.write("src/two.rs", "pub fn half() {}\n");
        agent.commit("half");
        answer(&agent, "merge", &[method]);
        assert_eq!(state(&agent), "merged");
        assert_eq!(gc(&agent).1, "remove", "{method}");
        if method != "--ff-only" {
            agent.repo.write("NOTES.md", "moved on\n");
            agent.repo.commit_all("main moves on");
        }
        // In the same lines, so that the work would conflict with itself.
        agent.write("src/two.rs", "pub fn whole() {}\n");
        let (why, action) = gc(&agent);
        assert_eq!(action, "keep", "{method}: {why}");
        answer(&agent, "commit", &["-m", "whole"]);
        assert_eq!(state(&agent), "idle", "{method}");
        assert_eq!(gc(&agent).1, "keep", "{method}");
        let worktrees = agent.repo.git(["worktree", "list", "--porcelain"]);
        assert!(worktrees.contains("locked git-agent"), "{method}: {worktrees}");
        let judged = agent.verify(&[]);
        assert_eq!(judged["verdict"], "accept", "{method}: {judged}");
        let report = answer(&agent, "merge", &[method]);
        assert_eq!(report["outcome"], "merged", "{method}: {report}");
        assert_eq!(file(&agent, "src/two.rs"), "pub fn whole() {}", "{method}");
        assert_eq!(state(&agent), "merged");
        // And once more, not committed by anyone.
        agent.write("src/two.rs", "pub fn third() {}\n");
        let report = answer(&agent, "merge", &[method]);
        assert_eq!(report["outcome"], "merged", "{method}: {report}");
        assert_eq!(file(&agent, "src/two.rs"), "pub fn third() {}", "{method}");
        assert_eq!(agent.repo.git(["status", "--porcelain"]), "");
        assert_eq!(gc(&agent).1, "remove", "{method}");
    }
}

#[test]
fn every_way_back_to_work_is_open_after_a_landing() {
    for method in ["--no-ff", "--squash"] {
        let agent = Agent::new();
        agent.write("src/two.rs", "pub fn half() {}\n");
        answer(&agent, "merge", &[method]);
        agent.repo.write("NOTES.md", "moved on\n");
        agent.repo.commit_all("main moves on");
        let updated = answer(&agent, "update", &[]);
        assert_eq!(updated["outcome"], "updated", "{method}: {updated}");
        assert_eq!(state(&agent), "idle", "{method}");
        assert_eq!(agent.git(&["show", "HEAD:NOTES.md"]), "moved on");
        let words = ["--", "sh", "-c", "echo 'pub fn more() {}' > src/two.rs"];
        let ran = run(&agent, "run", &words);
        assert!(ran.status.success(), "{method}: {}", describe(&ran));
        assert_eq!(state(&agent), "done", "{method}");
        let train = agent.repo.agent(&["train", "--all"]);
        assert!(train.status.success(), "{method}: {}", describe(&train));
        assert_eq!(file(&agent, "src/two.rs"), "pub fn more() {}", "{method}");
        assert_eq!(state(&agent), "merged", "{method}");
    }
}

#[test]
fn what_is_out_of_scope_after_a_landing_does_not_land() {
    for method in ["--no-ff", "--squash"] {
        let agent = Agent::new();
        agent.write("src/two.rs", "pub fn two() {}\n");
        answer(&agent, "merge", &[method]);
        agent.write("README.md", "out of scope\n");
        agent.commit("out of scope");
        refused(&run(&agent, "merge", &[method]), "not-accepted", 3);
        let codes = agent.codes();
        assert_eq!(codes, ["scope.not-in-whitelist"], "{method}");
    }
}

#[test]
fn what_asked_and_ended_well_lands_only_by_name() {
    let agent = Agent::new();
    agent.write("src/two.rs", "pub fn two() {}\n");
    let ended = run(&agent, "run", &["--", "true"]);
    assert!(ended.status.success(), "{}", describe(&ended));
    assert_eq!(state(&agent), "done");
    let short = &agent.id[..8];
    let from = ["send", "--type=clarify", "--from", short, "--to=user"];
    let payload = ["--payload", "question=which?", "--payload", "context=two"];
    agent.repo.agent_json(&[&from[..], &payload].concat());
    assert_eq!(state(&agent), "waiting");
    let main = agent.repo.git(["rev-parse", "main"]);
    let round = agent.repo.agent(&["merge", "--all", "--format=json"]);
    let round: Value = serde_json::from_slice(&round.stdout).expect("JSON");
    assert_eq!(round["items"][0]["outcome"], "waiting", "{round}");
    let train = agent.repo.agent_json(&["train", "--all"]);
    assert_eq!(train["items"], serde_json::json!([]));
    let train = agent.repo.agent(&["train", short]);
    assert!(describe(&train).contains("is waiting"), "{}", describe(&train));
    assert_eq!(agent.repo.git(["rev-parse", "main"]), main);
    let landed = agent.repo.agent(&["merge", short]);
    assert!(describe(&landed).contains("asked before it landed"), "{}", describe(&landed));
    assert_eq!(state(&agent), "merged");
}

/// What every answer that names the agent's state says of it.
fn told(agent: &Agent) -> [String; 4] {
    let text = |value: &Value| value.as_str().unwrap_or("absent").to_owned();
    let listed = agent.repo.agent_json(&["list"]);
    let all = answer_of(&agent.repo.agent(&["merge", "--all", "--dry-run", "--format=json"]));
    let swept = agent.repo.agent_json(&["gc"]);
    [
        state(agent),
        text(&listed["agents"][0]["state"]),
        text(&all["items"][0]["outcome"]),
        text(&swept["agents"][0]["state"]),
    ]
}

#[test]
fn what_comes_after_a_landing_makes_the_agent_idle_for_every_command() {
    let idle = ["idle"; 4].map(str::to_owned);
    let merged = ["merged", "absent", "absent", "merged"].map(str::to_owned);
    let by_hand: fn(&Agent) = |agent| {
        agent.write("src/two.rs", "pub fn whole() {}\n");
        agent.commit("by hand");
    };
    let uncommitted: fn(&Agent) = |agent| agent.write("src/two.rs", "pub fn whole() {}\n");
    let undone: fn(&Agent) = |agent| {
        agent.write("src/two.rs", "pub fn whole() {}\n");
        answer(agent, "merge", &[]);
        agent.repo.agent_json(&["undo"]);
    };
    let reset: fn(&Agent) = |agent| drop(agent.repo.git(["reset", "--quiet", "--hard", "HEAD~1"]));
    // The tree is then that of the commit that the branch began with.
    let reverted: fn(&Agent) = |agent| drop(agent.git(&["revert", "--no-edit", "HEAD"]));
    // The target has every file as the branch has it but for what the last commit takes back.
    let reverted_in_part: fn(&Agent) = |agent| {
        agent.write("src/more.rs", "pub fn more() {}\n");
        agent.commit("more");
        answer(agent, "merge", &[]);
        agent.git(&["revert", "--no-edit", "HEAD"]);
    };
    let cases = [
        ("hand", by_hand),
        ("files", uncommitted),
        ("undo", undone),
        ("reset", reset),
        ("revert", reverted),
        ("revert in part", reverted_in_part),
    ];
    for (name, go_on) in cases {
        for method in ["--no-ff", "--squash"] {
            let agent = Agent::new();
            agent.repo.write("NOTES.md", "moved on\n");
            agent.repo.commit_all("main moves on");
            agent.write("src/two.rs", "pub fn half() {}\n");
            answer(&agent, "merge", &[method]);
            assert_eq!(told(&agent), merged, "{name} {method}");
            go_on(&agent);
            assert_eq!(told(&agent), idle, "{name} {method}");
            let all = agent.repo.agent(&["merge", "--all"]);
            assert_eq!(all.status.code(), Some(1), "{name} {method}: {}", describe(&all));
            let refused = agent.repo.agent(&["uninstall"]);
            assert!(describe(&refused).contains("git agent merge"), "{}", describe(&refused));
            agent.repo.agent_json(&["mark", "done", &agent.id]);
            assert_eq!(state(&agent), "done", "{name} {method}");
            let train = agent.repo.agent(&["train", "--all"]);
            assert!(train.status.success(), "{name} {method}: {}", describe(&train));
            assert_eq!(told(&agent), merged, "{name} {method}");
            assert_eq!(gc(&agent).1, "remove", "{name} {method}");
        }
    }
}

#[test]
fn an_agent_whose_work_is_wholly_landed_stays_merged() {
    type Case = (&'static str, fn(&Agent));
    let cases: [Case; 7] = [
        ("not committed", |agent| {
            agent.write("src/three.rs", "pub fn three() {}\n");
            agent.repo.write("src/three.rs", "pub fn three() {}\n");
            agent.repo.commit_all("the same");
        }),
        ("rebased", |agent| drop(agent.git(&["rebase", "--quiet", "main"]))),
        ("set to the target", |agent| drop(agent.git(&["reset", "--quiet", "--hard", "main"]))),
        ("updated by hand", |agent| {
            drop(agent.git(&["merge", "--quiet", "--no-verify", "--no-edit", "main"]))
        }),
        ("amended", |agent| {
            drop(agent.git(&["commit", "--quiet", "--no-verify", "--amend", "-m", "other words"]));
        }),
        ("picked", |agent| {
            agent.write("src/more.rs", "pub fn more() {}\n");
            let more = agent.commit("more");
            agent.repo.git(["cherry-pick", &more]);
        }),
        ("built upon", |agent| {
            agent.repo.write("src/two.rs", "pub fn another() {}\n");
            agent.repo.commit_all("main changes it");
        }),
    ];
    for (name, change) in cases {
        for method in ["--no-ff", "--squash"] {
            let agent = Agent::new();
            agent.write("src/two.rs", "pub fn two() {}\n");
            agent.commit("two");
            answer(&agent, "merge", &[method]);
            agent.repo.write("NOTES.md", "moved on\n");
            agent.repo.commit_all("main moves on");
            change(&agent);
            let told = told(&agent);
            assert_eq!(told[..3], ["merged", "absent", "absent"], "{name} {method}");
            let refused = agent.repo.agent(&["mark", "done", &agent.id]);
            assert!(describe(&refused).contains("agent-state"), "{}", describe(&refused));
            // Of commits it is unknown then whether they have landed; files are seen to be in no commit.
            agent.repo.git(["branch", "-m", "main", "master"]);
            let expected = if name == "not committed" { "idle" } else { "merged" };
            assert_eq!(state(&agent), expected, "{name} {method}");
        }
    }
}
