//! How an agent is named: its id, the handle a person gives it, and the slug in its branch.

use crate::domain::mail::message::{EVERYBODY, ID_PREFIX as MESSAGE_PREFIX, USER};
use crate::domain::value::named::is_lower_hex;
use crate::domain::value::oid::Oid;
use serde::{Serialize, Serializer};
use std::fmt;
use uuid::Uuid;

/// The identity of one agent: a UUID version 8 (RFC 9562 §5.8) over the first 16 bytes of its spawn
/// commit's name, so that the id and the commit find each other without a table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgentId(Uuid);

impl AgentId {
    /// The id that belongs to a spawn commit.
    pub fn from_spawn_commit(oid: Oid) -> AgentId {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&oid.as_bytes()[..16]);
        AgentId(uuid::Builder::from_custom_bytes(bytes).into_uuid())
    }

    /// Reads the written form; `None` unless it is a version 8 UUID.
    pub fn parse(text: &str) -> Option<AgentId> {
        let uuid = Uuid::try_parse(text).ok()?;
        (uuid.get_version_num() == 8).then_some(AgentId(uuid))
    }

    /// The first eight hex digits: the handle used in paths and tables, unique in a repository.
    pub fn short(self) -> String {
        let mut text = self.hex();
        text.truncate(8);
        text
    }

    /// Whether the worktree's directory, `agent-` and the first eight digits, looks like a temporary one of an agent
    /// host. A widely used host removes directories named `agent-a` and seven hex digits, so spawn gives no such id.
    pub fn is_swept_by_hosts(self) -> bool {
        self.0.as_bytes()[0] >> 4 == 0xa
    }

    /// The first hex digits of the id, which are those of the spawn commit too; the next digit is the version of the
    /// UUID.
    pub fn digits_of_spawn_commit(self) -> String {
        let mut digits = self.hex();
        digits.truncate(12);
        digits
    }

    /// All 32 hex digits without hyphens.
    pub fn hex(self) -> String {
        self.0.simple().to_string()
    }
}

impl fmt::Display for AgentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

impl Serialize for AgentId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Debug for AgentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AgentId({self})")
    }
}

/// An alias that a task file or `--name` gives an agent: 1 to 64 ASCII characters that are safe in
/// a file name everywhere.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct AgentName(String);

/// Device names that Windows reserves in every directory.
const RESERVED: [&str; 4] = ["CON", "PRN", "AUX", "NUL"];

impl AgentName {
    /// Checks a name.
    ///
    /// # Errors
    /// One sentence that names the rule that was broken.
    pub fn parse(text: &str) -> Result<AgentName, String> {
        let upper = text.to_ascii_uppercase();
        // Windows reserves a device name with any ending: `nul.txt` is the device too.
        let stem = upper.split('.').next().unwrap_or_default();
        let numbered = ["COM", "LPT"].iter().any(|prefix| {
            stem.strip_prefix(prefix).is_some_and(|rest| matches!(rest.as_bytes(), [b'1'..=b'9']))
        });
        if text.is_empty() {
            Err("a name must not be empty".into())
        } else if text.len() > 64 {
            Err("a name has at most 64 characters".into())
        } else if !text.starts_with(|c: char| c.is_ascii_alphanumeric())
            || !text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'))
        {
            Err("a name consists of ASCII letters, digits, `_`, `.` and `-`, and begins with a letter or digit".into())
        } else if text.contains("..") || text.ends_with('.') || upper.ends_with(".LOCK") {
            Err("a name must not contain `..` nor end in `.` or `.lock`".into())
        } else if RESERVED.contains(&stem) || numbered {
            Err(format!("`{text}` is a reserved device name"))
        } else if text.starts_with(OperationId::PREFIX) || text.starts_with(MESSAGE_PREFIX) {
            Err(format!("`{text}` begins as the id of an operation or of a message"))
        } else if [USER, EVERYBODY].iter().any(|word| text.eq_ignore_ascii_case(word)) {
            Err("messages to `user` reach a person, and those to `all` everybody".into())
        } else {
            Ok(AgentName(text.to_owned()))
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AgentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The readable part of an agent's branch name: lower-case words joined by `-`, 1 to 40 characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slug(String);

impl Slug {
    /// Makes a slug of the first words of any text; `task` where the text has no ASCII word.
    pub fn from_text(text: &str) -> Slug {
        let mut slug = String::new();
        let words =
            text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
        for word in words.take(6) {
            if slug.len() + 1 + word.len() > 40 {
                break;
            }
            if !slug.is_empty() {
                slug.push('-');
            }
            slug.push_str(&word.to_ascii_lowercase());
        }
        if slug.is_empty() {
            slug.push_str("task");
        }
        Slug(slug)
    }

    /// The slug as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Slug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What the events of one command have in common: `op-` and twelve hex digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct OperationId(String);

impl OperationId {
    /// What every id begins with.
    pub const PREFIX: &'static str = "op-";
    /// How many hex digits follow.
    const DIGITS: usize = 12;

    /// The id made of a random number.
    pub fn of(drawn: u64) -> OperationId {
        let digits = format!("{drawn:016x}");
        OperationId(format!("{}{}", OperationId::PREFIX, &digits[..OperationId::DIGITS]))
    }

    /// Reads an id; `None` for anything else.
    pub fn parse(text: &str) -> Option<OperationId> {
        let digits = text.strip_prefix(OperationId::PREFIX)?;
        let is_id = digits.len() == OperationId::DIGITS && is_lower_hex(digits);
        is_id.then(|| OperationId(text.to_owned()))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_shares_its_first_twelve_digits_with_the_spawn_commit() {
        let oid = Oid::from_hex("6a48ca7b001122334455667788990011aabbccdd").expect("hex");
        let id = AgentId::from_spawn_commit(oid);
        assert_eq!(id.to_string(), "6a48ca7b-0011-8233-8455-667788990011");
        assert_eq!(id.short(), "6a48ca7b");
        assert_eq!(AgentId::parse(&id.to_string()), Some(id));
        assert_eq!(AgentId::parse("6a48ca7b-0011-4233-8455-667788990011"), None);
    }

    #[test]
    fn only_ids_that_begin_with_a_are_swept() {
        for (first, is_swept) in
            [("a0", true), ("af", true), ("9f", false), ("b0", false), ("0a", false)]
        {
            let oid = Oid::from_hex(&format!("{first}48ca7b001122334455667788990011aabbccdd"));
            let id = AgentId::from_spawn_commit(oid.expect("hex"));
            assert_eq!(id.is_swept_by_hosts(), is_swept, "{id}");
        }
    }

    #[test]
    fn names_follow_the_rules_of_every_file_system() {
        for good in ["fix-7", "a", "v1.2_x", "COM10", "lpt"] {
            assert!(AgentName::parse(good).is_ok(), "{good}");
        }
        for bad in [
            "", "-a", "a b", "a/b", "a..b", "con", "COM1", "nul.txt", "ä", "x.lock", "x.", "user",
            "ALL",
        ] {
            assert!(AgentName::parse(bad).is_err(), "{bad}");
        }
        assert!(AgentName::parse(&"a".repeat(65)).is_err());
    }

    #[test]
    fn slugs_are_short_and_plain() {
        let cases = [
            ("Add a --verbose flag to the list command", "add-a-verbose-flag-to-the"),
            ("  Überprüfe/alles  ", "berpr-fe-alles"),
            ("修复", "task"),
        ];
        for (text, slug) in cases {
            assert_eq!(Slug::from_text(text).as_str(), slug);
        }
        let long = "x".repeat(39);
        assert_eq!(Slug::from_text(&format!("{long} yy")).as_str(), long);
        assert_eq!(Slug::from_text(&"x".repeat(60)).as_str(), "task");
    }
}
