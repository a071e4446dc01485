//! Findings as SARIF 2.1.0 (OASIS Static Analysis Results Interchange Format), which code hosts show
//! beside the lines of a change. Only what a finding here has: a rule, a level, a message, a path.

use super::path_text::PathText;
use crate::domain::FindingCode;
use crate::domain::value::named::short_hex;
use crate::wire::put;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

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
    /// What tells a result that is about no file from another one of its rule.
    pub subject: &'a str,
}

/// A log of one run of this program, with every rule that the results can name. `verb` keeps the results of one command apart
/// from those of another, where both are uploaded for one commit.
pub fn log<'a>(verb: &str, results: impl IntoIterator<Item = SarifResult<'a>>) -> Value {
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
    // What rejects comes first, so that it is not what is left out.
    let (errors, notes): (Vec<_>, Vec<_>) =
        results.into_iter().partition(|found| found.level == "error");
    let count = errors.len() + notes.len();
    let some = errors.iter().chain(&notes).take(LIMIT);
    let results: Vec<Value> = some.map(result).collect();
    let mut run = json!({
        "tool": { "driver": {
            "name": "git-agent",
            "version": env!("CARGO_PKG_VERSION"),
            "rules": rules,
        }},
        // Code hosts replace the results of an earlier upload that has the same category, which
        // this is.
        "automationDetails": { "id": format!("git-agent/{verb}/") },
        "results": results,
    });
    if count > LIMIT {
        let text = format!("{} more results are left out", count - LIMIT);
        let invocations = json!([{
            "executionSuccessful": true,
            "toolExecutionNotifications": [{ "level": "warning", "message": { "text": text } }],
        }]);
        put(&mut run, "invocations", invocations);
    }
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [run],
    })
}

/// How many results code hosts take of one run.
const LIMIT: usize = 25_000;

fn result(found: &SarifResult<'_>) -> Value {
    let (uri, about) = match found.path {
        Some(path) => (uri(&path.to_bytes()), path.to_bytes()),
        // Code hosts refuse a result without a place.
        None => (WHOLE.to_owned(), found.subject.as_bytes().to_vec()),
    };
    let fingerprint = fingerprint(found.rule, &about);
    json!({
        "ruleId": found.rule,
        "level": found.level,
        "message": { "text": found.message },
        "locations": [{
            // The base stands for the root of the checkout, so that no path of this machine gets
            // into the file.
            "physicalLocation": { "artifactLocation": { "uri": uri, "uriBaseId": "%SRCROOT%" } }
        }],
        // The key that GitHub compares, and one that says whose it is.
        "partialFingerprints": {
            "primaryLocationLineHash": fingerprint,
            "gitAgentFinding/v1": fingerprint,
        },
    })
}

/// Stands for the whole tree, where a result is about no file.
const WHOLE: &str = ".";

/// The same for the same finding in whatever commit it is found: its rule and what it is about.
fn fingerprint(rule: &str, about: &[u8]) -> String {
    let digest = Sha256::new().chain_update(rule).chain_update("\0");
    let digest = digest.chain_update(about).finalize();
    // A fingerprint has to differ, not to withstand anyone: 128 bits are plenty.
    short_hex(&digest, 16)
}

/// A path as a relative URI reference (RFC 3986): everything but unreserved characters and `/` is
/// percent-encoded, whatever its encoding was.
pub fn uri(path: &[u8]) -> String {
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
    fn a_log_holds_what_code_hosts_take_and_says_what_is_left_out() {
        let found = |level| SarifResult {
            rule: "scope.denylist",
            level,
            message: String::new(),
            path: None,
            subject: "",
        };
        let notes = std::iter::repeat_n(found("note"), 30_000);
        let log = log("verify", notes.chain([found("error")]));
        let results = log["runs"][0]["results"].as_array().expect("results");
        assert_eq!(results.len(), LIMIT);
        assert_eq!(results[0]["level"], "error");
        let said = log["runs"][0]["invocations"].to_string();
        assert!(said.contains("5001 more"), "{said}");
    }

    #[test]
    fn any_path_becomes_a_uri() {
        assert_eq!(uri(b"src/a b%.rs"), "src/a%20b%25.rs");
        assert_eq!(uri(b"caf\xe9:x"), "caf%E9%3Ax");
    }
}
