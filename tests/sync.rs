//! `sync`: three clones and a bare remote, with real git as the judge of what is where.

/// One worker for each task, in all clones.
mod claims;
/// The end of a task.
mod deliveries;
/// What one clone says of the agents of another.
mod elsewhere;
/// What a forge merges.
mod forge;
/// Hooks of the user's that synchronise.
mod hooks;
/// Clones that do to claims what no git-agent does, and clocks that are wrong.
mod hostile;
/// Death between every two steps.
mod kill;
/// Work that is offered on a forge.
mod pr;
/// Work that lands on a remote.
mod push;
/// Clones that synchronise at the same moment.
mod races;
/// What remotes refuse, and how it is named.
mod refusals;
/// Remotes and clones that lost something, and get it back.
mod repair;

use crate::support::agent::{agent_command, describe};
use crate::support::git_in;
pub(crate) use crate::support::hub::*;
use serde_json::Value;
use std::path::Path;

#[test]
fn three_clones_have_the_same_rows_after_one_command_each() {
    let hub = Hub::new(3);
    let [one, two, three] = [0, 1, 2].map(|n| hub.clones[n].clone());
    hub.send_all();
    row(&one, "a");
    row(&two, "b");
    for (clone, message) in [(&one, "hello"), (&two, "again")] {
        let payload = format!("--payload=message={message}");
        let send = ["send", "--type=notify", "--to=bob", &payload];
        json(clone, &send);
    }
    json(&two, &["receive", "--agent=bob"]);
    let first = json(&one, &["sync"]);
    assert_eq!(state(&first, "refs/notes/agents"), "pushed", "{first:#}");
    let second = json(&two, &["sync"]);
    assert_eq!(second["refs"][0]["received"], true, "{second:#}");
    let third = json(&three, &["sync"]);
    assert_eq!(state(&third, "refs/notes/agents"), "equal", "{third:#}");
    json(&one, &["sync"]);
    for clone in [&one, &two, &three] {
        assert_eq!(names(clone), ["a", "b"]);
        hub.assert_equal(clone);
        assert_eq!(git_in(clone, ["fsck", "--strict", "--no-progress", "--no-dangling"]), "");
    }
    assert_eq!(hub.outboxes(), Vec::<String>::new());
}

#[test]
fn nothing_new_asks_once_and_writes_nothing() {
    let hub = Hub::new(1);
    let clone = &hub.clones[0];
    row(clone, "a");
    json(clone, &["sync"]);
    let before = git_in(clone, ["for-each-ref"]);
    assert_eq!(asks(clone), [1, 0, 0]);
    assert_eq!(git_in(clone, ["for-each-ref"]), before);
}

#[test]
fn a_relative_url_leads_where_it_leads_for_git() {
    let hub = Hub::new(1);
    let clone = &hub.clones[0];
    git_in(clone, ["remote", "set-url", "origin", "../hub.git"]);
    row(clone, "a");
    json(&clone.join("src"), &["sync"]);
    let notes = "refs/notes/agents";
    assert_eq!(tip(clone, notes), hub.remote_tip(notes));
}

/// How often an exchange lists the remote, fetches from it and pushes to it.
fn asks(clone: &Path) -> [usize; 3] {
    let mut command = agent_command(clone);
    command.env("GIT_AGENT_LOG", "debug").arg("sync");
    let output = command.output().expect("starts");
    let said = describe(&output);
    assert!(output.status.success(), "{said}");
    ["\"ls-remote\"", "\"fetch\"", "\"push\""].map(|word| said.matches(word).count())
}

#[test]
fn each_exchange_asks_no_more_often_than_it_has_to() {
    let (hub, [one, two]) = Hub::synchronised();
    // One row more, on a remote that is where it was seen: pushed, and proved by the one list.
    row(&one, "b");
    assert_eq!(asks(&one), [1, 0, 1]);
    // The remote has moved on: the lease sends nothing.
    row(&two, "c");
    assert_eq!(asks(&two), [2, 1, 2]);
    assert_eq!(asks(&one), [1, 1, 0]);
    for clone in [&one, &two] {
        assert_eq!(names(clone), ["a", "b", "c"]);
        hub.assert_equal(clone);
    }
    assert_eq!(hub.outboxes(), Vec::<String>::new());
}

#[test]
fn a_branch_with_a_name_of_its_own_travels_and_one_that_is_behind_does_not() {
    let hub = Hub::new(2);
    let [one, two] = [0, 1].map(|n| hub.clones[n].clone());
    spawn(&one, &["--branch=mine"]);
    let report = json(&one, &["sync"]);
    assert_eq!(report["branches"][0]["state"], "pushed", "{report:#}");
    let there = hub.remote_tip("refs/heads/mine");
    assert_eq!(there, tip(&one, "refs/heads/mine"));
    // Another clone adds to it; the first has nothing to add.
    json(&two, &["sync"]);
    git_in(&two, ["fetch", "--quiet", "origin", "mine:mine"]);
    let tree = git_in(&two, ["rev-parse", "mine^{tree}"]);
    let more = git_in(&two, ["commit-tree", "-p", "mine", "-m", "more", &tree]);
    git_in(&two, ["push", "--quiet", "origin", &format!("{more}:refs/heads/mine")]);
    git_in(&one, ["fetch", "--quiet", "origin"]);
    let report = json(&one, &["sync"]);
    assert_eq!(report["branches"], serde_json::json!([]), "{report:#}");
    assert_eq!(hub.remote_tip("refs/heads/mine"), more);
}

#[test]
fn a_copy_in_the_way_of_a_branch_is_told_of() {
    let hub = Hub::new(2);
    let [one, two] = [0, 1].map(|n| hub.clones[n].clone());
    spawn(&one, &["--branch=agent/mine"]);
    json(&one, &["sync"]);
    git_in(&two, ["update-ref", "refs/remotes/origin/agent/mine/old", "HEAD"]);
    let report = json(&two, &["sync"]);
    let warnings = report["warnings"].to_string();
    assert!(warnings.contains("run git fetch --prune origin"), "{report:#}");
    git_in(&two, ["fetch", "--quiet", "--prune", "origin"]);
    assert_eq!(json(&two, &["sync"])["warnings"], serde_json::json!([]));
    let copy = tip(&two, "refs/remotes/origin/agent/mine");
    assert_eq!(copy, tip(&one, "refs/heads/agent/mine"));
}

#[test]
fn no_ref_of_the_user_moves_and_only_what_is_configured_leaves() {
    let hub = Hub::new(2);
    let [one, two] = [0, 1].map(|n| hub.clones[n].clone());
    // A tag, a branch of the user's, a note, a message: none of them leaves.
    git_in(&one, ["tag", "mine"]);
    git_in(&one, ["branch", "private"]);
    git_in(&one, ["notes", "add", "-m", "mine", "HEAD"]);
    json(&one, &["send", "--type=notify", "--to=bob", "--payload=message=x"]);
    let spawned = spawn(&one, &[]);
    let branch = branch_of(&spawned);
    let worktree = spawned["worktree_abspath"].as_str().expect("a path").to_owned();
    git_in(&two, ["commit", "--quiet", "--allow-empty", "-m", "theirs"]);
    git_in(&two, ["push", "--quiet"]);
    let mine = [tip(&one, "refs/heads/main"), tip(&one, "refs/remotes/origin/main")];

    let report = json(&one, &["sync"]);
    assert_eq!(report["branches"][0]["ref"], branch.as_str(), "{report:#}");
    let there = git_in(&hub.bare, ["for-each-ref", "--format=%(refname)"]);
    let expected = format!("{branch}\nrefs/heads/main\nrefs/notes/agents");
    assert_eq!(there, expected);
    assert_eq!(hub.remote_tip(&branch), tip(&one, &branch));
    json(&two, &["sync"]);
    json(&one, &["sync"]);
    let same = [tip(&one, "refs/heads/main"), tip(&one, "refs/remotes/origin/main")];
    assert_eq!(mine, same);

    // Nothing on the remote names a place of this machine, or repeats the prompt.
    let objects = git_in(&hub.bare, ["cat-file", "--batch-check", "--batch-all-objects"]);
    let place = Path::new(&worktree).parent().expect("a directory");
    for line in objects.lines() {
        let (oid, rest) = line.split_once(' ').expect("an object");
        let kind = rest.split(' ').next().expect("a kind");
        if kind == "tree" {
            continue;
        }
        let text = git_in(&hub.bare, ["cat-file", kind, oid]);
        assert!(!text.contains(place.to_str().expect("UTF-8")), "{text}");
        assert!(!text.contains("MUST NOT invoke git"), "{text}");
    }
}

#[test]
fn a_remote_that_takes_branches_only_gets_them_below_a_prefix() {
    let hub = Hub::new(2);
    hub.send_all();
    hub.hook("update", "case $1 in refs/heads/*) exit 0;; esac; echo branches only; exit 1");
    let [one, two] = [0, 1].map(|n| hub.clones[n].clone());
    row(&one, "a");
    let refused = agent(&one, &["sync"]);
    assert_eq!(refused.status.code(), Some(4), "{}", describe(&refused));
    assert!(describe(&refused).contains("agent.refPrefix"));
    for clone in [&one, &two] {
        git_in(clone, ["config", "agent.refPrefix", "refs/heads/agent-sync"]);
        json(clone, &["sync"]);
    }
    assert_eq!(names(&two), ["a"]);
    let there = hub.remote_tip("refs/heads/agent-sync/ledger");
    assert_eq!(there, tip(&one, "refs/notes/agents"));
    // A branch of the user's below the prefix is not ours to move.
    let main = tip(&one, "refs/heads/main");
    git_in(&hub.bare, ["update-ref", "refs/heads/agent-sync/ledger", &main]);
    row(&one, "b");
    let output = agent(&one, &["sync"]);
    assert_eq!(output.status.code(), Some(4), "{}", describe(&output));
    assert_eq!(hub.remote_tip("refs/heads/agent-sync/ledger"), main);
}

#[test]
fn two_remotes_have_a_cursor_each() {
    let mut hub = Hub::new(1);
    let other = hub.bare.with_file_name("other.git");
    let clone = hub.clones[0].clone();
    git_in(&clone, ["init", "--quiet", "--bare", other.to_str().expect("UTF-8")]);
    git_in(&clone, ["remote", "add", "other", other.to_str().expect("UTF-8")]);
    let second = hub.add("second", &[]);
    git_in(&second, ["remote", "set-url", "origin", other.to_str().expect("UTF-8")]);
    row(&clone, "a");
    row(&second, "b");
    json(&clone, &["sync", "origin"]);
    json(&second, &["sync"]);
    let report = json(&clone, &["sync", "other"]);
    assert_eq!(report["healed"], serde_json::json!([]));
    let report = json(&clone, &["sync"]);
    assert_eq!(report["remote"], "origin");
    assert_eq!(state(&report, "refs/notes/agents"), "pushed", "{report:#}");
    for bare in [&hub.bare, &other] {
        assert_eq!(tip(bare, "refs/notes/agents"), tip(&clone, "refs/notes/agents"));
    }
    // Which remote is meant without a name is said once.
    git_in(&clone, ["remote", "rename", "origin", "first"]);
    let output = agent(&clone, &["sync"]);
    assert_eq!(output.status.code(), Some(2), "{}", describe(&output));
    git_in(&clone, ["config", "agent.remote", "other"]);
    assert_eq!(json(&clone, &["sync"])["remote"], "other");
}

#[test]
fn shallow_partial_and_mirror_clones_get_whole_rows() {
    let mut hub = Hub::new(1);
    let first = hub.clones[0].clone();
    git_in(&first, ["commit", "--quiet", "--allow-empty", "-m", "second"]);
    git_in(&first, ["push", "--quiet"]);
    git_in(&hub.bare, ["config", "uploadpack.allowFilter", "true"]);
    row(&first, "a");
    row(&first, "b");
    json(&first, &["sync"]);
    for (name, option) in
        [("shallow", "--depth=1"), ("partial", "--filter=blob:none"), ("mirror", "--mirror")]
    {
        let clone = hub.add(name, &[option]);
        let shallow = tip_count(&clone);
        row(&clone, name);
        json(&clone, &["sync"]);
        assert_eq!(tip_count(&clone), shallow, "{name}: history of its own");
        assert_eq!(tip(&clone, "refs/notes/agents"), hub.remote_tip("refs/notes/agents"));
        assert!(names(&clone).contains(&"a".to_owned()), "{name}");
        // Every row is here, not only promised.
        git_in(&clone, ["config", "remote.origin.url", "/nowhere"]);
        assert!(names(&clone).contains(&"b".to_owned()), "{name}");
    }
    json(&first, &["sync"]);
    assert_eq!(names(&first), ["a", "b", "mirror", "partial", "shallow"]);
}

/// How many commits the branch has in this clone.
fn tip_count(clone: &Path) -> String {
    git_in(clone, ["rev-list", "--count", "HEAD"])
}

#[test]
fn spawn_run_and_merge_synchronise_on_request() {
    let hub = Hub::new(2);
    let [one, two] = [0, 1].map(|n| hub.clones[n].clone());
    let spawned = spawn(&one, &["--no-bundle", "--name=traveller", "--sync=origin"]);
    json(&two, &["sync"]);
    assert_eq!(names(&two), ["traveller"]);
    let branch = spawned["branch"].as_str().expect("a branch");
    let copy = format!("refs/remotes/origin/{branch}");
    let local = format!("refs/heads/{branch}");
    assert_eq!(tip(&two, &copy), tip(&one, &local), "to verify and to land there");
    let id = spawned["agent_id"].as_str().expect("an id");
    let edit = ["sh", "-c", "echo 'pub fn two() {}' >> src/lib.rs"];
    let ran = agent(&one, &[&["run", id, "--sync", "origin", "--"][..], &edit].concat());
    assert!(ran.status.success(), "{}", describe(&ran));
    assert_eq!(hub.remote_tip("refs/notes/agents"), tip(&one, "refs/notes/agents"));
    let merged = agent(&one, &["merge", id, "--sync", "origin"]);
    assert!(merged.status.success(), "{}", describe(&merged));
    json(&two, &["sync"]);
    assert_eq!(tip(&two, "refs/notes/agents"), tip(&one, "refs/notes/agents"));
    // The landing itself is the user's to push.
    assert_ne!(hub.remote_tip("refs/heads/main"), tip(&one, "refs/heads/main"));
    // What could not be sent anywhere is not made.
    let before = names(&two);
    let output = agent(
        &two,
        &[
            "spawn",
            "-m",
            "Say what is missing in it all.",
            "--role=read-only",
            "--scope=src/**",
            "--sync=nowhere",
        ],
    );
    assert_eq!(output.status.code(), Some(2), "{}", describe(&output));
    assert_eq!(names(&two), before);
}

#[test]
fn doctor_has_no_problem_in_a_clone_that_has_synchronised() {
    let hub = Hub::new(3);
    let [one, two, three] = [0, 1, 2].map(|n| hub.clones[n].clone());
    let work = |name: &str| {
        let spawned = spawn(&one, &["--no-bundle", &format!("--name={name}")]);
        let worktree = spawned["worktree_abspath"].as_str().expect("a path");
        let file = Path::new(worktree).join(format!("src/{name}.rs"));
        std::fs::write(file, "pub fn new() {}\n").expect("written");
        json(&one, &["commit", name, "-m", name]);
    };
    spawn(&one, &["--name=ready"]);
    for name in ["idle", "merged", "squashed", "discarded", "rejected"] {
        work(name);
    }
    // The branches travel first, so that the other clones have what is kept later.
    for clone in [&one, &two] {
        json(clone, &["sync"]);
    }
    json(&one, &["merge", "merged"]);
    json(&one, &["merge", "squashed", "--squash"]);
    json(&one, &["discard", "discarded"]);
    json(&one, &["reject", "rejected", "--reason=no"]);
    let own = row(&two, "own");
    for clone in [&one, &two, &three, &one] {
        json(clone, &["sync"]);
    }
    let problems = |clone: &Path| {
        let report = json(clone, &["doctor"]);
        let found = report["findings"].as_array().expect("findings").clone();
        let is_problem = |one: &Value| one["severity"] == "problem";
        found.into_iter().filter(is_problem).collect::<Vec<_>>()
    };
    for clone in [&one, &two, &three] {
        assert_eq!(problems(clone), Vec::<Value>::new());
    }
    // What this clone has to keep is looked for as ever.
    git_in(&two, ["update-ref", "-d", "refs/agents/keep"]);
    let output = agent(&two, &["doctor"]);
    let said = describe(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let missing: Vec<_> =
        said.lines().filter(|line| line.starts_with("problem[keep.missing]")).collect();
    assert!(missing.len() == 1 && missing[0].ends_with(&own[..8]), "{said}");
}
