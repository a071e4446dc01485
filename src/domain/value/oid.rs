//! Object names as plain values, so that the rules can speak of them without libgit2.

use serde::{Serialize, Serializer};
use std::fmt::{self, Write};

/// The SHA-1 name of a git object.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Oid([u8; 20]);

impl Oid {
    /// The all-zero name: "no object" in git's plumbing.
    pub const ZERO: Oid = Oid([0; 20]);

    /// The empty tree, which every repository has without storing it.
    pub const EMPTY_TREE: Oid = Oid([
        0x4b, 0x82, 0x5d, 0xc6, 0x42, 0xcb, 0x6e, 0xb9, 0xa0, 0x60, 0xe5, 0x4b, 0xf8, 0xd6, 0x92,
        0x88, 0xfb, 0xee, 0x49, 0x04,
    ]);

    /// The blob without content.
    pub const EMPTY_BLOB: Oid = Oid([
        0xe6, 0x9d, 0xe2, 0x9b, 0xb2, 0xd1, 0xd6, 0x43, 0x4b, 0x8b, 0x29, 0xae, 0x77, 0x5a, 0xd8,
        0xc2, 0xe4, 0x8c, 0x53, 0x91,
    ]);

    /// Takes the 20 bytes of a name.
    pub const fn from_bytes(bytes: [u8; 20]) -> Oid {
        Oid(bytes)
    }

    /// Takes the bytes of a name from a slice; `None` unless there are exactly 20.
    pub fn from_slice(bytes: &[u8]) -> Option<Oid> {
        bytes.try_into().ok().map(Oid)
    }

    /// Reads 40 hex digits; `None` for anything else.
    pub fn from_hex(hex: &str) -> Option<Oid> {
        if hex.len() != 40 {
            return None;
        }
        let mut bytes = [0; 20];
        let digit = |digit: u8| char::from(digit).to_digit(16);
        for (byte, [high, low]) in bytes.iter_mut().zip(hex.as_bytes().as_chunks().0) {
            *byte = u8::try_from(digit(*high)? * 16 + digit(*low)?).ok()?;
        }
        Some(Oid(bytes))
    }

    /// The 20 bytes of the name.
    pub fn as_bytes(&self) -> &[u8; 20] {
        &self.0
    }

    /// The 40 hex digits of the name.
    pub fn to_hex(self) -> String {
        self.to_string()
    }

    /// The first seven hex digits, for people.
    pub fn short(self) -> String {
        let mut hex = self.to_string();
        hex.truncate(7);
        hex
    }

    /// Whether this is [`Oid::ZERO`].
    pub fn is_zero(self) -> bool {
        self == Oid::ZERO
    }
}

impl fmt::Display for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digit = |four: u8| char::from(if four < 10 { b'0' } else { b'a' - 10 } + four);
        self.0.iter().try_for_each(|byte| {
            f.write_char(digit(byte >> 4))?;
            f.write_char(digit(byte & 15))
        })
    }
}

impl Serialize for Oid {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Debug for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Oid({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_round_trips() {
        let hex = "6a48ca7b00112233445566778899aabbccddeeff";
        assert_eq!(Oid::from_hex(hex).map(Oid::to_hex).as_deref(), Some(hex));
        assert_eq!(Oid::from_hex("6a48"), None);
        assert_eq!(Oid::from_hex(&"zz".repeat(20)), None);
    }
}
