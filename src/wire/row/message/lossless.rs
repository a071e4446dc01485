//! What reading JSON text would change without a word: of a key that is given twice only the last value
//! stays, and a number of more digits than a double holds is rounded. A payload that says such a thing is
//! refused, so that what is received is what was sent.

use crate::domain::value::redaction::redact_secrets;
use serde_json::Value;
use std::collections::BTreeSet;

/// What would not survive, at every depth, one sentence each; the text is valid JSON.
pub fn losses(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    // The keys of every object around the place that is looked at; a list has none.
    let mut around: Vec<BTreeSet<String>> = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '{' | '[' => {
                around.push(BTreeSet::new());
                1
            }
            '}' | ']' => {
                around.pop();
                1
            }
            '"' => string_length(rest),
            '-' | '0'..='9' => number_length(rest),
            // Blanks, commas, colons and words lose nothing.
            _ => first.len_utf8(),
        };
        let (token, after) = rest.split_at(length);
        let mut note = |problem: String| {
            if !found.contains(&problem) {
                found.push(problem);
            }
        };
        match (first, around.last_mut()) {
            // Only a key is followed by a colon.
            ('"', Some(keys)) if after.trim_start().starts_with(':') => {
                let key = serde_json::from_str::<String>(token).unwrap_or_default();
                let problem = given_twice(&key);
                if !keys.insert(key) {
                    note(problem);
                }
            }
            ('-' | '0'..='9', _) if !is_kept(token) => note(format!(
                "the number {token} would lose digits on its way; it can be sent as a text"
            )),
            _ => {}
        }
        rest = after;
    }
    found
}

/// What is said of a key that is given twice.
pub(super) fn given_twice(key: &str) -> String {
    format!("the payload gives `{}` more than once", redact_secrets(key).escape_debug())
}

fn string_length(text: &str) -> usize {
    let mut escaped = false;
    let end = text.bytes().skip(1).position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    });
    end.map_or(text.len(), |end| end + 2)
}

fn number_length(text: &str) -> usize {
    text.bytes().take_while(|byte| byte.is_ascii_digit() || b"+-.eE".contains(byte)).count()
}

fn is_kept(number: &str) -> bool {
    let read = serde_json::from_str::<Value>(number);
    // `1.50` and `15e-1` are the same number as `1.5`, so values are compared and not spellings.
    read.is_ok_and(|read| decimal(&read.to_string()) == decimal(number))
}

/// The digits of a number from the first to the last that is not 0, and the power of ten of the last. The sign
/// is always kept, so it is left out.
fn decimal(number: &str) -> Option<(String, i64)> {
    let number = number.trim_start_matches('-');
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let significant = digits.trim_end_matches('0');
    if significant.is_empty() {
        return Some((String::new(), 0));
    }
    let moved = i64::try_from(digits.len() - significant.len()).ok()?;
    let behind = i64::try_from(fraction.len()).ok()?;
    let exponent = exponent.parse::<i64>().ok()?;
    // An exponent beyond 64 bits gives `None`, which equals no number that was read.
    let last = exponent.checked_sub(behind)?.checked_add(moved)?;
    Some((significant.trim_start_matches('0').to_owned(), last))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(text: &str, expected: &[&str]) {
        assert!(serde_json::from_str::<Value>(text).is_ok(), "{text}");
        assert_eq!(losses(text), expected, "{text}");
    }

    #[test]
    fn a_key_that_is_given_twice_is_found_at_every_depth() {
        let twice = "the payload gives `a` more than once";
        check(r#"{"a": 1, "a" : 1}"#, &[twice]);
        check(r#"{"a": 1, "\u0061": 2, "a": 3}"#, &[twice]);
        check(r#"[{"b": {"a": 1}}, {"b": [{"a": {}, "a": []}]}]"#, &[twice]);
        check(r#"{"": 1, "": 2}"#, &["the payload gives `` more than once"]);
    }

    #[test]
    fn the_same_word_elsewhere_is_no_key() {
        check(r#"{"a": "a", "b": ["a", "a"], "c": {"a": 1}, "d": {"a": 2}}"#, &[]);
        check(r#"{"a\"": 1, "a\\": "\"a\": 1, \"a\": 2", "a": "日本"}"#, &[]);
        check(r#""a""#, &[]);
    }

    #[test]
    fn a_number_is_refused_when_it_would_change() {
        for kept in [
            "0",
            "-0",
            "1.0",
            "0.10",
            "1e3",
            "1E+3",
            "-1.5e-7",
            "0.1",
            "18446744073709551615",
            "-9223372036854775808",
            "100000000000000000000",
            "0.30000000000000004",
            "0e99999999999999999999",
        ] {
            check(kept, &[]);
        }
        for lost in [
            "18446744073709551617",
            "0.1234567890123456789012",
            "-9223372036854775809",
            "1e-400",
            "1.00000000000000000001",
        ] {
            let problem =
                format!("the number {lost} would lose digits on its way; it can be sent as a text");
            check(&format!("{{\"a\": [{lost}]}}"), &[&problem]);
        }
    }

    proptest! {
        #[test]
        fn what_we_write_ourselves_loses_nothing(float: f64, whole: i64, text: String) {
            prop_assume!(text != "a" && text != "b");
            let value = serde_json::json!({ "a": float, "b": [whole, { "a": text }], text: 1 });
            prop_assert_eq!(losses(&value.to_string()), Vec::<String>::new());
        }

        #[test]
        fn any_text_is_looked_through(text: String) {
            losses(&text);
        }
    }
}
