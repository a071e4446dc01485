//! Problems of a text file, shown with file, line, column, the offending line and a caret.
//!
//! A reader turns a file into [`Source`], [`Field`]s and [`Problem`]s; rules add more problems; then the
//! source renders all of them in order of position:
//!
//! ```text
//! tasks/fix.toml:3:1: unknown key `whitelst` in [scope]
//!   |
//! 3 | whitelst = ["src/**"]
//!   | ^^^^^^^^ did you mean `whitelist`?
//! ```
//!
//! What is rendered goes to terminals and logs, so nothing dangerous gets through: credentials are cut out
//! of messages, lines that hold one are not shown at all, and control characters, which could
//! repaint a terminal or reorder a line, are replaced. Colour is deliberately absent.

#[cfg(test)]
mod tests;

use super::named::turns_direction;
use super::redaction;
use crate::error::{Code, FileProblem};
use std::cmp::Reverse;
use std::ops::Range;
use unicode_width::UnicodeWidthChar;

/// A value and the bytes of the file it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located<T> {
    /// The value.
    pub value: T,
    /// Where it stands.
    pub span: Range<usize>,
}

impl<T> Located<T> {
    /// A value that no file has.
    pub fn unplaced(value: T) -> Located<T> {
        Located { value, span: 0..0 }
    }
}

/// What a file says about one key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Field<T> {
    /// The key is there, but its value could not be read; the reader has said why.
    #[default]
    Unreadable,
    /// The key is not there.
    Absent {
        /// The key as messages name it: `` `whitelist` in [scope] ``.
        key: String,
        /// The header of the table it would stand in, where the file has one.
        header: Option<Range<usize>>,
    },
    /// The key and its value.
    Given(Located<T>),
}

impl<T> Field<T> {
    /// The value, where there is one.
    pub fn given(&self) -> Option<&Located<T>> {
        match self {
            Field::Given(located) => Some(located),
            _ => None,
        }
    }
}

/// One thing that is wrong, or worth a warning, at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The bytes of the text that are wrong; `None` when it is the whole file, or something missing.
    pub span: Option<Range<usize>>,
    /// What is wrong, naming the key or the glob and the rule. One line.
    pub message: String,
    /// What to do instead.
    pub help: Option<String>,
    /// The code that the error gets when this is its only problem.
    pub code: Option<Code>,
}

impl Problem {
    /// A problem of these bytes of the text.
    pub fn at(span: Range<usize>, message: impl Into<String>) -> Problem {
        Problem { span: Some(span), ..Problem::of_file(message) }
    }

    /// A problem of the file as a whole, or of something that is missing from it.
    pub fn of_file(message: impl Into<String>) -> Problem {
        Problem { span: None, message: message.into(), help: None, code: None }
    }

    /// Adds what to do instead.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Problem {
        self.help = Some(help.into());
        self
    }

    /// Adds a code of its own.
    #[must_use]
    pub fn code(mut self, code: Code) -> Problem {
        self.code = Some(code);
        self
    }

    /// Order of position in the file; what has no position comes last.
    pub fn position(&self) -> (bool, usize, Reverse<usize>) {
        let span = self.span.clone().unwrap_or_default();
        (self.span.is_none(), span.start, Reverse(span.end))
    }
}

/// A text that a person wrote, under the name they know it by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    name: String,
    text: String,
    hidden: Vec<Range<usize>>,
}

impl Source {
    /// A text, and the path as it was given or `<stdin>`. Lines with a credential are hidden.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Source {
        let text = text.into();
        Source {
            name: name.into(),
            hidden: redaction::find_all(&text).map(|secret| secret.range).collect(),
            text,
        }
    }

    /// The name, safe to print. It is no secret, because its user typed it where everybody sees it.
    pub fn name(&self) -> String {
        self.name.chars().map(shown).collect()
    }

    /// The text, without a byte order mark.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The bytes of a span; empty where the span is none of this text.
    pub fn slice(&self, span: &Range<usize>) -> &str {
        self.text.get(span.clone()).unwrap_or_default()
    }

    /// Keeps the lines that these bytes stand on from being shown.
    pub fn hide(&mut self, span: Range<usize>) {
        self.hidden.push(span);
    }

    /// One line: `file:line:column: message`, line and column (in characters) counted from 1.
    pub fn headline(&self, problem: &Problem) -> String {
        let message = printable(&problem.message);
        match &problem.span {
            None => format!("{}: {message}", self.name()),
            Some(span) => {
                let (line, column) = self.position(span);
                format!("{}:{line}:{column}: {message}", self.name())
            }
        }
    }

    /// A problem as programs read it.
    pub fn fact(&self, problem: &Problem) -> FileProblem {
        let span = problem.span.as_ref();
        let shown =
            span.filter(|span| !self.hides(span) && !self.hides(&self.line_of(span.start).1));
        let key = shown.map(|span| self.key_of(span.start).unwrap_or_else(|| span.clone()));
        let key = key.filter(|key| !self.hides(key)).map(|key| printable(self.slice(&key)));
        FileProblem {
            file: self.name(),
            position: span.map(|span| self.position(span)),
            key: key.filter(|key| !key.is_empty()),
            message: printable(&problem.message),
            suggestion: problem.help.as_deref().map(printable),
        }
    }

    /// The key whose value an offset lies in, where this is a text of keys and values: the last one before it on its line or, for an item
    /// of a list, above.
    fn key_of(&self, mut offset: usize) -> Option<Range<usize>> {
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
        let is_before_key = |c: Option<char>| matches!(c, None | Some(' ' | '\t' | '{' | ','));
        loop {
            let (_, line) = self.line_of(offset);
            let before = self.text.get(line.start..offset.min(line.end))?;
            let key = before.match_indices('=').rev().find_map(|(at, _)| {
                let name = before[..at].trim_end();
                let start = name.trim_end_matches(is_part).len();
                let is_key = start < name.len() && is_before_key(name[..start].chars().last());
                is_key.then_some(line.start + start..line.start + name.len())
            });
            let is_item = self.slice(&line).trim_start().starts_with(['"', '\'']);
            if key.is_some() || !is_item || line.start == 0 {
                return key;
            }
            offset = line.start - 1;
        }
    }

    /// The line and the column in characters, both counted from 1.
    fn position(&self, span: &Range<usize>) -> (usize, usize) {
        let (number, line) = self.line_of(span.start);
        let before = line.start..span.start.min(line.end);
        (number, self.slice(&before).chars().count() + 1)
    }

    /// The headline, the offending line and a caret with the help.
    pub fn render(&self, problem: &Problem) -> String {
        let mut block = self.headline(problem);
        let help = problem.help.as_deref().map(printable).unwrap_or_default();
        let mut push = |gutter: &str, mark: &str, content: &str| {
            block.push_str(format!("\n{gutter} {mark} {content}").trim_end());
        };
        let note = if help.is_empty() { "" } else { "=" };
        let Some(span) = &problem.span else {
            push(" ", note, &help);
            return block;
        };
        let (number, line) = self.line_of(span.start);
        let number = number.to_string();
        let blank = " ".repeat(number.len());
        push(&blank, "|", "");
        if self.hides(&line) || self.hides(span) {
            push(&number, "|", "(not shown, because this line may hold a secret)");
            push(&blank, note, &help);
        } else {
            let start = span.start.clamp(line.start, line.end) - line.start;
            let end = span.end.clamp(line.start, line.end) - line.start;
            let (shown, caret) = excerpt(self.slice(&line), start..end);
            push(&number, "|", &shown);
            push(&blank, "|", &format!("{caret} {help}"));
        }
        block
    }

    fn hides(&self, span: &Range<usize>) -> bool {
        self.hidden.iter().any(|hidden| hidden.start < span.end && span.start < hidden.end)
    }

    /// The number of the line that holds an offset, from 1, and its bytes without the line end. The end
    /// of the text counts to the last line that has anything on it.
    fn line_of(&self, offset: usize) -> (usize, Range<usize>) {
        // A problem at the end of the file is shown on its last line with text, not on an empty one
        // after it.
        let offset = if offset >= self.text.len() {
            self.text.trim_end().len().saturating_sub(1)
        } else {
            offset
        };
        let (mut number, mut start) = (1, 0);
        for line in self.text.split_inclusive('\n') {
            if offset < start + line.len() {
                let line = line.strip_suffix('\n').unwrap_or(line);
                let line = line.strip_suffix('\r').unwrap_or(line);
                return (number, start..start + line.len());
            }
            (number, start) = (number + 1, start + line.len());
        }
        (number, start..start)
    }
}

// What is shown of foreign text: bounded, and harmless to a terminal.

/// A line wider than this many columns is cut around the caret.
const LINE_WIDTH: usize = 120;

/// A message longer than this many characters quotes more than is useful.
const MESSAGE_LENGTH: usize = 300;

/// A line as it is shown, cut to [`LINE_WIDTH`], and the carets below the given bytes of it.
fn excerpt(line: &str, span: Range<usize>) -> (String, String) {
    let first = window_start(line, span.start);
    let (mut text, mut caret) = (String::new(), String::new());
    if first > 0 {
        text.push('…');
        caret.push(' ');
    }
    let mut room = LINE_WIDTH;
    for (at, c) in line.get(first..).unwrap_or_default().char_indices() {
        if !fits(&mut room, c) {
            text.push('…');
            break;
        }
        text.push_str(&shown(c));
        let mark = match first + at {
            at if at < span.start => " ",
            at if at < span.end => "^",
            _ => "",
        };
        caret.push_str(&mark.repeat(width(c)));
    }
    // A span of nothing, or one behind what is shown, still has a place.
    if !caret.contains('^') {
        caret.push('^');
    }
    (text, caret)
}

/// The byte at which a line begins to be shown. Where it is too long, a third of the room goes to what
/// stands before the caret.
fn window_start(line: &str, caret: usize) -> usize {
    let mut room = LINE_WIDTH;
    if line.chars().all(|c| fits(&mut room, c)) {
        return 0;
    }
    let mut room = LINE_WIDTH / 3;
    let before = line.get(..caret).unwrap_or_default().char_indices().rev();
    let window = before.take_while(|&(_, c)| fits(&mut room, c));
    window.last().map_or(caret, |(at, _)| at)
}

/// Whether a character fits into the room that is left; takes its columns.
fn fits(room: &mut usize, c: char) -> bool {
    let rest = room.checked_sub(width(c));
    *room = rest.unwrap_or(*room);
    rest.is_some()
}

/// The columns that a character takes.
fn width(c: char) -> usize {
    shown(c).chars().filter_map(char::width).sum()
}

/// A character as it is shown: a tab is four spaces wide, whatever could act on a terminal is replaced.
fn shown(c: char) -> String {
    match c {
        '\t' => "    ".to_owned(),
        c if c.is_control() || turns_direction(c) => '\u{fffd}'.to_string(),
        c => c.to_string(),
    }
}

/// One line of text without credentials or control characters, of bearable length.
fn printable(text: &str) -> String {
    // Redacted before it is cut: a cut secret would not be recognised any more.
    let text = redaction::redact_secrets(text);
    let mut line: String = text.chars().take(MESSAGE_LENGTH).map(shown).collect();
    if text.chars().nth(MESSAGE_LENGTH).is_some() {
        line.push('…');
    }
    line
}

// "Did you mean".

/// The candidate that a mistyped word most likely meant.
///
/// Case and the choice between `-` and `_` are ignored. A word is close when at most a third of it is
/// wrong (Damerau-Levenshtein), or when one of the two contains the other, as in `deny` for `denylist`.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |text: &str| text.to_ascii_lowercase().replace('_', "-");
    let word = plain(word);
    let closeness = |candidate: &'a str| {
        let name = plain(candidate);
        let longer = name.len().max(word.len());
        let shorter = name.len().min(word.len());
        // The distance is at least the difference in length: a word of a megabyte is not compared.
        if (longer - shorter) * 3 <= longer {
            let distance = strsim::osa_distance(&name, &word);
            if distance * 3 <= longer {
                return Some((distance, candidate));
            }
        }
        let contained = shorter >= 4 && (name.contains(&word) || word.contains(&name));
        contained.then_some((longer, candidate))
    };
    let closest = candidates.into_iter().filter_map(closeness).min();
    closest.map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod nearest_tests {
    use super::*;

    #[test]
    fn near_words_are_found_and_far_ones_are_not() {
        let words = ["role", "whitelist", "denylist", "max_iterations"];
        for (word, expected) in [
            ("whitelst", Some("whitelist")),
            ("Role", Some("role")),
            ("roel", Some("role")),
            ("rol", Some("role")),
            ("deny", Some("denylist")),
            ("files-whitelist", Some("whitelist")),
            ("max-iterations", Some("max_iterations")),
            ("colour", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, words), expected, "{word}");
        }
    }
}
