//! Messages between agents, and between agents and people: what they are, what each type must say, in
//! which order they are read.
//!
//! A message is for named receivers or for everybody. An agent is named by its id, whatever it was called
//! when the message was written; everybody else by the name that was given. What a message says is a JSON
//! object; here it is known by its text and by its top-level fields.

use super::diagnostic::nearest;
use super::named::{is_lower_hex, named};
use super::redaction;
use super::stamp::Stamp;
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
            Kind::Handoff => &[
                "from_agent",
                "to_agent",
                "artifact_path",
                "context_summary",
                "next_actions",
            ],
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
            Err(format!(
                "the name `{text}` holds a comma, which separates names"
            ))
        } else if text.trim() != text {
            Err(format!("the name `{text}` begins or ends with a space"))
        } else if text == EVERYBODY {
            Err(format!(
                "`{EVERYBODY}` stands for all readers and names none"
            ))
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

// A message as it was requested, and the rules that make it one that can be sent. Everything that is
// wrong with it is said at once.

/// Why a message may hold no credential.
pub const KEPT: &str = "messages are kept and pushed like commits";

/// A message before anything about it was checked.
#[derive(Clone, Debug, Default)]
pub struct Draft<'a> {
    /// The word for its type.
    pub kind: &'a str,
    /// The word for its priority, where one was given.
    pub priority: Option<&'a str>,
    /// Who sends it.
    pub from: &'a str,
    /// For whom it is: names, or `all` alone. Empty for no reader in particular.
    pub to: Vec<&'a str>,
    /// The id of the message that it answers.
    pub re: Option<&'a str>,
    /// What it says; `None` when that could not be read, and so what it lacks is unknown.
    pub payload: Option<Payload>,
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

impl Draft<'_> {
    /// Checks the message.
    ///
    /// # Errors
    /// Every rule that it breaks, one sentence each.
    pub fn check(self) -> Result<Letter, Vec<String>> {
        let mut problems = Vec::new();
        let kind = Kind::parse(self.kind);
        if kind.is_none() {
            let words = Kind::ALL.iter().map(|kind| kind.as_str());
            problems.push(unknown("type", self.kind, words));
        }
        let priority = match self.priority {
            None => kind.map(Kind::priority),
            Some(word) => {
                let priority = Priority::parse(word);
                if priority.is_none() {
                    let words = Priority::ALL.iter().map(|priority| priority.as_str());
                    problems.push(unknown("priority", word, words));
                }
                priority
            }
        };
        let from = note(&mut problems, Name::parse(self.from));
        let to = self.receivers(kind, &mut problems);
        if let Some(kind) = kind {
            let missing = self.missing(kind);
            if !missing.is_empty() {
                problems.push(format!(
                    "a message of type {kind} needs {}",
                    missing.join(", ")
                ));
            }
        }
        let re = self.re.and_then(|text| {
            let id = MessageId::parse(text);
            let wrong = || format!("`{}` is no message id", text.escape_debug());
            note(&mut problems, id.ok_or_else(wrong))
        });
        let text = self.payload.as_ref().map_or("", |payload| &payload.json);
        if text.len() > PAYLOAD_LIMIT {
            problems.push(format!(
                "the payload takes {} bytes, and at most {PAYLOAD_LIMIT} are allowed",
                text.len()
            ));
        }
        if let Some(secret) = redaction::find_secret(text) {
            problems.push(format!(
                "the payload holds what looks like {}; {KEPT}",
                secret.kind
            ));
        }
        match (kind, priority, from, to, self.payload) {
            (Some(kind), Some(priority), Some(from), Some(to), Some(payload))
                if problems.is_empty() =>
            {
                Ok(Letter {
                    kind,
                    priority,
                    from,
                    to,
                    re,
                    payload,
                })
            }
            _ => Err(problems),
        }
    }

    /// `None` when no receiver or an impossible one is named. Who needs a receiver is told so by
    /// [`Draft::missing`].
    fn receivers(&self, kind: Option<Kind>, problems: &mut Vec<String>) -> Option<Receivers> {
        if self.to.is_empty() && kind == Some(Kind::Escalate) {
            return Name::parse(USER)
                .ok()
                .map(|user| Receivers::Named(vec![user]));
        }
        if self.to == [EVERYBODY] {
            return Some(Receivers::Everybody);
        }
        let mut names: Vec<Name> = Vec::new();
        for text in &self.to {
            let name = note(problems, Name::parse(text))?;
            if !names.contains(&name) {
                names.push(name);
            }
        }
        (!names.is_empty()).then_some(Receivers::Named(names))
    }

    /// The required fields that neither a parameter nor the payload gives.
    fn missing(&self, kind: Kind) -> Vec<&'static str> {
        let given = |field: &str| match field {
            "from_agent" => !self.from.is_empty(),
            "to_agent" | "to_agents" => !self.to.is_empty() || self.payload.is_none(),
            other => {
                let payload = self.payload.as_ref();
                payload.is_none_or(|payload| payload.field(other).is_some())
            }
        };
        let required = kind.required().iter().copied();
        required.filter(|field| !given(field)).collect()
    }
}

fn note<T>(problems: &mut Vec<String>, checked: Result<T, String>) -> Option<T> {
    checked.map_err(|problem| problems.push(problem)).ok()
}

fn unknown(what: &str, word: &str, words: impl Iterator<Item = &'static str> + Clone) -> String {
    let shown = word.escape_debug();
    match nearest(word, words.clone()) {
        Some(nearest) => format!("there is no {what} `{shown}`; did you mean `{nearest}`?"),
        None => {
            let words: Vec<_> = words.collect();
            let words = words.join(", ");
            format!("there is no {what} `{shown}`; there are {words}")
        }
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

    fn payload(fields: &[&str]) -> Payload {
        Payload {
            json: "{}".to_owned(),
            fields: fields
                .iter()
                .map(|field| ((*field).to_owned(), "x".to_owned()))
                .collect(),
        }
    }

    fn problems(draft: Draft<'_>) -> Vec<String> {
        draft.check().expect_err("refused")
    }

    #[test]
    fn everything_wrong_is_said_at_once() {
        let draft = Draft {
            kind: "handof",
            priority: Some("urgent"),
            from: "a\nb",
            to: vec!["", "b"],
            re: Some("MSG-1"),
            payload: Some(Payload {
                json: "{\"k\":\"ghp_abc\"}".to_owned(),
                ..Payload::default()
            }),
        };
        insta::assert_snapshot!(problems(draft).join("\n"), @r"
        there is no type `handof`; did you mean `handoff`?
        there is no priority `urgent`; there are critical, high, medium, low
        the name `a\nb` holds a control character
        a receiver or sender must not be empty
        `MSG-1` is no message id
        the payload holds what looks like a GitHub token; messages are kept and pushed like commits
        ");
    }

    #[test]
    fn each_type_names_all_that_is_missing() {
        let missing: Vec<_> = Kind::ALL
            .iter()
            .map(|kind| {
                problems(Draft {
                    kind: kind.as_str(),
                    from: "a",
                    payload: Some(Payload::default()),
                    ..Draft::default()
                })
                .join("\n")
            })
            .collect();
        insta::assert_snapshot!(missing.join("\n"), @r"
        a message of type handoff needs to_agent, artifact_path, context_summary, next_actions
        a message of type review needs to_agent, artifact_path, review_type
        a message of type clarify needs to_agent, question, context
        a message of type escalate needs issue, severity, recommendation
        a message of type notify needs to_agents, message
        a message of type collaborate needs to_agents, topic, deadline
        ");
    }

    #[test]
    fn an_escalation_without_receiver_is_for_the_user() {
        let letter = Draft {
            kind: "escalate",
            from: "a",
            payload: Some(payload(&["issue", "severity", "recommendation"])),
            ..Draft::default()
        }
        .check()
        .expect("sendable");
        assert_eq!(letter.to.to_string(), "user");
        assert_eq!(letter.priority, Priority::Critical);
        assert_eq!(letter.summary(), "x");
    }

    #[test]
    fn receivers_are_named_once_and_everybody_stands_alone() {
        let to = |to: &[&'static str]| {
            Draft {
                kind: "notify",
                from: "a",
                to: to.to_vec(),
                payload: Some(payload(&["message"])),
                ..Draft::default()
            }
            .check()
            .map(|letter| letter.to.to_string())
        };
        assert_eq!(to(&["b", "c", "b"]), Ok("b, c".to_owned()));
        assert_eq!(to(&["all"]), Ok("all".to_owned()));
        assert!(to(&["b", "all"]).is_err());
    }
}
