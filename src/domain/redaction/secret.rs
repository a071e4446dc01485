//! Recognises credentials in texts that would be recorded or shown.
//!
//! Seven markers, taken literally, because a refused task costs a minute and a recorded key costs a
//! rotation: a note is pushed, fetched and never forgotten. Two markers also occur inside innocent words
//! and so must not follow a letter or digit: `sk-` (`task-list`), which must be followed by at least
//! three characters of a key as well (`sk-SK` is a locale), and `AKIA` (`SLOVAKIA`).
//!
//! What a secret is made of decides how much of it [`redact`] takes away, and that errs on the
//! long side. Nothing in here measures entropy: a guess that depends on the length of a text would
//! refuse a task today and accept it tomorrow.

use std::borrow::Cow;
use std::ops::Range;

/// A place that looks like a credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secret {
    /// What it seems to be, with its article: `a GitHub token`.
    pub kind: &'static str,
    /// The bytes of the text that must not be shown.
    pub range: Range<usize>,
}

/// The markers and what each of them gives away.
const MARKERS: [(&str, &str); 7] = [
    ("sk-", "an API key"),
    ("ghp_", "a GitHub token"),
    ("Bearer ", "a bearer token"),
    ("AKIA", "an AWS access key"),
    ("xoxb-", "a Slack token"),
    ("-----BEGIN", "a private key"),
    (":AAG", "a Telegram bot token"),
];

/// What [`redact`] leaves in place of a secret.
const REDACTED: &str = "[secret]";

/// The first credential in a text.
pub fn find(text: &str) -> Option<Secret> {
    find_all(text).next()
}

/// Every credential in a text, in order and without overlap, in one pass.
pub fn find_all(text: &str) -> impl Iterator<Item = Secret> {
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < text.len() {
            let here = at;
            at += 1;
            if let Some(secret) = secret_at(text, here) {
                at = secret.range.end;
                return Some(secret);
            }
        }
        None
    })
}

/// The text with every credential taken out.
pub fn redact(text: &str) -> Cow<'_, str> {
    let mut redacted = String::new();
    let mut kept = 0;
    for secret in find_all(text) {
        redacted.push_str(text.get(kept..secret.range.start).unwrap_or_default());
        redacted.push_str(REDACTED);
        kept = secret.range.end;
    }
    if kept == 0 {
        return Cow::Borrowed(text);
    }
    redacted.push_str(text.get(kept..).unwrap_or_default());
    Cow::Owned(redacted)
}

fn secret_at(text: &str, at: usize) -> Option<Secret> {
    let rest = &text.as_bytes()[at..];
    let &(marker, kind) = MARKERS
        .iter()
        .find(|(marker, _)| rest.starts_with(marker.as_bytes()))?;
    // Every marker is ASCII, so both of these are character boundaries.
    let (before, after) = (text.get(..at)?, text.get(at + marker.len()..)?);
    let in_a_word = before.ends_with(char::is_alphanumeric);
    let accepted = match marker {
        "sk-" => !in_a_word && after.bytes().take_while(u8::is_ascii_alphanumeric).count() >= 3,
        "AKIA" => !in_a_word,
        _ => true,
    };
    let start = match marker {
        // The bot's number before the colon is half of the token.
        ":AAG" => before
            .trim_end_matches(|c: char| c.is_ascii_digit())
            .len()
            .max(at.saturating_sub(20)),
        _ => at,
    };
    let length = match marker {
        "-----BEGIN" => key_block_length(after),
        _ => token_length(after),
    };
    accepted.then(|| Secret {
        kind,
        range: start..at + marker.len() + length,
    })
}

/// A token reaches to the next space or quote; those before it (`Bearer "…"`) belong to it.
fn token_length(after: &str) -> usize {
    let delimits = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`');
    let token = after.trim_start_matches(delimits);
    after.len() - token.len() + token.find(delimits).unwrap_or(token.len())
}

/// A key block reaches to the end of its `-----END …-----` line, or as far as the text does.
fn key_block_length(after: &str) -> usize {
    const END: &str = "-----END";
    after.find(END).map_or(after.len(), |end| {
        let tail = after.get(end + END.len()..).unwrap_or_default();
        end + END.len() + tail.find(['\n', '"', '\'']).unwrap_or(tail.len())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<&str>) {
        let found = find(text).map(|secret| &text[secret.range]);
        assert_eq!(found, expected, "{text:?}");
    }

    #[test]
    fn each_marker_is_found_with_what_belongs_to_it() {
        check("use sk-abc123 here", Some("sk-abc123"));
        check("key=`sk-ant-api03-xyz`", Some("sk-ant-api03-xyz"));
        check("a ghp_16C7e42F292c6912E7 b", Some("ghp_16C7e42F292c6912E7"));
        check("Authorization: Bearer abc.def x", Some("Bearer abc.def"));
        check("Bearer  'abc' x", Some("Bearer  'abc"));
        check("AKIAIOSFODNN7EXAMPLE", Some("AKIAIOSFODNN7EXAMPLE"));
        check("'xoxb-1-2-abc'", Some("xoxb-1-2-abc"));
        check("bot 110201543:AAGdqTcvCH1", Some("110201543:AAGdqTcvCH1"));
        check(
            "x -----BEGIN KEY-----\nMII\n-----END KEY-----\nrest",
            Some("-----BEGIN KEY-----\nMII\n-----END KEY-----"),
        );
        check(
            "-----BEGIN KEY-----\nMII\n",
            Some("-----BEGIN KEY-----\nMII\n"),
        );
    }

    #[test]
    fn innocent_words_are_not_secrets() {
        for text in [
            "extend the task-list and the disk-usage report",
            "add the sk-SK locale",
            "translate it for SLOVAKIA",
            "ghp, xoxb and akia",
            "the bearer of this",
            "",
            "sk-",
        ] {
            check(text, None);
        }
    }

    #[test]
    fn redaction_leaves_nothing_to_find() {
        let text = "ä ghp_abc, then 12:AAGx and sk-123456 ö";
        let redacted = redact(text);
        assert_eq!(redacted, "ä [secret] then [secret] and [secret] ö");
        assert_eq!(find(&redacted), None);
        assert!(matches!(redact("plain"), Cow::Borrowed("plain")));
    }
}
