//! The names of messages.

use crate::domain::hex::is_lower_hex;
use crate::domain::stamp::Stamp;
use std::fmt;

/// What every message id begins with.
pub const ID_PREFIX: &str = "MSG-";

/// The name of a message, `MSG-<time>-<4 hex digits>`. The time is that of the message's stamp, to the
/// microsecond, and grows from message to message; the digits tell clones apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageId(String);

impl MessageId {
    /// The id of the message with that stamp.
    pub fn new(at: Stamp, random: u16) -> MessageId {
        let time = at.time().format("%Y%m%dT%H%M%S%6fZ");
        MessageId(format!("{ID_PREFIX}{time}-{random:04x}"))
    }

    /// Reads an id; `None` for anything else.
    pub fn parse(text: &str) -> Option<MessageId> {
        let (time, random) = text.strip_prefix(ID_PREFIX)?.split_once('-')?;
        let shape = |byte: u8| match byte {
            b'0'..=b'9' => b'0',
            other => other,
        };
        let time_fits = time.bytes().map(shape).eq(*b"00000000T000000000000Z");
        let random_fits = random.len() == 4 && is_lower_hex(random);
        (time_fits && random_fits).then(|| MessageId(text.to_owned()))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a message with this id was sent after one with that stamp.
    pub fn is_after(&self, at: Stamp) -> bool {
        let end = self.0.len() - 5;
        let other = MessageId::new(at, 0);
        self.0[..end] > other.0[..end]
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::DateTime;

    fn stamp(micros: i64) -> Stamp {
        let time = DateTime::from_timestamp_micros(micros).expect("in range");
        Stamp::next(time, 1, None)
    }

    #[test]
    fn ids_are_read_back_and_know_their_age() {
        let id = MessageId::new(stamp(1_795_211_369_123_456), 0x7f3a);
        assert_eq!(id.as_str(), "MSG-20261120T214929123456Z-7f3a");
        assert_eq!(MessageId::parse(id.as_str()), Some(id.clone()));
        assert!(id.is_after(stamp(1_795_211_369_123_455)));
        assert!(!id.is_after(stamp(1_795_211_369_123_456)));
        for other in [
            "MSG-20261120T214929123456Z",
            "MSG-20261120T214929123456Z-7F3A",
            "MSG-20261120T214929Z-7f3a",
            "MSG-",
            "",
        ] {
            assert_eq!(MessageId::parse(other), None, "{other}");
        }
    }
}
