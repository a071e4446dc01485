//! What an event says, read without copying: a list of 100,000 agents reads 200,000 of these, and most of
//! what they say is looked at once.

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;

/// Any JSON, as far as an event may ask for it.
#[derive(Debug, Default)]
pub(super) enum EventJson<'a> {
    Text(Cow<'a, str>),
    Number(u64),
    Truth(bool),
    List(Vec<EventJson<'a>>),
    Object(Vec<(Text<'a>, EventJson<'a>)>),
    /// What no event asks for.
    #[default]
    Other,
}

/// A text that borrows where it can, also as a key.
#[derive(Debug, serde::Deserialize)]
pub(super) struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl EventJson<'_> {
    /// What an object has under that key: the last one where it repeats itself.
    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        let EventJson::Object(entries) = self else {
            return None;
        };
        // serde_json's own maps keep the last as well, so that a line means the same to every
        // reader.
        let mut last_first = entries.iter().rev();
        last_first.find(|entry| entry.0.0 == key).map(|entry| &entry.1)
    }

    pub(super) fn as_str(&self) -> Option<&str> {
        match self {
            EventJson::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn as_u64(&self) -> Option<u64> {
        match self {
            EventJson::Number(number) => Some(*number),
            _ => None,
        }
    }

    pub(super) fn as_bool(&self) -> Option<bool> {
        match self {
            EventJson::Truth(truth) => Some(*truth),
            _ => None,
        }
    }

    /// The items; none of anything but a list.
    pub(super) fn as_list(&self) -> &[Self] {
        match self {
            EventJson::List(items) => items,
            _ => &[],
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for EventJson<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<EventJson<'a>, D::Error> {
        deserializer.deserialize_any(FactReader)
    }
}

struct FactReader;

impl<'de> Visitor<'de> for FactReader {
    type Value = EventJson<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<EventJson<'de>, E> {
        Ok(EventJson::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<EventJson<'de>, E> {
        Ok(EventJson::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<EventJson<'de>, E> {
        Ok(EventJson::Number(number))
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<EventJson<'de>, E> {
        // No number of an event is negative or a fraction.
        Ok(EventJson::Other)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<EventJson<'de>, E> {
        Ok(EventJson::Other)
    }

    fn visit_bool<E: Error>(self, truth: bool) -> Result<EventJson<'de>, E> {
        Ok(EventJson::Truth(truth))
    }

    fn visit_unit<E: Error>(self) -> Result<EventJson<'de>, E> {
        Ok(EventJson::Other)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<EventJson<'de>, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(EventJson::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<EventJson<'de>, A::Error> {
        let mut object = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            object.push(entry);
        }
        Ok(EventJson::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    /// The same answers as the general reader's, to every question that is asked.
    fn agree(fact: &EventJson<'_>, value: &Value) -> bool {
        let list = value.as_array().map_or(&[][..], Vec::as_slice);
        let keys = ["a", "b", "\u{e9}", "missing"];
        fact.as_str() == value.as_str()
            && fact.as_u64() == value.as_u64()
            && fact.as_bool() == value.as_bool()
            && fact.as_list().len() == list.len()
            && std::iter::zip(fact.as_list(), list).all(|(one, two)| agree(one, two))
            && keys.iter().all(|key| match (fact.get(key), value.get(key)) {
                (Some(one), Some(two)) => agree(one, two),
                (one, two) => one.is_none() && two.is_none(),
            })
    }

    fn check(text: &str) {
        let fact = serde_json::from_str::<EventJson<'_>>(text);
        let value = serde_json::from_str::<Value>(text);
        match (&fact, &value) {
            (Ok(fact), Ok(value)) => assert!(agree(fact, value), "{text}"),
            (fact, value) => assert_eq!(fact.is_ok(), value.is_ok(), "{text}"),
        }
    }

    #[test]
    fn facts_are_read_as_any_json_is() {
        for text in [
            "{\"a\":1,\"a\":2,\"b\":[\"x\",true,null,{\"a\":\"\\u00e9\\n\"}],\"\\u00e9\":-1}",
            "1.5",
            "-0",
            "18446744073709551615",
            "18446744073709551616",
            "1e999",
            "\"\\ud800\"",
            "{\"a\":[1e999]}",
            "{\"a\" 1}",
            "[[[]]",
        ] {
            check(text);
        }
        let deep = "[".repeat(200) + &"]".repeat(200);
        check(&deep);
    }

    proptest! {
        #[test]
        fn any_text_is_read_as_any_json_is(text in "[\\[\\]{}:,\"ab\\\\u0019e.-]{0,24}") {
            check(&text);
        }
    }
}
