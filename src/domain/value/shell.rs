//! Words of a shell, for commands that are printed to be pasted.

use std::fmt::Write;
use std::path::Path;

/// Bytes as one word of a shell: as they are, in single quotes, or where they cannot be read in bash's
/// `$'…'`.
pub fn word(bytes: &[u8]) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+,@%=:".contains(byte);
    match std::str::from_utf8(bytes) {
        Ok(text) if bytes.iter().all(plain) && !bytes.is_empty() => text.to_owned(),
        Ok(text) if !text.contains(char::is_control) => quoted(text),
        _ => {
            let mut word = "$'".to_owned();
            for &byte in bytes {
                match byte {
                    b'\'' | b'\\' => word.extend(['\\', char::from(byte)]),
                    b' '..=b'~' => word.push(char::from(byte)),
                    // Writing to a string cannot fail.
                    _ => {
                        let _ = write!(word, "\\{byte:03o}");
                    }
                }
            }
            word.push('\'');
            word
        }
    }
}

/// Texts as the words of a command line, each as [`word`].
pub fn line(words: &[String]) -> String {
    let words: Vec<_> = words.iter().map(|text| word(text.as_bytes())).collect();
    words.join(" ")
}

/// A path as one word of a shell, as [`word`].
pub fn path(path: &Path) -> String {
    word(path.as_os_str().as_encoded_bytes())
}

/// A text in single quotes.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_as_it_is_or_quoted() {
        for (text, expected) in [
            ("src/a-b.rs", "src/a-b.rs"),
            ("../o ut", "'../o ut'"),
            ("wt*", "'wt*'"),
            ("it's", r"'it'\''s'"),
            ("", "''"),
            ("two\nlines", r"$'two\012lines'"),
            ("it's\t\\", r"$'it\'s\011\\'"),
        ] {
            assert_eq!(word(text.as_bytes()), expected);
        }
        assert_eq!(word(b"\xff"), r"$'\377'");
    }
}
