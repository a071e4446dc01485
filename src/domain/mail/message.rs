//! Messages between agents, and between agents and people: what they are, what each type must say, in
//! which order they are read.
//!
//! A message is for named receivers or for everybody. An agent is named by its id, whatever it was called
//! when the message was written; everybody else by the name that was given. What a message says is a JSON
//! object; here it is known by its text and by its top-level fields.

use crate::domain::value::named::{is_lower_hex, named, turns_direction};
use crate::domain::value::stamp::Stamp;
use chrono::TimeDelta;
use std::fmt;

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
/// cursor or turns the direction of what follows. Line feeds and tabs stay.
pub fn plain(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => shown.push(c),
            // A terminal obeys such characters, and the message may come from anyone.
            c if c.is_control() || turns_direction(c) => shown.extend(c.escape_default()),
            c => shown.push(c),
        }
    }
    shown
}

// How messages are handed out, and how long they are kept.

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

// The names of messages.

/// What every message id begins with.
pub const ID_PREFIX: &str = "MSG-";

/// The name of a message, `MSG-<time>-<4 hex digits>`. The time is that of the message's stamp, to the
/// microsecond, and grows from message to message; the digits tell clones apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageId(String);

impl MessageId {
    /// The id of the message with that stamp.
    pub fn new(at: Stamp, random: u16) -> MessageId {
        // Microseconds in the name, so that names sort in the order of writing.
        let time = at.time().format("%Y%m%dT%H%M%S%6fZ");
        MessageId(format!("{ID_PREFIX}{time}-{random:04x}"))
    }

    /// Reads an id; `None` for anything else.
    pub fn parse(text: &str) -> Option<MessageId> {
        let (time, random) = text.strip_prefix(ID_PREFIX)?.split_once('-')?;
        let shape = |byte: u8| match byte {
            b'0'..=b'9' => b'0',
            other => other,
        };
        let time_fits = time.bytes().map(shape).eq(*b"00000000T000000000000Z");
        let random_fits = random.len() == 4 && is_lower_hex(random);
        (time_fits && random_fits).then(|| MessageId(text.to_owned()))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a message with this id was sent after one with that stamp.
    pub fn is_after(&self, at: Stamp) -> bool {
        let end = self.0.len() - 5;
        let other = MessageId::new(at, 0);
        self.0[..end] > other.0[..end]
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

// What a message is for, what it must say for that, and how urgent it is.

named! {
    /// What a message is for.
    #[derive(Hash, PartialOrd, Ord)]
    pub enum Kind {
        /// Work is passed on.
        Handoff = "handoff",
        /// Work is to be looked at.
        Review = "review",
        /// A question.
        Clarify = "clarify",
        /// Something that the sender cannot decide.
        Escalate = "escalate",
        /// News.
        Notify = "notify",
        /// An invitation to work together.
        Collaborate = "collaborate",
    }
}

impl Kind {
    /// The fields that a message of this type needs, in parameters or payload.
    pub fn required(self) -> &'static [&'static str] {
        match self {
            Kind::Handoff => {
                &["from_agent", "to_agent", "artifact_path", "context_summary", "next_actions"]
            }
            Kind::Review => &["from_agent", "to_agent", "artifact_path", "review_type"],
            Kind::Clarify => &["from_agent", "to_agent", "question", "context"],
            Kind::Escalate => &["from_agent", "issue", "severity", "recommendation"],
            Kind::Notify => &["from_agent", "to_agents", "message"],
            Kind::Collaborate => &["from_agent", "to_agents", "topic", "deadline"],
        }
    }

    /// The field that says in one line what the message is about.
    pub fn summary_field(self) -> &'static str {
        match self {
            Kind::Handoff => "context_summary",
            Kind::Review => "artifact_path",
            Kind::Clarify => "question",
            Kind::Escalate => "issue",
            Kind::Notify => "message",
            Kind::Collaborate => "topic",
        }
    }

    /// The priority of a message that names none.
    pub fn priority(self) -> Priority {
        match self {
            Kind::Escalate => Priority::Critical,
            Kind::Handoff | Kind::Clarify => Priority::High,
            Kind::Review | Kind::Collaborate => Priority::Medium,
            Kind::Notify => Priority::Low,
        }
    }
}

named! {
    /// How soon a message is to be read; the first is the most urgent.
    #[derive(Hash, PartialOrd, Ord)]
    pub enum Priority {
        /// Before everything else.
        Critical = "critical",
        /// Soon.
        High = "high",
        /// In its turn.
        Medium = "medium",
        /// When there is time.
        Low = "low",
    }
}

// Senders and receivers.

/// The longest name of a sender or receiver, in bytes. A full branch name fits.
pub const NAME_LIMIT: usize = 256;

/// The receiver of what is for the person in supervised.
pub const USER: &str = "user";

/// The word for everybody.
pub const EVERYBODY: &str = "all";

/// A sender or receiver: the id of an agent, or any other name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(String);

impl Name {
    /// Checks a name.
    ///
    /// # Errors
    /// One sentence that names the rule that was broken.
    pub fn parse(text: &str) -> Result<Name, String> {
        let shown = || text.escape_debug().to_string();
        if text.trim().is_empty() {
            Err("a receiver or sender must not be empty".to_owned())
        } else if text.len() > NAME_LIMIT {
            Err(format!("a name has at most {NAME_LIMIT} bytes"))
        } else if text.contains(char::is_control) {
            Err(format!("the name `{}` holds a control character", shown()))
        } else if text.contains(',') {
            Err(format!("the name `{text}` holds a comma, which separates names"))
        } else if text.trim() != text {
            Err(format!("the name `{text}` begins or ends with a space"))
        } else if text == EVERYBODY {
            Err(format!("`{EVERYBODY}` stands for all readers and names none"))
        } else {
            Ok(Name(text.to_owned()))
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// For whom a message is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Receivers {
    /// Every agent that was there when it was sent, and everybody who is no agent.
    Everybody,
    /// These, at least one, each once.
    Named(Vec<Name>),
}

impl fmt::Display for Receivers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Receivers::Everybody => f.write_str(EVERYBODY),
            Receivers::Named(names) => {
                let names: Vec<_> = names.iter().map(Name::as_str).collect();
                f.write_str(&names.join(", "))
            }
        }
    }
}

/// A message that can be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter {
    /// Its type.
    pub kind: Kind,
    /// How soon it is to be read.
    pub priority: Priority,
    /// Who sends it.
    pub from: Name,
    /// For whom it is.
    pub to: Receivers,
    /// The message that it answers.
    pub re: Option<MessageId>,
    /// What it says.
    pub payload: Payload,
}

impl Letter {
    /// What the message is about, in its sender's words.
    pub fn summary(&self) -> &str {
        let field = self.payload.field(self.kind.summary_field());
        field.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::DateTime;

    fn stamp(micros: i64) -> Stamp {
        let time = DateTime::from_timestamp_micros(micros).expect("in range");
        Stamp::next(time, 1, None)
    }

    #[test]
    fn ids_are_read_back_and_know_their_age() {
        let id = MessageId::new(stamp(1_795_211_369_123_456), 0x7f3a);
        assert_eq!(id.as_str(), "MSG-20261120T214929123456Z-7f3a");
        assert_eq!(MessageId::parse(id.as_str()), Some(id.clone()));
        assert!(id.is_after(stamp(1_795_211_369_123_455)));
        assert!(!id.is_after(stamp(1_795_211_369_123_456)));
        for other in [
            "MSG-20261120T214929123456Z",
            "MSG-20261120T214929123456Z-7F3A",
            "MSG-20261120T214929Z-7f3a",
            "MSG-",
            "",
        ] {
            assert_eq!(MessageId::parse(other), None, "{other}");
        }
    }

    #[test]
    fn every_type_and_priority_is_read_back() {
        for kind in Kind::ALL {
            assert_eq!(Kind::parse(kind.as_str()), Some(kind));
        }
        for priority in Priority::ALL {
            assert_eq!(Priority::parse(priority.as_str()), Some(priority));
        }
        assert!(Priority::ALL.is_sorted(), "the most urgent is the least");
    }

    #[test]
    fn names_are_one_line_and_one_name() {
        for good in ["user", "agent/x-20261120T214929Z", "Ada Lovelace", "审查员"] {
            assert!(Name::parse(good).is_ok(), "{good}");
        }
        let long = "x".repeat(NAME_LIMIT + 1);
        for bad in ["", "  ", "a\nb", "a\u{1b}[31mb", "a,b", " a", "all", &long] {
            assert!(Name::parse(bad).is_err(), "{bad:?}");
        }
    }
}
