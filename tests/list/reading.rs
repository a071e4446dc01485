//! Filters, orders, formats.

use crate::support::TestRepo;
use crate::support::agent::{TASK, agent_command, describe};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::mpsc;
use std::time::Duration;

/// The names of what is listed.
fn names(repo: &TestRepo, arguments: &[&str]) -> Vec<String> {
    let listed = repo.agent_json(&[&["list"], arguments].concat());
    let rows = listed["agents"].as_array().expect("rows");
    rows.iter().map(|row| row["name"].as_str().unwrap_or("-").to_owned()).collect()
}

fn three() -> (TestRepo, Vec<Value>) {
    let repo = TestRepo::with_commit();
    let root = repo.spawn_task(TASK, &["--name=zebra"]);
    let id = root["agent_id"].as_str().expect("an id").to_owned();
    let child = repo.spawn_task(TASK, &["--name=ant", "--parent", &id]);
    let alone = repo.spawn_task(TASK, &[]);
    (repo, vec![root, child, alone])
}

#[test]
fn parents_and_names_select() {
    let (repo, _) = three();
    assert_eq!(names(&repo, &["--parent=zebra"]), ["ant"]);
    assert_eq!(names(&repo, &["--parent=ant"]), Vec::<String>::new());
    assert_eq!(names(&repo, &["--name=z*"]), ["zebra"]);
    assert_eq!(names(&repo, &["--name={ant,bee}"]), ["ant"]);
    let output = repo.agent(&["list", "--parent=nobody"]);
    assert_eq!(output.status.code(), Some(2), "{}", describe(&output));
    for wrong in ["--name=[", "--sort=size", "--interval=0"] {
        let output = repo.agent(&["list", wrong]);
        assert_eq!(output.status.code(), Some(2), "{}", describe(&output));
    }
}

#[test]
fn orders() {
    let (repo, agents) = three();
    assert_eq!(names(&repo, &[]), ["zebra", "ant", "-"]);
    assert_eq!(names(&repo, &["--sort=name"]), ["ant", "zebra", "-"]);
    repo.agent_json(&["fail", "zebra", "--reason=no idea"]);
    repo.agent_json(&["done", "ant"]);
    assert_eq!(names(&repo, &["--sort=state"]), ["-", "ant", "zebra"]);
    assert_eq!(names(&repo, &["--sort=activity"]), ["ant", "zebra", "-"]);
    // A file that is written is activity, though the ledger knows nothing of it.
    let alone = agents[2]["worktree_abspath"].as_str().expect("a path");
    std::fs::write(format!("{alone}/src/new.rs"), "").expect("write");
    assert_eq!(names(&repo, &["--sort=activity"]), ["-", "ant", "zebra"]);
}

#[test]
fn fast_looks_into_no_worktree() {
    let (repo, agents) = three();
    let worktree = agents[0]["worktree_abspath"].as_str().expect("a path");
    std::fs::write(format!("{worktree}/src/new.rs"), "").expect("write");
    let listed = repo.agent_json(&["list", "--fast"]);
    let row = listed["agents"][0].as_object().expect("a row");
    for key in ["uncommitted", "ahead", "verdict", "bundle"] {
        assert_eq!(row.get(key), None, "{key}");
    }
    let text = String::from_utf8(repo.agent(&["list", "--fast"]).stdout).expect("UTF-8");
    let header: Vec<_> = text.lines().next().expect("a header").split_whitespace().collect();
    assert_eq!(header, ["AGENT", "STATE", "ROLE", "AGE", "TASK"]);
}

#[test]
fn a_line_for_a_prompt_counts_states_and_is_silent_where_there_is_no_agent() {
    let repo = TestRepo::with_commit();
    let line = || {
        let output = repo.agent(&["list", "--line"]);
        assert_eq!(output.status.code(), Some(0), "{}", describe(&output));
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    assert_eq!(line(), "");
    let ids: Vec<Value> = (0..3).map(|_| repo.spawn()["agent_id"].clone()).collect();
    assert_eq!(line(), "3 ready\n");
    repo.agent_json(&["mark", "fail", ids[0].as_str().expect("an id"), "-m", "no"]);
    repo.agent_json(&["mark", "done", ids[1].as_str().expect("an id")]);
    assert_eq!(line(), "1 failed, 1 done, 1 ready\n");
    // As the page has it for bash.
    let prompt = std::fs::read_to_string("docs/look.md").expect("the page");
    let prompt = prompt.lines().find_map(|line| line.strip_prefix("PS1=")).expect("a prompt");
    let shown = crate::support::isolated("bash", &repo.path())
        .args(["-c", &format!("PS1={prompt}; printf %s \"${{PS1@P}}\"")])
        .env("PATH", path_with_program())
        .output()
        .expect("bash runs");
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("1 failed, 1 done, 1 ready"), "{shown}");
}

/// The search path with the program of this build in front.
fn path_with_program() -> std::ffi::OsString {
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_git-agent"));
    let own = program.parent().expect("a directory").to_owned();
    let others = std::env::var_os("PATH").unwrap_or_default();
    let places = std::iter::once(own).chain(std::env::split_paths(&others));
    std::env::join_paths(places).expect("a path")
}

#[test]
fn a_first_row_does_not_wait_for_the_last() {
    let repo = TestRepo::with_commit();
    repo.write("slow.txt", "one\n");
    repo.write(".gitattributes", "slow.txt filter=slow\n");
    repo.commit_all("a file that is slow to compare");
    let quick = repo.spawn();
    let slow = repo.spawn();
    // Another text of the same length: git has to ask the filter whether it differs.
    let worktree = slow["worktree_abspath"].as_str().expect("a path");
    std::fs::write(format!("{worktree}/slow.txt"), "two\n").expect("write");
    let gate = repo.path().with_file_name("gate");
    let wait = format!("while ! test -e '{}'; do sleep 0.01; done; cat", gate.display());
    repo.git(["config", "filter.slow.clean", &wait]);

    let mut child = agent_command(&repo.path())
        .args(["list", "--format=ndjson"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let (sender, rows) = mpsc::channel();
    let output = child.stdout.take().expect("piped");
    let reader = std::thread::spawn(move || {
        for line in BufReader::new(output).lines() {
            let row: Value = serde_json::from_str(&line.expect("UTF-8")).expect("JSON");
            sender.send(row).expect("listened to");
        }
    });
    // A failure's patience only: the row comes while the gate is shut, or never.
    let first = rows.recv_timeout(Duration::from_secs(60));
    std::fs::write(&gate, "").expect("open the gate");
    let first = first.expect("a row while the second agent is looked at");
    assert_eq!(first["agent_id"], quick["agent_id"]);
    let second = rows.recv().expect("the other row");
    assert_eq!(second["agent_id"], slow["agent_id"]);
    assert_eq!(second["uncommitted"], 1);
    reader.join().expect("reads");
    assert!(child.wait().expect("ends").success());
}
