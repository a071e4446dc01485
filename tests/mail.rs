//! The messenger: what is sent arrives once, whoever dies, races or lies.

/// Two clones.
mod clones;
/// Retention.
mod expire;
/// What a remote may bring.
mod hostile;
/// Death at every step.
mod kill;
/// Many senders and receivers at once.
mod races;
/// Bad input, and bad repositories.
mod refusals;
/// Agents that may not write refs.
mod spool;
/// The configuration of the older kit, and what a repository says of messages.
mod taken_over;
/// The verbs as a user sees them.
mod verbs;
/// Waiting.
mod wait;

use crate::support::TestRepo;
use crate::support::death::ctx_with;
use chrono::{DateTime, Utc};
use git_agent::agents::context::ctx::Ctx;
use git_agent::agents::context::ctx::Seams;
use git_agent::domain::mail::message::{Handing, Letter, Name};
use git_agent::domain::mail::message_rules::Draft;
use git_agent::git::Repo;
use git_agent::store::mailbox::{Mailbox, Nonce, Reader, Wanted};
use git_agent::wire::row::message::payload;
use std::sync::Arc;

/// The moment at which tests that turn the clock begin.
const NOON: i64 = 1_795_262_400;

fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(NOON + seconds, 0).expect("in range")
}

fn open(test: &TestRepo) -> Repo {
    Repo::open(&test.path()).expect("a repository")
}

/// Surroundings in which it is that many seconds after noon.
fn ctx_at(test: &TestRepo, seconds: i64) -> Ctx {
    let seams = Seams { clock: Arc::new(move || at(seconds)), ..Seams::real() };
    ctx_with(&test.path(), seams)
}

fn letter(to: &[&str], text: &str) -> Letter {
    let json = serde_json::json!({ "message": text }).to_string();
    Draft {
        kind: "notify",
        from: "alice",
        to: to.to_vec(),
        payload: payload::parse(&json).ok(),
        ..Draft::default()
    }
    .check()
    .expect("sendable")
}

/// Sends a text at a moment and gives the message's id.
fn post(repo: &Repo, to: &[&str], text: &str, seconds: i64) -> String {
    let nonce = Nonce(*uuid::Uuid::new_v4().as_bytes());
    let message = Mailbox::new(repo).post(letter(to, text), nonce, at(seconds));
    message.expect("sent").id.to_string()
}

fn stranger(name: &str) -> Reader {
    Reader::stranger(&Name::parse(name).expect("a name")).expect("a reader")
}

/// Receives everything for a name, archived at once, and gives the texts.
fn receive(repo: &Repo, name: &str, seconds: i64) -> Vec<String> {
    hand_out(repo, name, Handing::Archive, seconds)
}

fn hand_out(repo: &Repo, name: &str, handing: Handing, seconds: i64) -> Vec<String> {
    let mailbox = Mailbox::new(repo);
    let taken = mailbox.receive(&stranger(name), Wanted::default(), handing, at(seconds));
    let taken = taken.expect("received").into_iter();
    taken.map(|(_, message)| message.letter.summary().to_owned()).collect()
}

fn fsck(test: &TestRepo) {
    let said = test.git(["fsck", "--strict", "--no-progress", "--no-dangling"]);
    assert_eq!(said, "");
}
