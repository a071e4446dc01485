use super::{WORKS, beside, command, events, read, run, run_json, spawned};
use crate::support::agent::{TASK, agent_command, describe};
use crate::support::{TestRepo, is_ignored, isolated};
use rustix::process::{Pid, Signal, kill_process};
use std::process::{Child, Stdio};

/// Starts three processes in three ways and writes down their numbers: a child, one with a session of its
/// own that ignores TERM, and one whose parents are gone.
pub(super) const FAMILY: &str = r#"
note() { echo "$1" >> "$BESIDE/pids"; }
sleep 1000 & note $!
setsid sh -c 'trap "" TERM HUP INT; echo $$ >> "$BESIDE/pids"; while :; do sleep 1000; done' &
(setsid sh -c '(echo $(exec sh -c "echo \$PPID") >> "$BESIDE/pids"; exec sleep 1000) &' &)
while [ "$(wc -l < "$BESIDE/pids")" -lt 3 ]; do sleep 0.01; done
note end
"#;

/// The numbers that [`FAMILY`] wrote down, once it is complete.
pub(super) fn family(repo: &TestRepo) -> Vec<i32> {
    let path = beside(repo, "pids");
    loop {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        if text.ends_with("end\n") {
            return text.lines().filter_map(|line| line.parse().ok()).collect();
        }
        crate::support::pause();
    }
}

/// Waits for [`FAMILY`] to be complete, and asserts that no process of it is left.
pub(super) fn assert_over(repo: &TestRepo) {
    assert_eq!(family(repo).len(), 3);
    assert_eq!(left_of_family(repo), Vec::<String>::new());
}

/// The processes with the variable that the commands of this repository's runs have, but for our own program. The numbers that they wrote
/// down say nothing here: a fence may count processes in its own way. One that is over has no variables left.
fn left_of_family(repo: &TestRepo) -> Vec<String> {
    let variable = format!("BESIDE={}", beside(repo, "").display()).into_bytes();
    processes_with(&variable)
}

/// The names of the processes other than our own program that have this variable.
fn processes_with(variable: &[u8]) -> Vec<String> {
    let is_its = |directory: &std::path::Path| {
        let environment = std::fs::read(directory.join("environ")).unwrap_or_default();
        let mut variables = environment.split(|byte| *byte == 0);
        variables.any(|one| one == variable)
    };
    let entries = std::fs::read_dir("/proc").expect("there").flatten();
    let its = entries.map(|entry| entry.path()).filter(|path| is_its(path));
    let names = its.filter_map(|path| std::fs::read_to_string(path.join("comm")).ok());
    names.filter(|name| !name.starts_with("git-agent")).collect()
}

#[test]
fn the_time_limit_ends_everything_that_was_started() {
    let (repo, id) = spawned(TASK);
    let report = run_json(&repo, &id, &["--timeout=2s"], &format!("{FAMILY} sleep 1000"));
    assert_eq!(report["ended"], "timeout");
    assert_over(&repo);
}

#[test]
fn what_a_command_leaves_running_is_ended_with_it() {
    let (repo, id) = spawned(TASK);
    let report = run_json(&repo, &id, &["--no-verify"], FAMILY);
    assert_eq!((&report["ended"], &report["exit_code"]), (&"exit".into(), &0.into()));
    assert_over(&repo);
}

#[test]
fn whoever_kills_the_warden_takes_everything_along() {
    let (repo, id) = spawned(TASK);
    let script = format!("{FAMILY} kill -9 $PPID; exec sleep 1000");
    // Behind a fence the command could not do that.
    let report = run_json(&repo, &id, &["--sandbox=off"], &script);
    assert_eq!(report["ended"], "lost");
    assert_over(&repo);
}

#[test]
fn the_same_holds_for_check_commands() {
    let checks = format!("{TASK}[checks]\ncommands = ['''{FAMILY} exit 1''']\n");
    let agent = crate::verify::Agent::of_task(&checks);
    agent.write("src/two.rs", "pub fn two() {}\n");
    let open = beside(&agent.repo, "");
    let open_text = open.display().to_string();
    agent.repo.git(["config", "agent.run.allowWrite", &open_text]);
    let output = crate::support::agent::agent_command(&agent.repo.path())
        .args(["verify", &agent.id])
        .env("BESIDE", open)
        .output()
        .expect("starts");
    assert!(describe(&output).contains("commands.failed"), "{}", describe(&output));
    assert_eq!(family(&agent.repo).len(), 3);
    let variable = format!("BESIDE={open_text}").into_bytes();
    assert_eq!(processes_with(&variable), Vec::<String>::new());
}

#[test]
fn a_command_that_is_stopped_is_ended_too() {
    let (repo, id) = spawned(TASK);
    let report = run_json(&repo, &id, &["--timeout=1s"], "trap 'exit 3' TERM; kill -STOP $$");
    assert_eq!(report["ended"], "timeout");
}

/// Starts a run that waits, and comes back when it does.
fn waiting(repo: &TestRepo, id: &str, script: &str) -> Child {
    let child = command(repo, id, &[], script)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("starts");
    family(repo);
    child
}

pub(super) fn send(child: &Child, signal: Signal) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    kill_process(pid.expect("a process"), signal).expect("signalled");
}

#[test]
fn requests_to_end_are_passed_on_and_recorded() {
    let signals = [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)];
    // What a shell or nohup(1) told us to ignore, everything that we start ignores as well.
    for (signal, code) in signals.into_iter().filter(|(signal, _)| !is_ignored(*signal)) {
        let (repo, id) = spawned(TASK);
        let trap = "trap 'echo heard >> \"$BESIDE/heard\"' INT TERM HUP";
        let script = format!("{trap}; {FAMILY} sleep 1000 & wait");
        let mut child = waiting(&repo, &id, &script);
        // Below `git agent` an interrupt comes twice.
        send(&child, signal);
        send(&child, signal);
        let status = child.wait().expect("ends");
        assert_eq!(status.code(), Some(code));
        assert_eq!(read(beside(&repo, "heard")), "heard\n", "once");
        assert_over(&repo);
        let last = events(&repo, &id).pop().expect("an event");
        assert_eq!(last, format!("exited status {code} (stopped)"));
    }
}

#[test]
fn children_are_waited_for_where_their_end_is_to_be_ignored() {
    let repo = TestRepo::with_commit();
    let program = agent_command(&repo.path());
    let task = repo.task_file(TASK);
    for words in [&["run", &task, "--no-verify", "--", "true"][..], &["gc", "--yes"]] {
        let output = isolated("sh", &repo.path())
            .args(["-c", "trap '' CHLD; exec \"$0\" \"$@\""])
            .arg(program.get_program())
            .args(words)
            .output()
            .expect("starts");
        assert!(output.status.success(), "{words:?}: {}", describe(&output));
    }
}

#[test]
fn one_run_at_a_time_and_no_removal_meanwhile() {
    let (repo, id) = spawned(TASK);
    let child = waiting(&repo, &id, &format!("{FAMILY} sleep 1000"));
    let second = run(&repo, &id, &[], "true");
    assert_eq!(second.status.code(), Some(3));
    assert!(describe(&second).contains("error[run-active]"), "{}", describe(&second));
    let discard = repo.agent(&["discard", &id]);
    assert_eq!(discard.status.code(), Some(3));
    let row = repo.agent_json(&["show", &id]);
    assert_eq!(row["run"]["state"], "running");
    let output = repo.agent(&["list"]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("running (at work)"));
    end(child, &repo);
}

/// As Ctrl-Z does it: what is stopped would record nothing until it goes on.
#[test]
fn a_run_that_a_terminal_stopped_is_ended_and_recorded() {
    for word in ["stop", "stop --kill"] {
        let (repo, id) = spawned(TASK);
        let mut child = waiting(&repo, &id, &format!("{FAMILY} sleep 1000"));
        send(&child, Signal::STOP);
        let words: Vec<&str> = word.split(' ').chain([id.as_str()]).collect();
        let stopped = repo.agent(&words);
        assert!(stopped.status.success(), "{word}: {}", describe(&stopped));
        child.wait().expect("ends");
        assert_over(&repo);
        let last = events(&repo, &id).pop().expect("an event");
        assert!(last.starts_with("exited status "), "{word}: {last}");
    }
}

/// A check that hangs can be ended, and the work is not said to be judged.
#[test]
fn a_run_whose_work_is_being_judged_is_ended_too() {
    let checks = format!("{TASK}[checks]\ncommands = ['''{FAMILY} sleep 1000''']\n");
    for word in ["stop", "stop --kill"] {
        let (repo, id) = spawned(&checks);
        let open = beside(&repo, "").display().to_string();
        repo.git(["config", "agent.run.allowWrite", &open]);
        let mut child = waiting(&repo, &id, WORKS);
        let words: Vec<&str> = word.split(' ').chain([id.as_str()]).collect();
        let stopped = repo.agent(&words);
        assert!(stopped.status.success(), "{word}: {}", describe(&stopped));
        child.wait().expect("ends");
        // Its supervisor ends the check when nothing is left that would hear of it.
        while !left_of_family(&repo).is_empty() {
            crate::support::pause();
        }
        assert_eq!(repo.agent_json(&["show", &id])["state"], "idle", "{word}");
    }
}

fn end(mut child: Child, repo: &TestRepo) {
    send(&child, Signal::TERM);
    child.wait().expect("ends");
    assert_over(repo);
}

/// It would be seen by no command and stopped by none.
#[test]
fn a_run_that_waits_for_its_turn_ends_with_its_caller() {
    let (repo, id) = spawned(TASK);
    repo.git(["config", "agent.limits.jobs", "1"]);
    let first = waiting(&repo, &id, &format!("{FAMILY} sleep 1000"));
    let words = ["run", "-b", "the second task", "--name", "second", "--", "true"];
    let mut second = crate::support::agent::agent_command(&repo.path());
    let second = second.args(words).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut second = second.expect("starts");
    let wait_for = |text: &str| loop {
        let said = describe(&repo.agent(&["run", "--no-wait", "a third task", "--", "true"]));
        if said.contains(text) {
            break;
        }
        crate::support::pause();
    };
    wait_for("2 runs are before this one");
    second.kill().expect("killed");
    second.wait().expect("ends");
    wait_for("1 run is before this one");
    end(first, &repo);
    let all = repo.agent_json(&["list", "--all"]).to_string();
    assert!(!all.contains("the second task"), "{all}");
}

#[test]
fn many_agents_run_at_once() {
    let repo = TestRepo::with_commit();
    let ids: Vec<String> =
        (0..8).map(|_| repo.spawn()["agent_id"].as_str().expect("an id").to_owned()).collect();
    let runs: Vec<_> = ids
        .iter()
        .map(|id| {
            let script = "while [ ! -e \"$BESIDE/go\" ]; do sleep 0.01; done; echo $GIT_AGENT_ID";
            command(&repo, id, &["--no-verify", "--format=json"], script)
                .stdout(Stdio::piped())
                .spawn()
                .expect("starts")
        })
        .collect();
    std::fs::write(beside(&repo, "go"), "").expect("write");
    for (id, child) in ids.iter().zip(runs) {
        let output = child.wait_with_output().expect("ends");
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(&report["summary"], id.as_str());
        assert_eq!(events(&repo, id).pop().expect("an event"), "exited status 0");
    }
    let temporary = std::fs::read_dir(repo.path().parent().expect("a parent")).expect("readable");
    let names = temporary.map(|entry| entry.expect("readable").file_name());
    let left: Vec<_> =
        names.filter(|name| name.to_string_lossy().starts_with("git-agent-")).collect();
    assert!(left.is_empty(), "{left:?}");
}
