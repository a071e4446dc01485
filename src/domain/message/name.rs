//! Senders and receivers.

use std::fmt;

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

#[cfg(test)]
mod tests {
    use super::*;

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
