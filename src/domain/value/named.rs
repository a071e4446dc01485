//! Enums whose variants each have a word of their own, which stands beside the variant and nowhere else.

/// Declares such an enum: `Done = "done",`. It gets `ALL`, in the order of the variants, `as_str`, `parse`,
/// `Display` and, as that word, `Serialize`.
macro_rules! named {
    ($(#[$about:meta])* $visibility:vis enum $name:ident {
        $($(#[$meaning:meta])* $variant:ident = $word:literal,)*
    }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $visibility enum $name {
            $($(#[$meaning])* $variant,)*
        }

        #[allow(dead_code, reason = "not each of them is listed, or read back")]
        impl $name {
            /// All of them, in order.
            $visibility const ALL: [$name; [$($word),*].len()] = [$($name::$variant),*];

            /// The word that users and scripts see.
            $visibility fn as_str(self) -> &'static str {
                match self { $($name::$variant => $word,)* }
            }

            /// Reads the word back.
            $visibility fn parse(word: &str) -> Option<$name> {
                $name::ALL.into_iter().find(|one| one.as_str() == word)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }
    };
}

pub(crate) use named;

// Characters that make a line read as what it is not.

/// Whether a character changes the direction in which its neighbours are shown (Unicode, UAX #9 §2: bidirectional controls).
pub fn turns_direction(character: char) -> bool {
    matches!(
        character,
        '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    )
}

/// A branch as people name it: without the `refs/heads/` of its full name.
pub fn branch_name(full: &str) -> &str {
    full.strip_prefix("refs/heads/").unwrap_or(full)
}

/// Whether a text is the full name of a branch, by git's rules (git-check-ref-format(1)).
pub fn is_branch(name: &str) -> bool {
    let Some(short) = name.strip_prefix("refs/heads/") else {
        return false;
    };
    let is_refused = |c: char| c.is_control() || " ~^:?*[\\".contains(c);
    let is_part =
        |part: &str| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock");
    short != "HEAD"
        && short.split('/').all(is_part)
        && !short.ends_with('.')
        && !short.contains(is_refused)
        && !["..", "@{"].iter().any(|pair| short.contains(pair))
}

// Bytes as people and formats write them.

/// Two lower-case digits for each byte.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The first so many bytes of a digest, where few are enough to tell one from another.
pub fn short_hex(digest: &[u8], bytes: usize) -> String {
    hex(digest.get(..bytes).unwrap_or(digest))
}

/// The first half of a digest, as the bytes of a nonce or a UUID.
pub fn first_half(digest: impl Into<[u8; 32]>) -> [u8; 16] {
    let mut half = [0; 16];
    half.iter_mut().zip(digest.into()).for_each(|(to, from)| *to = from);
    half
}

/// Whether a text has no other characters than those.
pub fn is_lower_hex(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

// Sizes as text.

/// A number of bytes for people, such as `1.5 MiB`.
pub fn size_text(bytes: u64) -> String {
    let (mut unit, mut larger) = ("KiB", ["MiB", "GiB", "TiB"].into_iter());
    let mut tenths = bytes.saturating_mul(10) / 1024;
    while tenths >= 10_240
        && let Some(next) = larger.next()
    {
        tenths /= 1024;
        unit = next;
    }
    format!("{}.{} {unit}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_has_a_unit_in_which_it_is_short() {
        let check = |bytes, expected: &str| assert_eq!(size_text(bytes), expected);
        check(0, "0.0 KiB");
        check(1536, "1.5 KiB");
        check(1024 * 1024 - 1, "1023.9 KiB");
        check(1024 * 1024, "1.0 MiB");
        check(u64::MAX, "1677721.5 TiB");
    }
}
