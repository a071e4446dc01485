use super::{Hub, agent, json, row, tip};
use crate::support::agent::{agent_command, describe};
use crate::support::death::{self, Order};
use crate::support::git_in;
use git_agent::error::Code;
use git_agent::ops::sync::claim::{self, Acquired, STEPS};
use std::path::{Path, PathBuf};
use std::process::Command;

pub(super) const CLAIM: &str = "refs/agents/claim/task-1";

/// A task beside the clones whose work any command can do.
pub(super) fn task(hub: &Hub) -> String {
    let path = hub.bare.with_file_name("task-1.toml");
    let text = "role = \"edit-local\"\ntask = \"Add a second function to the library.\"\n\
                [scope]\nwhitelist = [\"src/**\"]\n[bundle]\nrequired = false\n";
    std::fs::write(&path, text).expect("written");
    path.to_str().expect("UTF-8").to_owned()
}

/// The command of a worker that does the task by this shell command.
fn worker(clone: &Path, task: &str, script: &str) -> Command {
    let mut command = agent_command(clone);
    let words = ["run", task, "--claim=task-1", "--sync=origin", "--sandbox=off", "--"];
    command.args(words).args(["sh", "-c", script]);
    command
}

pub(super) const WORK: &str = "echo 'pub fn two() {}' >> src/lib.rs";

pub(super) fn work(clone: &Path, task: &str, script: &str) -> (Option<i32>, String) {
    let output = worker(clone, task, script).output().expect("starts");
    (output.status.code(), describe(&output))
}

/// Not a test: the process that dies. It does nothing unless a step is named.
#[test]
fn child() {
    if let Some(order) = Order::received() {
        let ctx = death::ctx(&order.directory, order.dying());
        let acquired = claim::acquire(&ctx, None, "task-1", None).expect("an answer");
        assert!(matches!(acquired, Acquired::Held(_)));
    }
}

pub(super) fn state(hub: &Hub) -> String {
    let message = git_in(&hub.bare, ["log", "-1", "--format=%B", CLAIM]);
    let line = message.lines().find_map(|line| line.strip_prefix("Claim-State: "));
    line.expect("a state").to_owned()
}

#[test]
fn a_task_is_done_once_and_the_second_worker_is_told_so() {
    let hub = Hub::new(2);
    let task = task(&hub);
    let [one, two] = [0, 1].map(|n| hub.clones[n].clone());
    let (code, said) = work(&one, &task, WORK);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(state(&hub), "done");
    // What was not committed would have stayed behind.
    let branches = git_in(&hub.bare, ["for-each-ref", "--format=%(refname)", "refs/heads/agent"]);
    let library = git_in(&hub.bare, ["show", &format!("{}:src/lib.rs", branches.trim())]);
    assert!(library.contains("pub fn two"), "{library}");
    assert_eq!(hub.remote_tip("refs/notes/agents"), tip(&one, "refs/notes/agents"));
    for clone in [&two, &one] {
        let (code, said) = work(clone, &task, "echo must not run; exit 7");
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("task-1 is done already by agent"), "{said}");
        assert_eq!(
            json(clone, &["list", "--all", "--fast"])["agents"].as_array().map(Vec::len),
            Some(1)
        );
    }
    // Nothing of the machine is in a claim.
    let message = git_in(&hub.bare, ["log", "--format=%B", CLAIM]);
    assert!(
        !message.contains(hub.bare.parent().and_then(Path::to_str).expect("UTF-8")),
        "{message}"
    );
}

#[test]
fn of_many_workers_one_works_and_the_others_end_with_3() {
    let hub = Hub::new(6);
    let task = task(&hub);
    // The winner works until every other worker has ended.
    let open = hub.bare.with_file_name("open");
    let script = format!("{WORK}; while ! test -e {}; do sleep 0.05; done", open.display());
    let mut workers: Vec<_> = hub
        .clones
        .iter()
        .map(|clone| {
            worker(clone, &task, &script)
                .stdout(std::process::Stdio::null())
                .stderr(std::process::Stdio::null())
                .spawn()
                .expect("starts")
        })
        .collect();
    let mut codes = Vec::new();
    while codes.len() < 5 {
        for worker in &mut workers {
            let ended = worker.try_wait().expect("waited for");
            if let Some(status) = ended.filter(|_| !codes.iter().any(|(id, _)| *id == worker.id()))
            {
                codes.push((worker.id(), status.code()));
            }
        }
        crate::support::pause();
    }
    assert!(codes.iter().all(|(_, code)| *code == Some(3)), "{codes:?}");
    std::fs::write(&open, "").expect("written");
    let codes: Vec<_> =
        workers.iter_mut().map(|worker| worker.wait().expect("ends").code()).collect();
    assert_eq!(codes.iter().filter(|code| **code == Some(0)).count(), 1, "{codes:?}");
    assert_eq!(state(&hub), "done");
}

#[test]
fn work_that_fails_gives_the_claim_back_and_its_status_is_not_one_of_ours() {
    let hub = Hub::new(2);
    let task = task(&hub);
    let [one, two] = [0, 1].map(|n| hub.clones[n].clone());
    for (script, expected) in [("exit 3", 1), ("exit 5", 1), ("echo x > README.md", 1)] {
        let (code, said) = work(&one, &task, script);
        assert_eq!(code, Some(expected), "{script}: {said}");
        assert_eq!(hub.remote_tip(CLAIM), "", "{script}");
    }
    let words = ["run", &task, "--claim=task-1", "--sync=origin", "--sandbox=off"];
    let slow = ["--timeout=1s", "--", "sleep", "1000"];
    let output = agent(&one, &[&words[..], &slow].concat());
    assert_eq!(output.status.code(), Some(124), "{}", describe(&output));
    let (code, said) = work(&two, &task, WORK);
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn work_that_asks_is_not_done_before_it_has_its_answer() {
    let hub = Hub::new(1);
    let task = task(&hub);
    let clone = &hub.clones[0];
    let program = env!("CARGO_BIN_EXE_git-agent");
    let ask = "send --type=clarify --to=user --payload question=which? --payload context=x >&2";
    let (code, said) = work(clone, &task, &format!("{WORK}; {program} {ask}"));
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("waits for an answer"), "{said}");
    assert_eq!(state(&hub), "held", "{said}");
    let agent = json(clone, &["list"])["agents"][0]["short_id"].clone();
    let agent = agent.as_str().expect("an id");
    json(clone, &["send", "--type=notify", "--from=user", "--to", agent, "--no-wake", "this one"]);
    // It has not gone on with the answer, so what it left is not done.
    let (code, said) = work(clone, &task, "exit 7");
    assert_eq!((code, state(&hub).as_str()), (Some(1), "released"), "{said}");
    let (code, said) = work(clone, &task, WORK);
    assert_eq!((code, state(&hub).as_str()), (Some(0), "done"), "{said}");
}

#[test]
fn work_on_a_typed_task_that_asks_goes_on_with_the_same_agent() {
    let hub = Hub::new(1);
    let clone = &hub.clones[0];
    let program = env!("CARGO_BIN_EXE_git-agent");
    let ask = "send --type=clarify --to=user --payload question=which? --payload context=x >&2";
    let typed = ["run", "-m", "Add a second function to the library.", "--scope=src/**"];
    let claim = ["--claim=task-1", "--sync=origin", "--sandbox=off", "--", "sh", "-c"];
    let work = |script: &str| {
        let output = agent(clone, &[&typed[..], &claim, &[script]].concat());
        (output.status.code(), describe(&output))
    };
    let (code, said) = work(&format!("{WORK}; {program} {ask}"));
    assert_eq!(code, Some(1), "{said}");
    let asker = json(clone, &["list"])["agents"][0]["agent_id"].clone();
    let asker = asker.as_str().expect("an id");
    json(clone, &["send", "--type=notify", "--from=user", "--to", asker, "--no-wake", "this one"]);
    let (code, said) = work("true");
    assert_eq!((code, state(&hub).as_str()), (Some(0), "done"), "{said}");
    let agents = json(clone, &["list", "--all"]);
    assert_eq!(agents["agents"].as_array().map(Vec::len), Some(1), "{agents:#}");
    assert_eq!(agents["agents"][0]["state"], "done");
}

#[test]
fn what_an_agent_that_asked_declares_stands() {
    let hub = Hub::new(1);
    let clone = &hub.clones[0];
    let program = env!("CARGO_BIN_EXE_git-agent");
    let ask = "send --type=clarify --to=user --payload question=which? --payload context=x >&2";
    let task = task(&hub);
    let (code, said) =
        work(clone, &task, &format!("{WORK}; {program} {ask}; {program} mark done >&2"));
    assert_eq!((code, state(&hub).as_str()), (Some(0), "done"), "{said}");
    assert_eq!(json(clone, &["list"])["agents"][0]["state"], "done");
}

#[test]
fn a_claim_that_was_taken_over_and_given_back_is_lost_to_its_first_holder() {
    let hub = Hub::new(2);
    let task = task(&hub);
    let [one, two] = [0, 1].map(|n| hub.clones[n].clone());
    git_in(&one, ["config", "agent.claimTtl", "1s"]);
    let (code, said) = work(&one, &task, WORK);
    assert_eq!(code, Some(0), "{said}");
    let agents = json(&one, &["list", "--fast"]);
    let id = agents["agents"][0]["agent_id"].as_str().expect("an id");
    // As if its first holder had been stopped before it could say that the work is done.
    let held = git_in(&hub.bare, ["rev-parse", &format!("{CLAIM}^1")]);
    git_in(&hub.bare, ["update-ref", CLAIM, &held]);
    while let (code, said) = work(&two, &task, "exit 3")
        && code != Some(1)
    {
        assert_eq!(code, Some(3), "{said}");
    }
    assert_eq!(state(&hub), "released");
    git_in(&hub.bare, ["merge-base", "--is-ancestor", &held, CLAIM]);
    let output = agent(&one, &["merge", id, "--push"]);
    let said = describe(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("error[claim-lost]"), "{said}");
    // The task is free, and what is done under a new claim lands.
    let (code, said) = work(&two, &task, WORK);
    assert_eq!(code, Some(0), "{said}");
    let agents = json(&two, &["list", "--fast"]);
    let agents = agents["agents"].as_array().expect("agents");
    let is_done = |agent: &&serde_json::Value| agent["state"] == "done" && agent["agent_id"] != id;
    let done = agents.iter().find(is_done).expect("done");
    json(&two, &["merge", done["agent_id"].as_str().expect("an id"), "--push"]);
}

/// A claim as another clone would have written it, at that time by its clock.
pub(super) fn plant(hub: &Hub, seconds: i64, ttl: u32) -> String {
    plant_on(hub, &[], seconds, ttl)
}

/// As [`plant`], on top of a claim that is there.
fn plant_on(hub: &Hub, below: &[&str], seconds: i64, ttl: u32) -> String {
    let message = format!(
        "agent: claim task-1\n\nClaim-State: held\nClaim-Clone: 0123456789abcdef\nClaim-Nonce: 00\nClaim-Ttl: {ttl}\nGit-Agent: 1\n"
    );
    let tree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
    let date = format!("@{seconds} +0000");
    let mut command = crate::support::isolated("git", &hub.bare);
    command.args(["hash-object", "-t", "tree", "-w", "/dev/null"]);
    assert!(command.output().expect("starts").status.success());
    let mut command = crate::support::isolated("git", &hub.bare);
    command.args(["commit-tree", tree, "-m", &message]).env("GIT_COMMITTER_DATE", date);
    command.args(below.iter().flat_map(|oid| ["-p", oid]));
    let output = command.output().expect("starts");
    let oid = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    git_in(&hub.bare, ["update-ref", CLAIM, &oid]);
    oid
}

pub(super) fn now() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.expect("after 1970").as_secs().cast_signed()
}

#[test]
fn a_dead_claim_is_taken_over_whatever_the_clocks_say_and_a_recent_one_is_not() {
    let hub = Hub::new(1);
    let task = task(&hub);
    let clone = &hub.clones[0];
    plant(&hub, now(), 3600);
    let (code, said) = work(clone, &task, WORK);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("clone 0123456789abcdef"), "{said}");
    // An hour behind, and an hour ahead.
    for seconds in [now() - 3600, now() + 3600] {
        let old = plant(&hub, seconds, 1);
        let (code, said) = work(clone, &task, WORK);
        assert_eq!(code, Some(0), "{said}");
        assert_eq!(state(&hub), "done");
        git_in(&hub.bare, ["merge-base", "--is-ancestor", &old, CLAIM]);
    }
}

#[test]
fn a_live_claim_whose_clock_is_wrong_is_not_taken() {
    let hub = Hub::new(1);
    let task = task(&hub);
    let clone = &hub.clones[0];
    plant(&hub, now() - 3600, 3600);
    // It is listed several times before it would be taken: the first push of any kind is a sign of life.
    let mut watching = worker(clone, &task, WORK)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("starts");
    let copies: PathBuf = clone.join(".git/agents/claims/task-1.lock");
    while !copies.exists() {
        crate::support::pause();
    }
    let _ = watching.kill();
    let _ = watching.wait();
    assert_eq!(state(&hub), "held");
    // With a short time to wait, and a holder that lives.
    plant(&hub, now() - 3600, 4);
    let mut watching = worker(clone, &task, WORK)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("starts");
    for number in 0.. {
        if let Some(status) = watching.try_wait().expect("waited for") {
            assert_eq!(status.code(), Some(3));
            break;
        }
        plant(&hub, now() - 3600 - number, 4);
    }
    assert_eq!(state(&hub), "held");
}

#[test]
fn a_worker_whose_claim_was_taken_over_ends_with_3_and_its_work_is_kept() {
    let hub = Hub::new(1);
    let task = task(&hub);
    let clone = &hub.clones[0];
    let claim = hub.bare.join(CLAIM);
    let script = format!("{WORK}; cp {0}.taken {0}", claim.display());
    let taken = plant(&hub, now(), 60);
    git_in(&hub.bare, ["update-ref", "-d", CLAIM]);
    std::fs::create_dir_all(claim.parent().expect("a directory")).expect("made");
    std::fs::write(claim.with_file_name("task-1.taken"), format!("{taken}\n")).expect("written");
    let (code, said) = work(clone, &task, &script);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("error[claim-lost]"), "{said}");
    assert_eq!(hub.remote_tip(CLAIM), taken);
    let agents = json(clone, &["list", "--all", "--fast"]);
    assert_eq!(agents["agents"][0]["state"], "done", "{agents:#}");
    // Nor does it land where the remote is not asked, from where a `git push` could bring it there.
    let id = agents["agents"][0]["agent_id"].as_str().expect("an id");
    for landing in [&["merge", id][..], &["merge", id, "-n"], &["merge", id, "--push"]] {
        let output = agent(clone, landing);
        let said = describe(&output);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.contains("error[claim-lost]"), "{said}");
    }
    let output = agent(clone, &["train", id]);
    let said = describe(&output);
    assert!(said.contains("another clone took over the task `task-1`"), "{said}");
    assert_eq!(output.status.code(), Some(1), "{said}");
    git_in(&hub.bare, ["update-ref", "-d", CLAIM]);
    json(clone, &["merge", id, "--push"]);
}

/// Works as if a kill had come between the work and the word that it is done; gives the agent's id and the claim as it was held.
fn killed_at_the_end(hub: &Hub, clone: &Path, task: &str) -> (String, String) {
    let (code, said) = work(clone, task, WORK);
    assert_eq!(code, Some(0), "{said}");
    let agents = json(clone, &["list", "--fast"]);
    let id = agents["agents"][0]["agent_id"].as_str().expect("an id").to_owned();
    let held = git_in(&hub.bare, ["rev-parse", &format!("{CLAIM}^1")]);
    let message = git_in(&hub.bare, ["log", "-1", "--format=%B", &held]);
    let nonce = message.lines().find_map(|line| line.strip_prefix("Claim-Nonce: "));
    let record = clone.join(".git/agents/claims/task-1");
    std::fs::write(&record, format!("{}\n{id}\n", nonce.expect("a nonce"))).expect("written");
    (id, held)
}

#[test]
fn an_agent_whose_task_another_clone_has_lands_in_no_clone() {
    let hub = Hub::new(1);
    let task = task(&hub);
    let clone = &hub.clones[0];
    let (id, _) = killed_at_the_end(&hub, clone, &task);
    plant(&hub, now(), 60);
    let (code, said) = work(clone, &task, WORK);
    assert_eq!(code, Some(3), "{said}");
    let output = agent(clone, &["merge", &id]);
    let said = describe(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("error[claim-lost]") && said.contains("--push"), "{said}");
}

#[test]
fn an_agent_that_has_its_task_again_lands() {
    let hub = Hub::new(1);
    let task = task(&hub);
    let clone = &hub.clones[0];
    let (id, held) = killed_at_the_end(&hub, clone, &task);
    plant_on(&hub, &[&held], now(), 60);
    json(clone, &["sync"]);
    let output = agent(clone, &["merge", &id]);
    assert!(describe(&output).contains("error[claim-lost]"), "{}", describe(&output));
    // What this clone had is there again.
    git_in(&hub.bare, ["update-ref", CLAIM, &held]);
    let (code, said) = work(clone, &task, "true");
    assert_eq!(code, Some(0), "{said}");
    json(clone, &["merge", &id]);
}

#[test]
fn what_a_killed_command_left_lands_nowhere_once_a_sync_saw_its_task_taken_over() {
    let hub = Hub::new(1);
    let task = task(&hub);
    let clone = &hub.clones[0];
    let (id, held) = killed_at_the_end(&hub, clone, &task);
    // Its own claim, or one that was put in its place, is no takeover.
    git_in(&hub.bare, ["update-ref", CLAIM, &held]);
    json(clone, &["sync"]);
    plant(&hub, now(), 60);
    json(clone, &["sync"]);
    json(clone, &["merge", &id, "-n"]);
    plant_on(&hub, &[&held], now(), 60);
    for verb in ["pr", "sync", "merge", "train"] {
        let words: &[&str] = if verb == "sync" { &["sync"] } else { &[verb, &id] };
        let output = agent(clone, words);
        let said = describe(&output);
        assert_eq!(output.status.success(), verb == "sync", "{said}");
        assert!(verb == "sync" || said.contains("another clone took over the task"), "{said}");
        if verb == "pr" {
            // What it saw is forgotten, so that the sync has to find it.
            let lost = clone.join(".git/agents").join(&id[..8]).join("claim-lost");
            std::fs::remove_file(lost).expect("noted");
        }
    }
    let offered = git_in(&hub.bare, ["for-each-ref", "--format=%(refname)", "refs/heads/"]);
    assert_eq!(offered.lines().count(), 2, "{offered}");
}

#[test]
fn a_claim_that_is_taken_over_ends_the_command() {
    let hub = Hub::new(1);
    let task = task(&hub);
    let clone = &hub.clones[0];
    git_in(clone, ["config", "agent.claimTtl", "1s"]);
    let taken = plant(&hub, now(), 60);
    git_in(&hub.bare, ["update-ref", "-d", CLAIM]);
    let taking = format!("git -C {} update-ref {CLAIM} {taken}", hub.bare.display());
    let (code, said) = work(clone, &task, &format!("{WORK}; {taking}; sleep 1000"));
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("error[claim-lost]") && said.contains("stopped"), "{said}");
    assert_eq!(hub.remote_tip(CLAIM), taken);
    let agents = json(clone, &["list", "--all", "--fast"]);
    let id = agents["agents"][0]["agent_id"].as_str().expect("an id");
    let shown = json(clone, &["show", id]);
    assert_eq!(shown["run"]["ended"], "stopped", "{shown:#}");
}

#[test]
fn a_heartbeat_keeps_a_claim_and_needs_no_right_to_force() {
    let hub = Hub::new(1);
    let task = task(&hub);
    let clone = &hub.clones[0];
    git_in(&hub.bare, ["config", "receive.denyNonFastForwards", "true"]);
    git_in(clone, ["config", "agent.claimTtl", "1s"]);
    // The work waits for the third commit of the claim.
    let count = format!("git -C {} rev-list --count {CLAIM}", hub.bare.display());
    let script = format!("{WORK}; while test $({count}) -lt 3; do sleep 0.05; done");
    let (code, said) = work(clone, &task, &script);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(state(&hub), "done");
}

#[test]
fn whatever_a_kill_leaves_the_same_clone_takes_its_claim_again_at_once() {
    for step in STEPS {
        let hub = Hub::new(2);
        let task = task(&hub);
        let [one, two] = [0, 1].map(|n| hub.clones[n].clone());
        death::die_at("sync::claims::child", &one, step, &[]);
        if *step != "claim-recorded" {
            let (code, said) = work(&two, &task, WORK);
            assert_eq!(code, Some(3), "after {step}: {said}");
        }
        let (code, said) = work(&one, &task, WORK);
        assert_eq!(code, Some(0), "after {step}: {said}");
        assert_eq!(state(&hub), "done", "after {step}");
    }
}

#[test]
fn a_push_that_fails_lets_no_clone_forget_its_claim_and_a_copy_of_it_takes_none() {
    let hub = Hub::new(2);
    let task = task(&hub);
    let [one, two] = [0, 1].map(|n| hub.clones[n].clone());
    death::die_at("sync::claims::child", &one, "claim-taken", &[]);
    git_in(&one, ["config", "remote.origin.receivepack", "false"]);
    for _ in 0..2 {
        let (code, said) = work(&one, &task, WORK);
        assert_eq!(code, Some(4), "{said}");
    }
    git_in(&one, ["config", "--unset", "remote.origin.receivepack"]);
    // A copy knows all that this clone does.
    let copy = one.with_file_name("copy");
    let copied = Command::new("cp").arg("-a").args([&one, &copy]).status();
    assert!(copied.expect("starts").success());
    let acquire =
        |clone: &Path| claim::acquire(&death::ctx(clone, death::unwatched()), None, "task-1", None);
    let held = acquire(&one).expect("it is its own");
    assert!(matches!(held, Acquired::Held(_)));
    for other in [&copy, &two] {
        let error = acquire(other).expect_err("another one holds it");
        assert_eq!(error.code(), Code::ClaimHeld);
    }
    drop(held);
    let (code, said) = work(&one, &task, WORK);
    assert_eq!((code, state(&hub).as_str()), (Some(0), "done"), "{said}");
}

#[test]
fn work_that_was_accepted_before_its_worker_died_is_not_done_again() {
    let hub = Hub::new(1);
    let task = task(&hub);
    let clone = &hub.clones[0];
    // The remote is away when the rows are to be sent.
    let script = format!("{WORK}; mv {0} {0}.away", hub.bare.display());
    let (code, said) = work(clone, &task, &script);
    assert_eq!(code, Some(4), "{said}");
    std::fs::rename(hub.bare.with_extension("git.away"), &hub.bare).expect("renamed");
    let (code, said) = work(clone, &task, "exit 7");
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(state(&hub), "done");
    assert_eq!(
        json(clone, &["list", "--all", "--fast"])["agents"].as_array().map(Vec::len),
        Some(1)
    );
}

#[test]
fn of_many_clones_one_makes_the_agent_and_the_same_line_again_finds_it() {
    let hub = Hub::new(3);
    let task = task(&hub);
    let [one, two, three] = [0, 1, 2].map(|n| hub.clones[n].clone());
    let words = ["spawn", &task, "--claim=task-1", "--sync=origin"];
    let made = json(&one, &words);
    assert_eq!(made["schema"], "git-agent.spawn/2", "{made:#}");
    let again = json(&one, &words);
    assert_eq!(again["state"], "held", "{again:#}");
    assert_eq!(again["agent_id"], made["agent_id"]);
    let message = git_in(&hub.bare, ["log", "-1", "--format=%B", CLAIM]);
    let id = made["agent_id"].as_str().expect("an id");
    assert!(message.contains(&format!("Agent-Id: {id}")), "{message}");
    let output = agent(&two, &words);
    assert_eq!(output.status.code(), Some(3), "{}", describe(&output));
    // The clone that has it goes on with the same agent.
    let (code, said) = work(&one, &task, WORK);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains(&id[..8]), "{said}");
    let done = json(&three, &words);
    assert_eq!(done["state"], "done", "{done:#}");
    assert_eq!(done["agent_id"], id);
    // What cannot be made gives the claim back.
    let words = ["spawn", "nowhere.toml", "--claim=other", "--sync=origin"];
    let output = agent(&one, &words);
    assert_eq!(output.status.code(), Some(2), "{}", describe(&output));
    assert_eq!(hub.remote_tip("refs/agents/claim/other"), "");
}

#[test]
fn keys_and_times_that_cannot_be_meant_are_refused() {
    let hub = Hub::new(1);
    let task = task(&hub);
    let clone = &hub.clones[0];
    row(clone, "a");
    for key in ["", "a/b", "..", "x.lock", "a b", "-"] {
        let claim = format!("--claim={key}");
        let output = agent(clone, &["run", &task, &claim, "--sync=origin", "--", "true"]);
        let said = describe(&output);
        let is_fine = key == "-";
        assert_eq!(output.status.code() == Some(2), !is_fine, "{key}: {said}");
    }
    let output = agent(clone, &["run", &task, "--claim=x", "--", "true"]);
    assert_eq!(output.status.code(), Some(2), "{}", describe(&output));
    let several = ["run", &task, &task, "--claim=x", "--sync=origin", "--", "true"];
    let output = agent(clone, &several);
    assert_eq!(output.status.code(), Some(2), "{}", describe(&output));
    assert!(describe(&output).contains("--claim is for one task"));
    git_in(clone, ["config", "agent.claimTtl", "2h"]);
    let output = agent(clone, &["run", &task, "--claim=x", "--sync=origin", "--", "true"]);
    assert_eq!(output.status.code(), Some(2), "{}", describe(&output));
}
