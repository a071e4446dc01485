use super::processes::{FAMILY, assert_over, family};
use super::{WORKS, beside, command, events, read, run, spawned};
use crate::support::TestRepo;
use crate::support::agent::{TASK, agent_command, answer_of, describe};
use crate::support::git_in;
use rustix::process::{Pid, Signal, getsid, kill_process};
use serde_json::Value;
use std::fs;
use std::process::{Output, Stdio};
use std::sync::Barrier;

/// Goes on when the test says so.
const GATED: &str = "while [ ! -e \"$BESIDE/go\" ]; do sleep 0.01; done;";

/// Starts a run in the background and gives its answer.
fn start(repo: &TestRepo, target: &str, script: &str) -> Value {
    let options = ["--background", "--format=json"];
    let output = run(repo, target, &options, script);
    assert!(output.status.success(), "{}", describe(&output));
    assert!(output.stderr.is_empty(), "{}", describe(&output));
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(answer["schema"], "git-agent.run/2");
    assert_eq!(answer["status"], "running");
    answer
}

/// The answer of `ps`, `wait`, `stop` or `logs`, and the status it ended with.
fn ask(repo: &TestRepo, words: &[&str]) -> (Value, i32) {
    let output = repo.agent(&[words, &["--format=json"]].concat());
    let answer = serde_json::from_slice(&output.stdout);
    let code = output.status.code().expect("a status");
    let answer = answer.unwrap_or_else(|_| panic!("{}", describe(&output)));
    (answer, code)
}

fn go(repo: &TestRepo) {
    fs::write(beside(repo, "go"), "").expect("write");
}

fn pid_of(row: &Value) -> i32 {
    let pid = row["pid"].as_u64().expect("a process");
    i32::try_from(pid).expect("a process")
}

#[test]
fn it_outlives_its_caller_and_is_waited_for() {
    let repo = TestRepo::with_commit();
    let task = repo.task_file(&format!("name = \"worker\"\n{TASK}"));
    let begun = start(&repo, &task, &format!("{GATED} {WORKS} echo said"));
    let id = begun["agent_id"].as_str().expect("an id");
    assert_eq!(begun["spawn"]["agent_id"], id);
    let (ps, _) = ask(&repo, &["ps"]);
    assert_eq!(ps["runs"][0]["agent_id"], id);
    assert_eq!(ps["runs"][0]["pid"], begun["pid"]);
    assert_eq!([&begun["name"], &ps["runs"][0]["name"]], ["worker"; 2]);
    assert!(ps["runs"][0]["left_ms"].as_u64().expect("time") <= 300_000);
    go(&repo);
    let (wait, code) = ask(&repo, &["wait", id]);
    assert_eq!(code, 0);
    let report = &wait["runs"][0];
    assert_eq!(
        [&report["status"], &report["verdict"], &report["summary"]],
        ["success", "accept", "said"],
        "{report}"
    );
    assert_eq!(ask(&repo, &["ps"]).0["runs"], Value::Array(Vec::new()));
    // Whoever comes later hears the same.
    assert_eq!(ask(&repo, &["wait", id]).0, wait);
}

#[test]
fn it_holds_on_to_nothing_of_its_callers() {
    let (repo, id) = spawned(TASK);
    let begun = start(&repo, &id, GATED);
    let pid = pid_of(&begun);
    for stream in 0..3 {
        let file = fs::read_link(format!("/proc/{pid}/fd/{stream}")).expect("a stream");
        assert_eq!(file.to_str(), Some("/dev/null"), "{stream}");
    }
    let process = Pid::from_raw(pid);
    assert_eq!(getsid(process).ok(), process);
    go(&repo);
    ask(&repo, &["wait"]);
}

#[test]
fn what_fails_before_it_is_told_of_as_without_it() {
    let (repo, id) = spawned(TASK);
    let begun = start(&repo, &id, GATED);
    let dry = run(&repo, &id, &["--dry-run"], "true");
    assert_eq!(dry.status.code(), Some(3), "{}", describe(&dry));
    for (target, code) in [(id.as_str(), 3), ("nobody", 2)] {
        let background = run(&repo, target, &["--background"], "true");
        let plain = run(&repo, target, &[], "true");
        assert_eq!(describe(&background), describe(&plain));
        assert_eq!(background.status.code(), Some(code));
    }
    let several = repo.agent(&["run", "--background", &id, &id, "--", "true"]);
    assert_eq!(several.status.code(), Some(2));
    go(&repo);
    assert_eq!(ask(&repo, &["wait", &id]).0["runs"][0]["run"], begun["run"]);
}

#[test]
fn its_answer_is_for_people_too() {
    let (repo, id) = spawned(TASK);
    let output = run(&repo, &id, &["--background"], GATED);
    let told = describe(&output)
        .replace(repo.path().to_str().expect("UTF-8"), "<root>")
        .replace(&id[..8], "<id8>");
    insta::assert_snapshot!(told, @r"
    run 1 of <id8> began
      output: git agent show --follow <id8>
      to wait for it, run git agent wait <id8>
    ------- stderr -------
    [exit status: 0]
    ");
    go(&repo);
    let waited = describe(&repo.agent(&["wait", &id])).replace(&id[..8], "<id8>");
    insta::assert_snapshot!(waited, @r"
    run 1 of <id8> ended with status 0, verdict reject
    ------- stderr -------
    [exit status: 1]
    ");
    let quiet = run(&repo, &id, &["--background", "--quiet"], "true");
    assert_eq!(describe(&quiet), "------- stderr -------\n[exit status: 0]");
    ask(&repo, &["wait", &id]);
}

#[test]
fn waiting_ends_as_the_run_did_or_when_the_time_is_up() {
    let repo = TestRepo::with_commit();
    let task = repo.task_file(TASK);
    let id = |answer: &Value| answer["agent_id"].as_str().expect("an id").to_owned();
    let slow = id(&start(&repo, &task, &format!("{GATED} {WORKS}")));
    let quick = id(&start(&repo, &task, "exit 7"));
    let (first, code) = ask(&repo, &["wait", "--any", &slow, &quick]);
    assert_eq!((&first["runs"][0]["agent_id"], code), (&quick.as_str().into(), 7));
    let (late, code) = ask(&repo, &["wait", "--timeout=1s", &slow]);
    assert_eq!(code, 124);
    assert_eq!(late["timed_out"], true);
    assert_eq!(late["runs"][0]["status"], "running");
    go(&repo);
    let (both, code) = ask(&repo, &["wait", &slow, &quick]);
    let ids: Vec<_> = both["runs"].as_array().expect("a list").iter().map(id).collect();
    assert_eq!((ids, code), (vec![slow, quick], 7));
}

#[test]
fn no_time_to_wait_is_one_look_and_each_run_is_told_of_once() {
    let repo = TestRepo::with_commit();
    let task = repo.task_file(TASK);
    let id = |answer: &Value| answer["agent_id"].as_str().expect("an id").to_owned();
    let slow = id(&start(&repo, &task, &format!("{GATED} {WORKS}")));
    let (look, code) = ask(&repo, &["wait", "--timeout=0s", &slow, &slow[..8]]);
    assert_eq!(code, 124);
    assert_eq!(look["runs"].as_array().expect("a list").len(), 1);
    go(&repo);
    ask(&repo, &["wait", &slow]);
    let (look, code) = ask(&repo, &["wait", "--timeout=0s", &slow]);
    assert_eq!((&look["timed_out"], code), (&false.into(), 0));
    assert_eq!(look["runs"][0]["status"], "success");
}

#[test]
fn whoever_was_never_run_is_not_waited_for() {
    let (repo, id) = spawned(TASK);
    for verb in ["wait", "stop", "logs"] {
        let output = repo.agent(&[verb, &id]);
        assert_eq!(output.status.code(), Some(3), "{verb}");
        assert!(describe(&output).contains("has not been run"), "{verb}");
    }
    assert!(repo.agent(&["wait"]).status.success());
}

#[test]
fn stopping_ends_everything_and_is_recorded() {
    for (options, code) in [(&[][..], 143), (&["--kill"][..], 137)] {
        let (repo, id) = spawned(TASK);
        start(&repo, &id, &format!("{FAMILY} sleep 1000"));
        family(&repo);
        let (stop, _) = ask(&repo, &[&["stop", &id][..], options].concat());
        assert_eq!(stop["runs"][0]["ended"], "stopped");
        assert_eq!(stop["runs"][0]["exit_code"], code);
        assert_over(&repo);
        let last = events(&repo, &id).pop().expect("an event");
        assert_eq!(last, format!("exited status {code} (stopped)"));
        // A second time there is nothing to stop, and the same to tell.
        assert_eq!(ask(&repo, &["stop", &id]).0, stop);
        assert_eq!(ask(&repo, &["wait", &id]).1, code);
    }
}

#[test]
fn stopping_works_on_runs_that_somebody_watches() {
    let (repo, id) = spawned(TASK);
    let mut child = command(&repo, &id, &["--quiet"], &format!("{FAMILY} sleep 1000"))
        .stdout(Stdio::null())
        .spawn()
        .expect("starts");
    family(&repo);
    ask(&repo, &["stop", &id]);
    assert_eq!(child.wait().expect("ends").code(), Some(143));
}

#[test]
fn a_killed_supervisor_is_noticed_by_whoever_waits() {
    let (repo, id) = spawned(TASK);
    let begun = start(&repo, &id, &format!("{FAMILY} sleep 1000"));
    family(&repo);
    let pid = Pid::from_raw(pid_of(&begun)).expect("a process");
    kill_process(pid, Signal::KILL).expect("killed");
    let (wait, code) = ask(&repo, &["wait", &id]);
    assert_eq!(code, 143);
    assert_eq!(wait["runs"][0]["ended"], "lost");
    assert_eq!(wait["runs"][0]["status"], "failed");
    assert_over(&repo);
    let last = events(&repo, &id).pop().expect("an event");
    assert_eq!(last, "exited status 143 (lost)");
}

#[test]
fn logs_are_followed_to_the_end() {
    let (repo, id) = spawned(TASK);
    start(&repo, &id, &format!("echo one; {GATED} echo two; echo err >&2"));
    let follow = agent_command(&repo.path())
        .args(["logs", "-f", &id])
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let log = repo.path().join(format!(".git/agents/{}/run/1.out", &id[..8]));
    while read(&log).is_empty() {
        crate::support::pause();
    }
    go(&repo);
    let output = follow.wait_with_output().expect("ends");
    assert_eq!(output.stdout, b"one\ntwo\n");
    assert_eq!(repo.agent(&["logs", "--stderr", &id]).stdout, b"err\n");
    run(&repo, &id, &["--no-verify"], "echo again");
    assert_eq!(repo.agent(&["logs", &id]).stdout, b"again\n");
    assert_eq!(repo.agent(&["logs", "--run=1", &id]).stdout, b"one\ntwo\n");
    let (answer, _) = ask(&repo, &["logs", "--run=1", &id]);
    assert_eq!((&answer["run"], &answer["bytes"]), (&1.into(), &8.into()));
    let none = repo.agent(&["logs", "--run=3", &id]);
    assert_eq!(none.status.code(), Some(3), "{}", describe(&none));
}

#[test]
fn many_at_once_leave_nothing_behind() {
    const CROWD: usize = 12;
    let repo = TestRepo::with_commit();
    let task = repo.task_file(TASK);
    let barrier = Barrier::new(CROWD);
    let script = format!("{GATED} {WORKS}");
    let begun: Vec<Output> = std::thread::scope(|scope| {
        let start = || {
            let mut run = command(&repo, &task, &["--background", "--format=json"], &script);
            barrier.wait();
            run.output().expect("starts")
        };
        let threads: Vec<_> = (0..CROWD).map(|_| scope.spawn(start)).collect();
        let join = threads.into_iter().map(|thread| thread.join().expect("no panic"));
        join.collect()
    });
    let failed: Vec<_> = begun.iter().filter(|one| !one.status.success()).collect();
    assert!(failed.is_empty(), "{}", describe(failed[0]));
    let (ps, _) = ask(&repo, &["ps"]);
    let rows = ps["runs"].as_array().expect("a list");
    let pids: Vec<i32> = rows.iter().map(pid_of).collect();
    assert_eq!(pids.len(), CROWD);
    go(&repo);
    let (wait, _) = ask(&repo, &["wait"]);
    let ended = wait["runs"].as_array().expect("a list");
    assert_eq!(ended.len(), CROWD);
    assert!(ended.iter().all(|run| run["ended"] == "exit"), "{wait}");
    for row in rows {
        let id = row["agent_id"].as_str().expect("an id");
        assert_eq!(ask(&repo, &["wait", id]).1, 0);
        let path = format!("agents/{}/live.lock", &id[..8]);
        let lock = fs::File::open(repo.path().join(".git").join(path)).expect("a lock");
        lock.try_lock().expect("nobody holds it");
    }
    let temporary = repo.path().parent().expect("a parent").to_owned();
    let names = fs::read_dir(temporary).expect("readable");
    let names = names.map(|entry| entry.expect("readable").file_name());
    let left: Vec<_> =
        names.filter(|name| name.to_string_lossy().starts_with("git-agent-")).collect();
    assert!(left.is_empty(), "{left:?}");
    let worktrees = git_in(&repo.path(), ["worktree", "list"]);
    assert_eq!(worktrees.lines().count(), CROWD + 1);
    // Only the process that adopted them waits for them, in its own time.
    let is_over = |pid: i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
        stat.map_or(true, |stat| stat.contains(") Z ") || stat.contains(") X "))
    };
    for pid in pids {
        while !is_over(pid) {
            crate::support::pause();
        }
    }
}

#[test]
fn who_waits_for_it_hears_where_its_stash_is() {
    let repo = TestRepo::with_commit();
    let task = repo.task_file(TASK);
    let begun = start(&repo, &task, "echo kept > src/lib.rs; git stash --quiet");
    let id = begun["agent_id"].as_str().expect("an id");
    let said = describe(&repo.agent(&["wait", id]));
    let (_, kept) = said.split_once("git branch <name> ").unwrap_or_else(|| panic!("{said}"));
    let file = format!("{}:src/lib.rs", &kept[..40]);
    assert_eq!(repo.git(["show", &file]), "kept");
}

#[test]
fn the_end_of_an_earlier_run_is_told_of_as_well() {
    let (repo, id) = spawned(TASK);
    for script in ["exit 7", "true"] {
        start(&repo, &id, script);
        while repo.agent_json(&["show", &id])["run"]["state"] != "exited" {
            crate::support::pause();
        }
    }
    // One in the foreground has told of its own end.
    run(&repo, &id, &[], "true");
    let (told, code) = ask(&repo, &["wait"]);
    let runs = told["runs"].as_array().expect("runs").iter().map(|run| &run["run"]);
    assert_eq!(runs.collect::<Vec<_>>(), [1, 2]);
    assert_eq!(code, 7);
    assert_eq!(ask(&repo, &["wait"]).0["runs"], Value::Array(Vec::new()));
}

#[test]
fn nothing_is_committed_beneath_a_run() {
    let (repo, id) = spawned(TASK);
    let begun = start(&repo, &id, &format!("{WORKS} {GATED} true"));
    assert_eq!(begun["status"], "running");
    let output = repo.agent(&["commit", &id, "-m", "mine"]);
    assert_eq!(output.status.code(), Some(3), "{}", describe(&output));
    assert!(describe(&output).contains("agent-busy"), "{}", describe(&output));
    go(&repo);
    let (_, code) = ask(&repo, &["wait", &id]);
    assert_eq!(code, 0);
    repo.agent_json(&["commit", &id, "-m", "mine"]);
    repo.agent_json(&["merge", &id]);
}

#[test]
fn a_run_goes_on_whatever_is_done_in_a_copy_of_its_repository() {
    let (repo, id) = spawned(TASK);
    let work = "echo one >> src/lib.rs; git commit --quiet --all -m one";
    let more = "echo two >> src/lib.rs; git commit --quiet --all -m two";
    let begun = start(&repo, &id, &format!("{WORKS} {work}; : > \"$BESIDE/on\"; {GATED} {more}"));
    assert_eq!(begun["status"], "running");
    while !beside(&repo, "on").exists() {
        std::thread::yield_now();
    }
    let copy = repo.path().with_file_name("copy");
    let copied = std::process::Command::new("cp").arg("-a").args([&repo.path(), &copy]).status();
    assert!(copied.expect("cp starts").success());
    let refused = agent_command(&copy).args(["run", &id, "--", "true"]).output().expect("starts");
    let way = format!("git -C {} agent show", repo.path().display());
    assert!(describe(&refused).contains(&way), "{}", describe(&refused));
    for words in [&["verify", &id][..], &["commit", &id, "-m", "x"], &["doctor", "--fix"]] {
        agent_command(&copy).args(words).output().expect("starts");
    }
    go(&repo);
    let (_, code) = ask(&repo, &["wait", &id]);
    assert_eq!(code, 0);
    let shown = repo.agent_json(&["show", &id]);
    let branch = shown["branch"].as_str().expect("a branch");
    assert_eq!(repo.git(["log", "-2", "--format=%s", branch]), "two\none");
}

#[test]
fn a_number_that_a_row_makes_up_is_that_of_no_run() {
    let repo = TestRepo::with_commit();
    let agent = repo.spawn_task(TASK, &[]);
    let word = |key: &str| agent[key].as_str().expect("a text").to_owned();
    let (id, spawn) = (word("agent_id"), word("spawn_commit"));
    let words = ["log", "-1", "--date=format:%Y%m%dT%H%M%S", "--format=%cd", "refs/notes/agents"];
    let line = |end: &str, event: &str, facts: &str| {
        let now = repo.git(words);
        format!(
            "{{\"t\":\"{now}.99999{end}Z-000-beef\",\"a\":\"{id}\",\"e\":\"{event}\",\"by\":\"U\",\"d\":{{{facts},\"run\":{}}}}}",
            u32::MAX
        )
    };
    let lines =
        [line("8", "started", "\"command\":\"x\",\"pid\":1"), line("9", "exited", "\"code\":0")];
    let append = ["notes", "--ref=agents", "append", "--no-separator", "-m"];
    repo.git([&append[..], &[&lines.join("\n"), &spawn]].concat());
    for number in [1, 2] {
        let words = ["run", &id, "--no-verify", "--format=json", "--", "true"];
        assert_eq!(answer_of(&repo.agent(&words))["run"], number);
    }
    // It asks no file for each of them.
    let waited = repo.agent(&["wait"]);
    assert!(waited.status.success(), "{}", describe(&waited));
}
