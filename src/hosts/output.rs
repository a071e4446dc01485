//! What a host prints about its session, and reading it.

use serde_json::{Deserializer, Value};
use std::collections::BTreeMap;

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
    /// Whether cost and tokens are those of the whole session, with what earlier runs did in it.
    pub is_whole: bool,
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

/// What a stream of messages told, as two of the hosts write them; a session that was cut off has no result, and its lines tell as far as it came. `input` names
/// the numbers of a message's usage that make up what the model was given.
pub(super) fn told_of_messages(out: &str, input: &[&str]) -> Told {
    let mut told = Told::default();
    // A message of several parts is written in several lines, each with the usage of the whole.
    let mut of_messages = BTreeMap::new();
    for event in json_lines(out) {
        told.session = text(&event, "/session_id").or(told.session);
        let is = |kind: &str| event.get("type").is_some_and(|is| is == kind);
        if is("assistant") {
            told.words = last_text(&event).or(told.words);
            let usage = event.pointer("/message/usage").cloned();
            of_messages.insert(text(&event, "/message/id"), usage.unwrap_or_default());
        } else if is("result") {
            told = told_of_result(&event, input, told);
        }
    }
    // A session that was killed has no result, and what its messages took is added up.
    if !told.is_whole {
        let mut tokens = Tokens::default();
        for usage in of_messages.values() {
            tokens.add(usage, input, &["/output_tokens"]);
        }
        told.tokens = tokens.some();
    }
    told
}

/// What a session's result told, or where it is silent, what was told before it.
pub(super) fn told_of_result(result: &Value, input: &[&str], before: Told) -> Told {
    // A session that ended otherwise has a list of errors, or one error, and no result.
    let errors = result.get("errors").and_then(Value::as_array);
    let errors = errors.into_iter().flatten().filter_map(Value::as_str);
    let errors = errors.collect::<Vec<_>>().join("\n");
    let failed = || Some(errors).filter(|errors| !errors.is_empty());
    let failed = || text(result, "/error/message").or_else(failed);
    let mut tokens = Tokens::default();
    let models = result.get("modelUsage").and_then(Value::as_object);
    for (_, used) in models.into_iter().flatten() {
        let input = ["/inputTokens", "/cacheReadInputTokens", "/cacheCreationInputTokens"];
        tokens.add(used, &input, &["/outputTokens"]);
    }
    if let (None, Some(usage)) = (models, result.get("usage")) {
        tokens.add(usage, input, &["/output_tokens"]);
    }
    Told {
        words: { text(result, "/result").or_else(failed) }.or(before.words),
        session: text(result, "/session_id").or(before.session),
        cost_usd: result.get("total_cost_usd").and_then(Value::as_f64),
        tokens: tokens.some(),
        is_whole: true,
    }
}

/// The parts of an assistant's message.
fn parts(event: &Value) -> impl DoubleEndedIterator<Item = &Value> {
    let parts = event.pointer("/message/content").and_then(Value::as_array);
    parts.into_iter().flatten()
}

/// What a message says last.
fn last_text(event: &Value) -> Option<String> {
    parts(event).rev().find_map(|part| text(part, "/text").filter(|words| !words.is_empty()))
}

/// What a person is shown of a line of such a stream.
pub(super) fn shown_of_messages(line: &str) -> Vec<Shown> {
    let Ok(event) = serde_json::from_str::<Value>(line) else {
        return vec![Shown::Said(line.to_owned())];
    };
    if event.get("errors").is_some() || event.get("error").is_some_and(Value::is_object) {
        let words = told_of_result(&event, &[], Told::default()).words;
        return Shown::said(words).into_iter().collect();
    }
    // What the tools answered stands in events of the user, and the result is what was said last.
    let is_agent = event.get("type").is_some_and(|kind| kind == "assistant");
    let parts = parts(&event).filter(|_| is_agent);
    let shown = parts.filter_map(|part| match text(part, "/type")?.as_str() {
        "text" => Shown::said(text(part, "/text")),
        "tool_use" => Some(Shown::call(&text(part, "/name")?, part.get("input")?)),
        _ => None,
    });
    shown.collect()
}

/// A part of a session as a person is shown it while it goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    /// A piece of what the agent says, of which more may follow at once.
    Piece(String),
    /// What the agent said.
    Said(String),
    /// What it did, in one line.
    Did(String),
}

/// Pieces of one message on their way to its end: hosts cut them anywhere.
#[derive(Clone, Debug, Default)]
pub struct Pieces(String);

impl Pieces {
    /// What can be shown now.
    pub fn push(&mut self, shown: Shown) -> impl Iterator<Item = Shown> + use<> {
        if let Shown::Piece(piece) = &shown {
            self.0.push_str(piece);
            return None.into_iter().chain(None);
        }
        self.rest().into_iter().chain(Some(shown))
    }

    /// What was held back, when nothing follows.
    pub fn rest(&mut self) -> Option<Shown> {
        Shown::said(Some(std::mem::take(&mut self.0)))
    }
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
    Deserializer::from_str(&text[start..]).into_iter().next()?.ok()
}

/// The lines that are JSON.
pub(super) fn json_lines(text: &str) -> impl DoubleEndedIterator<Item = Value> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok())
}

#[cfg(test)]
mod tests {
    use super::Told;
    use crate::hosts::HOSTS;

    #[test]
    fn output_of_another_form_tells_nothing() {
        for host in HOSTS {
            for output in ["", "{", "[]", "{\"result\": 3}", "{\"error\":{}}", "plain"] {
                let mut told = host.told(output, output);
                told.is_whole = false;
                assert_eq!(told, Told::default(), "{host:?} {output}");
            }
        }
    }
}
