//! Where in a text a byte stands, for messages.

/// The line and column of a byte, both counted from one, the column in characters.
pub(super) fn position(text: &str, offset: usize) -> (usize, usize) {
    // An offset within a character gives the end of the text rather than a panic: it is only for a
    // message.
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line = before.matches('\n').count() + 1;
    (line, before[line_start..].chars().count() + 1)
}
