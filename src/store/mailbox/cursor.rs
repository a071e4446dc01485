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

use super::Mailbox;
use super::reader::Reader;
use super::receipts::{self, Receipts};
use super::walk::Step;
use crate::domain::hex::hex;
use crate::domain::message::{Kind, MessageId, Priority};
use crate::domain::oid::Oid;
use crate::domain::stamp::Stamp;
use crate::error::Result;
use crate::git::notes::{self, lines};
use crate::git::objects::Commit;
use crate::store::{fsx, layout};
use crate::wire::message::{self, Envelope, STAMP_TRAILER};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet, HashSet};

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
struct Cursor {
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
    mut cursor: Cursor,
    tip: &Commit,
    tree: Oid,
    note: Option<Oid>,
) -> Option<Cursor> {
    let mut next = tip.clone();
    while next.oid != cursor.tip {
        let stamp = next.trailer(STAMP_TRAILER).and_then(Stamp::parse);
        if next.parents.len() != 1 || stamp.is_some_and(|stamp| Some(stamp) <= cursor.stamp) {
            return None;
        }
        let envelope = message::envelope(&next.message);
        let open = envelope.and_then(|envelope| Open::of(&next, &envelope, reader));
        cursor.open.extend(open.map(|open| (open.id.clone(), open)));
        next = mailbox.repo.read_commit(next.parents[0]).ok()?;
    }
    let body = notes::body(mailbox.repo, tree, reader.key).ok()?;
    let mut fresh = Receipts::default();
    fresh.add(&body);
    let known = std::mem::take(&mut cursor.pages);
    if cursor.note != note && !holds_all(mailbox, cursor.note, &body, tree, &fresh, &known) {
        return None;
    }
    cursor.pages = fresh.pages.clone();
    fresh.add_pages(mailbox.repo, tree, &known).ok()?;
    apply(&mut cursor.open, &fresh);
    (cursor.tip, cursor.note) = (tip.oid, note);
    cursor.stamp = tip
        .trailer(STAMP_TRAILER)
        .and_then(Stamp::parse)
        .or(cursor.stamp);
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
    let held: HashSet<&[u8]> = bodies.iter().flat_map(|body| lines::split(body)).collect();
    lines::split(&once).all(|line| held.contains(line))
}

/// The cursor from the whole chain.
fn begin(
    mailbox: &Mailbox<'_>,
    reader: &Reader,
    tip: &Commit,
    note: Option<Oid>,
) -> Result<Cursor> {
    let mut open = mailbox.walk(|open: &mut Opens, commit, envelope| {
        let Some(envelope) = envelope else {
            return Step::On;
        };
        // No message went to an agent that was not there, unless by a name that was known before.
        let is_older = reader.since.is_some_and(|since| envelope.at.time() < since);
        if is_older && !reader.was_expected {
            return Step::Stop;
        }
        let entry = Open::of(commit, envelope, reader);
        open.extend(entry.map(|entry| (entry.id.clone(), entry)));
        Step::On
    })?;
    let receipts = receipts::load(mailbox.repo, reader)?;
    apply(&mut open, &receipts);
    let named = receipts::read(mailbox.repo, |tree| {
        let mut named = Receipts::default();
        named.add(&notes::body(mailbox.repo, tree, reader.key)?);
        Ok(named.pages)
    })?;
    Ok(Cursor {
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
    let hash = Sha256::digest(format!("{:?} {:?}", reader.names, reader.since));
    hex(&hash[..8])
}

fn render(cursor: &Cursor) -> String {
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

fn parse(text: &str) -> Option<Cursor> {
    fn or_dash<T>(word: &str, parse: impl Fn(&str) -> Option<T>) -> Option<Option<T>> {
        if word == "-" {
            Some(None)
        } else {
            parse(word).map(Some)
        }
    }
    let mut lines = text.strip_suffix('\n')?.split('\n');
    let mut words = lines.next()?.strip_prefix(MAGIC)?.trim_start().split(' ');
    let mut cursor = Cursor {
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
        let cursor = Cursor {
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
