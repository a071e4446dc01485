//! What a message says, as JSON text and as it is given on a command line.

use super::lossless::{given_twice, losses};
use crate::domain::mail::message::{EVERYBODY, Payload};
use crate::domain::value::redaction::redact_secrets;
use serde_json::{Map, Value};

/// One part of a payload as the caller gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PayloadPart<'a> {
    /// `key=value`: one field that is a text.
    Field(&'a str, &'a str),
    /// `@file`: a file of JSON, whose content is still to be read.
    File(&'a str),
    /// JSON text.
    Json(&'a str),
}

impl PayloadPart<'_> {
    /// Tells by its beginning what a part is.
    pub fn of(text: &str) -> PayloadPart<'_> {
        match (text.strip_prefix('@'), text.split_once('=')) {
            (Some(path), _) => PayloadPart::File(path),
            // JSON text may hold `=` as well, but not behind a plain word.
            (None, Some((key, value))) if is_key(key) => PayloadPart::Field(key, value),
            _ => PayloadPart::Json(text),
        }
    }
}

/// Whether `key=value` may begin with this.
fn is_key(key: &str) -> bool {
    let mut bytes = key.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'))
}

/// A payload with the fields taken out that say who sends it and for whom it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addressed {
    /// `from_agent`.
    pub from: Option<String>,
    /// `to_agent` or `to_agents`.
    pub to: Vec<String>,
    /// The rest.
    pub payload: Payload,
}

/// Puts a payload together from fields and JSON texts, given as `(key, value)` and `(None, text)`. Fields
/// named `from_agent`, `to_agent` and `to_agents` address the message.
///
/// # Errors
/// Every rule that it breaks, one sentence each.
pub fn assemble(parts: &[(Option<&str>, &str)]) -> Result<Addressed, Vec<String>> {
    let mut whole = Map::new();
    let mut problems = Vec::new();
    for (key, text) in parts {
        let fields = match key {
            Some(key) => Ok(Map::from_iter([((*key).to_owned(), Value::from(*text))])),
            // A field of the command line is one text and can lose nothing.
            None => object(text).inspect(|_| problems.extend(losses(text))),
        };
        match fields {
            Err(problem) => problems.push(problem),
            Ok(fields) => {
                for (key, value) in fields {
                    // The last one would win without a word, and the sender would not know which.
                    if whole.contains_key(&key) {
                        problems.push(given_twice(&key));
                    }
                    whole.insert(key, value);
                }
            }
        }
    }
    let mut addressed = Addressed::default();
    match whole.remove("from_agent") {
        None | Some(Value::Null) => {}
        Some(Value::String(name)) => addressed.from = Some(name),
        Some(_) => problems.push("`from_agent` must be a name".to_owned()),
    }
    for key in ["to_agent", "to_agents"] {
        match whole.remove(key).as_ref().map(names) {
            None => {}
            Some(Some(names)) => addressed.to.extend(names),
            Some(None) => {
                problems
                    .push(format!("`{key}` must be a name, a list of names, or \"{EVERYBODY}\""));
            }
        }
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    addressed.payload = payload(&whole);
    Ok(addressed)
}

/// The names in a text that separates them by commas.
pub fn split_names(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim)
}

fn names(value: &Value) -> Option<Vec<String>> {
    let split = |text: &str| split_names(text).map(str::to_owned).collect::<Vec<_>>();
    match value {
        Value::Null => Some(Vec::new()),
        Value::String(text) => Some(split(text)),
        Value::Array(items) => items.iter().map(|item| item.as_str().map(str::to_owned)).collect(),
        _ => None,
    }
}

/// Reads a payload from JSON text.
///
/// # Errors
/// One sentence when it is no JSON object.
pub fn parse(text: &str) -> Result<Payload, String> {
    object(text).map(|fields| payload(&fields))
}

/// The JSON text of a payload, one field in a line.
pub fn pretty(json: &str) -> String {
    let value: Value = serde_json::from_str(json).unwrap_or_default();
    format!("{value:#}")
}

fn object(text: &str) -> Result<Map<String, Value>, String> {
    // Windows PowerShell begins what it calls UTF-8 with a mark of the byte order.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    match serde_json::from_str(text) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(other) => Err(format!("the payload must be an object, and this is {}", kind_of(&other))),
        Err(error) => Err(match text.split_once('=') {
            // What begins like JSON is broken JSON, and the parser's message says where.
            Some((key, _)) if !key.starts_with(['{', '[', '"']) => format!(
                "`{}` is no key for `key=value`: letters, digits, `_`, `-` and `.`, beginning with a letter or `_`",
                // What was typed is repeated here, and it may be a token that was put in the wrong
                // place.
                redact_secrets(key).escape_debug()
            ),
            _ => format!("the payload is neither `key=value` nor JSON: {error}"),
        }),
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn payload(fields: &Map<String, Value>) -> Payload {
    let says_something = |value: &Value| match value {
        // A required field that is there and empty would satisfy the rule and tell the receiver
        // nothing.
        Value::Null => false,
        Value::String(text) => !text.trim().is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => true,
    };
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    Payload {
        json: Value::Object(fields.clone()).to_string(),
        fields: fields
            .iter()
            .filter(|(_, value)| says_something(value))
            .map(|(key, value)| (key.clone(), text(value)))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_known_by_its_beginning() {
        for (text, part) in [
            ("message=a=b", PayloadPart::Field("message", "a=b")),
            ("m=", PayloadPart::Field("m", "")),
            ("@notes/a=b.json", PayloadPart::File("notes/a=b.json")),
            ("{\"a\":\"b=c\"}", PayloadPart::Json("{\"a\":\"b=c\"}")),
            ("[1]", PayloadPart::Json("[1]")),
            ("1=2", PayloadPart::Json("1=2")),
        ] {
            assert_eq!(PayloadPart::of(text), part, "{text}");
        }
    }

    #[test]
    fn parts_make_one_object_and_address_it() {
        let parts = [
            (Some("message"), "hello"),
            (None, r#"{"to_agents": ["b", "c"], "from_agent": "a", "n": [1], "empty": ""}"#),
        ];
        let addressed = assemble(&parts).expect("an object");
        assert_eq!(addressed.from.as_deref(), Some("a"));
        assert_eq!(addressed.to, ["b", "c"]);
        assert_eq!(addressed.payload.json, r#"{"empty":"","message":"hello","n":[1]}"#);
        assert_eq!(addressed.payload.field("n"), Some("[1]"));
        assert_eq!(addressed.payload.field("empty"), None);
    }

    #[test]
    fn a_file_may_begin_with_a_byte_order_mark() {
        let addressed = assemble(&[(None, "\u{feff}{\"message\": \"m\"}")]);
        assert_eq!(addressed.expect("an object").payload.json, r#"{"message":"m"}"#);
    }

    #[test]
    fn what_would_change_on_the_way_is_refused() {
        let parts = [
            (None, r#"{"a": {"b": 1, "b": 2}, "c": 18446744073709551617}"#),
            (None, r#"{"message": "first", "message": "second"}"#),
            (Some("x"), "18446744073709551617"),
        ];
        let problems = assemble(&parts).expect_err("refused");
        insta::assert_snapshot!(problems.join("\n"), @r"
        the payload gives `b` more than once
        the number 18446744073709551617 would lose digits on its way; it can be sent as a text
        the payload gives `message` more than once
        ");
    }

    #[test]
    fn a_key_that_is_none_is_told_what_keys_are() {
        let problems = assemble(&[(None, "größe=1")]).expect_err("refused");
        insta::assert_snapshot!(problems.join("\n"), @"`größe` is no key for `key=value`: letters, digits, `_`, `-` and `.`, beginning with a letter or `_`");
    }

    #[test]
    fn what_is_no_object_is_refused() {
        let parts = [
            (None, "[1]"),
            (None, "{"),
            (Some("a"), "1"),
            (Some("a"), "2"),
            (None, r#"{"to_agent": 7, "from_agent": []}"#),
        ];
        let problems = assemble(&parts).expect_err("refused");
        insta::assert_snapshot!(problems.join("\n"), @r#"
        the payload must be an object, and this is a list
        the payload is neither `key=value` nor JSON: EOF while parsing an object at line 1 column 1
        the payload gives `a` more than once
        `from_agent` must be a name
        `to_agent` must be a name, a list of names, or "all"
        "#);
    }
}
