//! Text from agents, made harmless for terminals: a name, a message or a path may hold what moves the cursor, sets the
//! title or turns the reading direction around, so that a person reads something else than what is there.
//!
//! Everything that is printed passes through here. What stays are line ends, tabs and our own few styles; anything
//! else that a terminal obeys is shown as `\u202e`, which JSON reads back as the character that it was.

use crate::domain::value::named::turns_direction;
use std::borrow::Cow;
use std::io::{self, Write};

/// The parameters of the styles in our own texts and in the help (ECMA-48: SGR).
const OWN_STYLES: [&str; 9] = ["", "0", "1", "2", "4", "31", "32", "33", "36"];

/// The text with everything spelled out that a terminal would obey.
pub(in crate::cli) fn neutral(text: &str) -> Cow<'_, str> {
    // Nearly every text is harmless, and none of those is copied.
    if !text.chars().any(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(is_obeyed) {
        shown.push_str(&rest[..at]);
        rest = &rest[at..];
        // An agent that uses our styles can paint with them and do no more.
        let length = own_style(rest);
        if let Some(length) = length {
            shown.push_str(&rest[..length]);
            rest = &rest[length..];
            continue;
        }
        let mut characters = rest.chars();
        if let Some(character) = characters.next() {
            shown.push_str(&format!("\\u{:04x}", u32::from(character)));
        }
        rest = characters.as_str();
    }
    shown.push_str(rest);
    Cow::Owned(shown)
}

/// A terminal to which text comes in pieces that end anywhere.
pub(in crate::cli) struct NeutralWriter<W> {
    to: W,
    /// The beginning of a character, or of one of our styles, whose end is still to come.
    rest: Vec<u8>,
}

impl<W: Write> NeutralWriter<W> {
    pub(in crate::cli) fn new(to: W) -> NeutralWriter<W> {
        let rest = Vec::new();
        NeutralWriter { to, rest }
    }
}

impl<W: Write> Write for NeutralWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.rest.extend_from_slice(bytes);
        let unfinished = self.rest.split_off(self.rest.len() - unfinished(&self.rest));
        let whole = std::mem::replace(&mut self.rest, unfinished);
        let text = String::from_utf8_lossy(&whole);
        self.to.write_all(neutral(&text).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// How many bytes at the end are the beginning of a character, or of one of our styles.
fn unfinished(bytes: &[u8]) -> usize {
    // Our longest style has two digits; what is longer and still open is none of ours.
    let ends = |longest: usize| {
        let lengths = (1..=longest).rev();
        lengths
            .filter_map(|length| Some(bytes.split_at_checked(bytes.len().checked_sub(length)?)?.1))
    };
    let style = ends("\x1b[31".len()).find(|end| match end {
        [0x1b] => true,
        [0x1b, b'[', digits @ ..] => digits.iter().all(u8::is_ascii_digit),
        _ => false,
    });
    // A character has four bytes at most, of which three may be its beginning.
    let begins = |end: &&[u8]| match std::str::from_utf8(end) {
        Err(error) => error.valid_up_to() == 0 && error.error_len().is_none(),
        Ok(_) => false,
    };
    style.or_else(|| ends(3).find(begins)).map_or(0, <[u8]>::len)
}

/// Whether a terminal does something else with a character than showing it in its place.
fn is_obeyed(character: char) -> bool {
    let is_plain = matches!(character, '\n' | '\t');
    !is_plain && (character.is_control() || turns_direction(character))
}

/// The length of one of our own styles at the beginning of a text.
fn own_style(text: &str) -> Option<usize> {
    let parameters = text.strip_prefix("\x1b[")?;
    let (parameters, _) = parameters.split_once('m')?;
    let is_own = OWN_STYLES.contains(&parameters);
    is_own.then(|| "\x1b[".len() + parameters.len() + 1)
}

#[cfg(test)]
mod tests {
    use super::{NeutralWriter, neutral};
    use std::io::Write;

    #[test]
    fn text_in_pieces_is_shown_as_text_in_one_piece() {
        let text = "añ\u{202e}b\u{1f600}\x1b]0;t\x07\x1b[31mred\x1b[m \x1b[8mend".as_bytes();
        for size in 1..=text.len() {
            let mut writer = NeutralWriter::new(Vec::new());
            for piece in text.chunks(size) {
                writer.write_all(piece).expect("written");
            }
            let whole = String::from_utf8_lossy(text);
            assert_eq!(writer.to, neutral(&whole).as_bytes(), "pieces of {size}");
        }
        let mut writer = NeutralWriter::new(Vec::new());
        writer.write_all(b"\xff\xfe\xc3(").expect("written");
        assert!(String::from_utf8(writer.to).is_ok());
    }

    #[test]
    fn what_a_terminal_obeys_is_spelled_out() {
        assert_eq!(neutral("a\tb\n"), "a\tb\n");
        assert_eq!(neutral("a\u{202e}b"), "a\\u202eb");
        assert_eq!(neutral("\x1b]0;title\x07"), "\\u001b]0;title\\u0007");
        assert_eq!(neutral("\x1b[2J\r"), "\\u001b[2J\\u000d");
        assert_eq!(neutral("\u{9b}8m\x7f"), "\\u009b8m\\u007f");
        assert_eq!(neutral("\x1b[8mhidden"), "\\u001b[8mhidden");
        assert_eq!(neutral("\x1b[31mred\x1b[0m"), "\x1b[31mred\x1b[0m");
        assert_eq!(neutral("\x1b[\u{202e}m"), "\\u001b[\\u202em");
    }

    #[test]
    fn json_reads_back_what_was_there() {
        let text = "\u{202e}\u{9b}\x7f\x1b";
        let line = serde_json::Value::from(text).to_string();
        let read: String = serde_json::from_str(&neutral(&line)).expect("JSON");
        assert_eq!(read, text);
    }
}
