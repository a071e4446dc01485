//! Rosters of agent types, as BMAD projects keep them.
//!
//! | file | what it is |
//! |---|---|
//! | `agent-manifest.csv` ([`manifest`]) | one persona per row, all cells quoted; columns go by their header, so that every generation reads alike |
//! | `config.toml` (below) | `[agents.<code>]`: who there is; later layers override single keys |
//! | `customize.toml` ([`customize`]) | `[agent]`: the persona of one code; later layers override texts and add to lists |
//!
//! These files belong to another tool and hold much that is none of our business: unknown columns, tables
//! and keys are passed over. What is malformed is said with file and line.

pub mod customize;
pub mod manifest;

use crate::domain::Persona;
use crate::wire::file::toml_reader::position;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;

/// The most bytes of one file.
pub const MAX_BYTES: usize = 1024 * 1024;

/// The text of a file, without a byte order mark.
pub(crate) fn text<'d>(path: &str, data: &'d [u8]) -> Result<&'d str, String> {
    if data.len() > MAX_BYTES {
        return Err(format!("{path}: it is larger than 1 MiB"));
    }
    let text = std::str::from_utf8(data).map_err(|error| {
        let before = data.get(..error.valid_up_to()).unwrap_or_default();
        let before = String::from_utf8_lossy(before);
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

// `config.toml` and the layers above it: `[agents.<code>]`.

/// What one layer says about one code.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct RosterEntry {
    module: Option<String>,
    name: Option<String>,
    title: Option<String>,
    description: Option<String>,
}

/// What one layer says.
pub type Layer = BTreeMap<String, RosterEntry>;

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    agents: Layer,
}

/// Reads one layer; `path` is its name in messages.
///
/// # Errors
/// One sentence that begins with `path:line:column:`.
pub fn parse(path: &str, data: &[u8]) -> Result<Layer, String> {
    toml::<File>(path, data).map(|file| file.agents)
}

/// The personas of layers, of which a later one overrides single keys of an earlier one.
pub fn merge(layers: Vec<Layer>) -> Vec<Persona> {
    let mut merged = Layer::new();
    for (code, entry) in layers.into_iter().flatten() {
        let known = merged.entry(code).or_default();
        known.module = entry.module.or(known.module.take());
        known.name = entry.name.or(known.name.take());
        known.title = entry.title.or(known.title.take());
        known.description = entry.description.or(known.description.take());
    }
    merged
        .into_iter()
        .map(|(code, entry)| Persona {
            name: code,
            module: trimmed(entry.module.as_ref()),
            display_name: trimmed(entry.name.as_ref()),
            title: trimmed(entry.title.as_ref()),
            description: trimmed(entry.description.as_ref()),
            ..Persona::default()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{customize, manifest, *};
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
                    parse("f", data).err(),
                    customize::parse("f", data).err(),
                ];
                for refusal in refusals.into_iter().flatten() {
                    prop_assert!(refusal.starts_with("f:"), "{refusal}");
                    prop_assert!(!refusal.contains('\n'), "{refusal}");
                }
            }
        }
    }

    #[test]
    fn later_layers_override_single_keys() {
        let base = parse(
            "config.toml",
            b"[core]\nx = 1\n[agents.pm]\nmodule = \"bmm\"\nname = \"John\"\ntitle = \"PM\"\nicon = \"x\"\n",
        );
        let custom = parse(
            "custom/config.toml",
            b"[agents.pm]\ntitle = \" Senior PM \"\n[agents.kirk]\ndescription = \"Bold\"\n",
        );
        let personas = merge(vec![base.expect("sound"), custom.expect("sound")]);
        let seen: Vec<_> = personas
            .iter()
            .map(|p| [&p.name, &p.module, &p.display_name, &p.title, &p.description])
            .map(|texts| texts.map(String::as_str))
            .collect();
        assert_eq!(seen, [["kirk", "", "", "", "Bold"], ["pm", "bmm", "John", "Senior PM", ""]]);
    }

    #[test]
    fn a_malformed_layer_is_told_with_its_line() {
        let error = parse("c.toml", b"[agents.pm]\nname = 3\n").expect_err("no string");
        assert!(error.starts_with("c.toml:2:8: invalid type: integer `3`"), "{error}");
        let error = parse("c.toml", b"[agents.pm\n").expect_err("no TOML");
        assert!(error.starts_with("c.toml:1:"), "{error}");
    }
}
