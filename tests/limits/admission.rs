//! Who may begin: the limit holds whatever happens at the same time, and those who wait begin in the order in which they came.

use super::{beside, ended, error, run, spawned, wait_for, with_settings};
use crate::support::TestRepo;
use crate::support::agent::{agent_command, describe};
use crate::support::death;
use git_agent::domain::life::event::{Exited, HostSession, What};
use git_agent::domain::value::oid::Oid;
use git_agent::store::ledger::Ledger;
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::Child;
use std::sync::Barrier;

/// Notes that it is at work, how many are with it, and then goes.
const COUNTS: &str = r#"
mkdir "$BESIDE/in.$1"
ls -d "$BESIDE"/in.* | wc -l >> "$BESIDE/seen"
while [ ! -e "$BESIDE/two" ]; do
  ls -d "$BESIDE"/in.* | wc -l | grep -q 2 && touch "$BESIDE/two"
done
ls -d "$BESIDE"/in.* | wc -l >> "$BESIDE/seen"
rmdir "$BESIDE/in.$1"
"#;

/// Notes its name, and goes on when it is told to.
const HOLDS: &str = r#"echo "$NAME" >> "$BESIDE/order"; touch "$BESIDE/begun.$NAME"
while [ ! -e "$BESIDE/go" ]; do sleep 0.01; done"#;

fn tickets(repo: &TestRepo) -> Vec<PathBuf> {
    let directory = repo.path().join(".git/agents/tickets");
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut found: Vec<_> = entries.map(|entry| entry.path()).collect();
    found.sort();
    found
}

/// Starts a run under a name and waits until it has its place in the order of arrival.
fn arrive(repo: &TestRepo, agent: &str, name: &str, options: &[&str]) -> Child {
    let before = tickets(repo).len();
    let mut command = run(repo, agent, options, HOLDS);
    let child = command.env("NAME", name).spawn().expect("starts");
    while tickets(repo).len() <= before {
        crate::support::pause();
    }
    child
}

fn order(repo: &TestRepo) -> String {
    fs::read_to_string(beside(repo, "order")).unwrap_or_default()
}

#[test]
fn whatever_begins_at_the_same_time_no_more_runs_are_at_work_than_may() {
    let repo = with_settings("[limits]\njobs = 2\n");
    let agents: Vec<String> = (0..6).map(|_| spawned(&repo)).collect();
    let start = Barrier::new(agents.len());
    std::thread::scope(|scope| {
        for (number, agent) in agents.iter().enumerate() {
            let (repo, start) = (&repo, &start);
            scope.spawn(move || {
                let script = COUNTS.replace("$1", &number.to_string());
                let mut command = run(repo, agent, &[], &script);
                start.wait();
                ended(command.spawn().expect("starts"));
            });
        }
    });
    let seen = fs::read_to_string(beside(&repo, "seen")).expect("written");
    let counts: Vec<u32> =
        seen.lines().map(|line| line.trim().parse().expect("a number")).collect();
    assert_eq!(counts.len(), 12, "{seen}");
    // Two were seen together, for the first two wait for that; three never.
    assert_eq!(counts.iter().max(), Some(&2), "{seen}");
    assert_eq!(tickets(&repo), Vec::<PathBuf>::new());
}

#[test]
fn who_waits_begins_in_the_order_of_arrival_and_who_may_not_wait_ends() {
    let repo = with_settings("[limits]\nmemory_total = \"8G\"\nmemory = \"6G\"\n");
    let agents: Vec<String> = (0..5).map(|_| spawned(&repo)).collect();
    let names = ["first", "second", "third", "fourth"];
    let mut runs: Vec<Child> = Vec::new();
    for (name, agent) in names.iter().zip(&agents) {
        runs.push(arrive(&repo, agent, name, &[]));
    }
    wait_for(&beside(&repo, "begun.first"));
    let refused = run(&repo, &agents[4], &["--no-wait"], "true").output().expect("starts");
    assert_eq!(refused.status.code(), Some(3), "{}", describe(&refused));
    let error = error(&refused);
    assert_eq!(error["code"], "limit-reached");
    let message = error["message"].as_str().expect("a text");
    let expected = "4 runs are before this one, and `memory_total` is 8.0 GiB";
    assert!(message.ends_with(expected), "{message}");
    assert_eq!(order(&repo), "first\n");
    fs::write(beside(&repo, "go"), "").expect("written");
    runs.into_iter().for_each(|run| drop(ended(run)));
    assert_eq!(order(&repo), "first\nsecond\nthird\nfourth\n");
    // Nothing was begun for the one that was refused.
    let log = repo.agent_json(&["log", &agents[4]]);
    let events = log["events"].as_array().expect("a list");
    assert!(events.iter().all(|event| event["event"] != "started"), "{log}");
}

#[test]
fn a_place_goes_with_its_holder_and_not_before_its_command_is_over() {
    let repo = with_settings("[limits]\njobs = 1\n");
    let (one, two) = (spawned(&repo), spawned(&repo));
    let stubborn = r#"trap '' TERM; echo $$ > "$BESIDE/pid.tmp"; mv "$BESIDE/pid.tmp" "$BESIDE/pid"
while :; do sleep 0.01; done"#;
    let mut holder = run(&repo, &one, &["--sandbox=off"], stubborn).spawn().expect("starts");
    wait_for(&beside(&repo, "pid"));
    let looks = r#"kill -0 "$(cat "$BESIDE/pid")" 2>&- && echo together || echo alone"#;
    let mut next = run(&repo, &two, &["--sandbox=off"], looks).spawn().expect("starts");
    while tickets(&repo).len() < 2 {
        crate::support::pause();
    }
    assert_eq!(next.try_wait().expect("known"), None);
    // Its supervisor is left, and has to kill a command that does not end when it is asked to.
    holder.kill().expect("killed");
    holder.wait().expect("ended");
    let report: Value = serde_json::from_slice(&ended(next).stdout).expect("JSON");
    assert_eq!(report["summary"], "alone", "{report}");
}

#[test]
fn who_is_killed_while_it_waits_keeps_nobody_waiting() {
    let repo = with_settings("[limits]\njobs = 1\n");
    let agents: Vec<String> = (0..3).map(|_| spawned(&repo)).collect();
    let first = arrive(&repo, &agents[0], "first", &[]);
    let mut second = arrive(&repo, &agents[1], "second", &[]);
    let third = arrive(&repo, &agents[2], "third", &[]);
    wait_for(&beside(&repo, "begun.first"));
    second.kill().expect("killed");
    second.wait().expect("ended");
    fs::write(beside(&repo, "go"), "").expect("written");
    ended(first);
    ended(third);
    assert_eq!(order(&repo), "first\nthird\n");
    // A command that was killed while it waited had locked nothing.
    ended(run(&repo, &agents[1], &[], "true").spawn().expect("starts"));
    assert_eq!(tickets(&repo), Vec::<PathBuf>::new());
}

#[test]
fn a_batch_waits_as_single_runs_do_and_a_run_inside_of_a_run_does_not() {
    let repo = with_settings("[limits]\njobs = 1\n");
    let agents: Vec<String> = (0..3).map(|_| spawned(&repo)).collect();
    let script = r#"mkdir "$BESIDE/alone" && sleep 0.05 && rmdir "$BESIDE/alone""#;
    let mut batch = agent_command(&repo.path());
    batch.args(["run", "--no-verify", "--jobs=3", "--allow-write"]);
    batch.arg(beside(&repo, "")).args(&agents).args(["--", "sh", "-c", script]);
    let batch = batch.env("BESIDE", beside(&repo, "")).output().expect("starts");
    assert!(batch.status.success(), "{}", describe(&batch));
    // The run around it would wait for it, and it for the run around it.
    let mut inner = run(&repo, &agents[0], &[], "true");
    let holder = arrive(&repo, &agents[1], "holder", &[]);
    let inner = inner.env("GIT_AGENT_DEPTH", "1").output().expect("starts");
    assert_eq!(inner.status.code(), Some(3), "{}", describe(&inner));
    assert_eq!(error(&inner)["code"], "limit-reached");
    fs::write(beside(&repo, "go"), "").expect("written");
    ended(holder);
}

#[test]
fn a_command_behind_a_fence_sees_no_ticket() {
    let repo = with_settings("[limits]\njobs = 1\n");
    let agent = spawned(&repo);
    let directory = repo.path().join(".git/agents/tickets");
    let script = format!(
        "ls -A '{0}' 2>&-; touch '{0}/000000000099' 2>&- && echo made",
        directory.display()
    );
    let output = run(&repo, &agent, &["--sandbox=auto"], &script).output();
    let report: Value = serde_json::from_slice(&output.expect("starts").stdout).expect("JSON");
    if report["sandbox"]["enforced"] == "full" {
        assert_eq!(report["summary"], "", "{report}");
    }
}

#[test]
fn spawns_at_the_same_time_make_no_more_agents_than_may_be() {
    let repo = with_settings("[limits]\nagents = 3\n");
    let start = Barrier::new(6);
    let outcomes: Vec<Option<i32>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..6)
            .map(|number| {
                let (repo, start) = (&repo, &start);
                scope.spawn(move || {
                    let text = format!("write the module number {number}");
                    start.wait();
                    repo.agent(&["spawn", "-m", &text]).status.code()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("ends")).collect()
    });
    let made = outcomes.iter().filter(|code| **code == Some(0)).count();
    let refused = outcomes.iter().filter(|code| **code == Some(3)).count();
    assert_eq!((made, refused), (3, 3), "{outcomes:?}");
    let worktrees = repo.git(["worktree", "list", "--porcelain"]);
    assert_eq!(worktrees.matches("worktree ").count(), 4, "{worktrees}");
    // Of several, all or none; what would fit is said, and so is what makes room.
    let mut several = agent_command(&repo.path());
    let several = several.args(["spawn", "--format=json", "write one module", "write two modules"]);
    let output = several.output().expect("starts");
    assert_eq!(output.status.code(), Some(3), "{}", describe(&output));
    let told = error(&output);
    assert_eq!(told["code"], "limit-reached");
    let message = told["message"].as_str().expect("a text");
    assert_eq!(message, "of 2 agents, 0 would fit: 3 have a worktree, and `agents` is 3");
    assert!(told["hints"].to_string().contains("git agent gc"), "{told}");
    // One that goes makes room for one.
    let agents = repo.agent_json(&["list"]);
    let id = agents["agents"][0]["agent_id"].as_str().expect("an id");
    repo.agent_json(&["discard", "--force", id]);
    repo.agent_json(&["spawn", "-m", "write the last module"]);
    // One without a worktree takes no place.
    repo.agent_json(&["spawn", "--role", "explorer", "-m", "read the library"]);
}

/// Writes down that a run of an agent cost something.
pub(super) fn cost(repo: &TestRepo, spawn_commit: &str, micro_usd: u64, day: i64) {
    let ctx = death::ctx(&repo.path(), death::unwatched());
    let exited = Exited {
        session: HostSession { cost_micro_usd: Some(micro_usd), ..HostSession::default() },
        ..Exited::default()
    };
    let commit = Oid::from_hex(spawn_commit).expect("an oid");
    let when = ctx.now() + chrono::TimeDelta::days(day);
    let ledger = Ledger::new(&ctx.repo);
    let written = ledger.append(commit, "test", What::Exited(exited), when);
    written.expect("written");
}

#[test]
fn runs_do_not_begin_when_the_day_has_cost_what_it_may() {
    let repo = with_settings("[limits]\ncost_day = 2.50\n");
    let spawned = repo.spawn();
    let id = spawned["agent_id"].as_str().expect("an id");
    let commit = repo.git(["rev-parse", spawned["branch"].as_str().expect("a branch")]);
    let begins = || run(&repo, id, &["--no-wait"], "true").output().expect("starts");
    // What was paid yesterday is not of today.
    cost(&repo, &commit, 9_000_000, -1);
    cost(&repo, &commit, 2_400_000, 0);
    let ran = begins();
    assert!(ran.status.success(), "{}", describe(&ran));
    cost(&repo, &commit, 100_000, 0);
    let refused = begins();
    assert_eq!(refused.status.code(), Some(3), "{}", describe(&refused));
    let message = error(&refused)["message"].as_str().expect("a text").to_owned();
    let expected = "the runs of today cost $2.50, and `cost_day` is $2.50";
    assert!(message.ends_with(expected), "{message}");
    // A look into it costs nothing.
    let shown = repo.agent(&["show", id]);
    assert!(shown.status.success(), "{}", describe(&shown));
}

#[test]
fn a_spawn_that_leaves_too_little_of_the_disk_is_refused_with_what_would_fit() {
    let repo = with_settings("[limits]\ndisk_free = \"1M\"\n");
    let spawn = |texts: &[&str]| {
        let words = [&["spawn", "--format=json"], texts].concat();
        repo.agent(&words)
    };
    let made = spawn(&["write the first module"]);
    assert!(made.status.success(), "{}", describe(&made));
    // More than any disk has.
    repo.git(["config", "agent.limits.diskFree", "8000T"]);
    let refused = spawn(&["write the second module"]);
    assert_eq!(refused.status.code(), Some(3), "{}", describe(&refused));
    let message = error(&refused)["message"].to_string();
    assert!(message.contains("`disk_free` is 8000.0 TiB"), "{message}");
    repo.git(["config", "--unset", "agent.limits.diskFree"]);
    // What is there and two files of 4 KiB for each new one: one fits, two do not.
    repo.write("large", vec![b'x'; 3 << 20]);
    repo.commit_all("a large file");
    let made = spawn(&["write the third module"]);
    assert!(made.status.success(), "{}", describe(&made));
    repo.git(["config", "agent.limits.disk", "8M"]);
    let refused = spawn(&["write module four", "write module five"]);
    assert_eq!(refused.status.code(), Some(3), "{}", describe(&refused));
    let message = error(&refused)["message"].to_string();
    assert!(message.contains("of 2 agents, 1 would fit: agents take 3."), "{message}");
    let made = spawn(&["write module four"]);
    assert!(made.status.success(), "{}", describe(&made));
}

#[test]
fn gc_removes_the_oldest_until_enough_is_free_and_no_more() {
    let repo = TestRepo::with_commit();
    for name in ["one", "two"] {
        let text = format!("write the module {name}");
        let agent = repo.agent_json(&["spawn", "-m", &text, "--name", name]);
        let worktree = PathBuf::from(agent["worktree_abspath"].as_str().expect("a path"));
        fs::write(worktree.join(format!("src/{name}.rs")), "pub fn new() {}\n").expect("written");
        repo.agent_json(&["merge", name, "--now"]);
    }
    let planned = |until: &str| {
        let plan = repo.agent_json(&["gc", "--until", until]);
        let items = plan["agents"].as_array().expect("a list").clone();
        let action = |item: &Value| item["action"].as_str().expect("a word").to_owned();
        items.iter().map(action).collect::<Vec<_>>()
    };
    // More than any disk has, and what every disk has.
    assert_eq!(planned("8000T"), ["remove", "remove"]);
    assert_eq!(planned("1"), ["keep", "keep"]);
    // What is proposed does no more than what was shown.
    let shown = repo.agent(&["gc", "--until", "8000T"]);
    let shown = String::from_utf8_lossy(&shown.stdout);
    assert!(shown.contains("git agent gc --until 8796093022208000 --yes"), "{shown}");
    // Where that is not enough, it says so.
    assert!(shown.contains(", less than was asked for; no other agent"), "{shown}");
    let enough = repo.agent(&["gc", "--until", "1"]);
    assert!(
        !String::from_utf8_lossy(&enough.stdout).contains("less than"),
        "{}",
        describe(&enough)
    );
    let refused = repo.agent(&["gc", "--until", "much"]);
    assert_eq!(refused.status.code(), Some(2), "{}", describe(&refused));
}

#[test]
fn a_run_that_is_larger_than_all_together_is_refused_at_once() {
    let repo = with_settings("[limits]\nmemory = \"8G\"\nmemory_total = \"4G\"\n");
    let id = spawned(&repo);
    let refused = run(&repo, &id, &[], "true").output().expect("starts");
    assert_eq!(refused.status.code(), Some(3), "{}", describe(&refused));
    assert_eq!(error(&refused)["code"], "limit-reached");
}

#[test]
fn a_dry_run_refuses_what_the_spawn_would_refuse() {
    let repo = TestRepo::with_commit();
    for name in ["one", "two"] {
        repo.agent_json(&["spawn", "do it", "--name", name]);
    }
    repo.agent_json(&["mark", "fail", "one", "-m", "it cannot"]);
    repo.git(["config", "agent.limits.agents", "1"]);
    for verb in [&["spawn", "do the rest"][..], &["retry", "one"]] {
        let refused = [&["--dry-run"][..], &[]].map(|more| {
            let output = repo.agent(&[verb, more, &["--format=json"]].concat());
            assert_eq!(output.status.code(), Some(3), "{}", describe(&output));
            error(&output)
        });
        assert_eq!(refused[0]["code"], "limit-reached");
        assert_eq!(refused[0], refused[1]);
    }
    repo.git(["config", "--unset", "agent.limits.agents"]);
    let words = ["spawn", "do the rest", "--layered=on", "--sparse", "--scope=src"];
    let refused = [&["--dry-run"][..], &[]].map(|more| repo.agent(&[&words[..], more].concat()));
    assert_eq!(refused[0].status.code(), Some(4), "{}", describe(&refused[0]));
    assert_eq!(describe(&refused[0]), describe(&refused[1]));
}
