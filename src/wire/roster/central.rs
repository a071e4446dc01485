//! `config.toml` and the layers above it: `[agents.<code>]`.

use super::trimmed;
use crate::domain::persona::Persona;
use serde::Deserialize;
use std::collections::BTreeMap;

/// What one layer says about one code.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Entry {
    module: Option<String>,
    name: Option<String>,
    title: Option<String>,
    description: Option<String>,
}

/// What one layer says.
pub type Layer = BTreeMap<String, Entry>;

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
    super::toml::<File>(path, data).map(|file| file.agents)
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
    use super::*;

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
            .map(|p| {
                [
                    &p.name,
                    &p.module,
                    &p.display_name,
                    &p.title,
                    &p.description,
                ]
            })
            .map(|texts| texts.map(String::as_str))
            .collect();
        assert_eq!(
            seen,
            [
                ["kirk", "", "", "", "Bold"],
                ["pm", "bmm", "John", "Senior PM", ""]
            ]
        );
    }

    #[test]
    fn a_malformed_layer_is_told_with_its_line() {
        let error = parse("c.toml", b"[agents.pm]\nname = 3\n").expect_err("no string");
        assert!(
            error.starts_with("c.toml:2:8: invalid type: integer `3`"),
            "{error}"
        );
        let error = parse("c.toml", b"[agents.pm\n").expect_err("no TOML");
        assert!(error.starts_with("c.toml:1:"), "{error}");
    }
}
