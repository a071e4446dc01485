//! Findings as SARIF 2.1.0 (OASIS Static Analysis Results Interchange Format), which code hosts show
//! beside the lines of a change. Only what a finding here has: a rule, a level, a message, a path.

use super::path_text::PathText;
use crate::domain::finding::FindingCode;
use serde_json::{Value, json};

/// One result.
#[derive(Clone, Debug)]
pub struct SarifResult<'a> {
    /// The code of the finding.
    pub rule: &'a str,
    /// `error` or `note`.
    pub level: &'a str,
    /// What is wrong and what to do.
    pub message: String,
    /// The file it is about.
    pub path: Option<&'a PathText>,
}

/// A log of one run of this program, with every rule that the results can name.
pub fn log<'a>(results: impl IntoIterator<Item = SarifResult<'a>>) -> Value {
    let rules: Vec<Value> = FindingCode::ALL
        .iter()
        .map(|code| {
            json!({
                "id": code.name(),
                "shortDescription": { "text": code.meaning() },
                "defaultConfiguration": { "level": code.severity().as_str() },
            })
        })
        .collect();
    let results: Vec<Value> = results.into_iter().map(|found| result(&found)).collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "git-agent",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules,
            }},
            "results": results,
        }],
    })
}

fn result(found: &SarifResult<'_>) -> Value {
    let mut result = json!({
        "ruleId": found.rule,
        "level": found.level,
        "message": { "text": found.message },
    });
    if let Some(path) = found.path {
        let uri = uri(&path.to_bytes());
        result["locations"] = json!([{
            "physicalLocation": { "artifactLocation": { "uri": uri, "uriBaseId": "%SRCROOT%" } }
        }]);
    }
    result
}

/// A path as a relative URI reference (RFC 3986): everything but unreserved characters and `/` is
/// percent-encoded, whatever its encoding was.
fn uri(path: &[u8]) -> String {
    let mut uri = String::with_capacity(path.len());
    for &byte in path {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                uri.push(char::from(byte));
            }
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_path_becomes_a_uri() {
        assert_eq!(uri(b"src/a b%.rs"), "src/a%20b%25.rs");
        assert_eq!(uri(b"caf\xe9:x"), "caf%E9%3Ax");
    }
}
