//! What is shown of foreign text: bounded, and harmless to a terminal.

use crate::domain::direction::turns_direction;
use crate::domain::redaction::secret;
use std::ops::Range;
use unicode_width::UnicodeWidthChar;

/// A line wider than this many columns is cut around the caret.
const LINE_WIDTH: usize = 120;

/// A message longer than this many characters quotes more than is useful.
const MESSAGE_LENGTH: usize = 300;

/// A line as it is shown, cut to [`LINE_WIDTH`], and the carets below the given bytes of it.
pub(super) fn excerpt(line: &str, span: Range<usize>) -> (String, String) {
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
pub(super) fn shown(c: char) -> String {
    match c {
        '\t' => "    ".to_owned(),
        c if c.is_control() || turns_direction(c) => '\u{fffd}'.to_string(),
        c => c.to_string(),
    }
}

/// One line of text without credentials or control characters, of bearable length.
pub(super) fn printable(text: &str) -> String {
    let text = secret::redact(text);
    let mut line: String = text.chars().take(MESSAGE_LENGTH).map(shown).collect();
    if text.chars().nth(MESSAGE_LENGTH).is_some() {
        line.push('…');
    }
    line
}
