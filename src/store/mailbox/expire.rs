//! What everybody has read long ago, and taking it out of the mailbox.
//!
//! A chain of commits only grows, so messages are deleted by writing the chain again without them. What is
//! older than the oldest of them stays as it is. The new commits are written while others go on sending;
//! only what they sent meanwhile is written again under the lock, before the ref moves by
//! compare-and-swap. A long chain is not rewritten for a few messages, so that each message is copied a
//! bounded number of times in its life.
//!
//! Receipts stay: a clone that still has a deleted message may be united with, and then they say that
//! it was read. The old commits go when the ref's reflog expires, as everything in git does.

use super::Mailbox;
use super::cursor::{self, Receipts};
use super::reader::{Reader, TRAILER as READER};
use crate::domain::mail::message::{Name, Retention};
use crate::domain::{Agent, MessageId, Oid, Receivers, Stamp};
use crate::error::{Code, Error, Remedy, Result};
use crate::git::Commit;
use crate::store::chain::{self, Chain, TRAILER};
use crate::store::chain::{keep, remote_names};
use crate::store::files::{layout, lock};
use crate::wire::row::message::{Envelope, ID_TRAILER, STAMP_TRAILER};
use crate::wire::row::receipt_line::ReceiptKind;
use chrono::{DateTime, Utc};
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

/// A mailbox of so many messages is rewritten for a single one.
const SHORT: usize = 1_000;

/// A longer one, when one in so many goes.
const SHARE: usize = 4;

/// What [`execute`] goes through when messages are deleted.
pub const STEPS: &[&str] = &["chain-rewritten", "expiry-written", "chain-expired"];

/// What expired.
#[derive(Clone, Debug, Default)]
pub struct Expiry {
    /// Whose messages are archived without having been acknowledged.
    pub archive: Vec<(Reader, Vec<MessageId>)>,
    /// What is deleted, oldest first.
    pub delete: Vec<MessageId>,
    /// How many expired messages are too few to rewrite a long chain for, or are in a chain that a remote has.
    pub postponed: usize,
    /// Whether a remote has the chain: the next union would bring back what was deleted, beside a copy of what was not.
    pub is_shared: bool,
    /// The messages that stay, oldest first, and the parents that they have.
    keep: Vec<(Oid, Vec<Oid>)>,
    /// What was looked at.
    tip: Option<Oid>,
}

impl Expiry {
    /// How many messages stay.
    pub fn kept(&self) -> usize {
        self.keep.len()
    }
}

/// Finds out what expired; nothing is written.
///
/// # Errors
/// `repo-corrupt` when the mailbox is damaged beyond its reflogs.
pub fn plan(
    mailbox: &Mailbox<'_>,
    agents: &[Agent],
    retention: Retention,
    now: DateTime<Utc>,
) -> Result<Expiry> {
    let mut expiry = Expiry { tip: mailbox.tip()?.map(|tip| tip.oid), ..Expiry::default() };
    let readers = Readers::load(mailbox, agents)?;
    for reader in readers.by_name.values().map(|(reader, _)| reader) {
        let ids = unacknowledged(mailbox, reader, retention, now)?;
        if !ids.is_empty() {
            expiry.archive.push((reader.clone(), ids));
        }
    }
    expiry.archive.sort_by(|one, two| one.0.name.cmp(&two.0.name));
    let mut messages = mailbox.walk(|found: &mut Vec<_>, commit: &Commit, envelope| {
        let envelope: Option<&Envelope> = envelope;
        // What only a newer version can read is a message all the same. What a chain needs beside them has no such trailer.
        if envelope.is_some() || commit.trailer(ID_TRAILER).is_some() {
            found.push((commit.oid, commit.parents.clone(), envelope.cloned()));
        }
        ControlFlow::Continue(())
    })?;
    messages.reverse();
    let is_expired = |envelope: &Option<Envelope>| {
        let settled = envelope.as_ref().and_then(|envelope| readers.settled(envelope));
        settled.is_some_and(|at| at.time() + retention.delete_after <= now)
    };
    let total = messages.len();
    let expired: HashSet<_> = messages
        .iter()
        .filter(|(_, _, envelope)| is_expired(envelope))
        .map(|(commit, _, _)| *commit)
        .collect();
    // Copies of remotes that go by another name now count, and so do messages that came from another clone.
    let copies = mailbox.repo.refs_below(layout::COPIES)?;
    let clone = remote_names::load_clone_id(mailbox.repo.common_dir())?;
    let is_own = |envelope: &Envelope| clone == Some(envelope.at.clone_number());
    let known = messages.iter().filter_map(|(_, _, envelope)| envelope.as_ref());
    expiry.is_shared =
        copies.iter().any(|(name, _)| name.ends_with("/mail")) || !known.into_iter().all(is_own);
    let is_worth_it = !expiry.is_shared && (total <= SHORT || expired.len() * SHARE >= total);
    if !is_worth_it {
        expiry.postponed = expired.len();
    }
    for (commit, parents, envelope) in messages {
        match envelope.filter(|_| is_worth_it && expired.contains(&commit)) {
            Some(envelope) => expiry.delete.push(envelope.id),
            None => expiry.keep.push((commit, parents)),
        }
    }
    Ok(expiry)
}

/// Archives and deletes what was planned.
///
/// # Errors
/// `lost-race` when another process rewrote the chain meanwhile; `lock-timeout`, `disk-full`,
/// `repo-read-only`, `repo-corrupt`.
pub fn execute(mailbox: &Mailbox<'_>, expiry: &Expiry, now: DateTime<Utc>) -> Result<()> {
    let repo = mailbox.repo;
    // Archived before anything is deleted, and each under a lock of its own, so that others can
    // send in between.
    for (reader, ids) in &expiry.archive {
        let guard = lock::hold(repo.common_dir(), layout::MAIL_LOCK)?;
        cursor::record_receipts(mailbox, &guard, reader, ReceiptKind::Archived, ids, now)?;
    }
    let Some(planned) = expiry.tip.filter(|_| !expiry.delete.is_empty()) else {
        return Ok(());
    };
    let mut rewritten = None;
    for (commit, parents) in &expiry.keep {
        let wanted: Vec<_> = rewritten.into_iter().collect();
        // Below the oldest message that goes, each commit has the parent that it had and stays the
        // same object.
        rewritten = Some(if wanted == *parents {
            *commit
        } else {
            repo.write_with_parents(*commit, &wanted)?
        });
    }
    (mailbox.reached)("chain-rewritten");
    let who = chain::identity(repo, now);
    let guard = lock::hold(repo.common_dir(), layout::MAIL_LOCK)?;
    let commit = chain::append(repo, &guard, Chain::Mail, &who, "agent: expire", |tip| {
        let mut new = match rewritten {
            Some(commit) => commit,
            None => begin_anew(mailbox, planned, now)?,
        };
        for late in sent_since(mailbox, tip, planned)? {
            new = repo.write_with_parents(late, &[new])?;
        }
        (mailbox.reached)("expiry-written");
        Ok(new)
    })?;
    (mailbox.reached)("chain-expired");
    keep::after_append(repo, commit);
    Ok(())
}

/// The commits above the one that was looked at, oldest first.
fn sent_since(mailbox: &Mailbox<'_>, tip: Option<&Commit>, planned: Oid) -> Result<Vec<Oid>> {
    let mut late = Vec::new();
    let mut next = tip.cloned();
    while let Some(commit) = next.filter(|commit| commit.oid != planned) {
        let [parent] = commit.parents.as_slice() else {
            let what = "the mailbox was rewritten or united while it was looked at";
            return Err(
                Error::new(Code::LostRace, what).remedy("to try again", Remedy::ExpireMessages)
            );
        };
        late.push(commit.oid);
        next = Some(mailbox.repo.read_commit(*parent)?);
    }
    late.reverse();
    Ok(late)
}

/// The first commit of a chain without messages; it carries the last stamp, so that ids go on growing.
fn begin_anew(mailbox: &Mailbox<'_>, planned: Oid, now: DateTime<Utc>) -> Result<Oid> {
    let repo = mailbox.repo;
    let who = chain::identity(repo, now);
    let planned = repo.read_commit(planned)?;
    let last = mailbox.last_stamp(&planned, |stamp| super::is_followed(*stamp, now));
    let stamp = last.map_or_else(String::new, |stamp| format!("{STAMP_TRAILER}: {stamp}\n"));
    let message = format!("agent: expire\n\n{stamp}{TRAILER}: 1\n");
    chain::empty_commit(repo, &[], &who, &message)
}

/// What a reader was handed and never acknowledged, as far as it is too old or too much.
fn unacknowledged(
    mailbox: &Mailbox<'_>,
    reader: &Reader,
    retention: Retention,
    now: DateTime<Utc>,
) -> Result<Vec<MessageId>> {
    let open = mailbox.open(reader)?;
    let mut excess = open.len().saturating_sub(retention.active);
    let mut handed: Vec<_> =
        open.into_iter().filter_map(|open| Some((open.read?, open.id))).collect();
    // The longest ago first, so that it is the oldest ones that are too much.
    handed.sort_unstable();
    handed.retain(|(read, _)| {
        let is_old = read.time() + retention.archive_after <= now;
        let is_too_much = excess > 0;
        excess = excess.saturating_sub(1);
        is_old || is_too_much
    });
    Ok(handed.into_iter().map(|(_, id)| id).collect())
}

/// Everybody who ever read anything, with what they read.
struct Readers {
    by_name: HashMap<String, (Reader, Receipts)>,
    /// The ids of the agents that go by a name.
    aliases: HashMap<String, Vec<String>>,
    /// The agents that may still read: id, and since when they are there.
    at_work: Vec<(String, DateTime<Utc>)>,
}

impl Readers {
    fn load(mailbox: &Mailbox<'_>, agents: &[Agent]) -> Result<Readers> {
        let mut readers =
            Readers { by_name: HashMap::new(), aliases: HashMap::new(), at_work: Vec::new() };
        let mut known = HashMap::new();
        for agent in agents {
            let reader = Reader::agent(agent)?;
            let id = reader.name.to_string();
            for name in &reader.names {
                let aliases = readers.aliases.entry(name.clone()).or_default();
                aliases.push(id.clone());
            }
            if agent.state.is_open() {
                readers.at_work.push((id.clone(), agent.started));
            }
            known.insert(id, reader);
        }
        let by_key: HashMap<_, _> = known.values().map(|reader| (reader.key, reader)).collect();
        for (key, receipts) in cursor::load_all(mailbox.repo)? {
            let reader = match by_key.get(&key) {
                Some(reader) => Some((*reader).clone()),
                None => named_by(mailbox, key, &known)?,
            };
            // A reader that is unknown here may be known to another clone.
            if let Some(reader) = reader {
                let name = reader.name.to_string();
                let entry = readers.by_name.entry(name);
                let (_, joined) = entry.or_insert_with(|| (reader, Receipts::default()));
                joined.join(receipts);
            }
        }
        Ok(readers)
    }

    /// Since when a message has no reader left; `None` while it has one.
    fn settled(&self, envelope: &Envelope) -> Option<Stamp> {
        let id = &envelope.id;
        let archived = |name: &str| self.by_name.get(name)?.1.archived.get(id).copied();
        match &envelope.to {
            Receivers::Named(names) => {
                let by_anyone = |name: &Name| {
                    let aliases = self.aliases.get(name.as_str());
                    let aliases = aliases.into_iter().flatten().map(String::as_str);
                    let known = aliases.chain([name.as_str()]);
                    known.filter_map(archived).min()
                };
                let times: Option<Vec<_>> = names.iter().map(by_anyone).collect();
                // With a `None` among them one receiver has not archived it yet.
                times?.into_iter().max()
            }
            Receivers::Everybody => {
                let from = envelope.from.as_str();
                let agents = self.at_work.iter().filter(|(_, since)| *since <= envelope.at.time());
                let strangers = self
                    .by_name
                    .values()
                    .map(|(reader, _)| reader)
                    .filter(|reader| reader.since.is_none());
                let audience = agents
                    .map(|(id, _)| id.as_str())
                    .chain(strangers.map(|reader| reader.name.as_str()));
                let times: Option<Vec<_>> =
                    audience.filter(|name| *name != from).map(archived).collect();
                // A message without a receipt is unread, even when no reader is left.
                times?.into_iter().max()
            }
        }
    }
}

/// The reader for whom an empty commit stands, as its trailer says.
fn named_by(
    mailbox: &Mailbox<'_>,
    key: Oid,
    agents: &HashMap<String, Reader>,
) -> Result<Option<Reader>> {
    let Ok(commit) = mailbox.repo.read_commit(key) else {
        return Ok(None);
    };
    let name = commit.trailer(READER).and_then(|name| Name::parse(name).ok());
    match name {
        None => Ok(None),
        Some(name) => match agents.get(name.as_str()) {
            Some(reader) => Ok(Some(reader.clone())),
            None => Reader::stranger(&name).map(Some),
        },
    }
}
