//! The fingerprint of a composition: same role, task and scope, same DNA.
//!
//! It answers "was this task run before?", so it covers what was asked and nothing about the run: no
//! base, no time, no name. The hash is SHA-256 over canonical JSON (RFC 8785: keys sorted, no spaces,
//! the shortest escapes), so that any program can compute it again:
//!
//! ```text
//! {"denylist":[…],"role":"…","task":"…","whitelist":[…]}
//! ```

use crate::domain::paths::glob::Glob;
use crate::domain::value::named::hex;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fmt;

/// `sha256:` and 64 hex digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dna(String);

impl Dna {
    /// The fingerprint of a role's name, a task text and a scope. The text is taken trimmed and with
    /// LF line ends, the lists as sets.
    pub fn of(role: &str, text: &str, whitelist: &[Glob], effective_denylist: &[Glob]) -> Dna {
        // Line ends differ between the systems on which a task file was written, and the task does
        // not.
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        let json = format!(
            r#"{{"denylist":{},"role":{},"task":{},"whitelist":{}}}"#,
            json_array(effective_denylist),
            json_string(role),
            json_string(text.trim()),
            json_array(whitelist),
        );
        let digest = hex(&Sha256::digest(json.as_bytes()));
        Dna(format!("sha256:{digest}"))
    }

    /// The written form.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Dna {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn json_array(globs: &[Glob]) -> String {
    // The order in which globs are given does not matter to a scope, so it does not change the
    // fingerprint.
    let sorted: BTreeSet<&Glob> = globs.iter().collect();
    let items: Vec<String> = sorted.iter().map(|glob| json_string(glob.as_str())).collect();
    format!("[{}]", items.join(","))
}

/// A JSON string as RFC 8785 §3.2.2.2 writes it.
fn json_string(text: &str) -> String {
    let mut json = String::with_capacity(text.len() + 2);
    json.push('"');
    for c in text.chars() {
        match c {
            '"' => json.push_str("\\\""),
            '\\' => json.push_str("\\\\"),
            '\u{8}' => json.push_str("\\b"),
            '\t' => json.push_str("\\t"),
            '\n' => json.push_str("\\n"),
            '\u{c}' => json.push_str("\\f"),
            '\r' => json.push_str("\\r"),
            '\0'..='\u{1f}' => json.push_str(&format!("\\u{:04x}", u32::from(c))),
            _ => json.push(c),
        }
    }
    json.push('"');
    json
}

#[cfg(test)]
mod tests {
    use super::*;

    fn globs(texts: &[&str]) -> Vec<Glob> {
        texts.iter().map(|text| Glob::parse(text).expect(text)).collect()
    }

    /// Computed with `printf '%s' '{"denylist":…}' | sha256sum`.
    #[test]
    fn the_vector_is_what_sha256sum_says() {
        let dna = Dna::of(
            "edit-local",
            "  Say \"hi\"\r\nand\ttab — dash.\n",
            &globs(&["src/**", "Cargo.toml"]),
            &globs(&["secrets/**"]),
        );
        assert_eq!(
            dna.as_str(),
            "sha256:07e058b28eb24f895b2640a4a997e7778c0072df3d5cc8630071310723d134b2"
        );
    }
}
