//! What an agent says in its final answer, field by field.
//!
//! ```text
//! key: value        a line of text; `- key: value`, `**key:** value` and `KEY=value` are the same
//! key:              the value is the next line that is not empty, such as the first of a list, unless that is a field
//! ---               front matter: such lines between two lines of three hyphens at the beginning
//! {"key": "value"}  an answer that is one JSON object and nothing else
//! ```
//!
//! Keys are compared without regard to case, and `-`, `_` and a blank are one. What stands in a block of code or in a quotation is
//! an example and says nothing: an agent that shows what a report looks like has not written one.

use std::collections::{BTreeMap, BTreeSet};

/// The values of each key, each once, without those that are empty.
pub type Fields = BTreeMap<String, BTreeSet<String>>;

/// How much of an answer is kept and read, in bytes: its end, where fields stand.
pub const MOST_BYTES: u64 = 1 << 20;

/// The longest line that is looked at, in bytes.
const LONGEST_LINE: usize = 4096;

/// A key as it is compared.
pub fn key(text: &str) -> String {
    text.trim().to_lowercase().replace(['_', ' '], "-")
}

/// Reads an answer. Any text gives an answer; what is no field is passed over.
pub fn fields(text: &str) -> Fields {
    let mut fields = Fields::new();
    let mut add = |name: &str, value: &str| {
        let value = value.trim();
        if !value.is_empty() {
            fields
                .entry(key(name))
                .or_default()
                .insert(value.to_owned());
        }
    };
    if let Ok(serde_json::Value::Object(object)) = serde_json::from_str(text.trim()) {
        for (name, value) in &object {
            match value {
                serde_json::Value::Null => {}
                serde_json::Value::String(text) => add(name, text),
                other => add(name, &other.to_string()),
            }
        }
        return fields;
    }
    let mut fence: Option<&str> = None;
    // A key whose value is still to come.
    let mut open: Option<String> = None;
    for line in text.lines() {
        let bare = line.trim_start();
        let mark = ["```", "~~~"]
            .into_iter()
            .find(|mark| bare.starts_with(mark));
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(mine), _) if mark == Some(mine) => fence = None,
            (Some(_), _) => {}
            // Four blanks, or a tab, begin a block of code as well.
            (None, None) if line.starts_with("    ") || line.starts_with('\t') => {}
            (None, None) if line.len() > LONGEST_LINE || bare.is_empty() => {}
            (None, None) => match field(bare) {
                Some((name, value)) if value.trim().is_empty() => open = Some(name.to_owned()),
                Some((name, value)) => {
                    open = None;
                    add(name, value);
                }
                None => {
                    if let Some(name) = open.take() {
                        add(&name, bare);
                    }
                }
            },
        }
    }
    fields
}

/// A key and its value, where the line is one.
fn field(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_start_matches(['-', '*', ' ']);
    let end = line.find([':', '='])?;
    let (name, value) = (&line[..end], &line[end + 1..]);
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | ' ');
    let name = name.trim_matches(['*', ' ']);
    let fits = !name.is_empty() && name.len() <= 64 && name.chars().all(is_name);
    fits.then(|| (name, value.trim_start_matches('*')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> String {
        let fields = fields(text).into_iter();
        let fields = fields.map(|(name, values)| {
            format!(
                "{name}={}",
                values.into_iter().collect::<Vec<_>>().join("|")
            )
        });
        fields.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn fields_stand_in_lines_in_front_matter_and_in_json() {
        for (text, wanted) in [
            (
                "Done.\n\nverdict: PASS\nbody-sha: abc",
                "body-sha=abc verdict=PASS",
            ),
            (
                "- **Verdict:** PASS\n* body_sha: abc",
                "body-sha=abc verdict=PASS",
            ),
            ("COMMIT_SHA=abc\n", "commit-sha=abc"),
            ("---\nverdict: PASS\n---\n# Report\n", "verdict=PASS"),
            (
                "{\"verdict\": \"PASS\", \"findings\": 3, \"note\": null}",
                "findings=3 verdict=PASS",
            ),
            ("verdict: PASS\nverdict: FAIL\n", "verdict=FAIL|PASS"),
            ("verdict: PASS\nVerdict: PASS\n", "verdict=PASS"),
            ("verdict:\n", ""),
            (
                "Files written:\n\n- src/a.rs\n- src/b.rs\n",
                "files-written=- src/a.rs",
            ),
            ("verdict:\nfindings: 3\n", "findings=3"),
            ("```\nverdict: PASS\n```\n", ""),
            (
                "~~~ text\n```\nverdict: PASS\n~~~\nfindings: 0\n",
                "findings=0",
            ),
            ("    verdict: PASS\n\tverdict: PASS\n> verdict: PASS\n", ""),
            ("```\nverdict: PASS\n", ""),
            ("", ""),
        ] {
            assert_eq!(said(text), wanted, "{text}");
        }
    }
}
