//! The mailbox: one chain of message commits, and for every reader a note of what it has read.
//!
//! ```text
//! send      mail.lock -> stamp after the tip's -> commit -> refs/agents/mail        (one object)
//! receive   cursor + new commits + new receipts -> open messages -> mail.lock, again
//!           -> one line in the reader's note -> refs/notes/agents-mail
//! ```
//!
//! Both refs move as the ledger's does ([`super::chain`]): by compare-and-swap, under one OS lock, so that of
//! two receivers of one name each message goes to exactly one. Messages are known by their ids and not
//! by their commits, which change when the chain is rewritten without what expired ([`expire`]).
//!
//! No call walks the whole chain but the first of a reader: what it has not read yet is remembered in a
//! file that can be deleted at any time (`cursor`). A reader's note is kept short by moving it
//! aside when it is full (`receipts`).

mod cursor;
pub mod expire;
pub mod reader;
pub mod spool;

use crate::domain::mail::message::{Handing, Kind};
use crate::domain::value::named::hex;
use crate::domain::{Letter, Message, MessageId, Oid, Stamp};
use crate::error::{Code, Error, Remedy, Result};
use crate::git::{Commit, Identity, Repo, record::notes};
use crate::store::chain::{self, Chain, TRAILER};
use crate::store::chain::{keep, remote_names};
use crate::store::files::layout;
use crate::store::files::lock::{self, Guard};
use crate::wire::row::message::{self, STAMP_TRAILER};
use crate::wire::row::receipt_line::{Receipt, ReceiptKind};
use chrono::{DateTime, TimeDelta, Utc};
pub use cursor::Open;
use cursor::Receipts;
pub use reader::Reader;
use serde::Serialize;
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

/// After this long a message that was handed out and not acknowledged is handed out again.
const LEASE: TimeDelta = TimeDelta::minutes(5);

/// How far the clock of another clone may be ahead for its stamps to be followed. Readers look for a message among those
/// of its time, so a wrong clock is followed for years; but one message of the year 9999 must not date every
/// later one in a year that a stamp cannot hold, where it could not be read.
const FOLLOWED: TimeDelta = TimeDelta::days(3650);

/// How many messages that its reader is done with are copied for it, so that it can answer them.
const COPIED: usize = 50;

/// How many open ones are copied, the most urgent first; the others follow when it is done with these.
const COPIED_OPEN: usize = 1000;

/// Whether what comes after a stamp is dated later.
fn is_followed(stamp: Stamp, now: DateTime<Utc>) -> bool {
    stamp.time() - now <= FOLLOWED
}

/// The mailbox of one repository.
pub struct Mailbox<'r> {
    repo: &'r Repo,
    reached: &'r dyn Fn(&str),
    /// Whether what is posted was written by an agent behind its fence, and by no person.
    is_for_fenced: bool,
}

/// What [`Mailbox::post`] goes through.
pub const POST_STEPS: &[&str] = &["mail-locked", "message-written", "message-sent"];

/// What [`Mailbox::receive`] goes through for a reader that is no agent and has read nothing yet; others
/// need not be kept.
pub const RECEIVE_STEPS: &[&str] =
    &["mail-locked", "messages-read", "reader-kept", "receipt-written", "receipt-recorded"];

/// What tells one act of sending from every other: 128 random bits, of which a message carries 80.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nonce(pub [u8; 16]);

impl Nonce {
    fn text(self) -> String {
        hex(&self.0[..8])
    }

    /// What a message id shows of it.
    pub fn digits(self) -> u16 {
        u16::from_be_bytes([self.0[8], self.0[9]])
    }
}

/// Which open messages are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Only those of this type.
    pub kind: Option<Kind>,
    /// At most this many, the most urgent first.
    pub limit: Option<usize>,
}

/// The messages of one reader, for a repository that has no others.
pub struct MailCopy {
    /// What the commits say that hold them, oldest first.
    pub messages: Vec<String>,
    /// What the reader's note is on, and its lines.
    pub note: (Oid, Vec<u8>),
}

fn receipt(handing: Handing) -> ReceiptKind {
    match handing {
        Handing::Archive => ReceiptKind::Archived,
        Handing::AwaitAck => ReceiptKind::Read,
    }
}

impl<'r> Mailbox<'r> {
    /// The mailbox of that repository. Nothing is read or made yet.
    pub fn new(repo: &'r Repo) -> Mailbox<'r> {
        Mailbox { repo, reached: &|_| {}, is_for_fenced: false }
    }

    /// The same, telling the name of every step that is complete.
    pub fn telling(repo: &'r Repo, reached: &'r dyn Fn(&str)) -> Mailbox<'r> {
        Mailbox { reached, ..Mailbox::new(repo) }
    }

    /// The same, for what agents wrote behind their fences.
    pub fn for_fenced(repo: &'r Repo) -> Mailbox<'r> {
        Mailbox { is_for_fenced: true, ..Mailbox::new(repo) }
    }

    /// Sends a letter.
    ///
    /// # Errors
    /// `lock-timeout`, `disk-full`, `repo-read-only`, `repo-corrupt`.
    pub fn post(&self, letter: Letter, nonce: Nonce, now: DateTime<Utc>) -> Result<Message> {
        let repo = self.repo;
        let who = chain::identity(repo, now);
        let clone = remote_names::load_or_make_clone_id(repo.common_dir())?;
        let guard = lock::hold(repo.common_dir(), layout::MAIL_LOCK)?;
        (self.reached)("mail-locked");
        let mut posted = None;
        let commit = chain::append(repo, &guard, Chain::Mail, &who, "agent: message", |tip| {
            let at = self.next_stamp(tip, now, clone);
            let message = Message {
                id: MessageId::new(at, nonce.digits()),
                at,
                nonce: nonce.text(),
                letter: letter.clone(),
            };
            let parents: Vec<_> = tip.map(|tip| tip.oid).into_iter().collect();
            let commit = chain::empty_commit(repo, &parents, &who, &message::encode(&message))?;
            posted = Some(message);
            (self.reached)("message-written");
            Ok(commit)
        })?;
        (self.reached)("message-sent");
        drop(guard);
        keep::after_append(repo, commit);
        let posted = posted.ok_or_else(|| Error::bug("a post must write a message"))?;
        // After the lock, because the message is sent already and the note is only shown.
        reader::note(self, &posted);
        Ok(posted)
    }

    /// Whether there is no message at all.
    ///
    /// # Errors
    /// `repo-corrupt` when the chain is damaged beyond its reflog.
    pub fn is_empty(&self) -> Result<bool> {
        let any = self.walk(|any: &mut bool, _, envelope| {
            *any |= envelope.is_some();
            if *any { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        Ok(!any)
    }

    /// What a reader has not read, and what it was handed and has not acknowledged: by priority, then
    /// oldest first.
    ///
    /// # Errors
    /// As [`Mailbox::is_empty`].
    pub fn open(&self, reader: &Reader) -> Result<Vec<Open>> {
        cursor::open(self, reader)
    }

    /// What of it a receiver would be handed now.
    ///
    /// # Errors
    /// As [`Mailbox::is_empty`].
    pub fn waiting(
        &self,
        reader: &Reader,
        wanted: Wanted,
        now: DateTime<Utc>,
    ) -> Result<Vec<Open>> {
        let is_wanted = |open: &Open| {
            // What was handed out less than the lease ago is in another process's hands.
            let rests = open.read.is_none_or(|read| read.time() + LEASE <= now);
            rests && wanted.kind.is_none_or(|kind| kind == open.kind)
        };
        let mut open = self.open(reader)?;
        open.retain(is_wanted);
        open.truncate(wanted.limit.unwrap_or(usize::MAX));
        Ok(open)
    }

    /// Takes messages out of a reader's hands, so that no other process is handed them.
    ///
    /// # Errors
    /// As [`Mailbox::post`].
    pub fn receive(
        &self,
        reader: &Reader,
        wanted: Wanted,
        handing: Handing,
        now: DateTime<Utc>,
    ) -> Result<Vec<(Open, Message)>> {
        // Most calls find nothing, and need no lock to say so.
        if self.waiting(reader, wanted, now)?.is_empty() {
            return Ok(Vec::new());
        }
        let guard = lock::hold(self.repo.common_dir(), layout::MAIL_LOCK)?;
        (self.reached)("mail-locked");
        // Asked again under the lock: of two receivers that both saw it, one takes it.
        let taken = self.waiting(reader, wanted, now)?;
        let ids: Vec<_> = taken.iter().map(|open| open.id.clone()).collect();
        // Before the receipt: what cannot be read must not count as read.
        let taken: Vec<_> = taken
            .into_iter()
            .map(|open| self.read(&open).map(|message| (open, message)))
            .collect::<Result<_>>()?;
        (self.reached)("messages-read");
        cursor::record_receipts(self, &guard, reader, receipt(handing), &ids, now)?;
        (self.reached)("receipt-recorded");
        Ok(taken)
    }

    /// Notes that messages were handed to a reader; gives those that were not archived before. Nothing is noted when one of them is
    /// not for this reader.
    ///
    /// # Errors
    /// `message-unknown`, naming all that are not this reader's; as [`Mailbox::post`].
    pub fn record_handed(
        &self,
        reader: &Reader,
        ids: &[MessageId],
        handing: Handing,
        now: DateTime<Utc>,
    ) -> Result<Vec<MessageId>> {
        let guard = lock::hold(self.repo.common_dir(), layout::MAIL_LOCK)?;
        let open = self.open(reader)?;
        let is_open = |id: &MessageId| open.iter().any(|open| open.id == *id);
        let (fresh, rest): (Vec<_>, Vec<_>) = ids.iter().cloned().partition(is_open);
        // Most messages are open still, so what was archived is read only where one is not.
        let archived = if rest.is_empty() {
            cursor::Receipts::default()
        } else {
            cursor::load_receipts(self.repo, reader)?
        };
        let strangers: Vec<_> = rest
            .iter()
            .filter(|id| !archived.archived.contains_key(*id))
            .map(MessageId::as_str)
            .collect();
        if !strangers.is_empty() {
            return Err(Error::new(
                Code::MessageUnknown,
                format!("{} has no message {}", reader.name, strangers.join(", ")),
            )
            .remedy(
                "to see what there is for it",
                Remedy::Messages(Some(reader.name.to_string())),
            ));
        }
        // What was archived before is no error: an acknowledgement may be repeated after a kill.
        cursor::record_receipts(self, &guard, reader, receipt(handing), &fresh, now)?;
        Ok(fresh)
    }

    /// The messages that a reader is done with and when it was, the latest first, at most `limit`.
    ///
    /// # Errors
    /// As [`Mailbox::is_empty`].
    pub fn archive(&self, reader: &Reader, limit: usize) -> Result<Vec<(Message, Stamp)>> {
        let archived = cursor::load_receipts(self.repo, reader)?.archived;
        let mut latest: Vec<_> = archived.into_iter().collect();
        latest.sort_by(|one, two| (two.1, &two.0).cmp(&(one.1, &one.0)));
        latest.truncate(limit);
        let ids: Vec<_> = latest.iter().map(|(id, _)| id.clone()).collect();
        let mut messages = self.messages(&ids)?;
        let found = latest.into_iter().filter_map(|(id, at)| Some((messages.remove(&id)?, at)));
        Ok(found.collect())
    }

    /// What tells whether there is anything new for a reader: other messages, or other receipts.
    ///
    /// # Errors
    /// As [`Mailbox::is_empty`].
    pub fn state_for(&self, reader: &Reader) -> Result<String> {
        let open = self.open(reader)?;
        let ids: Vec<_> = open.iter().map(|one| one.id.as_str()).collect();
        let receipts = notes::lookup(self.repo, self.receipts_tree()?, reader.key)?;
        Ok(format!("{} {receipts:?}", ids.join(" ")))
    }

    /// What a reader has open and what it was handed last.
    ///
    /// # Errors
    /// As [`Mailbox::is_empty`].
    pub fn copy_for(&self, reader: &Reader) -> Result<MailCopy> {
        let handed = self.archive(reader, COPIED)?.into_iter().map(|(message, _)| Ok(message));
        let open = self.open(reader)?;
        let open = open.iter().take(COPIED_OPEN).map(|open| self.read(open));
        let mut messages = handed.chain(open).collect::<Result<Vec<Message>>>()?;
        messages.sort_by_key(|message| message.at);
        let receipts = cursor::load_receipts(self.repo, reader)?;
        let mut lines = Vec::new();
        for (deed, stamps) in
            [(ReceiptKind::Read, &receipts.read), (ReceiptKind::Archived, &receipts.archived)]
        {
            for message in &messages {
                if let Some(at) = stamps.get(&message.id) {
                    let of = vec![message.id.to_string()];
                    lines.push(Receipt { at: *at, deed, of }.encode()?);
                }
            }
        }
        let lines = notes::union_of_lines(lines.iter().map(String::as_bytes));
        let messages = messages.iter().map(message::encode).collect();
        Ok(MailCopy { messages, note: (reader.key, lines) })
    }

    /// The message of an open entry.
    ///
    /// # Errors
    /// `repo-corrupt` when it is gone.
    pub fn read(&self, open: &Open) -> Result<Message> {
        message::decode(&self.repo.read_commit(open.commit)?.message).ok_or_else(|| {
            Error::new(Code::RepoCorrupt, format!("commit {} holds no message", open.commit))
                .hint("to check the repository, run git fsck")
        })
    }

    /// The stamp of what is appended to a tip now: its time is later than that of everything below that is not far ahead
    /// of the clock, so that ids, which hold no counter, grow too.
    fn next_stamp(&self, tip: Option<&Commit>, now: DateTime<Utc>, clone: u16) -> Stamp {
        let last = tip.and_then(|tip| self.last_stamp(tip, |stamp| is_followed(*stamp, now)));
        let after = last.map_or(now, |last| now.max(last.time() + TimeDelta::microseconds(1)));
        Stamp::next(after, clone, last)
    }

    /// The commit below which are the messages of two histories; one of them where that has the other. Its stamp is the
    /// later of theirs, so that what follows comes after all of them, and two clones that join the same two make the same
    /// commit.
    ///
    /// # Errors
    /// `repo-corrupt`, `disk-full`, `repo-read-only`.
    pub fn join(&self, ours: Oid, theirs: Oid) -> Result<Oid> {
        let repo = self.repo;
        let base = repo.merge_base(ours, theirs)?;
        if base == Some(theirs) {
            return Ok(ours);
        }
        if base == Some(ours) {
            return Ok(theirs);
        }
        let mut parents = [ours, theirs];
        parents.sort_unstable();
        let sides = [repo.read_commit(parents[0])?, repo.read_commit(parents[1])?];
        let [one, two] = [&sides[0], &sides[1]].map(|side| self.last_stamp(side, |_| true));
        let stamp = one.max(two);
        let stamp = stamp.map_or_else(String::new, |stamp| format!("{STAMP_TRAILER}: {stamp}\n"));
        let who = Identity::stand_in(sides[0].seconds.max(sides[1].seconds));
        let message = format!("agent: unite\n\n{stamp}{TRAILER}: 1\n");
        chain::empty_commit(repo, &parents, &who, &message)
    }

    /// The latest stamp at or below a commit, of those that are followed.
    fn last_stamp(&self, tip: &Commit, is_followed: impl Fn(&Stamp) -> bool) -> Option<Stamp> {
        let mut latest = None;
        // A forged history may lead to one commit in a thousand ways.
        let mut seen = HashSet::new();
        let mut waiting = vec![tip.clone()];
        while let Some(commit) = waiting.pop() {
            let stamp = commit.trailer(STAMP_TRAILER).and_then(Stamp::parse);
            match stamp.filter(&is_followed) {
                Some(stamp) => latest = latest.max(Some(stamp)),
                // A commit of repair, or a forged stamp; what is below may be gone.
                None => {
                    let parents = commit.parents.iter().filter(|oid| seen.insert(**oid));
                    waiting.extend(parents.filter_map(|oid| self.repo.read_commit(*oid).ok()));
                }
            }
        }
        latest
    }

    /// The commit that the chain of messages is at; `None` for a mailbox that was never begun.
    fn tip(&self) -> Result<Option<Commit>> {
        chain::tip(self.repo, Chain::Mail)
    }

    /// The notes tree of the receipts.
    fn receipts_tree(&self) -> Result<Oid> {
        let tip = chain::tip(self.repo, Chain::Receipts)?;
        Ok(tip.map_or(Oid::EMPTY_TREE, |tip| tip.tree))
    }
}

/// Who holds the lock may write receipts; said by the guard.
type Held<'a> = &'a Guard;

// How many messages each of many readers sent, took and has waiting, in one walk of the chain.

/// Messages of one reader, as far as the mailbox still holds them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Sent by it.
    pub sent: usize,
    /// For it, and handed to it.
    pub received: usize,
    /// For it, and not handed to it yet.
    pub pending: usize,
}

impl Mailbox<'_> {
    /// Counts for each of these readers. Nothing is remembered or marked.
    ///
    /// # Errors
    /// `repo-corrupt` when the messages or the receipts are damaged beyond their reflogs.
    pub fn tally(&self, readers: &[Reader]) -> Result<Vec<Tally>> {
        let taken: Vec<Receipts> = readers
            .iter()
            .map(|reader| cursor::load_receipts(self.repo, reader))
            .collect::<Result<_>>()?;
        let mut named: HashMap<&str, Vec<usize>> = HashMap::new();
        for (index, reader) in readers.iter().enumerate() {
            for name in &reader.names {
                named.entry(name).or_default().push(index);
            }
        }
        let counted = self.walk(|counts: &mut HashMap<usize, Tally>, _, envelope| {
            let Some(envelope) = envelope else {
                return ControlFlow::Continue(());
            };
            let senders = named.get(envelope.from.as_str());
            for index in senders.into_iter().flatten() {
                counts.entry(*index).or_default().sent += 1;
            }
            for (index, (reader, taken)) in readers.iter().zip(&taken).enumerate() {
                if !reader.is_for(envelope) {
                    continue;
                }
                let count = counts.entry(index).or_default();
                if taken.read.contains_key(&envelope.id)
                    || taken.archived.contains_key(&envelope.id)
                {
                    count.received += 1
                } else {
                    count.pending += 1
                }
            }
            ControlFlow::Continue(())
        })?;
        let count = |index| counted.get(&index).copied().unwrap_or_default();
        Ok((0..readers.len()).map(count).collect())
    }
}
