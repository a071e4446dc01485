//! How messages are handed out, and how long they are kept.

use chrono::TimeDelta;

/// How messages are handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handing {
    /// They are read and archived, whatever becomes of the receiver.
    Archive,
    /// They come back after a while unless they are acknowledged.
    AwaitAck,
}

/// How long messages are kept. An unread one is kept regardless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// A reader with more messages than this that are not archived has those archived, the oldest first,
    /// which were handed out and never acknowledged.
    pub active: usize,
    /// A message that was handed out that long ago and never acknowledged is archived.
    pub archive_after: TimeDelta,
    /// A message that everybody archived that long ago is deleted.
    pub delete_after: TimeDelta,
}

impl Default for Retention {
    fn default() -> Retention {
        Retention {
            active: 100,
            archive_after: TimeDelta::days(7),
            delete_after: TimeDelta::days(30),
        }
    }
}
