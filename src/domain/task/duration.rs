//! Spans of time as people write them: `90s`, `5m`, `1h30m`, `90d`, `12w`.

use std::time::Duration;

/// The units, longest first, in seconds.
const UNITS: [(char, u64); 5] = [
    ('w', 604_800),
    ('d', 86_400),
    ('h', 3_600),
    ('m', 60),
    ('s', 1),
];

/// Reads a span of time: whole numbers with the units `w`, `d`, `h`, `m` and `s`, each at most once,
/// longest first.
///
/// # Errors
/// One sentence that names the text and the rule.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is no span of time; write it like `90s`, `5m` or `1h30m`");
    let mut seconds: u64 = 0;
    let mut units = UNITS.iter();
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, tail) = rest.split_at(digits);
        let unit = tail.chars().next().ok_or_else(wrong)?;
        let &(_, length) = units.find(|(name, _)| *name == unit).ok_or_else(wrong)?;
        let part = number.parse::<u64>().map_err(|_| wrong())?;
        seconds = part
            .checked_mul(length)
            .and_then(|part| seconds.checked_add(part))
            .ok_or_else(wrong)?;
        rest = tail.split_at(unit.len_utf8()).1;
    }
    Ok(Duration::from_secs(seconds))
}

/// A span of time of whole seconds as [`parse_duration`] reads it, in one unit.
pub fn duration_text(span: Duration) -> String {
    let seconds = span.as_secs();
    let fits = |(_, length): &&(char, u64)| seconds > 0 && seconds.is_multiple_of(*length);
    let &(unit, length) = UNITS.iter().find(fits).unwrap_or(&('s', 1));
    format!("{}{unit}", seconds / length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_of_time_are_read_longest_unit_first() {
        for (text, seconds) in [
            ("90s", 90),
            ("5m", 300),
            ("1h30m", 5_400),
            ("1d", 86_400),
            ("1d2h3m4s", 93_784),
            ("2w1d", 1_296_000),
            (" 0s ", 0),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_secs(seconds)));
        }
        for text in [
            "",
            "5",
            "m",
            "5 m",
            "30m1h",
            "1h1h",
            "-5m",
            "1.5h",
            "5min",
            "5µs",
            "99999999999999999999s",
            "18446744073709551615d",
        ] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_span_is_written_as_it_is_read() {
        for text in ["0s", "59s", "90s", "5m", "36h", "30d", "2w"] {
            let span = parse_duration(text).expect("a span");
            assert_eq!(duration_text(span), text);
        }
        assert_eq!(duration_text(Duration::from_secs(86_400)), "1d");
    }
}
