//! What waits in a spool until a process that may write refs posts it: a message (`git-agent.spooled/1`), a receipt, how the agent
//! says that its work ended, or a request.
//!
//! Its writer is not trusted: the sender is decided by whose spool it lies in, and everything
//! else is checked again when it is posted.

use super::lossless::losses;
use super::payload;
use crate::domain::mail::message::{Handing, Name};
use crate::domain::{Letter, MessageId, Receivers, What};
use crate::wire::row::request::{self, SpooledRequest};
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

    /// The object that it says.
    ///
    /// # Errors
    /// One sentence when that is no JSON object.
    pub fn payload(&self) -> Result<crate::domain::mail::message::Payload, String> {
        payload::parse(&self.payload.to_string())
    }
}

/// The schema's name and version of receipts in a spool.
pub const RECEIPT_SCHEMA: &str = "git-agent.received/1";

/// That the agent was handed messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Received {
    /// [`RECEIPT_SCHEMA`].
    pub schema: String,
    /// The ids of the messages.
    pub messages: Vec<String>,
    /// Whether they come back unless it says that it is done with them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub later: bool,
}

impl Received {
    /// A receipt for the spool.
    pub fn new(ids: &[MessageId], handing: Handing) -> Received {
        Received {
            later: handing == Handing::AwaitAck,
            schema: RECEIPT_SCHEMA.to_owned(),
            messages: ids.iter().map(MessageId::to_string).collect(),
        }
    }

    /// The content of the file.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// The schema's name and version of declarations in a spool.
pub const DECLARATION_SCHEMA: &str = "git-agent.declared/1";

/// That the agent declares how its work ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Declared {
    /// [`DECLARATION_SCHEMA`].
    pub schema: String,
    /// `done` or `failed`.
    pub state: String,
    /// The summary or the reason.
    pub text: String,
}

impl Declared {
    /// A declaration for the spool; `None` for an event that is none.
    pub fn new(what: &What) -> Option<Declared> {
        let (What::Done { summary: text, .. } | What::Failed { reason: text, .. }) = what else {
            return None;
        };
        Some(Declared {
            schema: DECLARATION_SCHEMA.to_owned(),
            state: what.kind().to_owned(),
            text: text.clone(),
        })
    }

    /// The content of the file.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    fn event(self) -> Result<What, String> {
        // Long texts become objects when they are posted; a program that spools may not write any.
        let (text, whole) = (self.text, None);
        match self.state.as_str() {
            "done" => Ok(What::Done { summary: text, whole }),
            // The command refuses this too, but the file may not have been written by it.
            "failed" if !text.trim().is_empty() => Ok(What::Failed { reason: text, whole }),
            "failed" => Err("it gives no reason for a failure".to_owned()),
            _ => Err("it declares no state that there is".to_owned()),
        }
    }
}

/// What a file in a spool holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// A message.
    Message(Spooled),
    /// A receipt.
    Receipt(Vec<MessageId>, Handing),
    /// The event by which the agent declares how its work ended.
    Declaration(What),
    /// What it asks of its supervisor.
    Request(Box<SpooledRequest>),
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
    // The version is read first, so that a later one is called by its name and not garbled.
    let any: Any = serde_json::from_slice(bytes).map_err(wrong)?;
    match any.schema.as_str() {
        SCHEMA => {
            let message = serde_json::from_slice(bytes).map_err(wrong)?;
            // The writer may have been no program of ours, so what JSON would lose is looked for
            // again.
            let lost = losses(&String::from_utf8_lossy(bytes));
            if lost.is_empty() { Ok(Content::Message(message)) } else { Err(lost.join("; ")) }
        }
        RECEIPT_SCHEMA => {
            let received: Received = serde_json::from_slice(bytes).map_err(wrong)?;
            let ids = received.messages.iter().map(|id| MessageId::parse(id));
            // One id that is none discards the receipt: its writer is broken, and half of it might
            // be noise.
            let ids: Option<Vec<_>> = ids.collect();
            let handing = if received.later { Handing::AwaitAck } else { Handing::Archive };
            ids.map(|ids| Content::Receipt(ids, handing))
                .ok_or_else(|| "it names what is no message".to_owned())
        }
        DECLARATION_SCHEMA => {
            let declared: Declared = serde_json::from_slice(bytes).map_err(wrong)?;
            declared.event().map(Content::Declaration)
        }
        request::SCHEMA => {
            let asked = serde_json::from_slice(bytes);
            let asked = asked.map_err(|error| format!("it is no request: {error}"))?;
            Ok(Content::Request(asked))
        }
        _ => Err("it is of another version".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_survive_being_left() {
        let done = What::Done { summary: "all of it".into(), whole: None };
        let failed = What::Failed { reason: "no idea".into(), whole: None };
        for what in [done, failed] {
            let bytes = Declared::new(&what).expect("one").to_bytes();
            assert_eq!(read(&bytes), Ok(Content::Declaration(what)));
        }
        let noted = What::Noted { text: "x".into() };
        assert_eq!(Declared::new(&noted), None);
        for (state, text) in [("merged", "x"), ("failed", " ")] {
            let file = format!(
                r#"{{"schema": "{DECLARATION_SCHEMA}", "state": "{state}", "text": "{text}"}}"#
            );
            assert!(read(file.as_bytes()).is_err(), "{file}");
        }
    }

    #[test]
    fn a_message_that_would_change_when_it_is_read_is_none() {
        let file = |payload: &str| {
            format!(
                r#"{{"schema": "{SCHEMA}", "type": "notify", "priority": "low", "to": ["b"],
                    "payload": {payload}, "nonce": "00112233aabbccdd"}}"#
            )
        };
        let read = |payload: &str| read(file(payload).as_bytes());
        assert!(matches!(read(r#"{"message": "m"}"#), Ok(Content::Message(_))));
        assert_eq!(
            read(r#"{"message": "m", "n": [{"a": 1, "a": 2}]}"#),
            Err("the payload gives `a` more than once".to_owned())
        );
    }
}
