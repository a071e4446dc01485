//! Values of its own that an agent holds while it lives: a port, a name, a number.

use crate::domain::named::named;

named! {
    /// What kind of value `[lease]` of the settings asks for.
    #[derive(PartialOrd, Ord)]
    pub enum LeaseKind {
        /// A port of [`PORTS`] on which nothing listens.
        Port = "port",
        /// A name made of the task's and the id: `fix_login_1a2b3c4d`.
        Slug = "slug",
        /// The smallest number from 1 that no live agent holds.
        Number = "number",
        /// An address of this machine in [`LOOPBACK`] that no live agent holds.
        Loopback = "loopback",
    }
}

/// The ports that are given: below those that systems use for outgoing connections.
pub const PORTS: std::ops::Range<u16> = 20_000..30_000;

/// The addresses that are given, as numbers: 127.64.0.1 to 127.127.255.254. Systems and people use those from 127.0.0.1 on.
pub const LOOPBACK: std::ops::Range<u32> = 0x7f40_0001..0x7f7f_ffff;

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
