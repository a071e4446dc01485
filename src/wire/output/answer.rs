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

use crate::domain::ReportRules;
use crate::domain::life::report::{NamedThing, key};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The values of each key, each once, without those that are empty.
pub type Fields = BTreeMap<String, BTreeSet<String>>;

/// How much of an answer is kept and read, in bytes: its end, where fields stand.
pub const MOST_BYTES: u64 = 1 << 20;

/// The longest line that is looked at, in bytes.
const LONGEST_LINE: usize = 4096;

/// Reads an answer. Any text gives an answer; what is no field is passed over.
pub fn fields(text: &str) -> Fields {
    let mut fields = Fields::new();
    let mut add = |name: &str, value: &str| {
        let value = value.trim();
        if !value.is_empty() {
            fields.entry(key(name)).or_default().insert(value.to_owned());
        }
    };
    // A host that was asked for JSON answers one object; its keys are the fields, and no line of it
    // is looked at.
    if let Ok(serde_json::Value::Object(object)) = serde_json::from_str(text.trim()) {
        for (name, value) in &object {
            match value {
                serde_json::Value::Null => {}
                serde_json::Value::String(text) => add(name, text),
                // Lists and numbers are values too: a role asks that a field is there, not of what
                // kind it is.
                other => add(name, &other.to_string()),
            }
        }
        return fields;
    }
    // A key whose value is still to come.
    let mut open: Option<String> = None;
    // Four blanks, or a tab, begin a block of code as well.
    let is_code = |line: &&str| line.starts_with("    ") || line.starts_with('\t');
    for line in spoken(text).filter(|line| !is_code(line)).map(str::trim_start) {
        match field(line) {
            Some((name, value)) if value.trim().is_empty() => open = Some(name.to_owned()),
            Some((name, value)) => {
                // The first item of a list below a key may look like a field, and be one: `findings:` and `- file: a.rs`.
                if let Some(key) = open.take().filter(|_| is_item(line)) {
                    add(&key, line);
                }
                add(name, value);
            }
            None => {
                if let Some(name) = open.take() {
                    add(&name, line);
                }
            }
        }
    }
    fields
}

/// How often one of these words stands in brackets, deep in a list too.
pub fn tags(text: &str, words: &[String]) -> usize {
    let marks: Vec<String> = words.iter().map(|word| format!("[{word}]")).collect();
    // Every one counts, because findings may share a line of a table.
    let count = |line: &str| -> usize { marks.iter().map(|mark| line.matches(mark).count()).sum() };
    spoken(text).map(count).sum()
}

/// How many items a list below the field has, or the array that an answer in JSON gives it. Deeper items belong to one of these.
pub fn listed(text: &str, name: &str) -> usize {
    if let Ok(serde_json::Value::Object(object)) = serde_json::from_str(text.trim()) {
        let list = object.iter().find(|(one, _)| key(one) == name);
        return list.and_then(|(_, value)| value.as_array()).map_or(0, Vec::len);
    }
    let indent = |line: &str| line.len() - line.trim_start().len();
    // How far the field is indented and whether it is an item itself, and how far the items are.
    let mut field_at: Option<(usize, bool)> = None;
    let (mut items_at, mut count) = (None, 0);
    for line in spoken(text) {
        let (at, bare) = (indent(line), line.trim_start());
        if let Some((of_field, is_item_itself)) = field_at {
            let is_below = at > of_field || at == of_field && !is_item_itself;
            if is_item(bare) && is_below && items_at.is_none_or(|items| at >= items) {
                count += usize::from(*items_at.get_or_insert(at) == at);
                continue;
            }
            if at > items_at.unwrap_or(of_field) {
                continue;
            }
            (field_at, items_at) = (None, None);
        }
        if field(bare).is_some_and(|(one, value)| key(one) == name && value.trim().is_empty()) {
            field_at = Some((at, is_item(bare)));
        }
    }
    count
}

/// The lines of a text that are neither an example nor said by another, and short enough to be read.
fn spoken(text: &str) -> impl Iterator<Item = &str> {
    let mut fence: Option<&str> = None;
    text.lines().filter(move |line| {
        let bare = line.trim_start();
        let mark = ["```", "~~~"].into_iter().find(|mark| bare.starts_with(mark));
        match (fence, mark) {
            // A block that is never closed takes all the rest: an example must not become a field
            // by a missing fence.
            (None, Some(mark)) => fence = Some(mark),
            (Some(mine), _) if mark == Some(mine) => fence = None,
            (Some(_), _) => {}
            (None, None) => {
                return !(bare.is_empty() || bare.starts_with('>') || line.len() > LONGEST_LINE);
            }
        }
        false
    })
}

fn is_item(line: &str) -> bool {
    let number = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_numbered = number.len() < line.len() && number.starts_with([')', '.']);
    line.starts_with("- ") || line.starts_with("* ") || is_numbered && number[1..].starts_with(' ')
}

/// A key and its value, where the line is one.
fn field(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_start_matches(['-', '*', ' ']);
    let end = line.find([':', '='])?;
    let (name, value) = (&line[..end], &line[end + 1..]);
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | ' ');
    let name = name.trim_matches(['*', ' ']);
    // Longer than that it is a sentence with a colon in it.
    let fits = !name.is_empty() && name.len() <= 64 && name.chars().all(is_name);
    // In `**key:** value` the mark is closed behind the colon.
    fits.then(|| (name, value.trim_start_matches('*')))
}

/// What a role asks of a report, as role files and policies write it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReportTable {
    /// As [`ReportRules::required`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required: Vec<String>,
    /// As [`ReportRules::values`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, Vec<String>>,
    /// As [`ReportRules::tags`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// As [`ReportRules::names`]: `agent`, `tip` or `commit`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub names: BTreeMap<String, String>,
    /// As [`ReportRules::audit`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit: Option<String>,
}

impl ReportTable {
    /// The table that says these rules.
    pub fn of(rules: &ReportRules) -> ReportTable {
        let names = rules.names.iter().map(|(name, kind)| (name.clone(), kind.to_string()));
        ReportTable {
            required: rules.required.clone(),
            values: rules.values.clone(),
            tags: rules.tags.clone(),
            names: names.collect(),
            audit: rules.audit.clone(),
        }
    }

    /// What it says.
    ///
    /// # Errors
    /// One sentence, for a kind of thing that no field can name.
    pub fn rules(&self) -> Result<ReportRules, String> {
        let kind = |(name, word): (&String, &String)| match NamedThing::parse(word) {
            Some(kind) => Ok((name.clone(), kind)),
            None => Err(format!("`report.names.{name}` is \"agent\", \"tip\" or \"commit\"")),
        };
        Ok(ReportRules {
            required: self.required.clone(),
            values: self.values.clone(),
            tags: self.tags.clone(),
            names: self.names.iter().map(kind).collect::<Result<_, _>>()?,
            audit: self.audit.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> String {
        let fields = fields(text).into_iter();
        let fields = fields.map(|(name, values)| {
            format!("{name}={}", values.into_iter().collect::<Vec<_>>().join("|"))
        });
        fields.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn fields_stand_in_lines_in_front_matter_and_in_json() {
        for (text, wanted) in [
            ("Done.\n\nverdict: PASS\nbody-sha: abc", "body-sha=abc verdict=PASS"),
            ("- **Verdict:** PASS\n* body_sha: abc", "body-sha=abc verdict=PASS"),
            ("COMMIT_SHA=abc\n", "commit-sha=abc"),
            ("---\nverdict: PASS\n---\n# RoleReport\n", "verdict=PASS"),
            ("{\"verdict\": \"PASS\", \"findings\": 3, \"note\": null}", "findings=3 verdict=PASS"),
            ("verdict: PASS\nverdict: FAIL\n", "verdict=FAIL|PASS"),
            ("verdict: PASS\nVerdict: PASS\n", "verdict=PASS"),
            ("verdict:\n", ""),
            ("Files written:\n\n- src/a.rs\n- src/b.rs\n", "files-written=- src/a.rs"),
            ("verdict:\nfindings: 3\n", "findings=3"),
            // As the kit's auditor writes them.
            (
                "findings:\n  - point: 2\n    file: src/a.rs\nbody-sha: abc\n",
                "body-sha=abc findings=- point: 2 point=2",
            ),
            ("```\nverdict: PASS\n```\n", ""),
            ("~~~ text\n```\nverdict: PASS\n~~~\nfindings: 0\n", "findings=0"),
            ("    verdict: PASS\n\tverdict: PASS\n> verdict: PASS\n", ""),
            ("verdict:\n> FAIL, they say\nPASS\n", "verdict=PASS"),
            ("```\nverdict: PASS\n", ""),
            ("", ""),
        ] {
            assert_eq!(said(text), wanted, "{text}");
        }
    }

    #[test]
    fn the_items_of_a_list_are_counted() {
        for (text, count) in [
            (
                "findings:\n- one\n- file: two\n  - deeper\n  and more\n* three\nverdict: PASS\n- four\n",
                3,
            ),
            ("**Findings:**\n\n1. one\n2) two\n\ntext\n3. three\n", 2),
            // Of a report that is a list itself only deeper items are findings.
            ("- findings:\n- verdict: PASS\n", 0),
            ("- findings:\n  - one\n  - two\n- verdict: PASS\n", 2),
            ("findings: 2\n- one\n", 0),
            ("findings:\n```\n- one\n```\n", 0),
            ("{\"Findings\": [\"one\", {\"two\": 2}]}", 2),
            ("{\"findings\": 7}", 0),
        ] {
            assert_eq!(listed(text, "findings"), count, "{text}");
        }
    }

    #[test]
    fn tags_stand_in_brackets_outside_of_examples() {
        let words = ["HIGH".to_owned(), "LOW".to_owned()];
        let text = "- [HIGH] one\n    - [LOW] two [HIGH]\nHIGH [high]\n```\n[HIGH]\n```\n> [LOW]\n";
        assert_eq!(tags(text, &words), 3);
    }
}
