//! Values of its own that an agent holds while it lives: a port, a name, a number.

/// What kind of value `[lease]` of the settings asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeaseKind {
    /// A port of [`PORTS`] on which nothing listens.
    Port,
    /// A name made of the task's and the id: `fix_login_1a2b3c4d`.
    Slug,
    /// The smallest number from 1 that no live agent holds.
    Number,
}

/// The ports that are given: below those that systems use for outgoing connections.
pub const PORTS: std::ops::Range<u16> = 20_000..30_000;

impl LeaseKind {
    /// Every kind.
    pub const ALL: [LeaseKind; 3] = [LeaseKind::Port, LeaseKind::Slug, LeaseKind::Number];

    /// The word in the settings file.
    pub fn as_str(self) -> &'static str {
        match self {
            LeaseKind::Port => "port",
            LeaseKind::Slug => "slug",
            LeaseKind::Number => "number",
        }
    }

    /// Reads the word back.
    pub fn parse(word: &str) -> Option<LeaseKind> {
        LeaseKind::ALL
            .into_iter()
            .find(|kind| kind.as_str() == word)
    }
}

/// A variable that the settings want leased.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedLease {
    /// The environment variable.
    pub variable: String,
    /// What it is to hold.
    pub kind: LeaseKind,
}

/// A value that an agent holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lease {
    /// The environment variable.
    pub variable: String,
    /// Its value.
    pub value: String,
}

/// What is wrong with the name of a variable that is to be leased; `None` for a good one.
pub fn variable_problem(name: &str) -> Option<&'static str> {
    const TAKEN: [&str; 7] = ["HOME", "IFS", "PATH", "PWD", "SHELL", "TMPDIR", "USER"];
    let is_word = name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if name.is_empty() || !is_word || name.starts_with(|c: char| c.is_ascii_digit()) {
        Some("is no name of a variable: letters, digits and `_`, and no digit first")
    } else if name.starts_with("GIT_") || name.starts_with("LD_") || TAKEN.contains(&name) {
        Some("has a meaning of its own")
    } else {
        None
    }
}
