use super::{ctx_at, fsck, hand_out, open, post, receive};
use crate::support::TestRepo;
use crate::support::agent::TASK;
use git_agent::domain::mail::message::{Handing, Retention};
use git_agent::ops::archive;
use git_agent::ops::archive::ExpireReport;

const DAY: i64 = 86_400;

fn expire(test: &TestRepo, seconds: i64, retention: Retention) -> ExpireReport {
    let ctx = ctx_at(test, seconds);
    let plan = archive::plan_expiry(&ctx, retention).expect("a plan");
    let planned = plan.report();
    let done = archive::expire(&ctx, plan).expect("done");
    assert_eq!((&planned.deleted, &planned.archived), (&done.deleted, &done.archived));
    done
}

fn subjects(test: &TestRepo) -> Vec<String> {
    let log = test.git(["log", "--format=%s", "refs/agents/mail"]);
    let messages = log.lines().filter(|line| line.starts_with('['));
    messages.map(|line| line.rsplit(' ').next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn what_all_have_read_goes_after_thirty_days_and_nothing_unread_ever() {
    let test = TestRepo::with_commit();
    let repo = open(&test);
    post(&repo, &["b"], "kept-as-unread", 0);
    let gone = post(&repo, &["c"], "gone", 1);
    post(&repo, &["c", "d"], "half-read", 2);
    post(&repo, &["all"], "broadcast", 3);
    let same_id = post(&repo, &["c"], "read-late", 4);
    assert_eq!(receive(&repo, "c", 10).len(), 4);
    hand_out(&repo, "b", Handing::AwaitAck, 10);
    let report = expire(&test, 29 * DAY, Retention::default());
    assert_eq!(report.deleted, Vec::<String>::new());
    assert_eq!(report.archived.len(), 2, "handed out, never acknowledged, a week ago");
    assert_eq!(receive(&repo, "d", 29 * DAY).len(), 2, "half-read and the broadcast");
    let report = expire(&test, 31 * DAY, Retention::default());
    assert_eq!(report.deleted, [gone, same_id]);
    assert_eq!(subjects(&test), ["broadcast", "half-read", "kept-as-unread"]);
    assert_eq!(receive(&repo, "c", 31 * DAY), Vec::<String>::new(), "read is read");
    fsck(&test);
    let report = expire(&test, 90 * DAY, Retention::default());
    assert_eq!((report.deleted.len(), report.kept), (3, 0));
    let later = post(&repo, &["c"], "after", 0);
    assert_eq!(receive(&repo, "c", 91 * DAY), ["after"], "{later} comes after all that was");
    fsck(&test);
}

#[test]
fn a_message_that_only_a_newer_version_reads_is_unread() {
    let test = TestRepo::with_commit();
    let repo = open(&test);
    let read = post(&repo, &["c"], "read", 0);
    let text = test.git(["log", "-1", "--format=%B", "refs/agents/mail"]);
    let text = text.replace("Type: notify", "Type: teleport").replace(&read, "MSG-of-a-newer-one");
    let newer =
        test.git(["commit-tree", "refs/agents/mail^{tree}", "-p", "refs/agents/mail", "-m", &text]);
    test.git(["update-ref", "-m", "agent: message", "refs/agents/mail", &newer]);
    receive(&repo, "c", 1);
    let report = expire(&test, 31 * DAY, Retention::default());
    assert_eq!((report.deleted, report.kept), (vec![read], 1));
    let left = test.git(["log", "--format=%B", "refs/agents/mail"]);
    assert!(left.contains("Type: teleport"), "{left}");
}

#[test]
fn the_diagnosis_brings_back_messages_that_another_program_took_away() {
    let test = TestRepo::with_commit();
    let repo = open(&test);
    for (seconds, text) in (0..).zip(["one", "two", "three"]) {
        post(&repo, &["c"], text, seconds);
    }
    test.git(["update-ref", "refs/agents/mail", "refs/agents/mail~2"]);
    assert_eq!(subjects(&test), ["one"]);
    let said = String::from_utf8(test.agent(&["doctor"]).stdout).expect("text");
    assert!(said.contains("mail.damaged"), "{said}");
    test.agent(&["doctor", "--fix"]);
    assert_eq!(subjects(&test), ["three", "two", "one"]);
    let said = String::from_utf8(test.agent(&["doctor"]).stdout).expect("text");
    assert!(!said.contains("mail.damaged"), "{said}");
    // What expires later stays away.
    receive(&repo, "c", 10);
    assert_eq!(expire(&test, 31 * DAY, Retention::default()).deleted.len(), 3);
    test.agent(&["doctor", "--fix"]);
    assert_eq!(subjects(&test), Vec::<String>::new());
}

#[test]
fn what_a_remote_has_is_not_deleted_for_the_next_union_to_bring_back() {
    let test = TestRepo::with_commit();
    let repo = open(&test);
    post(&repo, &["c"], "read", 0);
    receive(&repo, "c", 1);
    let remote = test.path().with_file_name("hub.git");
    let remote = remote.to_str().expect("UTF-8");
    test.git(["clone", "--quiet", "--bare", ".", remote]);
    test.git(["remote", "add", "origin", remote]);
    test.git(["config", "agent.sync", "all"]);
    test.agent_json(&["sync"]);
    let report = expire(&test, 90 * DAY, Retention::default());
    assert_eq!((report.deleted.len(), report.postponed, report.is_shared), (0, 1, true));
    let said = test.agent(&["inbox", "--expire", "--delete-after=0s"]);
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(said.contains("kept because a remote has them: 1"), "{said}");
}

#[test]
fn an_agent_at_work_keeps_a_broadcast() {
    let test = TestRepo::with_commit();
    let agent = test.spawn_task(TASK, &["--name=worker"]);
    let repo = open(&test);
    let year = 365 * DAY;
    post(&repo, &["all"], "news", year);
    assert_eq!(receive(&repo, "c", year), ["news"]);
    assert_eq!(expire(&test, 2 * year, Retention::default()).deleted, Vec::<String>::new());
    test.agent_json(&["discard", agent["agent_id"].as_str().expect("an id")]);
    assert_eq!(expire(&test, 2 * year, Retention::default()).deleted.len(), 1);
}

#[test]
fn more_than_a_hundred_unacknowledged_messages_are_too_many() {
    let test = TestRepo::with_commit();
    let repo = open(&test);
    let ids: Vec<_> = (0..6).map(|number| post(&repo, &["b"], "x", number)).collect();
    hand_out(&repo, "b", Handing::AwaitAck, 10);
    post(&repo, &["b"], "unread", 11);
    let retention = Retention { active: 4, ..Retention::default() };
    let report = expire(&test, 20, retention);
    let archived: Vec<_> = report.archived.iter().map(|one| one.message_id.clone()).collect();
    assert_eq!(archived, ids[..3]);
    assert_eq!(test.agent_json(&["inbox", "--agent=b"])["count"], 4);
}

#[test]
fn what_is_sent_while_the_chain_is_rewritten_stays() {
    let test = TestRepo::with_commit();
    let repo = open(&test);
    post(&repo, &["c"], "gone", 0);
    assert_eq!(receive(&repo, "c", 1).len(), 1);
    post(&repo, &["b"], "kept", 2);
    let ctx = ctx_at(&test, 40 * DAY);
    let plan = archive::plan_expiry(&ctx, Retention::default()).expect("a plan");
    post(&repo, &["b"], "meanwhile", 3);
    archive::expire(&ctx, plan).expect("done");
    assert_eq!(receive(&repo, "b", 41 * DAY), ["kept", "meanwhile"]);
    // The second plan of two that raced finds another chain than it looked at.
    post(&repo, &["c"], "gone too", 41 * DAY);
    assert_eq!(receive(&repo, "c", 41 * DAY).len(), 1);
    let (one, two) = (ctx_at(&test, 99 * DAY), ctx_at(&test, 99 * DAY));
    let first = archive::plan_expiry(&one, Retention::default()).expect("a plan");
    let second = archive::plan_expiry(&two, Retention::default()).expect("a plan");
    archive::expire(&one, first).expect("done");
    let error = archive::expire(&two, second).expect_err("late");
    assert_eq!(error.code().name(), "lost-race");
}
