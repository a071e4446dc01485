//! Which git the user has, asked without waiting for the answer.

use crate::error::{Error, Result};
use crate::git::command;
use std::path::Path;
use std::process::{Child, Stdio};

/// A version of git, as far as anything here depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// The first number.
    pub major: u32,
    /// The second number.
    pub minor: u32,
}

impl Version {
    /// The first git that runs hooks which the configuration names (`hook.<name>.command`); older ones
    /// pass over them in silence.
    pub const CONFIG_HOOKS: Version = Version {
        major: 2,
        minor: 54,
    };

    /// Reads what `git version` says, such as `git version 2.47.3 (Apple Git-1)`; `None` when that is
    /// nothing git would say.
    pub fn parse(text: &str) -> Option<Version> {
        let numbers = text.strip_prefix("git version ")?;
        let mut numbers = numbers.split(|c: char| !c.is_ascii_digit());
        Some(Version {
            major: numbers.next()?.parse().ok()?,
            minor: numbers.next()?.parse().ok()?,
        })
    }
}

/// A question that git is answering.
#[derive(Debug)]
#[must_use]
pub struct Question(Child);

/// Starts `git version`. Its 2 ms then pass while something else is done.
///
/// # Errors
/// `io` when there is no git.
pub fn ask(directory: &Path) -> Result<Question> {
    command::git(directory)
        .arg("version")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map(Question)
        .map_err(|source| Error::io("could not start git", source))
}

impl Question {
    /// The answer; `None` when git failed or said something else.
    pub fn answer(self) -> Option<Version> {
        let output = self.0.wait_with_output().ok()?;
        Version::parse(&String::from_utf8_lossy(&output.stdout))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_compared() {
        let check = |text: &str, expected: Option<(u32, u32)>| {
            let version = Version::parse(text).map(|version| (version.major, version.minor));
            assert_eq!(version, expected, "{text}");
        };
        check("git version 2.47.3\n", Some((2, 47)));
        check("git version 2.39.5 (Apple Git-154)", Some((2, 39)));
        check("git version 2.55.GIT", Some((2, 55)));
        check("git version 3.0.0.rc1", Some((3, 0)));
        check("git version", None);
        check("fatal: 2.54", None);
        let at_least = |text| Version::parse(text) >= Some(Version::CONFIG_HOOKS);
        assert!(at_least("git version 2.54.0") && at_least("git version 3.0.1"));
        assert!(!at_least("git version 2.53.9") && !at_least("nonsense"));
    }
}
