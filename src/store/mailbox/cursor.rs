//! What a reader has open, remembered so that only what is new since the last call is looked at.
//!
//! ```text
//! git-agent mail cursor 2 <tip> <its stamp or -> <blob of the reader's note or -> <names, hashed>
//! page <commit>
//! open <commit> <id> <type> <priority> <stamp> <stamp of the handing out or ->
//! end <lines>
//! ```
//!
//! It is believed only where what it was made of is still there: the chain leads down to its tip without
//! a merge, and the reader's note holds every line that it held. Anything else, and a file that is missing,
//! cut short or of another version, means that the whole chain is walked again.

use super::reader::{self, Reader};
use super::{Held, Mailbox, chain};
use crate::domain::mail::message::{Kind, Priority};
use crate::domain::value::named::short_hex;
use crate::domain::{MessageId, Oid, Stamp};
use crate::error::Result;
use crate::git::record::notes::{Batch, Put};
use crate::git::{Commit, Repo, record::notes};
use crate::store::chain::Chain;
use crate::store::chain::keep;
use crate::store::chain::remote_names;
use crate::store::files::{fsx, layout};
use crate::wire::row::message::{self, Envelope, STAMP_TRAILER};
use crate::wire::row::receipt_line::{Receipt, ReceiptKind};
use chrono::{DateTime, Utc};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::ControlFlow;

/// How the first line begins.
const MAGIC: &str = "git-agent mail cursor 2";

/// A message that its reader has not archived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    /// The message.
    pub id: MessageId,
    /// The commit that holds it.
    pub commit: Oid,
    /// Its type.
    pub kind: Kind,
    /// How soon it is to be read.
    pub priority: Priority,
    /// Its place in the order of sending.
    pub at: Stamp,
    /// When it was handed out, if it was and has not been acknowledged.
    pub read: Option<Stamp>,
}

impl Open {
    /// The entry of a message that is for this reader and can be read. A remote may bring one whose envelope is sound and
    /// whose content is not: were it handed out, its reader could receive nothing any more.
    fn of(commit: &Commit, envelope: &Envelope, reader: &Reader) -> Option<Open> {
        let is_readable = || message::decode(&commit.message).is_some();
        (reader.is_for(envelope) && is_readable()).then(|| Open {
            id: envelope.id.clone(),
            commit: commit.oid,
            kind: envelope.kind,
            priority: envelope.priority,
            at: envelope.at,
            read: None,
        })
    }
}

type Opens = BTreeMap<MessageId, Open>;

/// The content of the file.
#[derive(Debug, PartialEq, Eq)]
struct CursorFile {
    tip: Oid,
    stamp: Option<Stamp>,
    note: Option<Oid>,
    names: String,
    pages: BTreeSet<Oid>,
    open: Opens,
}

/// What a reader has open: by priority, then oldest first.
pub(super) fn open(mailbox: &Mailbox<'_>, reader: &Reader) -> Result<Vec<Open>> {
    let Some(tip) = mailbox.tip()? else {
        return Ok(Vec::new());
    };
    let path = layout::mail_cursor(mailbox.repo.common_dir(), &file_name(reader));
    let cached = fsx::load_if_there(&path).ok().flatten();
    let cached = cached
        .and_then(|content| parse(std::str::from_utf8(&content).ok()?))
        .filter(|cursor| cursor.names == names_hash(reader));
    let tree = mailbox.receipts_tree()?;
    // Notes at several depths are the work of others; their union has no name to remember.
    let note = match notes::lookup(mailbox.repo, tree, reader.key).as_deref() {
        Ok([]) => Some(None),
        Ok([blob]) => Some(Some(*blob)),
        _ => None,
    };
    let warm = match (cached, note) {
        // Nothing was sent and nothing was read since: this is what most calls find.
        (Some(cursor), Some(note)) if cursor.tip == tip.oid && cursor.note == note => {
            return Ok(sorted(cursor.open));
        }
        (Some(cursor), Some(note)) => advance(mailbox, reader, cursor, &tip, tree, note),
        _ => None,
    };
    let cursor = match warm {
        Some(cursor) => cursor,
        None => begin(mailbox, reader, &tip, note.flatten())?,
    };
    if note.is_some() {
        let saved = fsx::create_dir(&layout::cache_dir(mailbox.repo.common_dir()))
            .and_then(|()| fsx::write_atomic(&path, render(&cursor).as_bytes()));
        // Where nothing can be remembered, the next call takes as long as this one.
        drop(saved);
    }
    Ok(sorted(cursor.open))
}

/// The cursor brought up to date; `None` when it cannot be believed, or something could not be read.
fn advance(
    mailbox: &Mailbox<'_>,
    reader: &Reader,
    mut cursor: CursorFile,
    tip: &Commit,
    tree: Oid,
    note: Option<Oid>,
) -> Option<CursorFile> {
    let mut next = tip.clone();
    while next.oid != cursor.tip {
        let stamp = next.trailer(STAMP_TRAILER).and_then(Stamp::parse);
        // A merge may bring messages of any age, and a stamp that is not later means that the chain
        // was rewritten: in both cases the order says nothing about what is new.
        let &[parent] = next.parents.as_slice() else {
            return None;
        };
        if stamp.is_some_and(|stamp| Some(stamp) <= cursor.stamp) {
            return None;
        }
        let envelope = message::envelope(&next.message);
        let open = envelope.and_then(|envelope| Open::of(&next, &envelope, reader));
        cursor.open.extend(open.map(|open| (open.id.clone(), open)));
        next = mailbox.repo.read_commit(parent).ok()?;
    }
    let body = notes::body(mailbox.repo, tree, reader.key).ok()?;
    let mut fresh = Receipts::default();
    fresh.add(&body);
    let known = std::mem::take(&mut cursor.pages);
    if cursor.note != note && !holds_all(mailbox, cursor.note, &body, tree, &fresh, &known) {
        return None;
    }
    // Only the pages that the note itself names are remembered, as the pages behind them never
    // change.
    cursor.pages = fresh.pages.clone();
    fresh.add_pages(mailbox.repo, tree, &known).ok()?;
    apply(&mut cursor.open, &fresh);
    (cursor.tip, cursor.note) = (tip.oid, note);
    cursor.stamp = tip.trailer(STAMP_TRAILER).and_then(Stamp::parse).or(cursor.stamp);
    Some(cursor)
}

/// Whether every line that the note once held is still in it, or in a page that it names since then.
fn holds_all(
    mailbox: &Mailbox<'_>,
    once: Option<Oid>,
    body: &[u8],
    tree: Oid,
    fresh: &Receipts,
    known: &BTreeSet<Oid>,
) -> bool {
    let Some(once) = once else { return true };
    let Ok(once) = mailbox.repo.read_blob(once) else {
        return false;
    };
    let new_pages = fresh.pages.difference(known);
    let bodies: Vec<_> = new_pages
        .filter_map(|page| notes::body(mailbox.repo, tree, *page).ok())
        .chain([body.to_owned()])
        .collect();
    let held: HashSet<&[u8]> = bodies.iter().flat_map(|body| notes::lines_of(body)).collect();
    notes::lines_of(&once).all(|line| held.contains(line))
}

/// The cursor from the whole chain.
fn begin(
    mailbox: &Mailbox<'_>,
    reader: &Reader,
    tip: &Commit,
    note: Option<Oid>,
) -> Result<CursorFile> {
    let mut open = mailbox.walk(|open: &mut Opens, commit, envelope| {
        let Some(envelope) = envelope else {
            return ControlFlow::Continue(());
        };
        // No message went to an agent that was not there, unless by a name that was known before.
        let is_older = reader.since.is_some_and(|since| envelope.at.time() < since);
        if is_older && !reader.was_expected {
            return ControlFlow::Break(());
        }
        let entry = Open::of(commit, envelope, reader);
        open.extend(entry.map(|entry| (entry.id.clone(), entry)));
        ControlFlow::Continue(())
    })?;
    let receipts = load_receipts(mailbox.repo, reader)?;
    apply(&mut open, &receipts);
    let named = read_receipts(mailbox.repo, |tree| {
        let mut named = Receipts::default();
        named.add(&notes::body(mailbox.repo, tree, reader.key)?);
        Ok(named.pages)
    })?;
    Ok(CursorFile {
        tip: tip.oid,
        stamp: tip.trailer(STAMP_TRAILER).and_then(Stamp::parse),
        note,
        names: names_hash(reader),
        pages: named,
        open,
    })
}

fn apply(open: &mut Opens, receipts: &Receipts) {
    open.retain(|id, _| !receipts.archived.contains_key(id));
    for (id, open) in open {
        open.read = open.read.max(receipts.read.get(id).copied());
    }
}

fn sorted(open: Opens) -> Vec<Open> {
    let mut open: Vec<_> = open.into_values().collect();
    open.sort_by_key(|open| (open.priority, open.at));
    open
}

fn file_name(reader: &Reader) -> String {
    reader.key.to_hex()[..16].to_owned()
}

fn names_hash(reader: &Reader) -> String {
    // A reader that gets another name has other messages, so the names are part of what the file
    // was made of.
    let hash = Sha256::digest(format!("{:?} {:?}", reader.names, reader.since));
    short_hex(&hash, 8)
}

fn render(cursor: &CursorFile) -> String {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let stamp = |stamp: Option<Stamp>| or_dash(stamp.map(|stamp| stamp.to_string()));
    let mut text = format!(
        "{MAGIC} {} {} {} {}\n",
        cursor.tip,
        stamp(cursor.stamp),
        or_dash(cursor.note.map(Oid::to_hex)),
        cursor.names
    );
    for page in &cursor.pages {
        text.push_str(&format!("page {page}\n"));
    }
    for open in cursor.open.values() {
        text.push_str(&format!(
            "open {} {} {} {} {} {}\n",
            open.commit,
            open.id,
            open.kind,
            open.priority,
            open.at,
            stamp(open.read)
        ));
    }
    text.push_str(&format!("end {}\n", cursor.pages.len() + cursor.open.len()));
    text
}

fn parse(text: &str) -> Option<CursorFile> {
    fn or_dash<T>(word: &str, parse: impl Fn(&str) -> Option<T>) -> Option<Option<T>> {
        if word == "-" { Some(None) } else { parse(word).map(Some) }
    }
    let mut lines = text.strip_suffix('\n')?.split('\n');
    let mut words = lines.next()?.strip_prefix(MAGIC)?.trim_start().split(' ');
    let mut cursor = CursorFile {
        tip: Oid::from_hex(words.next()?)?,
        stamp: or_dash(words.next()?, Stamp::parse)?,
        note: or_dash(words.next()?, Oid::from_hex)?,
        names: words.next()?.to_owned(),
        pages: BTreeSet::new(),
        open: Opens::new(),
    };
    while let Some(line) = lines.next() {
        let words: Vec<_> = line.split(' ').collect();
        match words.as_slice() {
            ["page", page] => drop(cursor.pages.insert(Oid::from_hex(page)?)),
            ["open", commit, id, kind, priority, at, read] => {
                let open = Open {
                    id: MessageId::parse(id)?,
                    commit: Oid::from_hex(commit)?,
                    kind: Kind::parse(kind)?,
                    priority: Priority::parse(priority)?,
                    at: Stamp::parse(at)?,
                    read: or_dash(read, Stamp::parse)?,
                };
                cursor.open.insert(open.id.clone(), open);
            }
            ["end", number] => {
                let is_whole = number.parse() == Ok(cursor.pages.len() + cursor.open.len());
                return (is_whole && lines.next().is_none()).then_some(cursor);
            }
            _ => return None,
        }
    }
    None
}

// What readers have read: one note per reader, in pages.
//
// Every receipt rewrites the reader's note, so a note must not grow with everything that was ever read. When
// it is full its lines move to a page, the note of an empty commit of its own, and the reader's note
// begins again with a line that names the page. Lines are facts: a copy of one, which a union of two
// clones may bring back, says nothing new.

/// A note longer than this is full, in bytes. Writing one costs about as much as the rest of a receipt.
const PAGE: usize = 16 * 1024;

/// What a reader, or a part of its notes, says.
#[derive(Clone, Debug, Default)]
pub(super) struct Receipts {
    /// What was handed out, and when last.
    pub(super) read: HashMap<MessageId, Stamp>,
    /// What is done with, and since when.
    pub(super) archived: HashMap<MessageId, Stamp>,
    /// The pages that are named.
    pub(super) pages: BTreeSet<Oid>,
}

impl Receipts {
    /// Adds the lines of a note.
    pub(super) fn add(&mut self, body: &[u8]) {
        for receipt in notes::lines_of(body).filter_map(Receipt::decode) {
            if receipt.deed == ReceiptKind::Page {
                let pages = receipt.of.iter().filter_map(|oid| Oid::from_hex(oid));
                self.pages.extend(pages);
                continue;
            }
            for id in receipt.of.iter().filter_map(|id| MessageId::parse(id)) {
                if receipt.deed == ReceiptKind::Read {
                    let at = self.read.entry(id).or_insert(receipt.at);
                    *at = receipt.at.max(*at);
                } else {
                    // Done with is done with: the first time counts.
                    let at = self.archived.entry(id).or_insert(receipt.at);
                    *at = receipt.at.min(*at);
                }
            }
        }
    }

    /// Adds what another part of the same reader's notes says.
    pub(super) fn join(&mut self, other: Receipts) {
        for (id, at) in other.read {
            let known = self.read.entry(id).or_insert(at);
            *known = at.max(*known);
        }
        for (id, at) in other.archived {
            let known = self.archived.entry(id).or_insert(at);
            *known = at.min(*known);
        }
        self.pages.extend(other.pages);
    }

    /// Adds the pages that are named and those behind them, but for the ones that are known.
    pub(super) fn add_pages(
        &mut self,
        repo: &Repo,
        tree: Oid,
        known: &BTreeSet<Oid>,
    ) -> Result<()> {
        let mut seen = known.clone();
        loop {
            let next = self.pages.iter().find(|page| !seen.contains(*page)).copied();
            let Some(page) = next else { return Ok(()) };
            // Remembered before it is read, so that pages which name each other end the loop.
            seen.insert(page);
            self.add(&notes::body(repo, tree, page)?);
        }
    }
}

/// Everything that a reader has read.
///
/// # Errors
/// `repo-corrupt` when the receipts are damaged beyond their reflog.
pub(super) fn load_receipts(repo: &Repo, reader: &Reader) -> Result<Receipts> {
    read_receipts(repo, |tree| {
        let mut receipts = Receipts::default();
        receipts.add(&notes::body(repo, tree, reader.key)?);
        receipts.add_pages(repo, tree, &BTreeSet::new())?;
        Ok(receipts)
    })
}

/// Every note of the receipts, with the commit that it is on.
///
/// # Errors
/// As [`load_receipts`].
pub(super) fn load_all(repo: &Repo) -> Result<Vec<(Oid, Receipts)>> {
    read_receipts(repo, |tree| {
        let mut keys: Vec<_> = notes::all(repo, tree)?.into_iter().map(|note| note.0).collect();
        keys.dedup();
        let load = |key: Oid| {
            let mut receipts = Receipts::default();
            receipts.add(&notes::body(repo, tree, key)?);
            Ok((key, receipts))
        };
        keys.into_iter().map(load).collect()
    })
}

/// Runs a reader on the notes tree; on a damaged one, on what the reflog gives back.
pub(super) fn read_receipts<T>(repo: &Repo, reader: impl Fn(Oid) -> Result<T>) -> Result<T> {
    match chain::read(repo, Chain::Receipts, |tip, _| reader(tip.tree))? {
        Some(read) => Ok(read),
        None => reader(Oid::EMPTY_TREE),
    }
}

/// Writes down what became of messages, all of them in one commit. Nothing is written for none.
///
/// # Errors
/// `lock-timeout`, `disk-full`, `repo-read-only`, `repo-corrupt`.
pub(super) fn record_receipts(
    mailbox: &Mailbox<'_>,
    guard: Held<'_>,
    reader: &Reader,
    deed: ReceiptKind,
    ids: &[MessageId],
    now: DateTime<Utc>,
) -> Result<()> {
    if ids.is_empty() {
        return Ok(());
    }
    let repo = mailbox.repo;
    let who = chain::identity(repo, now);
    let clone = remote_names::load_or_make_clone_id(repo.common_dir())?;
    let subject = format!("agent: receipts of {}", reader.name);
    let commit = chain::append(repo, guard, Chain::Receipts, &who, &subject, |tip| {
        let tree = tip.map_or(Oid::EMPTY_TREE, |tip| tip.tree);
        let old = notes::body(repo, tree, reader.key)?;
        // The stand-in has to be kept before a note on it exists: `git notes prune` removes notes
        // on commits that are gone.
        if old.is_empty() {
            keep_stand_in(repo, reader, now)?;
            (mailbox.reached)("reader-kept");
        }
        // Lines are sorted and begin with their stamps, so the last one is the latest.
        let last = notes::lines_of(&old).filter_map(Receipt::decode).last();
        let last = last.map(|receipt| receipt.at);
        let receipt = Receipt {
            at: Stamp::next(now, clone, last),
            deed,
            of: ids.iter().map(MessageId::to_string).collect(),
        };
        let line = receipt.encode()?;
        let mut batch = Batch::new();
        let mut rest = old;
        // Without a stamp there is no line yet, and nothing to move.
        if let Some(last) = last.filter(|_| rest.len() + line.len() > PAGE) {
            let page = turn_page(repo, reader, last, now)?;
            // A page of the same name may be there already, from an attempt that lost the race for
            // the ref.
            batch.insert(page, Put::Union(repo.write_blob(&rest)?));
            rest = Receipt { at: last, deed: ReceiptKind::Page, of: vec![page.to_hex()] }
                .encode()?
                .into_bytes();
        }
        let body = notes::union_of_lines([rest.as_slice(), line.as_bytes()]);
        batch.insert(reader.key, Put::Replace(repo.write_blob(&body)?));
        let tree = notes::with_notes(repo, tree, batch)?;
        let parents: Vec<_> = tip.map(|tip| tip.oid).into_iter().collect();
        let commit = chain::commit(repo, tree, &parents, &who, &subject)?;
        (mailbox.reached)("receipt-written");
        Ok(commit)
    })?;
    keep::after_append(repo, commit);
    Ok(())
}

/// The commit of a reader that is no agent must outlive `git gc`; an agent's is kept since its spawn.
fn keep_stand_in(repo: &Repo, reader: &Reader, now: DateTime<Utc>) -> Result<()> {
    if reader.since.is_some() {
        return Ok(());
    }
    let message = reader::stand_in_message(&reader.name, None);
    let stand_in = reader::write_stand_in(repo, &message)?;
    keep::keep(repo, &[stand_in], &format!("reader {}", reader.name), now).map(|_| ())
}

fn turn_page(repo: &Repo, reader: &Reader, last: Stamp, now: DateTime<Utc>) -> Result<Oid> {
    let message = reader::stand_in_message(&reader.name, Some(&last.to_string()));
    let page = reader::write_stand_in(repo, &message)?;
    keep::keep(repo, &[page], &format!("receipts of {}", reader.name), now)?;
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_read_back_whole_or_not_at_all() {
        let stamp = Stamp::parse("20261120T214929.123456Z-000-7f3a").expect("a stamp");
        let id = MessageId::new(stamp, 1);
        let open = Open {
            id: id.clone(),
            commit: Oid::EMPTY_TREE,
            kind: Kind::Notify,
            priority: Priority::Low,
            at: stamp,
            read: Some(stamp),
        };
        let cursor = CursorFile {
            tip: Oid::EMPTY_TREE,
            stamp: None,
            note: Some(Oid::EMPTY_TREE),
            names: "0011223344556677".to_owned(),
            pages: BTreeSet::from([Oid::EMPTY_TREE]),
            open: Opens::from([(id, open)]),
        };
        let text = render(&cursor);
        assert_eq!(parse(&text), Some(cursor));
        for end in 0..text.len() {
            assert_eq!(parse(&text[..end]), None, "{end}");
        }
        assert_eq!(parse(&format!("{text}end 2\n")), None);
    }
}
