//! JSON as a host may have meant it: a value that keeps every one of several equal keys.
//!
//! `serde_json::Value` keeps the last of two `file_path`s. A host may read the first, so a gate that
//! sees only one of them can be walked around. Keys are [`squash`]ed while they are read, which makes
//! `filePath`, `file_path` and `FilePath` one key.

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// Squashed keys that mean the same.
pub(super) type Keys = &'static [&'static str];

/// Any JSON value; objects keep the order and the repetition of their keys.
#[derive(Debug, PartialEq)]
pub enum Json {
    /// Nothing.
    Null,
    /// A truth value.
    Bool(bool),
    /// A number.
    Number(f64),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Json>),
    /// Squashed keys and their values, in order.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// Reads one document; at most 128 levels deep, which bounds every walk over the result.
    pub(super) fn parse(bytes: &[u8]) -> Result<Json, serde_json::Error> {
        serde_json::from_slice(bytes)
    }

    /// The value, or the one inside when this is a text that holds a JSON object, list or text, as
    /// some hosts hand over their arguments.
    pub(super) fn unwrapped(self) -> Json {
        let mut value = self;
        // Each round strips one layer of quoting; a text of n bytes has fewer than n layers, and
        // no host quotes more than once or twice on purpose.
        for _ in 0..4 {
            let Json::Text(text) = &value else { break };
            if !text.trim_start().starts_with(['{', '[', '"']) {
                break;
            }
            match Json::parse(text.as_bytes()) {
                Ok(inner) => value = inner,
                Err(_) => break,
            }
        }
        value
    }

    /// Whether an object has a member under this squashed key.
    pub(in crate::hosts) fn has(&self, key: &str) -> bool {
        self.members().iter().any(|(known, _)| known == key)
    }

    /// The members of an object; none of anything else.
    pub(super) fn members(&self) -> &[(String, Json)] {
        match self {
            Json::Object(members) => members,
            _ => &[],
        }
    }

    /// Every value that stands under one of these squashed keys and is not null.
    pub(super) fn all(&self, keys: Keys) -> impl Iterator<Item = &Json> {
        self.members()
            .iter()
            .filter(|(key, value)| keys.contains(&key.as_str()) && *value != Json::Null)
            .map(|(_, value)| value)
    }

    /// The one text under these keys; `None` when there is none.
    ///
    /// # Errors
    /// A sentence, when a value is no text or two texts differ: hosts would disagree on which counts.
    pub(in crate::hosts) fn single(&self, keys: Keys) -> Result<Option<&str>, String> {
        let mut found = None;
        let key = keys.first().copied().unwrap_or_default();
        for value in self.all(keys) {
            let Json::Text(text) = value else {
                return Err(format!("`{key}` is not a text"));
            };
            if found.is_some_and(|earlier: &str| earlier != text) {
                return Err(format!("`{key}` is given twice, differently"));
            }
            found = Some(text);
        }
        Ok(found)
    }

    /// The text of a text, or of a list of texts with spaces between, as commands are given.
    pub(super) fn joined(&self) -> Option<String> {
        let word = |item: &Json| match item {
            Json::Text(text) => Some(text.clone()),
            _ => None,
        };
        match self {
            Json::List(items) => {
                let words: Option<Vec<String>> = items.iter().map(word).collect();
                words.map(|words| words.join(" "))
            }
            other => word(other),
        }
    }
}

/// A name without its style: ASCII letters and digits only, in lower case.
pub(super) fn squash(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Json, D::Error> {
        deserializer.deserialize_any(Builder)
    }
}

struct Builder;

impl<'de> Visitor<'de> for Builder {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Number(value as f64))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Number(value as f64))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        Ok(Json::Number(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Json, E> {
        Ok(Json::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Json::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Json, A::Error> {
        let mut object = Vec::new();
        while let Some((key, value)) = entries.next_entry::<String, Json>()? {
            object.push((squash(&key), value));
        }
        Ok(Json::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        Json::parse(text.as_bytes()).expect("JSON")
    }

    #[test]
    fn equal_keys_are_all_kept_whatever_their_style() {
        let value = json(r#"{"file_path":"a","filePath":"b","FILE-PATH":null}"#);
        let found: Vec<_> = value.all(&["filepath"]).collect();
        assert_eq!(found, [&Json::Text("a".into()), &Json::Text("b".into())]);
        assert!(value.single(&["filepath"]).is_err());
    }

    #[test]
    fn quoted_json_is_unwrapped_and_other_text_is_left() {
        let quoted = json(r#""{\"path\":\"a\"}""#).unwrapped();
        assert_eq!(quoted.single(&["path"]), Ok(Some("a")));
        let twice = json(r#""\"{\\\"path\\\":\\\"a\\\"}\"""#).unwrapped();
        assert_eq!(twice.single(&["path"]), Ok(Some("a")));
        let broken = json(r#""{\"path\"""#).unwrapped();
        assert_eq!(broken, Json::Text("{\"path\"".into()));
    }

    #[test]
    fn depth_is_bounded() {
        let deep = "[".repeat(100_000);
        assert!(Json::parse(deep.as_bytes()).is_err());
    }
}
