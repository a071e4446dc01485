//! Messages between agents, and between agents and people: what they are, what each type must say, in
//! which order they are read.
//!
//! A message is for named receivers or for everybody. An agent is named by its id, whatever it was called
//! when the message was written; everybody else by the name that was given. What a message says is a JSON
//! object; here it is known by its text and by its top-level fields.

pub mod draft;
mod handling;
mod id;
mod kind;
mod name;

pub use draft::{Draft, Letter};
pub use handling::{Handing, Retention};
pub use id::{ID_PREFIX, MessageId};
pub use kind::{Kind, Priority};
pub use name::{EVERYBODY, NAME_LIMIT, Name, Receivers, USER};

use super::stamp::Stamp;

/// The longest payload, in bytes of its JSON text.
pub const PAYLOAD_LIMIT: usize = 1 << 20;

/// What a message says: a JSON object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Payload {
    /// The object as JSON text, with sorted keys.
    pub json: String,
    /// Its top-level fields in that order: a string as it is, anything else as JSON text. Fields that
    /// hold nothing (`null`, an empty string, list or object) are left out.
    pub fields: Vec<(String, String)>,
}

impl Payload {
    /// What a field says; `None` when it says nothing.
    pub fn field(&self, name: &str) -> Option<&str> {
        let found = self.fields.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// A message as it was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its name.
    pub id: MessageId,
    /// Its place in the order of sending.
    pub at: Stamp,
    /// 16 hex digits that tell this act of sending from every other.
    pub nonce: String,
    /// What was sent.
    pub letter: Letter,
}

/// Foreign text with its control characters spelled out, so that no message moves its reader's
/// cursor. Line feeds and tabs stay.
pub fn plain(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => shown.push(c),
            c if c.is_control() => shown.extend(c.escape_default()),
            c => shown.push(c),
        }
    }
    shown
}
