//! Characters that make a line read as what it is not.

/// Whether a character changes the direction in which its neighbours are shown (Unicode, UAX #9 §2: bidirectional controls).
pub fn turns_direction(character: char) -> bool {
    matches!(
        character,
        '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    )
}
