//! The time of an event: a hybrid logical clock (Kulkarni et al., "Logical Physical Clocks", 2014).
//!
//! Wall clocks jump and tie. A stamp is the wall time unless that would not come after the row's last
//! stamp; then it is the last time with its counter raised. The clone's number keeps two clones that
//! write in the same microsecond apart. The written form has a fixed width, so that byte order of
//! lines is time order: `20261120T214929.123456Z-000-7f3a`.

use chrono::{DateTime, NaiveDateTime, SubsecRound, Utc};
use std::fmt;

/// A point in a row's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp {
    time: DateTime<Utc>,
    counter: u16,
    clone: u16,
}

/// Counters have three hex digits.
const COUNTER_LIMIT: u16 = 0xfff;

impl Stamp {
    /// The stamp of something that happens `now` in clone number `clone`, after `last`.
    pub fn next(now: DateTime<Utc>, clone: u16, last: Option<Stamp>) -> Stamp {
        let now = now.trunc_subsecs(6);
        let (time, counter) = match last {
            Some(last) if last.time >= now && last.counter < COUNTER_LIMIT => {
                (last.time, last.counter + 1)
            }
            Some(last) if last.time >= now => (last.time + chrono::TimeDelta::microseconds(1), 0),
            _ => (now, 0),
        };
        Stamp {
            time,
            counter,
            clone,
        }
    }

    /// Reads the written form; `None` for anything else.
    pub fn parse(text: &str) -> Option<Stamp> {
        let mut parts = text.split('-');
        let (time, counter, clone) = (parts.next()?, parts.next()?, parts.next()?);
        if parts.next().is_some() || time.len() != 23 || counter.len() != 3 || clone.len() != 4 {
            return None;
        }
        let stamp = Stamp {
            time: NaiveDateTime::parse_from_str(time, "%Y%m%dT%H%M%S%.6fZ")
                .ok()?
                .and_utc(),
            counter: u16::from_str_radix(counter, 16).ok()?,
            clone: u16::from_str_radix(clone, 16).ok()?,
        };
        (stamp.to_string() == text).then_some(stamp)
    }

    /// The wall-clock part.
    pub fn time(self) -> DateTime<Utc> {
        self.time
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(micros: i64) -> DateTime<Utc> {
        DateTime::from_timestamp_micros(micros).expect("in range")
    }

    #[test]
    fn the_written_form_is_fixed() {
        let stamp = Stamp::next(at(1_795_211_369_123_456), 0x7f3a, None);
        assert_eq!(stamp.to_string(), "20261120T214929.123456Z-000-7f3a");
    }

    proptest! {
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
