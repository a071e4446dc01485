//! The end of a task: rows, branch and claim in one push.

use super::claims::{self, CLAIM, WORK, work};
use super::{Hub, agent, branch_of, json, names, row, spawn, tip};
use crate::support::agent::{agent_command, describe};
use crate::support::death::{self, Order, Reached, steps_of};
use crate::support::git_in;
use git_agent::domain::life::id::AgentId;
use git_agent::ops::sync::claim::{self, Acquired};
use git_agent::ops::sync::{self, DELIVERY_STEPS};
use std::path::{Path, PathBuf};

const LEDGER: &str = "refs/notes/agents";

/// Not a test: the process that dies. It does nothing unless a step is named.
#[test]
fn child() {
    if let Some(order) = Order::received() {
        complete(&order.directory, &order.words[0], order.dying());
    }
}

/// What a worker does when its agent's work is accepted.
fn complete(clone: &Path, id: &str, reached: Reached) {
    let ctx = death::ctx(clone, reached);
    let agent = AgentId::parse(id);
    if let Acquired::Held(claim) = claim::acquire(&ctx, None, "task-1", agent).expect("an answer") {
        sync::complete_task(&ctx, None, *claim).expect("sent");
    }
}

/// A clone with an agent whose branch and rows the remote lacks. In a crowd other clones have moved the shared rows, and this
/// one has an outbox.
fn ready(is_crowd: bool) -> (Hub, PathBuf, String, String) {
    let hub = Hub::new(2);
    let [one, two] = [0, 1].map(|n| hub.clones[n].clone());
    if is_crowd {
        row(&two, "theirs");
        json(&two, &["sync"]);
    }
    let spawned = spawn(&one, &["--name=mine"]);
    let id = spawned["agent_id"].as_str().expect("an id").to_owned();
    (hub, one, id, branch_of(&spawned))
}

#[test]
fn the_steps_are_reached_as_they_are_listed() {
    let (_hub, one, id, _) = ready(false);
    let steps = steps_of(|reached| complete(&one, &id, reached));
    let own: Vec<_> = steps.iter().filter(|step| step.starts_with("task-")).collect();
    assert_eq!(own, DELIVERY_STEPS, "{steps:?}");
}

#[test]
fn whatever_a_kill_leaves_the_same_again_ends_the_task_and_no_row_is_lost() {
    for step in DELIVERY_STEPS {
        for is_crowd in [false, true] {
            let (hub, one, id, branch) = ready(is_crowd);
            death::die_at("sync::deliveries::child", &one, step, &[&id]);
            complete(&one, &id, death::unwatched());
            assert_eq!(claims::state(&hub), "done", "after {step}");
            assert_eq!(hub.remote_tip(&branch), tip(&one, &branch), "after {step}");
            let two = &hub.clones[1];
            json(two, &["sync"]);
            assert!(names(two).contains(&"mine".to_owned()), "after {step}");
            json(&one, &["sync"]);
            assert_eq!(tip(&one, LEDGER), hub.remote_tip(LEDGER), "after {step}");
            assert_eq!(hub.outboxes(), Vec::<String>::new(), "after {step}");
        }
    }
}

/// Does a task; gives how often the remote was listed, fetched from and pushed to.
fn asks(clone: &Path, task: &str, key: &str) -> [usize; 3] {
    let mut command = agent_command(clone);
    let claim = format!("--claim={key}");
    let words = ["run", task, &claim, "--sync=origin", "--sandbox=off"];
    command.env("GIT_AGENT_LOG", "debug").args(words);
    command.args(["--", "sh", "-c", WORK]);
    let output = command.output().expect("starts");
    let said = describe(&output);
    assert!(output.status.success(), "{said}");
    ["\"ls-remote\"", "\"fetch\"", "\"push\""].map(|word| said.matches(word).count())
}

#[test]
fn a_task_asks_the_remote_no_more_often_than_it_has_to() {
    let hub = Hub::new(2);
    let task = claims::task(&hub);
    let [one, two] = [0, 1].map(|n| hub.clones[n].clone());
    // The claim and the end, each pushed and then listed.
    assert_eq!(asks(&one, &task, "a"), [2, 0, 2]);
    assert_eq!(asks(&one, &task, "b"), [2, 0, 2]);
    assert_eq!(hub.outboxes(), Vec::<String>::new());
    // Another clone has moved the shared rows: the lease sends nothing, and the outbox takes them.
    assert_eq!(asks(&two, &task, "c"), [2, 0, 3]);
    assert_eq!(asks(&two, &task, "d"), [2, 0, 2]);
    assert_eq!(hub.outboxes().len(), 1);
    // The next exchange of any clone takes the outbox over.
    for clone in [&one, &two, &one] {
        json(clone, &["sync"]);
    }
    assert_eq!(hub.outboxes(), Vec::<String>::new());
    for clone in [&one, &two] {
        assert_eq!(tip(clone, LEDGER), hub.remote_tip(LEDGER));
        let agents = json(clone, &["list", "--all", "--fast"]);
        assert_eq!(agents["agents"].as_array().map(Vec::len), Some(4));
    }
    // An outbox that another clone has taken over is no place to go on from.
    assert_eq!(asks(&two, &task, "e")[2], 2);
    for key in ["a", "b", "c", "d", "e"] {
        let claim = format!("refs/agents/claim/{key}");
        let message = git_in(&hub.bare, ["log", "-1", "--format=%B", &claim]);
        assert!(message.contains("Claim-State: done"), "{key}: {message}");
        // Taken and done: the claim named its agent from the beginning.
        let named = git_in(&hub.bare, ["log", "--format=%B", &claim]);
        assert_eq!(named.matches("Agent-Id: ").count(), 2, "{key}: {named}");
    }
}

#[test]
fn a_remote_that_wants_one_ref_at_a_time_gets_them_so_and_no_hook_runs() {
    let hub = Hub::new(1);
    let task = claims::task(&hub);
    let clone = &hub.clones[0];
    git_in(&hub.bare, ["config", "receive.advertiseAtomic", "false"]);
    let (code, said) = work(clone, &task, WORK);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(claims::state(&hub), "done");
    git_in(&hub.bare, ["update-ref", "-d", CLAIM]);
    git_in(&hub.bare, ["config", "--unset", "receive.advertiseAtomic"]);
    // A hook of the user's is not asked about what synchronising pushes.
    let hook = clone.join(".git/hooks/pre-push");
    std::fs::create_dir_all(hook.parent().expect("a directory")).expect("made");
    std::fs::write(&hook, "#!/bin/sh\nexit 1\n").expect("written");
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).expect("executable");
    let (code, said) = work(clone, &task, WORK);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(claims::state(&hub), "done");
    assert_eq!(hub.remote_tip(LEDGER), tip(clone, LEDGER));
    let output = agent(clone, &["list", "--all"]);
    assert!(output.status.success(), "{}", describe(&output));
}
