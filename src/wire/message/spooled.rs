//! A message that waits in a spool until a process that may write refs posts it: `git-agent.spooled/1`.
//!
//! Its writer is not trusted: the sender is decided by whose spool it lies in, and everything
//! else is checked again when it is posted.

use super::lossless::losses;
use super::payload;
use crate::domain::message::{Letter, MessageId, Name, Receivers};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The schema's name and version.
pub const SCHEMA: &str = "git-agent.spooled/1";

/// A message in a spool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spooled {
    /// [`SCHEMA`].
    pub schema: String,
    /// The word for its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// The word for its priority.
    pub priority: String,
    /// Names, or `all` alone.
    pub to: Vec<String>,
    /// The message that it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub re: Option<String>,
    /// What it says.
    pub payload: Value,
    /// What tells this act of sending from every other.
    pub nonce: String,
}

impl Spooled {
    /// A message for the spool.
    pub fn new(letter: &Letter, nonce: &str) -> Spooled {
        Spooled {
            schema: SCHEMA.to_owned(),
            kind: letter.kind.as_str().to_owned(),
            priority: letter.priority.as_str().to_owned(),
            to: match &letter.to {
                Receivers::Everybody => vec![letter.to.to_string()],
                Receivers::Named(names) => {
                    names.iter().map(Name::as_str).map(str::to_owned).collect()
                }
            },
            re: letter.re.as_ref().map(MessageId::to_string),
            payload: serde_json::from_str(&letter.payload.json).unwrap_or_default(),
            nonce: nonce.to_owned(),
        }
    }

    /// The content of the file.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reads a file.
    ///
    /// # Errors
    /// One sentence that says why it is none.
    pub fn from_bytes(bytes: &[u8]) -> Result<Spooled, String> {
        let spooled: Spooled =
            serde_json::from_slice(bytes).map_err(|error| format!("it is no message: {error}"))?;
        match spooled.schema == SCHEMA {
            true => Ok(spooled),
            false => Err("it is of another version".to_owned()),
        }
    }

    /// The object that it says.
    ///
    /// # Errors
    /// One sentence when that is no JSON object.
    pub fn payload(&self) -> Result<crate::domain::message::Payload, String> {
        payload::parse(&self.payload.to_string())
    }
}

/// The schema's name and version of receipts in a spool.
pub const RECEIPT_SCHEMA: &str = "git-agent.received/1";

/// That the agent is done with messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Received {
    /// [`RECEIPT_SCHEMA`].
    pub schema: String,
    /// The ids of the messages.
    pub messages: Vec<String>,
}

impl Received {
    /// A receipt for the spool.
    pub fn new(ids: &[MessageId]) -> Received {
        Received {
            schema: RECEIPT_SCHEMA.to_owned(),
            messages: ids.iter().map(MessageId::to_string).collect(),
        }
    }

    /// The content of the file.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// What a file in a spool holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// A message.
    Message(Spooled),
    /// A receipt.
    Receipt(Vec<MessageId>),
}

/// Reads a file of a spool.
///
/// # Errors
/// One sentence that says why it is none.
pub fn read(bytes: &[u8]) -> Result<Content, String> {
    #[derive(Deserialize)]
    struct Any {
        schema: String,
    }
    let wrong = |error: serde_json::Error| format!("it is no message: {error}");
    let any: Any = serde_json::from_slice(bytes).map_err(wrong)?;
    match any.schema.as_str() {
        SCHEMA => {
            let message = serde_json::from_slice(bytes).map_err(wrong)?;
            let lost = losses(&String::from_utf8_lossy(bytes));
            match lost.is_empty() {
                true => Ok(Content::Message(message)),
                false => Err(lost.join("; ")),
            }
        }
        RECEIPT_SCHEMA => {
            let received: Received = serde_json::from_slice(bytes).map_err(wrong)?;
            let ids = received.messages.iter().map(|id| MessageId::parse(id));
            let ids: Option<Vec<_>> = ids.collect();
            ids.map(Content::Receipt)
                .ok_or_else(|| "it names what is no message".to_owned())
        }
        _ => Err("it is of another version".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_would_change_when_it_is_read_is_none() {
        let file = |payload: &str| {
            format!(
                r#"{{"schema": "{SCHEMA}", "type": "notify", "priority": "low", "to": ["b"],
                    "payload": {payload}, "nonce": "00112233aabbccdd"}}"#
            )
        };
        let read = |payload: &str| read(file(payload).as_bytes());
        assert!(matches!(
            read(r#"{"message": "m"}"#),
            Ok(Content::Message(_))
        ));
        assert_eq!(
            read(r#"{"message": "m", "n": [{"a": 1, "a": 2}]}"#),
            Err("the payload gives `a` more than once".to_owned())
        );
    }
}
