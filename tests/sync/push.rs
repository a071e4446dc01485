//! `merge --push`: what was judged against the remote's branch lands on the remote.

use super::claims::{self, CLAIM, plant, work};
use super::{Hub, agent, json, spawn, state, tip};
use crate::support::agent::describe;
use crate::support::death::{self, Order, Reached, steps_of};
use crate::support::git_in;
use crate::train::kill;
use git_agent::ops::merge::{self, MergeOptions, push_steps};
use git_agent::ops::train;
use serde_json::Value;
use std::path::{Path, PathBuf};

const MAIN: &str = "refs/heads/main";

/// An agent of this clone with work that is not committed yet; gives its id.
fn ready(clone: &Path) -> String {
    let spawned = spawn(clone, &["--no-bundle", "--name=traveller"]);
    let worktree = PathBuf::from(spawned["worktree_abspath"].as_str().expect("a path"));
    std::fs::write(worktree.join("src/two.rs"), "pub fn two() {}\n").expect("written");
    spawned["agent_id"].as_str().expect("an id").to_owned()
}

/// Another clone pushes a commit with a file of that name; gives the commit.
fn advance(clone: &Path, file: &str) -> String {
    git_in(clone, ["pull", "--quiet", "--ff-only", "origin", "main"]);
    std::fs::write(clone.join(file), "new\n").expect("written");
    git_in(clone, ["add", "--all"]);
    git_in(clone, ["commit", "--quiet", "-m", file]);
    git_in(clone, ["push", "--quiet", "origin", "HEAD:main"]);
    tip(clone, "HEAD")
}

fn files(hub: &Hub) -> String {
    git_in(&hub.bare, ["ls-tree", "-r", "--name-only", MAIN])
}

fn row_of(clone: &Path, id: &str) -> Value {
    json(clone, &["show", id])
}

#[test]
fn work_lands_as_it_was_judged_against_the_branch_of_the_remote() {
    let hub = Hub::new(2);
    let [one, two] = [0, 1].map(|n| hub.clones[n].clone());
    let id = ready(&one);
    let theirs = advance(&two, "theirs.txt");
    let before = tip(&one, MAIN);
    let planned = json(&one, &["merge", &id, "--push", "--dry-run"]);
    assert_eq!(planned["outcome"], "planned", "{planned:#}");
    assert_eq!(planned["remote"], "origin");
    assert_eq!(hub.remote_tip(MAIN), theirs);
    assert_eq!(tip(&one, MAIN), before);

    let report = json(&one, &["merge", &id, "--push"]);
    assert_eq!(report["outcome"], "merged", "{report:#}");
    assert_eq!(report["target"]["oid"], theirs.as_str());
    let landed = hub.remote_tip(MAIN);
    assert_eq!(report["commit"], landed.as_str());
    assert_eq!(report["merged_tree"], git_in(&hub.bare, ["rev-parse", "main^{tree}"]));
    assert_eq!(tip(&hub.bare, "main^1"), theirs);
    let there = files(&hub);
    assert!(there.contains("src/two.rs") && there.contains("theirs.txt"), "{there}");
    // This clone follows, with its worktree.
    assert_eq!(tip(&one, MAIN), landed);
    assert_eq!(tip(&one, "refs/remotes/origin/main"), landed);
    assert_eq!(git_in(&one, ["status", "--porcelain"]), "");
    assert!(one.join("src/two.rs").is_file() && one.join("theirs.txt").is_file());
    // The row has travelled.
    json(&two, &["sync"]);
    assert_eq!(row_of(&two, &id)["state"], "merged");
    // No branch of the remote but this one moved.
    let branches = git_in(&hub.bare, ["for-each-ref", "--format=%(refname)", "refs/heads"]);
    assert_eq!(branches, MAIN);
}

#[test]
fn work_is_judged_again_when_the_branch_of_the_remote_moves() {
    let hub = Hub::new(2);
    let [one, two] = [0, 1].map(|n| hub.clones[n].clone());
    let id = ready(&one);
    let theirs = advance(&two, "theirs.txt");
    let waiting = format!("{MAIN}:refs/heads/waiting");
    git_in(&two, ["push", "--quiet", "origin", &waiting]);
    git_in(&hub.bare, ["update-ref", MAIN, &tip(&one, MAIN)]);
    // Just before the branch would move, another clone's landing is there.
    hub.hook(
        "update",
        &format!("test -e once || {{ touch once; git update-ref {MAIN} {theirs}; }}"),
    );
    let report = json(&one, &["merge", &id, "--push=origin"]);
    assert_eq!(report["target"]["oid"], theirs.as_str(), "{report:#}");
    assert_eq!(tip(&hub.bare, "main^1"), theirs);
    let there = files(&hub);
    assert!(there.contains("src/two.rs") && there.contains("theirs.txt"), "{there}");
    // What conflicts with the new branch is refused, whatever the old one was.
    let other = ready(&one);
    let mine = git_in(&one, ["rev-list", "--count", MAIN]);
    advance(&two, "src/other.rs");
    let worktree = row_of(&one, &other)["worktree_abspath"].clone();
    let file = Path::new(worktree.as_str().expect("a path")).join("src/other.rs");
    std::fs::write(file, "mine\n").expect("written");
    let before = hub.remote_tip(MAIN);
    let output = agent(&one, &["merge", &other, "--push"]);
    assert_eq!(output.status.code(), Some(3), "{}", describe(&output));
    assert!(describe(&output).contains("--base refs/remotes/origin/main"), "{}", describe(&output));
    assert_eq!(hub.remote_tip(MAIN), before);
    assert_eq!(git_in(&one, ["rev-list", "--count", MAIN]), mine);
}

#[test]
fn a_server_that_refuses_is_named_with_its_words_and_nothing_lands() {
    let hub = Hub::new(1);
    let clone = &hub.clones[0];
    let id = ready(clone);
    let before = hub.remote_tip(MAIN);
    let cases = [
        (
            "pre-receive",
            "echo 'ask on Monday' >&2; exit 1",
            ["a hook of the server", "ask on Monday"],
        ),
        (
            "update",
            "echo 'GH006: Protected branch update failed' >&2; exit 1",
            ["a rule of the host", "GH006"],
        ),
        (
            "pre-receive",
            "echo 'quota exceeded' >&2; exit 1",
            ["the storage of the server", "quota exceeded"],
        ),
    ];
    for (hook, script, words) in cases {
        hub.hook(hook, script);
        let output = agent(clone, &["merge", &id, "--push"]);
        let said = describe(&output);
        assert_eq!(output.status.code(), Some(4), "{said}");
        for word in [&words[..], &["error[remote-refused]", MAIN]].concat() {
            assert!(said.contains(word), "{word}: {said}");
        }
        assert_eq!(hub.remote_tip(MAIN), before);
        assert_eq!(tip(clone, MAIN), before);
        std::fs::remove_file(hub.bare.join("hooks").join(hook)).expect("removed");
    }
    assert_eq!(row_of(clone, &id)["state"], "idle");
    let output = agent(clone, &["merge", &id, "--push", "--into=nowhere"]);
    assert_eq!(output.status.code(), Some(2), "{}", describe(&output));
    // A server that takes branches only gets the branch; the rows need a prefix there.
    git_in(&hub.bare, ["config", "receive.denyNonFastForwards", "true"]);
    git_in(&hub.bare, ["config", "receive.advertiseAtomic", "false"]);
    git_in(&hub.bare, ["config", "receive.hideRefs", "refs/notes"]);
    // What has landed has landed: that the rows were refused is a warning, in the answer too.
    let report = json(clone, &["merge", &id, "--push"]);
    assert_eq!(report["outcome"], "merged", "{report:#}");
    let warnings = report["warnings"].to_string();
    for word in ["refs/notes/agents", "agent.refPrefix"] {
        assert!(warnings.contains(word), "{warnings}");
    }
    assert!(files(&hub).contains("src/two.rs"));
    // The answers of other verbs have it as well.
    let of_train = done(clone, &["of_train"]).remove(0);
    let of_all = done(clone, &["of_all"]).remove(0);
    let task = clone.with_file_name("task.toml");
    std::fs::write(&task, crate::support::agent::TASK).expect("written");
    let task = task.to_str().expect("UTF-8");
    let verbs: [&[&str]; 4] = [
        &["train", &of_train, "--push"],
        &["merge", "--all", "--push"],
        &["spawn", task, "--sync", "origin"],
        &["spawn", task, task, "--sync", "origin"],
    ];
    for verb in verbs {
        let report = json(clone, verb);
        let last = report["items"].as_array().and_then(|items| items.last());
        let of_last = last.map_or(&Value::Null, |item| &item["warnings"]);
        let warnings = format!("{} {of_last}", report["warnings"]);
        assert!(warnings.contains("refs/notes/agents"), "{verb:?}: {report:#}");
    }
    let of_all = row_of(clone, &of_all);
    assert_eq!(of_all["state"], "merged");
    // The rows go with the first exchange that the server takes.
    git_in(&hub.bare, ["config", "--unset", "receive.hideRefs"]);
    json(clone, &["sync"]);
    let notes = "refs/notes/agents";
    assert_eq!(tip(clone, notes), hub.remote_tip(notes));
}

#[test]
fn every_landing_and_spawn_that_succeeded_ends_with_0_though_the_rows_were_refused() {
    let hub = Hub::new(1);
    let clone = &hub.clones[0];
    hub.hook("update", "case $1 in refs/notes/*) exit 1;; esac");
    let task = claims::task(&hub);
    let words = ["spawn", &task, "--claim=task-1", "--sync=origin"];
    let output = agent(clone, &words);
    let said = describe(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let warned = "warning: the ledger was not exchanged";
    assert!(said.contains(warned), "{said}");
    let made = json(clone, &["spawn", &task, "--sync=origin"]);
    let warnings = made["warnings"].to_string();
    assert!(warnings.contains("the ledger was not exchanged"), "{made:#}");
    let verbs: [&[&str]; 3] =
        [&["merge", "--push"], &["train", "--push"], &["merge", "--sync=origin"]];
    for words in verbs {
        let id = ready(clone);
        // A train takes agents that are done.
        json(clone, &["done", &id]);
        let before = [hub.remote_tip(MAIN), tip(clone, MAIN)];
        let output = agent(clone, &[words, &[&id]].concat());
        let said = describe(&output);
        assert_eq!(output.status.code(), Some(0), "{words:?}: {said}");
        assert!(said.contains(warned), "{words:?}: {said}");
        let after = [hub.remote_tip(MAIN), tip(clone, MAIN)];
        assert_ne!(after, before, "{words:?}: {said}");
        git_in(clone, ["rm", "--quiet", "src/two.rs"]);
        git_in(clone, ["commit", "--quiet", "-m", "again"]);
        git_in(clone, ["push", "--quiet", "origin", "main"]);
    }
}

#[test]
fn work_above_commits_that_were_not_pushed_says_which_branch_to_push_first() {
    let hub = Hub::new(2);
    let [one, two] = [0, 1].map(|n| hub.clones[n].clone());
    let commit = |clone: &Path, file: &str| {
        std::fs::write(clone.join(file), "new\n").expect("written");
        git_in(clone, ["add", "--all"]);
        git_in(clone, ["commit", "--quiet", "-m", file]);
    };
    commit(&one, "mine.txt");
    let id = ready(&one);
    let refused = |words: &[&str]| {
        let output = agent(&one, words);
        let said = describe(&output);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.contains("error[base-unpushed]"), "{said}");
        let (_, command) = said.split_once(" run git ").expect("a command");
        let line = command.lines().next().expect("a line");
        format!("git {line}")
    };
    assert_eq!(refused(&["merge", &id, "--push", "--dry-run"]), "git push origin main");
    // Where the remote has moved on, a push alone would be refused.
    advance(&two, "theirs.txt");
    let advised = refused(&["merge", &id, "--push"]);
    let ran = crate::support::isolated("sh", &one)
        .env("GIT_MERGE_AUTOEDIT", "no")
        .args(["-c", &advised])
        .output()
        .expect("starts");
    assert!(ran.status.success(), "{advised}: {}", describe(&ran));
    let report = json(&one, &["merge", &id, "--push"]);
    assert_eq!(report["outcome"], "merged", "{report:#}");
    let there = files(&hub);
    for file in ["src/two.rs", "mine.txt", "theirs.txt"] {
        assert!(there.contains(file), "{there}");
    }
}

#[test]
fn a_clone_that_cannot_follow_is_told_so() {
    let hub = Hub::new(2);
    let [one, two] = [0, 1].map(|n| hub.clones[n].clone());
    let id = ready(&one);
    advance(&two, "theirs.txt");
    std::fs::write(one.join("theirs.txt"), "mine\n").expect("written");
    let before = tip(&one, MAIN);
    let report = json(&one, &["merge", &id, "--push"]);
    let warning = report["warnings"][0].as_str().expect("a warning");
    assert!(warning.contains("git pull"), "{report}");
    assert_eq!(report["worktrees"], serde_json::json!([]));
    assert!(files(&hub).contains("src/two.rs"));
    assert_eq!(tip(&one, MAIN), before);
    let mine = std::fs::read_to_string(one.join("theirs.txt"));
    assert_eq!(mine.expect("there"), "mine\n");
    assert_eq!(git_in(&one, ["status", "--porcelain"]), "?? theirs.txt");
    // The remote has the landing, so nothing is taken back by saying so here.
    let output = agent(&one, &["undo"]);
    let said = describe(&output);
    assert!(output.status.code() == Some(3) && said.contains("undo-built-upon"), "{said}");
    assert!(said.contains("git merge origin/main && git agent undo --revert"), "{said}");
    // Commits of its own are neither pushed nor lost.
    std::fs::remove_file(one.join("theirs.txt")).expect("removed");
    let id = ready(&one);
    git_in(&one, ["commit", "--quiet", "--allow-empty", "-m", "not yet"]);
    let own = tip(&one, MAIN);
    let report = json(&one, &["merge", &id, "--push"]);
    let warning = report["warnings"][0].as_str().expect("a warning");
    assert!(warning.contains("commits that the remote lacks"), "{warning}");
    assert_eq!(tip(&one, MAIN), own);
    let log = git_in(&hub.bare, ["log", "--format=%s", MAIN]);
    assert!(!log.contains("not yet"), "{log}");
    // By itself a pull fails where the two have gone apart.
    let (_, pull) = warning.split_once("run git ").expect("a command");
    git_in(&one, pull.split(' '));
    assert!(files(&hub).lines().all(|file| one.join(file).exists()), "{pull}");
}

#[test]
fn a_server_that_moves_one_ref_at_a_time_is_told_as_such() {
    let hub = Hub::new(1);
    let task = claims::task(&hub);
    let clone = &hub.clones[0];
    git_in(&hub.bare, ["config", "receive.advertiseAtomic", "false"]);
    let (code, said) = work(clone, &task, claims::WORK);
    assert_eq!(code, Some(0), "{said}");
    let agents = json(clone, &["list", "--fast"]);
    let id = agents["agents"][0]["agent_id"].as_str().expect("an id");
    let output = agent(clone, &["merge", id, "--push"]);
    let said = describe(&output);
    assert!(output.status.code() == Some(4) && said.contains("error[remote-refused]"), "{said}");
    let hint = said.lines().find_map(|line| line.split_once("run git ")).expect("a hint").1;
    git_in(clone, hint.split(' '));
    json(clone, &["merge", id, "--push"]);
    assert!(files(&hub).contains("src/"));
}

#[test]
fn the_claim_moves_with_the_branch_or_neither_does() {
    let hub = Hub::new(2);
    let task = claims::task(&hub);
    let clone = &hub.clones[0];
    let (code, said) = work(clone, &task, claims::WORK);
    assert_eq!(code, Some(0), "{said}");
    let agents = json(clone, &["list", "--fast"]);
    let id = agents["agents"][0]["agent_id"].as_str().expect("an id");
    let done = hub.remote_tip(CLAIM);
    let before = hub.remote_tip(MAIN);
    // Another clone takes the task over while the work lands.
    let taken = taken_over(&hub, &done);
    git_in(&hub.bare, ["update-ref", CLAIM, &done]);
    hub.hook("update", &format!("test $1 != {CLAIM} || git update-ref {CLAIM} {taken}"));
    for _ in ["while it lands", "before it lands"] {
        let output = agent(clone, &["merge", id, "--push"]);
        let said = describe(&output);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.contains("error[claim-lost]"), "{said}");
        assert_eq!(hub.remote_tip(MAIN), before);
        assert_eq!(hub.remote_tip(CLAIM), taken);
    }
    std::fs::remove_file(hub.bare.join("hooks/update")).expect("removed");
    git_in(&hub.bare, ["update-ref", CLAIM, &done]);
    // A hook that refuses the claim alone keeps the branch where it is, too.
    hub.hook("update", &format!("test $1 != {CLAIM}"));
    let output = agent(clone, &["merge", id, "--push"]);
    assert_eq!(output.status.code(), Some(4), "{}", describe(&output));
    assert_eq!(hub.remote_tip(MAIN), before);
    std::fs::remove_file(hub.bare.join("hooks/update")).expect("removed");
    // A claim that is no commit says nothing of any task.
    let blob = git_in(&hub.bare, ["hash-object", "-w", "HEAD"]);
    git_in(&hub.bare, ["update-ref", "refs/agents/claim/blob", &blob]);
    // From another clone, which knows the claim from the remote alone.
    json(&hub.clones[1], &["sync"]);
    let report = json(&hub.clones[1], &["merge", id, "--push"]);
    assert_eq!(report["commit"], hub.remote_tip(MAIN).as_str());
    assert_eq!(tip(&hub.bare, &format!("{CLAIM}^1")), done);
    assert_eq!(claims::state(&hub), "done");
}

/// The claim as another clone takes it over: a commit on top of the newest one.
pub(super) fn taken_over(hub: &Hub, newest: &str) -> String {
    let planted = plant(hub, claims::now(), 60);
    let message = git_in(&hub.bare, ["log", "-1", "--format=%B", &planted]);
    let tree = git_in(&hub.bare, ["rev-parse", &format!("{planted}^{{tree}}")]);
    let words = ["commit-tree", "-p", newest, "-m", &message, &tree];
    let taken = git_in(&hub.bare, words);
    git_in(&hub.bare, ["update-ref", CLAIM, &taken]);
    taken
}

#[test]
fn work_under_a_claim_that_is_held_does_not_land() {
    let hub = Hub::new(1);
    let clone = &hub.clones[0];
    let task = claims::task(&hub);
    // The worker tries to land itself from beside its run, while it holds the claim.
    let program = env!("CARGO_BIN_EXE_git-agent");
    let out = hub.bare.with_file_name("out");
    let script = format!(
        "{}; unset $(env | sed -n 's/^\\(GIT_AGENT_[A-Z_]*\\)=.*/\\1/p'); cd {}; {program} merge \
         $(git for-each-ref --format='%(refname)' 'refs/heads/agent/*') --now --push > {} 2>&1; true",
        claims::WORK,
        clone.display(),
        out.display()
    );
    let (code, said) = work(clone, &task, &script);
    assert_eq!(code, Some(0), "{said}");
    let tried = std::fs::read_to_string(&out).expect("written");
    assert!(tried.contains("error[claim-held]"), "{tried}");
    assert!(!files(&hub).contains("src/two.rs"));
    assert_eq!(state(&json(clone, &["sync"]), "refs/notes/agents"), "equal");
}

/// Not a test: the process that dies. It does nothing unless a step is named.
#[test]
fn child() {
    if let Some(order) = Order::received() {
        match order.words.first() {
            Some(id) => land(&order.directory, id, order.dying()),
            None => ride(&order.directory, order.dying()),
        }
    }
}

/// Runs a train of all agents onto the branch of the remote.
fn ride(clone: &Path, reached: Reached) {
    let options = kill::options(Some(String::new()));
    train::train(&death::ctx(clone, reached), &options, &mut |_| {}).expect("a train");
}

fn land(clone: &Path, id: &str, reached: Reached) {
    let ctx = death::ctx(clone, reached);
    let options = MergeOptions { push: Some(String::new()), ..MergeOptions::default() };
    merge::land(&ctx, id, &options).expect("landed");
}

#[test]
fn the_steps_are_reached_as_they_are_listed() {
    let hub = Hub::new(1);
    let id = ready(&hub.clones[0]);
    let steps = steps_of(|reached| land(&hub.clones[0], &id, reached));
    assert_eq!(steps, push_steps());
}

#[test]
fn whatever_a_kill_leaves_the_same_command_completes() {
    let hub = Hub::new(1);
    let clone = &hub.clones[0];
    for step in push_steps() {
        let before = hub.remote_tip(MAIN);
        let id = ready_with(clone, step);
        death::die_at("sync::push::child", clone, step, &[&id]);
        if step == "merged" {
            json(clone, &["sync"]);
        } else {
            json(clone, &["merge", &id, "--push"]);
        }
        let landed = hub.remote_tip(MAIN);
        assert_eq!(tip(&hub.bare, "main^1"), before, "after {step}");
        assert!(files(&hub).contains(&format!("src/{step}.rs")), "{step}");
        assert_eq!(tip(clone, MAIN), landed, "after {step}");
        assert_eq!(git_in(clone, ["status", "--porcelain"]), "", "{step}");
        assert_eq!(row_of(clone, &id)["state"], "merged", "after {step}");
        assert_eq!(
            hub.remote_tip("refs/notes/agents"),
            tip(clone, "refs/notes/agents"),
            "after {step}"
        );
    }
    let fsck = ["fsck", "--strict", "--no-progress", "--no-dangling"];
    assert_eq!(git_in(&hub.bare, fsck), "");
}

/// As [`ready`], with a file that is named after a step.
fn ready_with(clone: &Path, step: &str) -> String {
    let id = ready(clone);
    let row = row_of(clone, &id);
    let worktree = Path::new(row["worktree_abspath"].as_str().expect("a path"));
    std::fs::remove_file(worktree.join("src/two.rs")).expect("removed");
    std::fs::write(worktree.join(format!("src/{step}.rs")), "pub fn f() {}\n").expect("written");
    id
}

/// Agents of this clone whose work was judged acceptable, each with a file of that name.
fn done(clone: &Path, files: &[&str]) -> Vec<String> {
    let agents = files.iter().map(|file| {
        let id = ready_with(clone, file);
        json(clone, &["verify", &id, "--record"]);
        id
    });
    agents.collect()
}

#[test]
fn a_train_lands_on_the_branch_of_the_remote() {
    let hub = Hub::new(2);
    let [one, two] = [0, 1].map(|n| hub.clones[n].clone());
    let ids = done(&one, &["a", "b"]);
    let theirs = advance(&two, "theirs.txt");
    let report = json(&one, &["train", "--all", "--push", "--dry-run"]);
    assert_eq!(report["targets"][0]["before"], theirs.as_str());
    assert_eq!(hub.remote_tip(MAIN), theirs);
    let report = json(&one, &["train", "--all", "--push"]);
    let target = &report["targets"][0];
    assert_eq!(target["remote"], "origin", "{report:#}");
    assert_eq!(target["oid"], hub.remote_tip(MAIN).as_str());
    let there = files(&hub);
    for file in ["src/a.rs", "src/b.rs", "theirs.txt"] {
        assert!(there.contains(file), "{file}: {there}");
    }
    assert_eq!(tip(&one, MAIN), hub.remote_tip(MAIN));
    assert_eq!(git_in(&one, ["status", "--porcelain"]), "");
    json(&two, &["sync"]);
    for id in &ids {
        assert_eq!(row_of(&two, id)["state"], "merged");
    }
    // The same for an agent without a place in it, and a server that refuses.
    done(&one, &["c"]);
    hub.hook("pre-receive", "echo 'ask on Monday' >&2; exit 1");
    let output = agent(&one, &["merge", "--all", "--push"]);
    let said = describe(&output);
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains("ask on Monday"), "{said}");
    std::fs::remove_file(hub.bare.join("hooks/pre-receive")).expect("removed");
    json(&one, &["merge", "--all", "--push"]);
    assert!(files(&hub).contains("src/c.rs"));
}

#[test]
fn a_train_onto_a_remote_that_dies_at_any_step_goes_on() {
    let hub = Hub::new(1);
    let clone = &hub.clones[0];
    // What lies between is the same for one agent.
    for step in ["claims-read", "remote-pushed", "moved", "merged"] {
        let before = hub.remote_tip(MAIN);
        let names = ["a", "b"].map(|name| format!("{step}-{name}"));
        let ids = done(clone, &[&names[0], &names[1]]);
        death::die_at("sync::push::child", clone, step, &[]);
        let there = files(&hub);
        let landed = names.iter().filter(|name| there.contains(*name)).count();
        let expected = if step == "claims-read" { 0 } else { 2 };
        assert_eq!(landed, expected, "after {step}: both or none");
        ride(clone, death::unwatched());
        let range = format!("{before}..{MAIN}");
        let count = ["rev-list", "--count", "--first-parent", &range];
        assert_eq!(git_in(&hub.bare, count), "2", "after {step}");
        assert_eq!(tip(clone, MAIN), hub.remote_tip(MAIN), "after {step}");
        assert_eq!(git_in(clone, ["status", "--porcelain"]), "", "{step}");
        for id in &ids {
            assert_eq!(row_of(clone, id)["state"], "merged", "after {step}");
        }
    }
}

#[test]
fn an_agent_that_lost_its_claim_leaves_the_train_and_the_others_land() {
    let hub = Hub::new(1);
    let clone = &hub.clones[0];
    let task = claims::task(&hub);
    let (code, said) = work(clone, &task, claims::WORK);
    assert_eq!(code, Some(0), "{said}");
    taken_over(&hub, &hub.remote_tip(CLAIM));
    let others = done(clone, &["a", "b"]);
    let output = agent(clone, &["train", "--all", "--push", "--format=json"]);
    let said = describe(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    for item in report["items"].as_array().expect("items") {
        let id = item["agent_id"].as_str().expect("an id");
        if others.iter().any(|other| other == id) {
            assert_eq!(item["outcome"], "landed", "{report:#}");
        } else {
            assert_eq!(item["error"]["code"], "claim-lost", "{report:#}");
        }
    }
    let there = files(&hub);
    assert!(there.contains("src/a.rs") && there.contains("src/b.rs"));
    assert!(!there.contains("src/two.rs"), "{there}");
}

#[test]
fn the_lock_of_a_killed_fetch_is_named_and_not_taken_for_a_missing_branch() {
    let hub = Hub::new(2);
    let one = &hub.clones[0];
    let id = ready(one);
    // Something new, which has to be fetched.
    advance(&hub.clones[1], "new.txt");
    let lock = one.join(".git/refs/remotes/origin/main.lock");
    std::fs::create_dir_all(lock.parent().expect("a parent")).expect("made");
    std::fs::write(&lock, "").expect("written");
    let output = agent(one, &["merge", &id, "--push"]);
    let said = describe(&output);
    assert_eq!(output.status.code(), Some(5), "{said}");
    assert!(said.contains("main.lock") && said.contains("doctor --fix"), "{said}");
    std::fs::remove_file(&lock).expect("removed");
    assert_eq!(json(one, &["merge", &id, "--push"])["outcome"], "merged");
}

#[test]
fn a_lock_that_a_remote_keeps_is_told_and_not_taken_for_a_race() {
    let hub = Hub::new(1);
    let one = &hub.clones[0];
    let id = ready(one);
    let before = hub.remote_tip(MAIN);
    let lock = hub.bare.join("refs/heads/main.lock");
    std::fs::write(&lock, "").expect("written");
    let output = agent(one, &["merge", &id, "--push"]);
    let said = describe(&output);
    assert_eq!(output.status.code(), Some(5), "{said}");
    let told =
        said.contains("error[lock-timeout]: the remote `origin` does not move refs/heads/main");
    assert!(told && said.contains("main.lock"), "{said}");
    assert_eq!(hub.remote_tip(MAIN), before);
    std::fs::remove_file(&lock).expect("removed");
    assert_eq!(json(one, &["merge", &id, "--push"])["outcome"], "merged");
    assert!(files(&hub).contains("src/two.rs"));
}

#[test]
fn no_hook_runs_that_another_clone_chose_by_what_it_began_from() {
    let hub = Hub::new(2);
    let [one, two] = [0, 1].map(|n| hub.clones[n].clone());
    let escaped = two.with_file_name("escaped");
    let hook = format!("[\"touch {}\"]", escaped.display());
    let settings = format!(
        "[bundle]\nrequired = false\n[hooks]\nbefore_merge = {hook}\nafter_merge = {hook}\nbefore_discard = {hook}\n"
    );
    git_in(&one, ["checkout", "--quiet", "-b", "topic"]);
    std::fs::create_dir_all(one.join(".config")).expect("made");
    std::fs::write(one.join(".config/git-agent.toml"), settings).expect("written");
    git_in(&one, ["add", "--all"]);
    git_in(&one, ["commit", "--quiet", "-m", "settings"]);
    git_in(&one, ["push", "--quiet", "origin", "topic"]);
    let [landed, left] = [0, 1].map(|_| ready(&one));
    for id in [&landed, &left] {
        json(&one, &["commit", id, "-m", "work"]);
    }
    json(&one, &["sync", "origin"]);
    git_in(&two, ["fetch", "--quiet"]);
    json(&two, &["sync", "origin"]);
    let merged = json(&two, &["merge", &landed, "--push"]);
    assert_eq!(merged["outcome"], "merged", "{merged:#}");
    json(&two, &["discard", &left, "--force"]);
    assert!(!escaped.exists(), "it is the word of another clone");
    // Where it was made, they run.
    json(&one, &["discard", &left, "--force"]);
    assert!(escaped.exists());
}

#[test]
fn a_remote_that_pushes_to_another_repository_lands_nothing() {
    let hub = Hub::new(1);
    let one = hub.clones[0].clone();
    let id = ready(&one);
    let fork = hub.bare.with_file_name("fork.git");
    let words = ["clone", "--quiet", "--bare"];
    git_in(&one, [&words[..], &[path(&hub.bare), path(&fork)]].concat());
    let before = tip(&fork, MAIN);
    git_in(&one, ["remote", "set-url", "--push", "origin", path(&fork)]);
    // What is pushed is nowhere to be seen then, and trying again cannot help.
    let claim = ["run", &id, "--sync=origin", "--claim=one", "--", "true"];
    for words in
        [&["merge", &id, "--push"][..], &["train", &id, "--push"], &["sync"], &["pr", &id], &claim]
    {
        let output = agent(&one, words);
        let said = describe(&output);
        assert!(said.contains("is fetched from one repository and pushed to another"), "{said}");
        assert_eq!([tip(&fork, MAIN), hub.remote_tip(MAIN)], [before.clone(), before.clone()]);
        assert_eq!(git_in(&fork, ["for-each-ref", "--format=%(refname)"]), MAIN, "{words:?}");
    }
    // Both of them, and by a rule of the configuration.
    git_in(&one, ["remote", "set-url", "--push", "--add", "origin", path(&hub.bare)]);
    let refused = || describe(&agent(&one, &["merge", &id, "--push"]));
    assert!(refused().contains("pushed to another"), "{}", refused());
    git_in(&one, ["config", "--unset-all", "remote.origin.pushurl"]);
    let rule = format!("url.{}.pushInsteadOf", path(&fork));
    let url = git_in(&one, ["config", "remote.origin.url"]);
    git_in(&one, ["config", &rule, &url]);
    assert!(refused().contains("pushed to another"), "{}", refused());
    assert_eq!([tip(&fork, MAIN), hub.remote_tip(MAIN)], [before.clone(), before.clone()]);
    git_in(&one, ["config", "--unset", &rule]);
    // The same repository by a path from here, and by another protocol.
    let up = Path::new("..")
        .join(hub.bare.strip_prefix(one.parent().expect("a parent")).expect("beside"));
    git_in(&one, ["remote", "set-url", "--push", "origin", path(&up)]);
    assert_eq!(json(&one, &["merge", &id, "--push", "--dry-run"])["outcome"], "planned");
    let same = format!("file://{}", hub.bare.display());
    git_in(&one, ["remote", "set-url", "--push", "origin", &same]);
    assert_eq!(json(&one, &["merge", &id, "--push"])["outcome"], "merged");
    assert_ne!(hub.remote_tip(MAIN), before);
}

fn path(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

#[test]
fn a_local_branch_of_another_clones_agent_hides_nothing_newer() {
    let hub = Hub::new(2);
    let [one, two] = [0, 1].map(|n| hub.clones[n].clone());
    let id = ready(&one);
    json(&one, &["commit", &id, "-m", "two"]);
    json(&one, &["mark", "done", &id]);
    json(&one, &["sync"]);
    json(&two, &["sync"]);
    let branch = row_of(&one, &id)["branch"].as_str().expect("a branch").to_owned();
    // A person looks at it, and it goes on elsewhere.
    git_in(&two, ["branch", "--quiet", &branch, &format!("origin/{branch}")]);
    let worktree = PathBuf::from(row_of(&one, &id)["worktree_abspath"].as_str().expect("a path"));
    std::fs::write(worktree.join("src/two.rs"), "pub fn fixed() {}\n").expect("written");
    json(&one, &["commit", &id, "-m", "fixed"]);
    describe(&agent(&one, &["mark", "done", &id]));
    json(&one, &["sync"]);
    let synced = json(&two, &["sync"]);
    assert_eq!(synced["branches"], serde_json::json!([]), "{synced}");
    let full = format!("refs/heads/{branch}");
    assert_eq!(json(&two, &["verify", &id])["tip"], tip(&one, &full).as_str());
    // Where each has what the other has not, neither is taken for the work unasked.
    let other =
        git_in(&two, ["commit-tree", "-p", &full, "-m", "other", &format!("{full}^{{tree}}")]);
    git_in(&two, ["branch", "--quiet", "--force", &branch, &other]);
    for words in [&["verify", &id][..], &["merge", &id], &["merge", &id, "--push"]] {
        let output = agent(&two, words);
        let said = describe(&output);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.contains("have gone apart"), "{said}");
    }
    git_in(&two, ["branch", "--quiet", "--move", &branch, &format!("{branch}-here")]);
    json(&two, &["merge", &id, "--push"]);
    assert_eq!(git_in(&hub.bare, ["show", "main:src/two.rs"]), "pub fn fixed() {}");
}

#[test]
fn a_landing_that_was_pushed_away_by_force_lands_again() {
    let hub = Hub::new(1);
    let one = hub.clones[0].clone();
    let id = ready(&one);
    json(&one, &["commit", &id, "-m", "two"]);
    let before = hub.remote_tip(MAIN);
    json(&one, &["merge", &id, "--push"]);
    git_in(&one, ["push", "--quiet", "--force", "origin", &format!("{before}:{MAIN}")]);
    git_in(&one, ["fetch", "--quiet"]);
    git_in(&one, ["reset", "--quiet", "--hard", "origin/main"]);
    assert_eq!(row_of(&one, &id)["state"], "idle");
    let report = json(&one, &["merge", &id, "--push"]);
    assert_eq!(report["outcome"], "merged", "{report:#}");
    assert!(files(&hub).contains("src/two.rs"));
}

#[test]
fn what_an_agent_takes_back_lands_after_another_clone_landed_it() {
    for method in ["--squash", "--no-ff"] {
        let hub = Hub::new(2);
        let [one, two] = [&hub.clones[0], &hub.clones[1]];
        let spawned = json(one, &["spawn", "-m", "do it", "--name=x", "--no-bundle"]);
        let worktree = PathBuf::from(spawned["worktree_abspath"].as_str().expect("a path"));
        for name in ["kept.txt", "wrong.txt"] {
            std::fs::write(worktree.join(name), name).expect("written");
            json(one, &["commit", "x", "-m", name]);
        }
        json(one, &["mark", "done", "x", "--summary", "both"]);
        json(one, &["sync"]);
        json(two, &["sync"]);
        json(two, &["merge", "x", method]);
        git_in(two, ["push", "--quiet", "origin", "main"]);
        json(two, &["sync"]);
        git_in(one, ["pull", "--quiet", "origin", "main"]);
        json(one, &["sync"]);
        assert_eq!(json(one, &["show", "x"])["state"], "merged", "{method}");
        std::fs::remove_file(worktree.join("wrong.txt")).expect("removed");
        std::fs::write(worktree.join("more.txt"), "more").expect("written");
        json(one, &["commit", "x", "-m", "one of them was wrong"]);
        let shown = json(one, &["show", "x"]);
        assert_eq!((&shown["state"], &shown["ahead"]), (&"idle".into(), &1.into()), "{shown:#}");
        let diff = json(one, &["diff", "x"]);
        let paths: Vec<_> = diff["changes"].as_array().expect("a list").iter().collect();
        let paths: Vec<_> = paths.iter().map(|one| &one["path"]).collect();
        assert_eq!(paths, ["more.txt", "wrong.txt"], "{method}");
        let before = git_in(one, ["rev-parse", "main"]);
        json(one, &["merge", "x", method]);
        let changed = git_in(one, ["diff", "--name-only", "--no-renames", &before, "main"]);
        assert_eq!(changed, "more.txt\nwrong.txt", "{method}");
    }
}
