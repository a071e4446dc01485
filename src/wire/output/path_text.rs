//! Paths as others write them: lists that git's commands print; and in JSON, text, or `{"bytes": "<base64>"}` when
//! it is not UTF-8.

use crate::domain::judge::evidence::Conflict;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

/// A path as the public formats write it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum PathText {
    /// The path itself.
    Text(String),
    /// A path that is not UTF-8.
    Bytes {
        /// Its bytes in base64 (RFC 4648 §4).
        bytes: String,
    },
}

impl From<&[u8]> for PathText {
    fn from(path: &[u8]) -> PathText {
        // An object cannot be mistaken for a path, as a text with some mark in it could.
        match std::str::from_utf8(path) {
            Ok(text) => PathText::Text(text.to_owned()),
            Err(_) => PathText::Bytes { bytes: STANDARD.encode(path) },
        }
    }
}

impl PathText {
    /// Each of these paths.
    pub fn all(paths: &[Vec<u8>]) -> Vec<PathText> {
        paths.iter().map(|path| path.as_slice().into()).collect()
    }

    /// The path's bytes again.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            PathText::Text(text) => text.clone().into_bytes(),
            // Only our own encoding is ever in here.
            PathText::Bytes { bytes } => STANDARD.decode(bytes).unwrap_or_default(),
        }
    }
}

// Paths as git's commands print them: one a line and quoted where need be, or each ended by NUL.

/// The paths that NUL ends, as they are; empty ones are left out.
pub fn ended_by_nul(input: &[u8]) -> Vec<Vec<u8>> {
    input.split(|&byte| byte == 0).filter(|path| !path.is_empty()).map(<[u8]>::to_owned).collect()
}

/// The paths on the lines of a text; empty lines are left out. A line that begins with `"` is one in
/// C-style quotes (git's `quote.c: unquote_c_style`).
///
/// # Errors
/// The number of the first line whose quotes are broken, from 1.
pub fn lines(input: &[u8]) -> Result<Vec<Vec<u8>>, usize> {
    let lines = input.split(|&byte| byte == b'\n').enumerate();
    lines
        .filter(|(_, line)| !line.is_empty())
        .map(|(index, line)| match line.first() {
            Some(b'"') => unquote(line).ok_or(index + 1),
            _ => Ok(line.to_owned()),
        })
        .collect()
}

fn unquote(line: &[u8]) -> Option<Vec<u8>> {
    let mut rest = line.strip_prefix(b"\"")?.strip_suffix(b"\"")?.iter();
    let mut path = Vec::new();
    while let Some(&byte) = rest.next() {
        match byte {
            b'"' => return None,
            b'\\' => {}
            _ => {
                path.push(byte);
                continue;
            }
        }
        path.push(match rest.next()? {
            escaped @ (b'"' | b'\\') => *escaped,
            b'a' => 0x07,
            b'b' => 0x08,
            b't' => b'\t',
            b'n' => b'\n',
            b'v' => 0x0b,
            b'f' => 0x0c,
            b'r' => b'\r',
            // Three octal digits of a byte begin with 3 at most.
            first @ b'0'..=b'3' => {
                let mut value = first - b'0';
                for _ in 0..2 {
                    let digit = rest.next().filter(|digit| matches!(digit, b'0'..=b'7'))?;
                    value = value << 3 | (digit - b'0');
                }
                value
            }
            _ => return None,
        });
    }
    Some(path)
}

// A path on which a merge conflicts, as every verb that merges in memory answers it.

/// A path in conflict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConflictReport {
    /// The path.
    pub path: PathText,
    /// git's names for what is wrong, such as `contents`.
    pub kinds: Vec<String>,
}

impl From<&Conflict> for ConflictReport {
    fn from(conflict: &Conflict) -> ConflictReport {
        ConflictReport {
            path: PathText::from(conflict.path.as_slice()),
            kinds: conflict.kinds.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::paths::path::Quoted;
    use proptest::prelude::*;

    #[test]
    fn quotes_are_taken_off() {
        let check = |input: &[u8], expected: Result<&[&[u8]], usize>| {
            let expected = expected.map(|paths| paths.iter().map(|path| path.to_vec()).collect());
            assert_eq!(lines(input), expected, "{}", String::from_utf8_lossy(input));
        };
        check(b"", Ok(&[]));
        check(b"a\n\nb c\n", Ok(&[b"a", b"b c"]));
        check(br#""a\nb\"\\\303\251""#, Ok(&[b"a\nb\"\\\xc3\xa9"]));
        check(b"a\n\"b", Err(2));
        check(br#""\q""#, Err(1));
        check(br#""\47""#, Err(1));
        check(br#""a"b""#, Err(1));
        check(br#"""#, Err(1));
    }

    proptest! {
        #[test]
        fn what_we_print_is_read_back(path in proptest::collection::vec(1u8.., 1..12)) {
            let printed = Quoted(&path).to_string();
            prop_assert_eq!(lines(printed.as_bytes()), Ok(vec![path]));
        }
    }
}
