//! The command line that starts an agent host without a terminal.
//!
//! The prompt may hold credentials, and a command line is read by every process of the machine, so no
//! recipe puts the prompt into it: it goes to standard input, or the host reads the private file that
//! `{prompt_file}` stands for. Where our own sandbox is on, that of the host is off: two of them do not
//! start inside each other. Where it is off, the host's own stays as it is configured.

use super::Host;

/// What an agent needs from its host.
#[derive(Clone, Copy, Debug)]
pub struct Needs<'a> {
    /// The model.
    pub model: Option<&'a str>,
    /// The most turns.
    pub max_iterations: Option<u32>,
    /// Whether the agent may change files.
    pub edits: bool,
    /// Whether our own sandbox is on.
    pub fenced: bool,
    /// The most that the session may cost, in US dollars.
    pub max_cost: Option<f64>,
    /// The session to go on with, by the host's own name for it.
    pub resume: Option<&'a str>,
    /// Whether the prompt holds a briefing, which no host should keep a copy of.
    pub private: bool,
    /// More arguments, as the caller gave them.
    pub extra: &'a [String],
}

/// A host's command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostCommand {
    /// The program and its arguments.
    pub words: Vec<String>,
    /// Needs that the host has no flag for; it finds them in its environment.
    pub without_flag: Vec<&'static str>,
    /// What the caller should know about its own arguments.
    pub warnings: Vec<String>,
}

/// The command line of a host.
///
/// # Errors
/// One sentence, when the host cannot be started so.
pub fn build(host: &dyn Host, needs: &Needs<'_>) -> Result<HostCommand, String> {
    let name = host.name();
    let program = host.program().ok_or_else(|| format!("{name} has no recipe"))?;
    let mut line = CommandWords(HostCommand {
        words: vec![program.to_owned()],
        without_flag: Vec::new(),
        warnings: Vec::new(),
    });
    if needs.resume.is_some() && !host.resumes() {
        return Err(format!("{name} does not go on with a session"));
    }
    host.arguments(needs, &mut line)?;
    Ok(line.0)
}

/// A command line while it is put together.
pub struct CommandWords(HostCommand);

impl CommandWords {
    /// Adds words.
    pub fn add(&mut self, words: impl IntoIterator<Item = impl AsRef<str>>) {
        let words = words.into_iter().map(|word| word.as_ref().to_owned());
        self.0.words.extend(words);
    }

    /// Adds a flag and its value, where there is one.
    pub fn option(&mut self, flag: &str, value: Option<impl ToString>) {
        if let Some(value) = value {
            self.add([flag, &value.to_string()]);
        }
    }

    /// Notes what the caller should know.
    pub fn warn(&mut self, warning: &str) {
        self.0.warnings.push(warning.to_owned());
    }

    /// Notes that the host has no flag for a need.
    pub fn lacks<T>(&mut self, need: &'static str, value: Option<T>) {
        if value.is_some() {
            self.0.without_flag.push(need);
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::hosts::startable;

    /// An agent that edits, and nothing else.
    pub(in crate::hosts) const PLAIN: Needs<'static> = Needs {
        model: None,
        max_iterations: None,
        max_cost: None,
        resume: None,
        edits: true,
        fenced: false,
        private: false,
        extra: &[],
    };

    /// An agent that may change no file.
    pub(in crate::hosts) const READING: Needs<'static> = Needs { edits: false, ..PLAIN };

    /// An agent that needs everything there is.
    pub(in crate::hosts) fn full(extra: &[String]) -> Needs<'_> {
        Needs {
            model: Some("m"),
            max_iterations: Some(7),
            fenced: true,
            private: true,
            extra,
            ..PLAIN
        }
    }

    /// Compares a command line.
    pub(in crate::hosts) fn check(host: &dyn Host, needs: &Needs<'_>, expected: &str) {
        let command = build(host, needs).expect("a command line");
        assert_eq!(command.words.join(" "), expected);
    }

    #[test]
    fn no_recipe_shows_the_prompt() {
        let extra = ["x".to_owned()];
        for host in startable() {
            let command = build(host, &full(&extra)).expect("a command line");
            assert!(!command.words.contains(&"{prompt}".to_owned()), "{host:?}");
        }
    }
}
