//! A message as the commit that holds it.
//!
//! ```text
//! [handoff/high] 6a48ca7b -> bob: The parser is done
//!
//! {
//!   "artifact_path": "src/parser.rs",
//!   …
//! }
//!
//! Message-Id: MSG-20261120T214929123456Z-7f3a
//! Type: handoff
//! Priority: high
//! From: 6a48ca7b-0011-8233-8455-667788990011
//! To: bob
//! Re: MSG-20261120T201112000001Z-0c1d
//! Hlc: 20261120T214929.123456Z-000-7f3a
//! Nonce: 00112233aabbccdd
//! Git-Agent: 1
//! ```
//!
//! `To` is repeated for several receivers; `To-All: true` stands in its place for everybody. The title is for
//! people who read `git log refs/agents/mail`; nothing is read from it. JSON text holds no empty line,
//! so the last paragraph is always that of the trailers.

pub mod lossless;
pub mod payload;
pub mod spooled;

use crate::domain::mail::message::{Kind, Name, Priority};
use crate::domain::{AgentId, Letter, Message, MessageId, Receivers, Stamp};

/// The longest title in the first line, in characters.
const TITLE_LIMIT: usize = 60;

/// The trailer that names a message.
pub const ID_TRAILER: &str = "Message-Id";

/// The trailer that gives a commit its place in the order of sending.
pub const STAMP_TRAILER: &str = "Hlc";

/// The message of the commit that holds a message.
pub fn encode(message: &Message) -> String {
    let letter = &message.letter;
    let to = match &letter.to {
        Receivers::Everybody => "all".to_owned(),
        Receivers::Named(names) => {
            let names: Vec<_> = names.iter().map(|name| handle(name.as_str())).collect();
            names.join(",")
        }
    };
    let mut text = format!(
        "[{}/{}] {} -> {to}: {}\n\n{}\n\n",
        letter.kind,
        letter.priority,
        handle(letter.from.as_str()),
        title(letter),
        payload::pretty(&letter.payload.json),
    );
    let mut trailer = |key: &str, value: &str| text.push_str(&format!("{key}: {value}\n"));
    trailer(ID_TRAILER, message.id.as_str());
    trailer("Type", letter.kind.as_str());
    trailer("Priority", letter.priority.as_str());
    trailer("From", letter.from.as_str());
    match &letter.to {
        Receivers::Everybody => trailer("To-All", "true"),
        Receivers::Named(names) => names.iter().for_each(|name| trailer("To", name.as_str())),
    }
    if let Some(re) = &letter.re {
        trailer("Re", re.as_str());
    }
    trailer(STAMP_TRAILER, &message.at.to_string());
    trailer("Nonce", &message.nonce);
    trailer("Git-Agent", "1");
    text
}

/// What is written on the outside of a message: all but what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// Its name.
    pub id: MessageId,
    /// Its place in the order of sending.
    pub at: Stamp,
    /// What tells this act of sending from every other.
    pub nonce: String,
    /// Its type.
    pub kind: Kind,
    /// How soon it is to be read.
    pub priority: Priority,
    /// Who sent it.
    pub from: Name,
    /// For whom it is.
    pub to: Receivers,
    /// The message that it answers.
    pub re: Option<MessageId>,
}

/// Reads the envelope of the message that a commit holds; `None` for a commit that holds none, or a
/// garbled one.
pub fn envelope(text: &str) -> Option<Envelope> {
    // What comes before the last empty line is the sender's text, so nothing in it can pass for a
    // trailer.
    let (_, trailers) = text.trim_end().rsplit_once("\n\n")?;
    let mut to = Vec::new();
    let mut fields = Vec::new();
    for line in trailers.lines() {
        // A line that is no trailer makes the whole garbled: what is half read could be sent to the
        // wrong agent.
        match line.split_once(": ")? {
            ("To", name) => to.push(Name::parse(name).ok()?),
            field => fields.push(field),
        }
    }
    let field = |name: &str| {
        let found = fields.iter().find(|(key, _)| *key == name);
        found.map(|(_, value)| *value)
    };
    Some(Envelope {
        id: MessageId::parse(field(ID_TRAILER)?)?,
        at: Stamp::parse(field(STAMP_TRAILER)?)?,
        nonce: field("Nonce")
            // The nonce is printed and compared; a sender's control characters would reach a
            // terminal by it.
            .filter(|nonce| !nonce.contains(char::is_control))?
            .to_owned(),
        kind: Kind::parse(field("Type")?)?,
        priority: Priority::parse(field("Priority")?)?,
        from: Name::parse(field("From")?).ok()?,
        to: match field("To-All") {
            Some("true") => Receivers::Everybody,
            // A message without a recipient is garbled, not one for all.
            _ if to.is_empty() => return None,
            _ => Receivers::Named(to),
        },
        re: match field("Re") {
            Some(id) => Some(MessageId::parse(id)?),
            None => None,
        },
    })
}

/// Reads the message that a commit holds; `None` as for [`envelope`].
pub fn decode(text: &str) -> Option<Message> {
    let envelope = envelope(text)?;
    let (head, _) = text.trim_end().rsplit_once("\n\n")?;
    let (_, json) = head.split_once("\n\n")?;
    Some(Message {
        id: envelope.id,
        at: envelope.at,
        nonce: envelope.nonce,
        letter: Letter {
            kind: envelope.kind,
            priority: envelope.priority,
            from: envelope.from,
            to: envelope.to,
            re: envelope.re,
            payload: payload::parse(json).ok()?,
        },
    })
}

/// A name as the first line has it: an agent by its first eight digits.
fn handle(name: &str) -> String {
    AgentId::parse(name).map_or_else(|| name.to_owned(), AgentId::short)
}

/// The first line of the summary, in one line of plain characters.
fn title(letter: &Letter) -> String {
    let line = letter.summary().lines().next().unwrap_or_default();
    // The title is what a terminal shows of `git log`, and it is a sender's text.
    let plain = line.chars().filter(|c| !c.is_control());
    let mut title: String = plain.take(TITLE_LIMIT + 1).collect();
    if title.chars().count() > TITLE_LIMIT {
        title.pop();
        title.push('…');
    }
    title
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::mail::message_rules::Draft;
    use chrono::DateTime;
    use proptest::prelude::*;

    fn message(json: &str, to: &[&str]) -> Message {
        let at = DateTime::from_timestamp_micros(1_795_211_369_123_456).expect("in range");
        let at = Stamp::next(at, 0x7f3a, None);
        Message {
            id: MessageId::new(at, 0x0c1d),
            at,
            nonce: "00112233aabbccdd".to_owned(),
            letter: Draft {
                kind: "notify",
                from: "6a48ca7b-0011-8233-8455-667788990011",
                to: to.to_vec(),
                re: Some("MSG-20261120T201112000001Z-0c1d"),
                payload: Some(payload::parse(json).expect("an object")),
                ..Draft::default()
            }
            .check()
            .expect("sendable"),
        }
    }

    #[test]
    fn the_written_form_is_fixed() {
        let message = message(
            r#"{"message": "The parser is done.\n\nTo: mallory", "a": 1}"#,
            &["bob", "6b48ca7b-0011-8233-8455-667788990011"],
        );
        let text = encode(&message);
        insta::assert_snapshot!(text, @r#"
        [notify/low] 6a48ca7b -> bob,6b48ca7b: The parser is done.

        {
          "a": 1,
          "message": "The parser is done.\n\nTo: mallory"
        }

        Message-Id: MSG-20261120T214929123456Z-0c1d
        Type: notify
        Priority: low
        From: 6a48ca7b-0011-8233-8455-667788990011
        To: bob
        To: 6b48ca7b-0011-8233-8455-667788990011
        Re: MSG-20261120T201112000001Z-0c1d
        Hlc: 20261120T214929.123456Z-000-7f3a
        Nonce: 00112233aabbccdd
        Git-Agent: 1
        "#);
        assert_eq!(decode(&text), Some(message));
    }

    #[test]
    fn other_commits_hold_no_message() {
        for text in ["", "subject\n", "agent: repair\n\nGit-Agent: 1\n", "a\n\nb\n\nc\n"] {
            assert_eq!(decode(text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn whatever_a_message_says_is_read_back(text in "\\PC*|[\\x00-\\x7f]*", key in "[a-z_: \n]{1,12}") {
            let value = serde_json::json!({ "message": "m", key: text });
            let message = message(&value.to_string(), &["all"]);
            prop_assert_eq!(decode(&encode(&message)), Some(message));
        }
    }
}
