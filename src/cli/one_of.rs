//! Arguments that are words.

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use std::ffi::OsStr;

/// Reads one of a few words, which help, pages and completions name. What is wrong with another one is said
/// by `read`.
#[derive(Clone)]
pub(super) struct OneOf<T> {
    words: Vec<&'static str>,
    read: fn(&str) -> Result<T, String>,
}

/// A reader of one of these words.
pub(super) fn one_of<T>(
    words: impl IntoIterator<Item = &'static str>,
    read: fn(&str) -> Result<T, String>,
) -> OneOf<T> {
    OneOf {
        words: words.into_iter().collect(),
        read,
    }
}

/// What to say of a word that is none of those.
pub(super) fn choices<'a>(what: &str, words: impl IntoIterator<Item = &'a str>) -> String {
    let words: Vec<_> = words.into_iter().collect();
    format!("the {what} are {}", words.join(", "))
}

impl<T: Clone + Send + Sync + 'static> TypedValueParser for OneOf<T> {
    type Value = T;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<T, clap::Error> {
        let read = self.read;
        let parser = StringValueParser::new().try_map(move |word| read(&word));
        parser.parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.words.iter().map(PossibleValue::new)))
    }
}

/// Takes any word, where the operation says what is wrong with it.
pub(super) fn any(word: &str) -> Result<String, String> {
    Ok(word.to_owned())
}

/// Reads a text that says something.
pub(super) fn some_words(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        Err("it takes some words".to_owned())
    } else {
        Ok(text.to_owned())
    }
}
