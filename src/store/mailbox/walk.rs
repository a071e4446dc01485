//! Walking the chain, newest first, over merges and over damage.

use super::Mailbox;
use crate::domain::message::{Message, MessageId};
use crate::domain::oid::Oid;
use crate::domain::stamp::Stamp;
use crate::error::{Code, Result};
use crate::git::objects::Commit;
use crate::store::chain::{self, Chain};
use crate::wire::message::{self, Envelope};
use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap, HashSet};

/// Whether to go on after a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// To what is below it.
    On,
    /// Nothing older is wanted.
    Stop,
}

/// A commit in line: those without a stamp (merges and repairs) first, then by stamp, the latest first.
struct Queued {
    commit: Commit,
    envelope: Option<Envelope>,
}

impl Queued {
    fn key(&self) -> (bool, Option<Stamp>, Oid) {
        let at = self.envelope.as_ref().map(|envelope| envelope.at);
        (at.is_none(), at, self.commit.oid)
    }
}

impl Ord for Queued {
    fn cmp(&self, other: &Queued) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for Queued {
    fn partial_cmp(&self, other: &Queued) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Queued {
    fn eq(&self, other: &Queued) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Queued {}

impl Mailbox<'_> {
    /// Shows every commit of the chain to `visit`, messages in the order of their stamps, the latest first,
    /// until it says stop; gives what it made of them. Where the chain is damaged, begins again with what
    /// the reflog gives back and passes over what is gone.
    ///
    /// # Errors
    /// `repo-corrupt` when the chain is damaged beyond its reflog.
    pub(super) fn walk<T: Default>(
        &self,
        visit: impl Fn(&mut T, &Commit, Option<&Envelope>) -> Step,
    ) -> Result<T> {
        let walked = chain::read(self.repo, Chain::Mail, |tip, is_recovered| {
            self.walk_from(tip, is_recovered, &visit)
        })?;
        Ok(walked.unwrap_or_default())
    }

    fn walk_from<T: Default>(
        &self,
        tip: Commit,
        over_gaps: bool,
        visit: &impl Fn(&mut T, &Commit, Option<&Envelope>) -> Step,
    ) -> Result<T> {
        let mut made = T::default();
        let mut seen = HashSet::from([tip.oid]);
        let queued = |commit: Commit| Queued {
            envelope: message::envelope(&commit.message),
            commit,
        };
        let mut queue = BinaryHeap::from([queued(tip)]);
        while let Some(next) = queue.pop() {
            if visit(&mut made, &next.commit, next.envelope.as_ref()) == Step::Stop {
                break;
            }
            for parent in next.commit.parents {
                if !seen.insert(parent) {
                    continue;
                }
                match self.repo.read_commit(parent) {
                    Ok(commit) => queue.push(queued(commit)),
                    Err(error) if error.code() == Code::RepoCorrupt && over_gaps => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(made)
    }

    /// The messages with these ids, as far as there are any.
    ///
    /// # Errors
    /// As [`Mailbox::is_empty`].
    pub fn messages(&self, ids: &[MessageId]) -> Result<HashMap<MessageId, Message>> {
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        let wanted: HashSet<_> = ids.iter().collect();
        self.walk(
            |found: &mut HashMap<MessageId, Message>, commit, envelope| {
                let Some(envelope) = envelope else {
                    return Step::On;
                };
                if wanted.contains(&envelope.id) {
                    let message = message::decode(&commit.message);
                    found.extend(message.map(|message| (message.id.clone(), message)));
                }
                let all_found = found.len() == wanted.len();
                let too_old = || wanted.iter().all(|id| id.is_after(envelope.at));
                if all_found || too_old() {
                    Step::Stop
                } else {
                    Step::On
                }
            },
        )
    }

    /// The ids that begin like this, at most two.
    ///
    /// # Errors
    /// As [`Mailbox::is_empty`].
    pub fn ids_like(&self, beginning: &str) -> Result<Vec<MessageId>> {
        self.walk(|found: &mut Vec<MessageId>, _, envelope| {
            let id = envelope.map(|envelope| &envelope.id);
            found.extend(id.filter(|id| id.as_str().starts_with(beginning)).cloned());
            if found.len() > 1 {
                Step::Stop
            } else {
                Step::On
            }
        })
    }

    /// Every message that belongs to the conversation of one: what it answers, what answers it, and so on;
    /// oldest first. Empty when there is no such message.
    ///
    /// # Errors
    /// As [`Mailbox::is_empty`].
    pub fn conversation(&self, id: &MessageId) -> Result<Vec<Message>> {
        // The root is the oldest of them, and known only once it is found.
        let mut root = id.clone();
        while let Some(above) = self
            .messages(std::slice::from_ref(&root))?
            .remove(&root)
            .and_then(|message| message.letter.re)
        {
            // An answer is younger; anything else is a forgery that could go round in a ring.
            if above >= root {
                break;
            }
            root = above;
        }
        let mut later = self.walk(|found: &mut Vec<Message>, commit, envelope| {
            let Some(envelope) = envelope else {
                return Step::On;
            };
            let is_linked = envelope.re.is_some() || envelope.id == root || envelope.id == *id;
            found.extend(message::decode(&commit.message).filter(|_| is_linked));
            if root.is_after(envelope.at) {
                Step::Stop
            } else {
                Step::On
            }
        })?;
        later.reverse();
        let mut within = HashSet::from([root, id.clone()]);
        later.retain(|message| {
            let re = message.letter.re.as_ref();
            let belongs = within.contains(&message.id) || re.is_some_and(|re| within.contains(re));
            if belongs {
                within.insert(message.id.clone());
            }
            belongs
        });
        Ok(later)
    }
}
