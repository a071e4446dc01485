//! Takes the credentials of a briefing out of what a command writes, before that reaches a log.
//!
//! A briefing is free text, so what in it is a credential is a guess, and one that errs on the long side:
//! a log that lacks a word is readable, one that holds a password has to be deleted everywhere. Hidden is
//!
//! - what `Secret` recognises,
//! - what follows `=`, or follows a word such as `password` or `token` within two words, from four characters on,
//! - what stands between `://` and `@`,
//! - any word of eight characters or more with letters and digits in it that is no path.
//!
//! A password of plain letters that nothing announces is not recognised. A credential that the command
//! writes in another spelling (encoded, split over two lines) is not found.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;

/// What a log says in place of a credential.
const HIDDEN: &[u8] = b"[briefing]";

/// Words that announce a credential, in lower case.
const LABELS: [&str; 12] = [
    "password",
    "passwd",
    "passphrase",
    "pass",
    "pwd",
    "secret",
    "token",
    "key",
    "pin",
    "credential",
    "credentials",
    "bearer",
];

/// Fewest characters of a credential that is announced. Shorter ones would blacken every log.
const FEWEST: usize = 4;
/// Fewest characters of one that is not.
const FEWEST_UNANNOUNCED: usize = 8;

/// What must not be seen in a stream, and what has been held back of it.
#[derive(Clone, Debug, Default)]
pub struct SecretRedactor {
    /// Longest first, so that a word which begins like another is hidden whole.
    words: Vec<Vec<u8>>,
    held: Vec<u8>,
}

impl SecretRedactor {
    /// A redactor over the credentials of a briefing.
    pub fn over(briefing: &str) -> SecretRedactor {
        let mut words: Vec<Vec<u8>> =
            credentials(briefing).into_iter().map(|word| word.as_bytes().to_vec()).collect();
        // The longest first, so that of two words of which one begins the other nothing is left.
        words.sort_by_key(|word| std::cmp::Reverse(word.len()));
        SecretRedactor { words, held: Vec::new() }
    }

    /// A whole text without the credentials.
    pub fn hide(&self, text: &str) -> String {
        let mut redactor = self.clone();
        let mut shown = redactor.push(text.as_bytes()).into_owned();
        shown.extend(redactor.finish());
        String::from_utf8_lossy(&shown).into_owned()
    }

    /// What may be written after more of the stream came. An end that may be the beginning of a
    /// credential is held back.
    pub fn push<'b>(&mut self, bytes: &'b [u8]) -> Cow<'b, [u8]> {
        if self.words.is_empty() {
            return Cow::Borrowed(bytes);
        }
        self.held.extend_from_slice(bytes);
        Cow::Owned(self.release(false))
    }

    /// What was held back, at the end of the stream.
    pub fn finish(&mut self) -> Vec<u8> {
        self.release(true)
    }

    fn release(&mut self, at_end: bool) -> Vec<u8> {
        let mut shown = Vec::with_capacity(self.held.len());
        let mut rest = self.held.as_slice();
        while let Some((&first, after)) = rest.split_first() {
            let may_go_on = |word: &Vec<u8>| word.len() > rest.len() && word.starts_with(rest);
            // What could still become a word waits for the bytes that follow.
            if !at_end && self.words.iter().any(may_go_on) {
                break;
            }
            let mut words = self.words.iter();
            if let Some(after) = words.find_map(|word| rest.strip_prefix(word.as_slice())) {
                shown.extend_from_slice(HIDDEN);
                rest = after;
            } else {
                shown.push(first);
                rest = after;
            }
        }
        self.held = rest.to_vec();
        shown
    }
}

/// What in a briefing looks like a credential.
pub fn credentials(briefing: &str) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    for secret in find_all(briefing) {
        let text = briefing.get(secret.range).unwrap_or_default();
        // A key block is written line by line, a bearer token without its label.
        found.extend(text.split_whitespace().filter(|word| word.len() >= FEWEST_UNANNOUNCED));
    }
    let mut announced = 0u8;
    for token in briefing.split_whitespace() {
        let (label, value) = match token.split_once(['=', ':']) {
            // The colon of a URL announces nothing.
            Some((label, value)) if !value.starts_with("//") => (label, value),
            _ => ("", token),
        };
        let value = trim(value);
        let is_announced = announced > 0 || is_label(label) || token.contains('=');
        if is_mixed(value) || is_announced && value.len() >= FEWEST && !is_filler(value) {
            found.insert(value);
        }
        if let Some((_, rest)) = token.split_once("://")
            && let Some((user, _)) = rest.split_once('@')
        {
            found.extend(user.split(':').filter(|part| part.len() >= FEWEST));
        }
        announced = if is_label(trim(token)) || is_label(label) && value.is_empty() {
            // "The token is …": a word may stand between the announcement and the credential.
            2
        } else {
            announced.saturating_sub(1)
        };
    }
    found
}

/// A word without the punctuation of a sentence around it.
fn trim(word: &str) -> &str {
    word.trim_matches(|c: char| "\"'`,;:.()[]<>{}".contains(c))
}

fn is_label(word: &str) -> bool {
    let word = trim(word).to_ascii_lowercase();
    let last = word.rsplit(['_', '-']).next().unwrap_or_default();
    LABELS.contains(&last)
}

/// Words that stand between a label and what it announces, or that name a label again.
fn is_filler(word: &str) -> bool {
    is_label(word)
        || ["with", "from", "this", "that", "here", "below", "stands", "kept"].contains(&word)
}

fn is_mixed(word: &str) -> bool {
    word.len() >= FEWEST_UNANNOUNCED
        && !word.contains('/')
        && word.bytes().any(|b| b.is_ascii_digit())
        && word.bytes().any(|b| b.is_ascii_alphabetic())
}

// Recognises credentials in texts that would be recorded or shown.
//
// Seven markers, taken literally, because a refused task costs a minute and a recorded key costs a
// rotation: a note is pushed, fetched and never forgotten. Two markers also occur inside innocent words
// and so must not follow a letter or digit: `sk-` (`task-list`), which must be followed by at least
// three characters of a key as well (`sk-SK` is a locale), and `AKIA` (`SLOVAKIA`).
//
// What a secret is made of decides how much of it `redact` takes away, and that errs on the
// long side. Nothing in here measures entropy: a guess that depends on the length of a text would
// refuse a task today and accept it tomorrow.

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

/// What [`redact_secrets`] leaves in place of a secret.
const REDACTED: &str = "[secret]";

/// The first credential in a text.
pub fn find_secret(text: &str) -> Option<Secret> {
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
pub fn redact_secrets(text: &str) -> Cow<'_, str> {
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
    let rest = text.as_bytes().get(at..)?;
    let &(marker, kind) = MARKERS.iter().find(|(marker, _)| rest.starts_with(marker.as_bytes()))?;
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
        ":AAG" => {
            before.trim_end_matches(|c: char| c.is_ascii_digit()).len().max(at.saturating_sub(20))
        }
        _ => at,
    };
    let length = match marker {
        "-----BEGIN" => key_block_length(after),
        _ => token_length(after),
    };
    accepted.then(|| Secret { kind, range: start..at + marker.len() + length })
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
    // A block without an end is hidden to the end of the text: half a key is a key.
    after.find(END).map_or(after.len(), |end| {
        let tail = after.get(end + END.len()..).unwrap_or_default();
        end + END.len() + tail.find(['\n', '"', '\'']).unwrap_or(tail.len())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(briefing: &str, expected: &[&str]) {
        let found: Vec<&str> = credentials(briefing).into_iter().collect();
        assert_eq!(found, expected, "{briefing}");
    }

    #[test]
    fn credentials_are_recognised_by_what_announces_them() {
        check("password=hunter2 user=bob", &["hunter2"]);
        check("The password is \"correct-horse\".", &["correct-horse"]);
        check("Token: swordfish", &["swordfish"]);
        check("API_KEY=open", &["open"]);
        check("db: postgres://bob:secretly@db/x", &["secretly"]);
        check("use ghp_onlyTheAgentSeesThis now", &["ghp_onlyTheAgentSeesThis"]);
        check("log in with a1b2c3d4e5", &["a1b2c3d4e5"]);
        check("Bearer abcdefgh", &["abcdefgh"]);
    }

    #[test]
    fn plain_words_and_paths_stay_readable() {
        check("Work in /srv/app2/config10.toml and restart nginx.", &[]);
        check("The token is in the safe.", &[]);
        check("Keep to Rust 2024; read docs/style.md first.", &[]);
        check("", &[]);
    }

    fn veiled(redactor: &mut SecretRedactor, chunks: &[&[u8]]) -> String {
        let mut shown: Vec<u8> =
            chunks.iter().flat_map(|chunk| redactor.push(chunk).into_owned()).collect();
        shown.extend(redactor.finish());
        String::from_utf8(shown).expect("UTF-8")
    }

    #[test]
    fn a_credential_is_hidden_however_the_stream_is_cut() {
        let mut redactor = SecretRedactor::over("password=hunter2 token=hunter2long");
        assert_eq!(
            veiled(&mut redactor, &[b"a hun", b"ter", b"2 b hunter2lo", b"ng hunter2lon"]),
            "a [briefing] b [briefing] [briefing]lon"
        );
        assert_eq!(veiled(&mut redactor, &[b"hunt"]), "hunt");
    }

    proptest! {
        #[test]
        fn what_is_no_credential_passes_unchanged(text in "[ab ]{0,40}", cut in 0usize..40) {
            let mut redactor = SecretRedactor::over("password=abba");
            let cut = cut.min(text.len());
            let (one, two) = text.as_bytes().split_at(cut);
            prop_assert_eq!(veiled(&mut redactor, &[one, two]), text.replace("abba", "[briefing]"));
        }
    }
}

#[cfg(test)]
mod secret_tests {
    use super::*;

    fn check(text: &str, expected: Option<&str>) {
        let found = find_secret(text).map(|secret| &text[secret.range]);
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
        check("-----BEGIN KEY-----\nMII\n", Some("-----BEGIN KEY-----\nMII\n"));
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
        let redacted = redact_secrets(text);
        assert_eq!(redacted, "ä [secret] then [secret] and [secret] ö");
        assert_eq!(find_secret(&redacted), None);
        assert!(matches!(redact_secrets("plain"), Cow::Borrowed("plain")));
    }
}
