//! What readers have read: one note per reader, in pages.
//!
//! Every receipt rewrites the reader's note, so a note must not grow with everything that was ever read. When
//! it is full its lines move to a page, the note of an empty commit of its own, and the reader's note
//! begins again with a line that names the page. Lines are facts: a copy of one, which a union of two
//! clones may bring back, says nothing new.

use super::reader::{self, Reader};
use super::{Held, Mailbox, chain, clone_id};
use crate::domain::message::MessageId;
use crate::domain::oid::Oid;
use crate::domain::stamp::Stamp;
use crate::error::Result;
use crate::git::Repo;
use crate::git::notes::fanout::{self, Batch, Put};
use crate::git::notes::{self, lines};
use crate::store::chain::Chain;
use crate::store::{keep, maintenance};
use crate::wire::receipt_line::{Receipt, ReceiptKind};
use chrono::{DateTime, Utc};
use std::collections::{BTreeSet, HashMap};

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
        for receipt in lines::split(body).filter_map(Receipt::decode) {
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
            let next = self
                .pages
                .iter()
                .find(|page| !seen.contains(*page))
                .copied();
            let Some(page) = next else { return Ok(()) };
            seen.insert(page);
            self.add(&notes::body(repo, tree, page)?);
        }
    }
}

/// Everything that a reader has read.
///
/// # Errors
/// `repo-corrupt` when the receipts are damaged beyond their reflog.
pub(super) fn load(repo: &Repo, reader: &Reader) -> Result<Receipts> {
    read(repo, |tree| {
        let mut receipts = Receipts::default();
        receipts.add(&notes::body(repo, tree, reader.key)?);
        receipts.add_pages(repo, tree, &BTreeSet::new())?;
        Ok(receipts)
    })
}

/// Every note of the receipts, with the commit that it is on.
///
/// # Errors
/// As [`load`].
pub(super) fn load_all(repo: &Repo) -> Result<Vec<(Oid, Receipts)>> {
    read(repo, |tree| {
        let mut keys: Vec<_> = notes::all(repo, tree)?
            .into_iter()
            .map(|note| note.0)
            .collect();
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
pub(super) fn read<T>(repo: &Repo, reader: impl Fn(Oid) -> Result<T>) -> Result<T> {
    match chain::read(repo, Chain::Receipts, |tip, _| reader(tip.tree))? {
        Some(read) => Ok(read),
        None => reader(Oid::EMPTY_TREE),
    }
}

/// Writes down what became of messages, all of them in one commit. Nothing is written for none.
///
/// # Errors
/// `lock-timeout`, `disk-full`, `repo-read-only`, `repo-corrupt`.
pub(super) fn record(
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
    let clone = clone_id::load_or_make(repo.common_dir())?;
    let subject = format!("agent: receipts of {}", reader.name);
    let commit = chain::append(repo, guard, Chain::Receipts, &who, &subject, |tip| {
        let tree = tip.map_or(Oid::EMPTY_TREE, |tip| tip.tree);
        let old = notes::body(repo, tree, reader.key)?;
        if old.is_empty() {
            keep_stand_in(repo, reader, now)?;
            (mailbox.reached)("reader-kept");
        }
        let last = lines::split(&old).filter_map(Receipt::decode).last();
        let last = last.map(|receipt| receipt.at);
        let receipt = Receipt {
            at: Stamp::next(now, clone, last),
            deed,
            of: ids.iter().map(MessageId::to_string).collect(),
        };
        let line = receipt.encode()?;
        let mut batch = Batch::new();
        let mut rest = old;
        if let Some(last) = last.filter(|_| rest.len() + line.len() > PAGE) {
            let page = turn_page(repo, reader, last, now)?;
            batch.insert(page, Put::Union(repo.write_blob(&rest)?));
            rest = Receipt {
                at: last,
                deed: ReceiptKind::Page,
                of: vec![page.to_hex()],
            }
            .encode()?
            .into_bytes();
        }
        let body = lines::union([rest.as_slice(), line.as_bytes()]);
        batch.insert(reader.key, Put::Replace(repo.write_blob(&body)?));
        let tree = fanout::put(repo, tree, batch)?;
        let parents: Vec<_> = tip.map(|tip| tip.oid).into_iter().collect();
        let commit = chain::commit(repo, tree, &parents, &who, &subject)?;
        (mailbox.reached)("receipt-written");
        Ok(commit)
    })?;
    maintenance::after_append(repo, commit);
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
