//! A sender, a receiver and others that die at any step: see [`death`].

use super::spool::{fenced, inbox, send_spooled};
use super::{fsck, open, post, receive};
use crate::support::TestRepo;
use crate::support::death::{self, Order, Reached, unwatched};
use git_agent::agents::context::ctx::Ctx;
use git_agent::agents::upkeep::spool;
use git_agent::agents::upkeep::spool::SPOOL_STEPS;
use git_agent::domain::mail::message::{Handing, Retention};
use git_agent::ops::archive;
use git_agent::ops::receive as receiving;
use git_agent::ops::receive::Patience;
use git_agent::ops::receive::ReceiveOptions;
use git_agent::ops::send;
use git_agent::ops::send::SendOptions;
use git_agent::store::ledger::Ledger;
use git_agent::store::mailbox::{POST_STEPS, RECEIVE_STEPS, expire as expiring};
use std::path::Path;

/// Not a test: the process that dies. It does nothing unless it is told what to do.
#[test]
fn child() {
    if let Some(order) = Order::received() {
        obey(&order.directory, &order.words[0], order.dying());
    }
}

fn obey(directory: &Path, order: &str, reached: Reached) {
    let ctx = death::ctx(directory, reached);
    match order.split_once(' ').unwrap_or((order, "")) {
        ("send", _) => send_one(&ctx),
        ("receive", _) => drop(receive_all(&ctx)),
        ("expire", _) => expire_all(&ctx),
        (_, agent) => {
            let agent = Ledger::new(&ctx.repo).find(agent).expect("the agent");
            spool::post_spool(&ctx, &agent).expect("posted");
        }
    }
}

fn send_one(ctx: &Ctx) {
    let options = SendOptions {
        kind: "notify".to_owned(),
        to: vec!["b".to_owned()],
        payload: vec!["message=hello".to_owned()],
        ..SendOptions::default()
    };
    let plan = send::plan(ctx, &options).expect("a plan");
    send::execute(ctx, plan).expect("sent");
}

fn receive_all(ctx: &Ctx) -> usize {
    let options = ReceiveOptions {
        agent: Some("b".to_owned()),
        handing: Some(Handing::Archive),
        ..ReceiveOptions::default()
    };
    let report = receiving::receive(ctx, &options, Patience::None).expect("received");
    report.count
}

fn expire_all(ctx: &Ctx) {
    let plan = archive::plan_expiry(ctx, Retention::default()).expect("a plan");
    archive::expire(ctx, plan).expect("done");
}

fn die_at(test: &TestRepo, order: &str, step: &str) {
    death::die_at("mail::kill::child", &test.path(), step, &[order]);
}

fn steps_of(test: &TestRepo, order: &str) -> Vec<String> {
    death::steps_of(|reached| obey(&test.path(), order, reached))
}

#[test]
fn a_killed_sender_has_sent_all_or_nothing() {
    assert_eq!(steps_of(&TestRepo::with_commit(), "send"), POST_STEPS);
    for step in POST_STEPS {
        let test = TestRepo::with_commit();
        die_at(&test, "send", step);
        let sent = usize::from(*step == "message-sent");
        assert_eq!(test.agent_json(&["inbox", "--agent=b"])["count"], sent, "after {step}");
        obey(&test.path(), "send", unwatched());
        assert_eq!(receive(&open(&test), "b", 9).len(), sent + 1, "after {step}");
        fsck(&test);
    }
}

#[test]
fn a_killed_receiver_loses_nothing() {
    let with_mail = || {
        let test = TestRepo::with_commit();
        post(&open(&test), &["b"], "one", 0);
        post(&open(&test), &["b"], "two", 1);
        test
    };
    assert_eq!(steps_of(&with_mail(), "receive"), RECEIVE_STEPS);
    for step in RECEIVE_STEPS {
        let test = with_mail();
        die_at(&test, "receive", step);
        let count = |verb: &str| test.agent_json(&[verb, "--agent=b"])["count"].as_u64();
        let is_recorded = *step == "receipt-recorded";
        let expected = if is_recorded { (Some(0), Some(2)) } else { (Some(2), Some(0)) };
        assert_eq!((count("inbox"), count("archive")), expected, "after {step}");
        let rest = if is_recorded { 0 } else { 2 };
        assert_eq!(receive(&open(&test), "b", 9).len(), rest, "after {step}");
        assert_eq!(count("archive"), Some(2), "after {step}");
        fsck(&test);
    }
}

#[test]
fn a_killed_expiry_is_done_or_not_begun() {
    let with_mail = || {
        let test = TestRepo::with_commit();
        let repo = open(&test);
        // Long before the real clock, which the child reads.
        let long_ago = -400 * 86_400;
        post(&repo, &["c"], "old", long_ago);
        assert_eq!(receive(&repo, "c", long_ago).len(), 1);
        post(&repo, &["b"], "unread", long_ago);
        test
    };
    assert_eq!(steps_of(&with_mail(), "expire"), expiring::STEPS);
    for step in expiring::STEPS {
        let test = with_mail();
        die_at(&test, "expire", step);
        let messages = || test.git(["rev-list", "--count", "refs/agents/mail"]);
        let left = if *step == "chain-expired" { "1" } else { "2" };
        assert_eq!(messages(), left, "after {step}");
        obey(&test.path(), "expire", unwatched());
        assert_eq!(messages(), "1", "after {step}");
        assert_eq!(receive(&open(&test), "b", 0), ["unread"], "after {step}");
        fsck(&test);
    }
}

#[test]
fn a_killed_poster_posts_each_message_once() {
    let with_spool = || {
        let (test, id, spool) = fenced();
        send_spooled(&test, &spool, "one");
        send_spooled(&test, &spool, "two");
        (test, id)
    };
    for step in SPOOL_STEPS {
        let (test, id) = with_spool();
        die_at(&test, &format!("spool {id}"), step);
        let texts: Vec<_> = inbox(&test, "b").into_iter().map(|(_, text)| text).collect();
        assert_eq!(texts, ["one", "two"], "after {step}");
        fsck(&test);
    }
}
