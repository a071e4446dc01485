use super::claims::{self, CLAIM, plant, work};
use super::push::taken_over;
use super::{Hub, json, names, row, tip};
use crate::support::{death, git_in};
use chrono::{TimeDelta, Utc};
use git_agent::agents::context::ctx::Ctx;
use git_agent::domain::life::event::What;
use git_agent::domain::value::oid::Oid;
use git_agent::error::Code;
use git_agent::git::Repo;
use git_agent::ops::sync::claim::{self, Acquired, TaskClaim};
use git_agent::store::ledger::Ledger;
use std::path::Path;
use std::sync::Arc;

fn ctx(clone: &Path) -> Ctx {
    death::ctx(clone, Arc::new(|_| {}))
}

fn take(ctx: &Ctx) -> TaskClaim {
    match claim::acquire(ctx, None, "task-1", None).expect("an answer") {
        Acquired::Held(claim) => *claim,
        Acquired::Done(report) => panic!("{report:?}"),
    }
}

#[test]
fn a_claim_that_is_deleted_moved_back_or_replaced_is_put_back_and_one_that_is_forged_is_lost() {
    let hub = Hub::new(1);
    let ctx = ctx(&hub.clones[0]);
    let mut held = take(&ctx);
    held.keep(&ctx).expect("renewed");
    let main = hub.remote_tip("refs/heads/main");
    let back = format!("{CLAIM}~1");
    for words in [
        &["update-ref", "-d", CLAIM][..],
        &["update-ref", CLAIM, &back],
        &["update-ref", CLAIM, &main],
    ] {
        let before = hub.remote_tip(CLAIM);
        git_in(&hub.bare, words);
        held.keep(&ctx).expect("put back");
        // The fencing token never goes back.
        git_in(&hub.bare, ["merge-base", "--is-ancestor", &before, CLAIM]);
        assert_eq!(claims::state(&hub), "held", "{words:?}");
    }
    let warnings = held.finish(&ctx).expect("done");
    for (text, expected) in warnings.iter().zip(["deleted", "moved back", "is no claim"]) {
        assert!(text.contains(expected) && text.contains(CLAIM), "{text}");
    }
    assert_eq!(warnings.len(), 3, "{warnings:?}");
    // A holder who is made up cannot be told from one that took over: the work stops.
    git_in(&hub.bare, ["update-ref", "-d", CLAIM]);
    let held = take(&ctx);
    let forged = taken_over(&hub, &hub.remote_tip(CLAIM));
    let lost = held.finish(&ctx).expect_err("lost");
    assert_eq!(lost.code(), Code::ClaimLost);
    assert_eq!(hub.remote_tip(CLAIM), forged);
}

#[test]
fn a_claim_that_is_none_is_refused_and_one_that_says_done_without_work_is_doubted() {
    let hub = Hub::new(1);
    let clone = &hub.clones[0];
    let task = claims::task(&hub);
    git_in(&hub.bare, ["update-ref", CLAIM, "refs/heads/main"]);
    let (code, said) = work(clone, &task, "exit 7");
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains("is no claim") && said.contains("--delete"), "{said}");
    let held = plant(&hub, claims::now(), 60);
    let message = git_in(&hub.bare, ["log", "-1", "--format=%B", &held]);
    let tree = git_in(&hub.bare, ["rev-parse", &format!("{held}^{{tree}}")]);
    let message = message.replace("Claim-State: held", "Claim-State: done");
    let done = git_in(&hub.bare, ["commit-tree", "-m", &message, &tree]);
    git_in(&hub.bare, ["update-ref", CLAIM, &done]);
    let (code, said) = work(clone, &task, "exit 7");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("no row says that its work was accepted"), "{said}");
}

#[test]
fn what_happened_stays_in_order_where_the_clocks_of_clones_differ_by_an_hour() {
    let hub = Hub::new(3);
    row(&hub.clones[0], "a");
    let spawned = git_in(&hub.clones[0], ["notes", "--ref=agents", "list"]);
    let spawned = spawned.split_whitespace().last().expect("a row");
    let spawned = Oid::from_hex(spawned).expect("an oid");
    json(&hub.clones[0], &["sync"]);
    // Each clone has seen what the one before it wrote, and its clock is ahead, behind, right.
    for (clone, hours) in hub.clones.iter().zip([1, -1, 0]) {
        json(clone, &["sync"]);
        let repo = Repo::open(clone).expect("a repository");
        let now = Utc::now() + TimeDelta::hours(hours);
        let reason = format!("{hours}");
        let what = What::Deferred { reason, whole: None };
        let ledger = Ledger::new(&repo);
        ledger.append(spawned, "test", what, now).expect("appended");
        json(clone, &["sync"]);
    }
    for clone in &hub.clones {
        json(clone, &["sync"]);
        let repo = Repo::open(clone).expect("a repository");
        let events = Ledger::new(&repo).events(spawned).expect("read");
        let reasons = events.iter().filter_map(|event| match &event.what {
            What::Deferred { reason, .. } => Some(reason.as_str()),
            _ => None,
        });
        assert_eq!(reasons.collect::<Vec<_>>(), ["1", "-1", "0"]);
        let ledger = tip(clone, "refs/notes/agents");
        assert_eq!(ledger, hub.remote_tip("refs/notes/agents"));
    }
}

#[test]
fn a_name_of_ours_that_leads_to_a_branch_of_the_remote_is_not_pushed_to() {
    for name in ["refs/notes/agents", "refs/agents/claim/task-1"] {
        let hub = Hub::new(1);
        let clone = &hub.clones[0];
        super::spawn(clone, &[]);
        git_in(&hub.bare, ["symbolic-ref", name, "refs/heads/main"]);
        let main = hub.remote_tip("refs/heads/main");
        let arguments: &[&str] = &["sync", "origin"];
        let output = crate::support::agent::agent_command(clone).args(arguments).output();
        let output = output.expect("git-agent starts");
        let said = crate::support::agent::describe(&output);
        assert_eq!(output.status.code(), Some(4), "{said}");
        assert!(said.contains("symbolic ref to refs/heads/main"), "{said}");
        let refused = claim::acquire(&ctx(clone), None, "task-1", None).err();
        if name.contains("claim") {
            assert_eq!(refused.expect("refused").code(), Code::RemoteRefused);
        }
        assert_eq!(hub.remote_tip("refs/heads/main"), main);
    }
}

#[test]
fn a_tree_of_the_remote_that_is_nested_too_deep_is_called_that() {
    let hub = Hub::new(1);
    let clone = &hub.clones[0];
    super::spawn(clone, &[]);
    let path = "d/".repeat(2100);
    let commit = "commit refs/notes/agents\ncommitter x <x@x> 0 +0000\ndata 1\nx\n";
    let stream = format!("{commit}M 100644 inline {path}f\ndata 1\nx\n");
    let file = hub.bare.join("stream");
    std::fs::write(&file, stream).expect("written");
    let mut import = crate::support::isolated("git", &hub.bare);
    import.args(["-c", "core.maxTreeDepth=5000", "fast-import", "--quiet"]);
    import.stdin(std::fs::File::open(&file).expect("open"));
    let output = import.output().expect("git starts");
    assert!(output.status.success(), "{}", crate::support::agent::describe(&output));
    let output = crate::support::agent::agent_command(clone).args(["sync", "origin"]).output();
    let said = crate::support::agent::describe(&output.expect("git-agent starts"));
    assert!(!said.contains("remote-unreachable") && said.contains("deep"), "{said}");
}

#[test]
fn a_note_that_is_larger_than_any_row_is_not_read_and_replaces_none() {
    let (hub, [one, two]) = Hub::synchronised();
    let ledger = "refs/notes/agents";
    let notes = |clone: &Path| git_in(clone, ["notes", "--ref=agents", "list"]);
    let key = notes(&one).split_whitespace().last().expect("a row").to_owned();
    let body = |clone: &Path| git_in(clone, ["notes", "--ref=agents", "show", &key]);
    let before = body(&one);
    let file = hub.bare.join("large");
    for content in ["x".repeat(9 << 20), "x\n".repeat(50_000)] {
        std::fs::write(&file, content).expect("written");
        let large = file.to_str().expect("UTF-8");
        let blob = git_in(&two, ["hash-object", "-w", large]);
        git_in(&two, ["notes", "--ref=agents", "add", "-f", "-C", &blob, &key]);
        git_in(&two, ["push", "--quiet", "origin", ledger]);
        // Without a row of its own a clone takes the note as it is, says so and does not read it.
        let said = crate::support::agent::agent_command(&two)
            .args(["doctor", "--format=json"])
            .output()
            .expect("starts");
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        assert!(said.contains("ledger.note-too-large"), "{said}");
        assert_eq!(names(&two), [""; 0]);
        // The other one keeps its row, and gives it back.
        json(&one, &["sync"]);
        assert_eq!(body(&one), before);
        assert_eq!(names(&one), ["a"]);
        json(&two, &["sync"]);
        assert_eq!(body(&two), before);
        hub.assert_equal(&two);
    }
}

#[test]
fn notes_that_are_too_large_together_leave_the_smaller_one() {
    let (hub, [one, two]) = Hub::synchronised();
    let notes = git_in(&one, ["notes", "--ref=agents", "list"]);
    let key = notes.split_whitespace().last().expect("a row");
    let body = |clone: &Path| git_in(clone, ["notes", "--ref=agents", "show", key]);
    let before = body(&one);
    let file = hub.bare.join("large");
    std::fs::write(&file, "x".repeat(4 << 20)).expect("written");
    let blob = git_in(&two, ["hash-object", "-w", file.to_str().expect("UTF-8")]);
    git_in(&two, ["notes", "--ref=agents", "add", "-f", "-C", &blob, key]);
    git_in(&two, ["push", "--quiet", "origin", "refs/notes/agents"]);
    json(&one, &["sync"]);
    assert_eq!(body(&one), before);
}
