//! The time of an event: a hybrid logical clock (Kulkarni et al., "Logical Physical Clocks", 2014).
//!
//! Wall clocks jump and tie. A stamp is the wall time unless that would not come after the row's last
//! stamp; then it is the last time with its counter raised. The clone's number keeps two clones that
//! write in the same microsecond apart. The written form has a fixed width, so that byte order of
//! lines is time order: `20261120T214929.123456Z-000-7f3a`.
//!
//! A stamp that lies more than [`AHEAD`] after the wall clock is not followed: one line that is dated in the year 9999
//! must not date every later one there. The event that is written then has a lower stamp than a line before it, and
//! says so ([`crate::domain::life::event::Event::ahead`]).

use chrono::{DateTime, NaiveDate, SubsecRound, Utc};
use std::fmt;
use std::ops::Range;

/// A point in a row's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp {
    time: DateTime<Utc>,
    counter: u16,
    clone: u16,
}

/// How far the clock of another machine may be ahead of this one's for its stamps to be followed, in seconds.
pub const AHEAD: i64 = 600;

/// Counters have three hex digits.
const COUNTER_LIMIT: u16 = 0xfff;

impl Stamp {
    /// The number of the clone that wrote it.
    pub fn clone_number(self) -> u16 {
        self.clone
    }

    /// The stamp of something that happens `now` in clone number `clone`, after `last`, which is not ahead.
    pub fn next(now: DateTime<Utc>, clone: u16, last: Option<Stamp>) -> Stamp {
        let now = now.trunc_subsecs(6);
        let (time, counter) = match last {
            Some(last) if last.time >= now && last.counter < COUNTER_LIMIT => {
                (last.time, last.counter + 1)
            }
            Some(last) if last.time >= now => (last.time + chrono::TimeDelta::microseconds(1), 0),
            _ => (now, 0),
        };
        Stamp { time, counter, clone }
    }

    /// Whether it lies so far after `now` that the clock it was taken from was wrong, or this one is.
    pub fn is_ahead_of(self, now: DateTime<Utc>) -> bool {
        is_ahead(self.time, now)
    }

    /// Reads the written form; `None` for anything else.
    pub fn parse(text: &str) -> Option<Stamp> {
        // Every line of every row is read through here, and formats are slow.
        let text = text.as_bytes();
        let mut marks = [(8, b'T'), (15, b'.'), (22, b'Z'), (23, b'-'), (27, b'-')].into_iter();
        if text.len() != 32 || marks.any(|(place, mark)| text.get(place) != Some(&mark)) {
            return None;
        }
        let decimal = |digits| number(text, digits, 10);
        let date = NaiveDate::from_ymd_opt(
            i32::try_from(decimal(0..4)?).ok()?,
            decimal(4..6)?,
            decimal(6..8)?,
        )?;
        let micros = decimal(16..22)?;
        // A leap second is the second before it with more than a second's fraction.
        let (second, micros) = match decimal(13..15)? {
            60 => (59, micros + 1_000_000),
            second => (second, micros),
        };
        let time = date.and_hms_micro_opt(decimal(9..11)?, decimal(11..13)?, second, micros)?;
        Some(Stamp {
            time: time.and_utc(),
            counter: u16::try_from(number(text, 24..27, 16)?).ok()?,
            clone: u16::try_from(number(text, 28..32, 16)?).ok()?,
        })
    }

    /// The wall-clock part.
    pub fn time(self) -> DateTime<Utc> {
        self.time
    }
}

/// Whether a time lies more than [`AHEAD`] after `now`.
pub fn is_ahead(time: DateTime<Utc>, now: DateTime<Utc>) -> bool {
    (time - now).num_seconds() > AHEAD
}

/// The number that digits spell; letters among them are small.
fn number(text: &[u8], digits: Range<usize>, radix: u32) -> Option<u32> {
    text.get(digits)?.iter().try_fold(0, |number, &digit| {
        let value = char::from(digit).to_digit(radix)?;
        (!digit.is_ascii_uppercase()).then_some(number * radix + value)
    })
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}-{:03x}-{:04x}",
            self.time.format("%Y%m%dT%H%M%S%.6fZ"),
            self.counter,
            self.clone
        )
    }
}

/// When each of these was at the latest, in the order in which they were given: its own time, or the lowest of those after it where its clock
/// was ahead.
pub(in crate::domain) fn latest_times(stamps: impl Iterator<Item = Stamp>) -> Vec<DateTime<Utc>> {
    let mut times: Vec<_> = stamps.map(|stamp| stamp.time()).collect();
    let mut lowest = DateTime::<Utc>::MAX_UTC;
    for time in times.iter_mut().rev() {
        lowest = lowest.min(*time);
        *time = lowest;
    }
    times
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::NaiveDateTime;
    use proptest::prelude::*;

    /// Reading by what writes: slow and certain.
    fn by_format(text: &str) -> Option<Stamp> {
        let (time, rest) = text.split_once('-')?;
        let (counter, clone) = rest.split_once('-')?;
        let stamp = Stamp {
            time: NaiveDateTime::parse_from_str(time, "%Y%m%dT%H%M%S%.6fZ").ok()?.and_utc(),
            counter: u16::from_str_radix(counter, 16).ok()?,
            clone: u16::from_str_radix(clone, 16).ok()?,
        };
        (stamp.to_string() == text).then_some(stamp)
    }

    fn at(micros: i64) -> DateTime<Utc> {
        DateTime::from_timestamp_micros(micros).expect("in range")
    }

    #[test]
    fn the_written_form_is_fixed() {
        let stamp = Stamp::next(at(1_795_211_369_123_456), 0x7f3a, None);
        assert_eq!(stamp.to_string(), "20261120T214929.123456Z-000-7f3a");
    }

    #[test]
    fn only_the_written_form_is_read() {
        for text in [
            "20261120T214929.123456Z-000-7f3a",
            "20261120T235960.123456Z-000-7f3a",
            "20240229T000000.000000Z-fff-ffff",
            "20230229T000000.000000Z-000-0000",
            "20261120T240000.000000Z-000-0000",
            "20261120T214961.000000Z-000-0000",
            "20261120T214929.123456Z-00A-7f3a",
            "20261120T214929.123456Z-000-7F3A",
            "+0261120T214929.123456Z-000-7f3a",
            "20261120T214929.123456Z-+00-7f3a",
            "20261120t214929.123456Z-000-7f3a",
            "20261120T214929.123456Z-000-7f3a ",
            "20261120T214929.12345Z-0000-7f3a",
            "",
        ] {
            assert_eq!(Stamp::parse(text), by_format(text), "{text}");
        }
    }

    proptest! {
        #[test]
        fn reading_agrees_with_the_format(text in "[0-2][0-9]{3}[01][0-9][0-3][0-9]T[0-2][0-9]{5}\\.[0-9]{6}Z-[0-9a-fA]{3}-[0-9a-f]{4}") {
            prop_assert_eq!(Stamp::parse(&text), by_format(&text));
        }

        #[test]
        fn stamps_grow_and_sort_as_text(now in 0i64..4_000_000_000_000_000, last in 0i64..4_000_000_000_000_000, clone: u16) {
            let last = Stamp::next(at(last), clone, None);
            let next = Stamp::next(at(now), clone, Some(last));
            prop_assert!(next > last);
            prop_assert!(next.to_string() > last.to_string());
            prop_assert_eq!(Stamp::parse(&next.to_string()), Some(next));
        }
    }
}
