//! Leases: values that one live agent holds and no other.

use crate::support::TestRepo;
use crate::support::agent::{SHARED_TASK, TASK, agent_command, describe};
use crate::support::death;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::PathBuf;

const LEASES: &str =
    "[lease]\nPORT = \"port\"\nDB = \"slug\"\nSLOT = \"number\"\n[bundle]\nrequired = false\n";

fn with_settings(text: &str) -> TestRepo {
    let repo = TestRepo::with_commit();
    repo.write(".config/git-agent.toml", text);
    repo.commit_all("settings");
    repo
}

/// The value that an answer about an agent has for a variable.
fn value(answer: &Value, variable: &str) -> String {
    let leases = answer["leases"].as_array().expect("leases");
    let lease = leases.iter().find(|lease| lease["variable"] == variable);
    lease.expect("that lease")["value"].as_str().expect("a text").to_owned()
}

fn leases_dir(repo: &TestRepo) -> PathBuf {
    repo.path().join(".git/agents/leases")
}

fn held(repo: &TestRepo) -> usize {
    std::fs::read_dir(leases_dir(repo)).map_or(0, Iterator::count)
}

fn id_of(answer: &Value) -> String {
    answer["agent_id"].as_str().expect("an id").to_owned()
}

#[test]
fn an_agent_gets_values_of_its_own_wherever_its_commands_run() {
    let write = "echo $PORT $DB $SLOT";
    let repo = with_settings(&format!(
        "{LEASES}[setup]\nrun = [\"{write} > setup.txt\"]\n[hooks]\nafter_spawn = [\"{write} > .git/hook.txt\"]\n\
         [checks]\ncommands = [\"{write} > $(git rev-parse --git-common-dir)/../check/told\"]\n"
    ));
    let task = format!("name = \"fix-login\"\n{TASK}");
    let one = repo.spawn_task(&task, &[]);
    let (port, name, slot) = (value(&one, "PORT"), value(&one, "DB"), value(&one, "SLOT"));
    assert!((20_000..30_000).contains(&port.parse::<u16>().expect("a port")));
    assert_eq!(name, format!("fix_login_{}", &id_of(&one)[..8]));
    assert_eq!(slot, "1");
    let told = format!("{port} {name} {slot}\n");
    let worktree = PathBuf::from(one["worktree_abspath"].as_str().expect("a path"));
    let read = |path: PathBuf| std::fs::read_to_string(path).expect("written");
    assert_eq!(read(worktree.join("setup.txt")), told);
    assert_eq!(read(repo.path().join(".git/hook.txt")), told);
    let ran = repo.agent(&["run", &id_of(&one), "--no-verify", "--", "sh", "-c", write]);
    assert_eq!(String::from_utf8_lossy(&ran.stdout), told, "{}", describe(&ran));
    std::fs::write(worktree.join("src/lib.rs"), "pub fn two() {}\n").expect("written");
    // The one place that a check may write besides its own worktree.
    let open = repo.path().join("check");
    std::fs::create_dir(&open).expect("made");
    let open_text = open.display().to_string();
    repo.git(["config", "agent.run.allowWrite", &open_text]);
    repo.agent_json(&["verify", &id_of(&one), "--record"]);
    assert_eq!(read(open.join("told")), told);
    // One without a worktree has some too, and everyone can see them.
    let two = repo.spawn_task(SHARED_TASK, &[]);
    assert_eq!(value(&two, "SLOT"), "2");
    let shown = repo.agent_json(&["show", &id_of(&one)]);
    assert_eq!(shown["leases"], one["leases"]);
    let listed = repo.agent_json(&["list"]);
    let agents = listed["agents"].as_array().expect("a list");
    let found = agents.iter().find(|agent| agent["agent_id"] == two["agent_id"]);
    assert_eq!(found.expect("listed")["leases"], two["leases"]);
    let text = repo.agent(&["show", &id_of(&one)]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains(&format!("DB={name} PORT={port} SLOT={slot}")), "{text}");
}

#[test]
fn processes_that_spawn_at_once_get_different_values() {
    const PROCESSES: usize = 64;
    let repo = with_settings(LEASES);
    let task = repo.task_file(SHARED_TASK);
    let spawn = || {
        let mut command = agent_command(&repo.path());
        command.args(["--format=json", "spawn", &task]);
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        command.spawn().expect("starts")
    };
    let children: Vec<_> = (0..PROCESSES).map(|_| spawn()).collect();
    let mut values: [BTreeSet<String>; 3] = Default::default();
    for child in children {
        let output = child.wait_with_output().expect("ends");
        assert!(output.status.success(), "{}", describe(&output));
        let answer = serde_json::from_slice(&output.stdout).expect("JSON");
        for (values, variable) in values.iter_mut().zip(["PORT", "DB", "SLOT"]) {
            assert!(values.insert(value(&answer, variable)), "{variable} was given twice");
        }
    }
    let numbers: BTreeSet<String> = (1..=PROCESSES).map(|number| number.to_string()).collect();
    assert_eq!(values[2], numbers);
    assert_eq!(held(&repo), 3 * PROCESSES);
}

#[test]
fn values_are_given_back_when_the_agent_ends_however_it_does() {
    let repo = with_settings(LEASES);
    let agents: Vec<Value> = (0..3).map(|_| repo.spawn_task(TASK, &[])).collect();
    let numbers: Vec<_> = agents.iter().map(|agent| value(agent, "SLOT")).collect();
    assert_eq!(numbers, ["1", "2", "3"]);
    let run = |words: &[&str]| {
        let output = repo.agent(words);
        assert!(output.status.success(), "{}", describe(&output));
    };
    run(&["discard", &id_of(&agents[0])]);
    assert_eq!(held(&repo), 6);
    run(&["fail", &id_of(&agents[1]), "--reason", "it went wrong"]);
    assert_eq!(held(&repo), 6, "it can still be run again");
    run(&["reject", &id_of(&agents[1]), "--reason", "it went wrong"]);
    let worktree = agents[2]["worktree_abspath"].as_str().expect("a path");
    std::fs::write(format!("{worktree}/src/lib.rs"), "pub fn two() {}\n").expect("written");
    run(&["merge", &id_of(&agents[2])]);
    assert_eq!(held(&repo), 0);
    // The smallest number is free again.
    assert_eq!(value(&repo.spawn_task(TASK, &[]), "SLOT"), "1");
    // What nobody gave back, of an agent that is over.
    let short = &id_of(&agents[0])[..8];
    std::os::unix::fs::symlink(format!("{short}:SLOT"), leases_dir(&repo).join("number-7"))
        .expect("left");
    let plan = repo.agent_json(&["gc"]);
    assert_eq!(plan["leases"], json!(1));
    run(&["gc", "--yes"]);
    assert_eq!(held(&repo), 3);
}

#[test]
fn what_clears_up_after_a_landing_knows_the_values() {
    let hooks = "[hooks]\nafter_merge = [\"echo $DB > .git/after\"]\n";
    let repo = with_settings(&format!("{LEASES}{hooks}"));
    for verb in ["merge", "train"] {
        let agent = repo.spawn_task(TASK, &[]);
        let worktree = agent["worktree_abspath"].as_str().expect("a path");
        std::fs::write(format!("{worktree}/src/{verb}.rs"), "pub fn two() {}\n").expect("written");
        repo.agent_json(&["mark", "done", &id_of(&agent)]);
        repo.agent_json(&[verb, &id_of(&agent)]);
        let told = std::fs::read_to_string(repo.path().join(".git/after")).expect("told");
        assert_eq!(told.trim_end(), value(&agent, "DB"), "{verb}");
        assert_eq!(held(&repo), 0, "{verb}");
        assert!(!repo.git(["worktree", "list", "--porcelain"]).contains("locked"), "{verb}");
    }
}

#[test]
fn an_agent_that_comes_back_has_values_again() {
    let repo = with_settings(LEASES);
    let agent = id_of(&repo.spawn_task(TASK, &[]));
    let [discard, reopen, undo] =
        [&["discard", &agent][..], &["rescue", &agent, "--reopen"], &["undo", &agent]];
    for words in [discard, reopen, discard, undo] {
        let output = repo.agent(words);
        assert!(output.status.success(), "{words:?}: {}", describe(&output));
        let expected = if words == discard { 0 } else { 3 };
        assert_eq!(held(&repo), expected, "{words:?}");
    }
}

#[test]
fn a_spawn_that_fails_keeps_no_value() {
    let repo = with_settings(&format!("{LEASES}[setup]\nrun = [\"exit 7\"]\n"));
    let task = repo.task_file(TASK);
    assert_eq!(repo.agent(&["spawn", &task]).status.code(), Some(4));
    assert_eq!(held(&repo), 0);
}

#[test]
fn a_spawn_that_is_killed_keeps_no_value() {
    let repo = with_settings(LEASES);
    death::die_at("kill::child", &repo.path(), "leased", &[TASK]);
    assert_eq!(held(&repo), 3);
    let next = repo.spawn_task(SHARED_TASK, &[]);
    assert_eq!(held(&repo), 3, "the next spawn took the other one apart");
    assert_eq!(value(&next, "SLOT"), "1");
}

#[test]
fn a_port_on_which_something_listens_is_not_given() {
    let repo = with_settings("[lease]\nPORT = \"port\"\n");
    let first = value(&repo.spawn_task(SHARED_TASK, &[]), "PORT");
    repo.agent(&["discard", "--state", "ready"]);
    // Where the same port is asked for again it is passed over; any other one is as good.
    let listener = TcpListener::bind(format!("127.0.0.1:{first}")).expect("free");
    assert_ne!(value(&repo.spawn_task(SHARED_TASK, &[]), "PORT"), first);
    drop(listener);
}

#[test]
fn wishes_that_cannot_be_are_told_with_their_lines() {
    let repo = with_settings("[lease]\nPATH = \"port\"\n2DB = \"slug\"\nA = \"prot\"\nB = 3\n");
    let output = repo.agent(&["spawn", &repo.task_file(TASK)]);
    assert_eq!(output.status.code(), Some(2), "{}", describe(&output));
    let said = String::from_utf8_lossy(&output.stderr);
    for part in [
        ":2:",
        "`PATH` has a meaning",
        ":3:",
        "`2DB` is no name",
        ":4:",
        "no lease of a `prot`",
        ":5:",
        "`B` must be a string",
    ] {
        assert!(said.contains(part), "{part} in {said}");
    }
    let repo = with_settings("[lease]\nDB = \"slug\"\n");
    let settings = repo.agent_json(&["config"])["settings"].clone();
    let settings = settings.as_array().expect("a list").iter();
    let mut leases =
        settings.filter(|one| one["key"].as_str().is_some_and(|key| key.starts_with("lease.")));
    let lease = leases.next().expect("the lease");
    assert_eq!((&lease["key"], &lease["value"]), (&json!("lease.DB"), &json!("slug")));
    assert!(leases.next().is_none());
}

#[test]
fn twelve_agents_listen_on_the_same_port_at_the_same_time() {
    let repo = with_settings("[lease]\nHOST = \"loopback\"\n[bundle]\nrequired = false\n");
    let task = repo.task_file(TASK);
    let hosts: BTreeSet<String> = std::thread::scope(|scope| {
        let spawns: Vec<_> = (0..12)
            .map(|_| scope.spawn(|| value(&repo.agent_json(&["spawn", &task]), "HOST")))
            .collect();
        spawns.into_iter().map(|spawn| spawn.join().expect("made")).collect()
    });
    assert_eq!(hosts.len(), 12, "each has its own: {hosts:?}");
    let listeners: Vec<TcpListener> =
        hosts.iter().map(|host| TcpListener::bind((host.as_str(), 3000)).expect("free")).collect();
    for listener in &listeners {
        let address = listener.local_addr().expect("bound");
        let client = std::net::TcpStream::connect(address).expect("listens");
        let (_, peer) = listener.accept().expect("connected");
        assert_eq!(peer, client.local_addr().expect("connected"), "{address} is its own");
    }
    assert_eq!(held(&repo), 12);
}

#[test]
fn a_train_that_runs_keeps_its_values() {
    let repo = TestRepo::with_commit();
    let go = repo.path().join(".git/go");
    let waits = format!("until test -e '{}'; do sleep 0.05; done", go.display());
    let settings = format!(
        "[lease]\nPORT = \"port\"\n[bundle]\nrequired = false\n[checks]\ncommands = [\"{waits}\"]\n"
    );
    repo.write(".config/git-agent.toml", settings);
    repo.commit_all("settings");
    let report = repo.agent_json(&["spawn", "Add a file.", "--role", "edit-local"]);
    let worktree = PathBuf::from(report["worktree_abspath"].as_str().expect("a path"));
    std::fs::write(worktree.join("src/new.rs"), "// new\n").expect("written");
    repo.agent_json(&["done", &id_of(&report), "--summary", "said"]);
    let of_trains = || {
        let names = std::fs::read_dir(leases_dir(&repo)).expect("a directory");
        let targets = names.flatten().filter_map(|it| std::fs::read_link(it.path()).ok());
        targets.filter(|it| it.to_string_lossy().starts_with("0000")).count()
    };
    let mut train = agent_command(&repo.path());
    let mut train = train.args(["train", "--all"]).spawn().expect("it starts");
    while of_trains() == 0 {
        crate::support::pause();
    }
    repo.agent_json(&["gc", "--yes"]);
    assert_eq!(of_trains(), 1, "its check runs still");
    std::fs::write(go, "").expect("written");
    assert!(train.wait().expect("its end").success());
    assert_eq!(of_trains(), 0);
}
