//! Rosters of agent types, as BMAD projects keep them.
//!
//! | file | what it is |
//! |---|---|
//! | `agent-manifest.csv` ([`manifest`]) | one persona per row, all cells quoted; columns go by their header, so that every generation reads alike |
//! | `config.toml` ([`central`]) | `[agents.<code>]`: who there is; later layers override single keys |
//! | `customize.toml` ([`customize`]) | `[agent]`: the persona of one code; later layers override texts and add to lists |
//!
//! These files belong to another tool and hold much that is none of our business: unknown columns, tables
//! and keys are passed over. What is malformed is said with file and line.

pub mod central;
pub mod customize;
pub mod manifest;

use super::position::position;
use serde::de::DeserializeOwned;

/// The most bytes of one file.
pub const MAX_BYTES: usize = 1024 * 1024;

/// The text of a file, without a byte order mark.
pub(crate) fn text<'d>(path: &str, data: &'d [u8]) -> Result<&'d str, String> {
    if data.len() > MAX_BYTES {
        return Err(format!("{path}: it is larger than 1 MiB"));
    }
    let text = std::str::from_utf8(data).map_err(|error| {
        let before = String::from_utf8_lossy(&data[..error.valid_up_to()]);
        let (line, column) = position(&before, before.len());
        format!("{path}:{line}:{column}: it is not UTF-8 from here on")
    })?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

fn toml<T: DeserializeOwned>(path: &str, data: &[u8]) -> Result<T, String> {
    let text = text(path, data)?;
    ::toml::from_str(text).map_err(|error| {
        let (line, column) = position(text, error.span().unwrap_or(0..0).start);
        let message = error.message().replace('\n', ": ");
        format!("{path}:{line}:{column}: {message}")
    })
}

/// A text without the space around it.
fn trimmed(text: Option<&String>) -> String {
    text.map(|text| text.trim().to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{central, customize, manifest};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn anything_is_read_or_refused_with_its_place(
            text in "[\"\\[\\]=,.&#;a-z\\n\u{e9}]{0,60}",
            bytes in prop::collection::vec(any::<u8>(), 0..40),
        ) {
            let header = format!("\"name\",\"role\"\n{text}");
            for data in [text.as_bytes(), header.as_bytes(), &bytes] {
                let refusals = [
                    manifest::parse("f", data).err(),
                    central::parse("f", data).err(),
                    customize::parse("f", data).err(),
                ];
                for refusal in refusals.into_iter().flatten() {
                    prop_assert!(refusal.starts_with("f:"), "{refusal}");
                    prop_assert!(!refusal.contains('\n'), "{refusal}");
                }
            }
        }
    }
}
