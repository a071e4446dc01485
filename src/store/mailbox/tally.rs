//! How many messages each of many readers sent, took and has waiting, in one walk of the chain.

use super::walk::Step;
use super::{Mailbox, Reader, receipts};
use crate::error::Result;
use crate::store::mailbox::receipts::Receipts;
use std::collections::HashMap;

/// Messages of one reader, as far as the mailbox still holds them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
            .map(|reader| receipts::load(self.repo, reader))
            .collect::<Result<_>>()?;
        let mut named: HashMap<&str, Vec<usize>> = HashMap::new();
        for (index, reader) in readers.iter().enumerate() {
            for name in &reader.names {
                named.entry(name).or_default().push(index);
            }
        }
        let counted = self.walk(|counts: &mut HashMap<usize, Tally>, _, envelope| {
            let Some(envelope) = envelope else {
                return Step::On;
            };
            let senders = named.get(envelope.from.as_str());
            for index in senders.into_iter().flatten() {
                counts.entry(*index).or_default().sent += 1;
            }
            for (index, reader) in readers.iter().enumerate() {
                if !reader.is_for(envelope) {
                    continue;
                }
                let (count, taken) = (counts.entry(index).or_default(), &taken[index]);
                if taken.read.contains_key(&envelope.id)
                    || taken.archived.contains_key(&envelope.id)
                {
                    count.received += 1
                } else {
                    count.pending += 1
                }
            }
            Step::On
        })?;
        let count = |index| counted.get(&index).copied().unwrap_or_default();
        Ok((0..readers.len()).map(count).collect())
    }
}
