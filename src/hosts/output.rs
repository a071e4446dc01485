//! What a host prints about its session, and reading it.

use serde_json::{Deserializer, Value};

/// What a host told when it ended, as far as it did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Told {
    /// The agent's last message, or what ended the session in its place.
    pub words: Option<String>,
    /// By what the host continues the session.
    pub session: Option<String>,
    /// What the session cost, in US dollars.
    pub cost_usd: Option<f64>,
    /// The tokens that the models were given and gave.
    pub tokens: Option<Tokens>,
}

/// Tokens of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Given, those from a cache included.
    pub input: u64,
    /// Given back, those of reasoning included.
    pub output: u64,
}

impl Tokens {
    /// Adds the numbers under these keys of an object; a missing one counts as none.
    pub(super) fn add(&mut self, object: &Value, input: &[&str], output: &[&str]) {
        let sum = |keys: &[&str]| -> u64 {
            let numbers = keys.iter().filter_map(|key| object.pointer(key)?.as_u64());
            numbers.fold(0, u64::saturating_add)
        };
        self.input = self.input.saturating_add(sum(input));
        self.output = self.output.saturating_add(sum(output));
    }

    /// Nothing where the host told of no tokens.
    pub(super) fn some(self) -> Option<Tokens> {
        (self != Tokens::default()).then_some(self)
    }
}

/// A part of a session as a person is shown it while it goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    /// What the agent said.
    Said(String),
    /// What it did, in one line.
    Did(String),
}

/// The keys of a tool call's arguments that say what it is about, the most telling first.
const TELLING: [&str; 9] = [
    "command",
    "file_path",
    "filePath",
    "path",
    "notebook_path",
    "pattern",
    "url",
    "query",
    "description",
];

/// A longer path is shown by its end.
const LONGEST_PATH: usize = 48;

impl Shown {
    /// Words, unless there are none.
    pub(super) fn said(words: Option<String>) -> Option<Shown> {
        words.filter(|words| !words.is_empty()).map(Shown::Said)
    }

    /// A call of a tool: its name, and the argument that says what it is about.
    pub(super) fn call(name: &str, arguments: &Value) -> Shown {
        let about = |key: &&str| text(arguments, &format!("/{key}"));
        let about = TELLING.iter().find_map(about).unwrap_or_default();
        let about = about.lines().next().unwrap_or_default();
        // Hosts name files from the root on, and what tells them apart is at their end.
        let is_path = about.starts_with('/') && !about.contains(' ');
        let from = about.len().saturating_sub(LONGEST_PATH);
        let end = about.get(from..).filter(|_| is_path && from > 0);
        let end = end.and_then(|end| Some(&end[end.find('/')?..]));
        let line = match end {
            Some(end) => format!("{name} …{end}"),
            None => format!("{name} {about}"),
        };
        Shown::Did(line.trim_end().to_owned())
    }
}

/// The text at a JSON pointer, trimmed.
pub(super) fn text(value: &Value, pointer: &str) -> Option<String> {
    Some(value.pointer(pointer)?.as_str()?.trim().to_owned())
}

/// The first JSON value in a text, from a `{` on.
pub(super) fn first_object(text: &str) -> Option<Value> {
    let start = text.find('{')?;
    Deserializer::from_str(&text[start..])
        .into_iter()
        .next()?
        .ok()
}

/// The lines that are JSON.
pub(super) fn json_lines(text: &str) -> impl DoubleEndedIterator<Item = Value> {
    text.lines()
        .filter_map(|line| serde_json::from_str(line).ok())
}

#[cfg(test)]
mod tests {
    use super::Told;
    use crate::hosts::HOSTS;

    #[test]
    fn output_of_another_form_tells_nothing() {
        for host in HOSTS {
            for output in ["", "{", "[]", "{\"result\": 3}", "{\"error\":{}}", "plain"] {
                let told = host.told(output, output);
                assert_eq!(told, Told::default(), "{host:?} {output}");
            }
        }
    }
}
