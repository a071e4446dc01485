use super::{WRITTEN, assert_kept, busy, discarded};
use crate::support::agent::{TASK, agent_command, describe};
use crate::support::death::{self, Order, Reached, die_at, steps_of};
use crate::support::{TestRepo, assert_unchanged, snapshot};
use crate::verify::{Agent, refused};
use git_agent::ops::gc;
use git_agent::ops::gc::GcOptions;
use git_agent::ops::gc::expire::STEPS;
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

const EVERYTHING: [&str; 2] = ["--expire-salvage=0s", "--yes"];

fn gc(repo: &TestRepo, arguments: &[&str]) -> Value {
    repo.agent_json(&[&["gc"], arguments].concat())
}

fn expired(repo: &TestRepo, arguments: &[&str]) -> Vec<(String, String)> {
    let report = gc(repo, arguments);
    let items = report["salvage"].as_array().expect("salvage").iter();
    let text = |item: &Value, key: &str| item[key].as_str().expect(key).to_owned();
    items.map(|item| (text(item, "agent_id"), text(item, "action"))).collect()
}

/// What git's own collection leaves when it is told to be quick.
fn collect(repo: &TestRepo) {
    repo.git(["reflog", "expire", "--expire=now", "--all"]);
    repo.git(["gc", "--quiet", "--prune=now"]);
    let fsck = ["fsck", "--strict", "--no-dangling", "--no-progress"];
    assert_eq!(repo.git(fsck), "");
}

fn is_there(repo: &TestRepo, oid: &Value) -> bool {
    let oid = oid.as_str().expect("an oid");
    let words = ["cat-file", "-e", oid];
    crate::support::git_output(&repo.path(), words).status.success()
}

fn rescue(agent: &Agent) -> std::process::Output {
    agent_command(&agent.repo.path()).args(["rescue", &agent.id]).output().expect("starts")
}

#[test]
fn what_is_old_enough_is_let_go_of_and_the_row_says_when() {
    let agent = busy();
    let report = discarded(&agent, &[]);
    assert_eq!(expired(&agent.repo, &EVERYTHING), [(agent.id.clone(), "expired".to_owned())]);
    collect(&agent.repo);
    for key in ["tip", "salvage_commit", "bundle_commit"] {
        assert!(!is_there(&agent.repo, &report[key]), "{key}");
    }
    let output = rescue(&agent);
    refused(&output, "agent-state", 3);
    let said = describe(&output);
    assert!(said.contains(" expired on 20"), "{said}");
    let shown = agent.repo.agent_json(&["show", &agent.id]);
    assert_eq!(shown["state"], "discarded");
    assert!(shown.get("irregular").is_none(), "{shown}");
    assert!(is_there(&agent.repo, &shown["spawn_commit"]));
    let last = shown["events"].as_array().expect("events").last();
    assert_eq!(last.expect("one")["event"], "expired");
    let examined = agent.repo.agent(&["doctor"]);
    assert!(examined.status.success(), "{}", describe(&examined));
    assert!(expired(&agent.repo, &EVERYTHING).is_empty());
}

#[test]
fn without_yes_and_before_its_time_nothing_goes() {
    let agent = busy();
    discarded(&agent, &[]);
    let mut before = snapshot(&agent.repo.path());
    // Somebody is still emptying that one.
    before.retain(|path, _| !path.to_string_lossy().contains("/agents/trash"));
    let planned = expired(&agent.repo, &["--expire-salvage=0s"]);
    assert_eq!(planned, [(agent.id.clone(), "expire".to_owned())]);
    assert!(expired(&agent.repo, &["--expire-salvage=90d"]).is_empty());
    let mut after = snapshot(&agent.repo.path());
    after.retain(|path, _| before.contains_key(path));
    assert_unchanged(&before, &after, "a dry run");
    expired(&agent.repo, &["--expire-salvage=1w", "--yes"]);
    assert_kept(&agent.repo, &WRITTEN, "before its time");
}

#[test]
fn what_was_let_go_of_comes_back_until_git_has_collected_it() {
    let agent = busy();
    let report = discarded(&agent, &[]);
    gc(&agent.repo, &EVERYTHING);
    let output = rescue(&agent);
    assert!(output.status.success(), "{}", describe(&output));
    collect(&agent.repo);
    assert!(is_there(&agent.repo, &report["salvage_commit"]));
    assert!(is_there(&agent.repo, &report["tip"]));
}

#[test]
fn what_belongs_to_an_agent_that_is_not_over_stays() {
    let agent = busy();
    agent.verify(&[]);
    let keep = || agent.repo.git(["rev-parse", "refs/agents/keep"]);
    let before = keep();
    assert_eq!(expired(&agent.repo, &EVERYTHING), [(agent.id.clone(), "keep".to_owned())]);
    assert_eq!(keep(), before, "the judged bundle is kept");
}

#[test]
fn what_a_branch_or_another_agent_stands_on_stays() {
    let first = busy();
    let tip = first.git(&["rev-parse", "HEAD"]);
    let second = first.repo.spawn_task(TASK, &["--base", &first.branch]);
    discarded(&first, &[]);
    gc(&first.repo, &EVERYTHING);
    collect(&first.repo);
    assert!(is_there(&first.repo, &tip.into()));
    let id = second["agent_id"].as_str().expect("an id");
    first.repo.agent_json(&["discard", id]);
    let back = first.repo.agent_json(&["rescue", id]);
    assert_eq!(back["commit"], second["spawn_commit"]);
}

#[test]
fn the_links_that_stay_say_what_they_said() {
    let (one, repo) = {
        let agent = busy();
        discarded(&agent, &[]);
        (agent.id.clone(), agent.repo)
    };
    repo.spawn();
    let links = ["log", "--first-parent", "--format=%an %at %cn %ct %s %T"];
    let links = [&links[..], &["refs/agents/keep"]].concat();
    let before = repo.git(&links);
    gc(&repo, &EVERYTHING);
    let mut expected: Vec<_> = before.lines().collect();
    expected.retain(|line| !line.contains(&format!("discard {one}")));
    assert_eq!(repo.git(&links).lines().collect::<Vec<_>>(), expected);
    let moved = repo.git(["reflog", "-1", "--format=%gs", "refs/agents/keep"]);
    assert_eq!(moved, "agent: expire 1 links");
}

/// Not a test: the process that dies. It does nothing unless a step is named.
#[test]
fn child() {
    if let Some(order) = Order::received() {
        expire_with(&order.directory, order.dying());
    }
}

fn expire_with(directory: &Path, reached: Reached) {
    let ctx = death::ctx(directory, reached);
    let options = GcOptions { expire_salvage: Some(Duration::ZERO), ..GcOptions::default() };
    let plan = gc::plan(&ctx, options).expect("a plan");
    gc::execute(&ctx, plan).expect("done");
}

#[test]
fn the_steps_are_reached_in_the_order_they_are_listed() {
    let agent = busy();
    discarded(&agent, &[]);
    let path = agent.repo.path();
    let steps = steps_of(|reached| expire_with(&path, reached));
    assert_eq!(steps, STEPS);
}

#[test]
fn whatever_a_kill_leaves_the_next_one_finishes() {
    for step in STEPS {
        let agent = busy();
        let report = discarded(&agent, &[]);
        die_at("removal::expire::child", &agent.repo.path(), step, &[]);
        if step == STEPS[0] {
            let output = rescue(&agent);
            assert!(output.status.success(), "{}", describe(&output));
            agent.repo.git([
                "branch",
                "-D",
                &format!("rescued/{}", &agent.branch["agent/".len()..]),
            ]);
        }
        gc(&agent.repo, &EVERYTHING);
        collect(&agent.repo);
        assert!(!is_there(&agent.repo, &report["salvage_commit"]), "{step}");
        let log = agent.repo.agent_json(&["log", &agent.id]);
        let events = log["events"].as_array().expect("events").iter();
        let told = events.filter(|event| event["event"] == "expired").count();
        assert_eq!(told, 1, "after {step}");
    }
}
