//! `messenger-config.yaml` of the older kit: default priorities, further required fields and retention of messages, taken over
//! once into `[messages]` of the repository's settings.
//!
//! Only the part of YAML that such files are written in is read: mappings and lists by indentation, lists in brackets,
//! plain and quoted texts, comments. A block text is passed over. Everything else is a problem with its line, because a
//! setting that is half understood is worse than none.

use crate::domain::mail::message::{Kind, Priority, Retention};
use crate::domain::mail::message_rules::MessageRules;
use chrono::TimeDelta;
use std::collections::BTreeMap;

/// How deep a file may be nested, and how many values it may hold.
const DEEPEST: usize = 16;
const MOST: usize = 10_000;

/// What a file says, and what of it has no counterpart here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessengerConfig {
    /// What is taken over.
    pub rules: MessageRules,
    /// Types that are none of ours, which are left out.
    pub unknown: Vec<String>,
}

/// Reads the file.
///
/// # Errors
/// One sentence with the line, where the file is no YAML that is read here.
pub fn parse(text: &str) -> Result<MessengerConfig, String> {
    let values = values(text)?;
    let mut config = MessengerConfig::default();
    let named = names_of_items(&values);
    for (path, value) in &values {
        let (key, above) = path.split_last().unzip();
        let (key, above) = (key.map_or("", String::as_str), above.unwrap_or_default());
        let parent = above.last().map(|last| named.get(&above.join("\u{0}")).unwrap_or(last));
        let parent = parent.map(String::as_str);
        let section = path.first().map(String::as_str).unwrap_or_default();
        if section.contains("rout") {
            continue;
        }
        match key {
            "priority" | "default_priority" => take_priority(&mut config, parent, value),
            "required" | "required_fields" => take_field(&mut config, parent, value),
            // `default_priorities: { handoff: high }` by lines.
            _ if Kind::parse(key).is_some() && Priority::parse(value).is_some() => {
                take_priority(&mut config, Some(key), value);
            }
            _ => take_retention(&mut config.rules.retention, key, value)?,
        }
    }
    config.unknown.sort_unstable();
    config.unknown.dedup();
    Ok(config)
}

fn take_priority(config: &mut MessengerConfig, kind: Option<&str>, value: &str) {
    let Some(priority) = Priority::parse(&value.to_lowercase()) else {
        return;
    };
    match kind.map(|word| (word, Kind::parse(word))) {
        // What is as it is by default is not written down, so that a later default can still be
        // followed.
        Some((_, Some(kind))) if kind.priority() != priority => {
            config.rules.priorities.insert(kind, priority);
        }
        Some((word, None)) => config.unknown.push(word.to_owned()),
        _ => {}
    }
}

fn take_field(config: &mut MessengerConfig, kind: Option<&str>, field: &str) {
    match kind.map(|word| (word, Kind::parse(word))) {
        Some((_, Some(kind))) => {
            let fields = config.rules.required.entry(kind).or_default();
            if !kind.required().contains(&field) && !fields.iter().any(|known| known == field) {
                fields.push(field.to_owned());
            }
            if fields.is_empty() {
                config.rules.required.remove(&kind);
            }
        }
        Some((word, None)) => config.unknown.push(word.to_owned()),
        None => {}
    }
}

/// Takes a number of messages or of days by its key: `max_active`, `archive_after_days`, `delete_archived_after_days`.
fn take_retention(retention: &mut Retention, key: &str, value: &str) -> Result<(), String> {
    let span = |days: i64| TimeDelta::try_days(days).ok_or(format!("`{key}: {value}` is too long"));
    let digits: String = value.chars().take_while(char::is_ascii_digit).collect();
    // A word such as `never` sets nothing; the default holds.
    let Ok(number) = digits.parse::<i64>() else {
        return Ok(());
    };
    let is_days =
        key.ends_with("_days") || value.trim_start_matches(&digits).trim().starts_with('d');
    if key.contains("delete") && is_days {
        retention.delete_after = span(number)?;
    } else if key.contains("archive") && key.contains("after") && is_days {
        retention.archive_after = span(number)?;
    } else if key.contains("active") && !is_days {
        let active = usize::try_from(number).ok().filter(|active| *active > 0);
        retention.active = active.ok_or(format!("`{key}: {value}` is no number of messages"))?;
    }
    Ok(())
}

/// What the items of lists call themselves, by their paths: `- type: handoff`.
fn names_of_items(values: &[(Vec<String>, String)]) -> BTreeMap<String, String> {
    let is_name = |key: &&String| ["type", "name", "id"].contains(&key.as_str());
    let names = values.iter().filter_map(|(path, value)| {
        let (_, item) = path.split_last().filter(|(key, _)| is_name(key))?;
        item.last()?.starts_with('#').then(|| (item.join("\u{0}"), value.clone()))
    });
    names.collect()
}

/// Every text of the file with the keys that lead to it; the items of a list that are mappings have `#` and a number.
fn values(text: &str) -> Result<Vec<(Vec<String>, String)>, String> {
    let mut values: Vec<(Vec<String>, String)> = Vec::new();
    // The keys that are open, each with its indentation.
    let mut open: Vec<(usize, String)> = Vec::new();
    let mut block: Option<usize> = None;
    for (number, line) in text.strip_prefix('\u{feff}').unwrap_or(text).lines().enumerate() {
        let wrong = |what: &str| format!("line {}: {what}", number + 1);
        let mut rest = without_comment(line).trim_end();
        let mut indent = rest.len() - rest.trim_start_matches(' ').len();
        rest = rest.trim_start_matches(' ');
        // The lines of a block text are prose and may look like anything.
        if rest.is_empty() || rest == "---" || block.is_some_and(|above| indent > above) {
            continue;
        }
        block = None;
        if rest.starts_with('\t') {
            return Err(wrong("a tab does not indent"));
        }
        let is_item = |text: &str| text == "-" || text.starts_with("- ");
        // A list may stand as deep as its key.
        open.retain(|(depth, key)| {
            *depth < indent || (*depth == indent && is_item(rest) && !key.starts_with('#'))
        });
        while is_item(rest) {
            let item = rest[1..].trim_start();
            let deeper = indent + (rest.len() - item.len());
            if key_of(item).is_some() || is_item(item) {
                open.push((indent, format!("#{}", number + 1)));
            }
            (rest, indent) = (item, deeper);
        }
        if open.len() > DEEPEST || values.len() > MOST {
            return Err(wrong("more than a configuration holds"));
        }
        if rest.starts_with(['&', '*', '!', '{', '?']) {
            return Err(wrong("this part of YAML is not read"));
        }
        let mut path: Vec<String> = open.iter().map(|(_, key)| key.clone()).collect();
        let Some((key, value)) = key_of(rest) else {
            values.extend(plain(rest).map(|value| (path, value)));
            continue;
        };
        if value.is_empty() {
            open.push((indent, key));
        } else if value.starts_with(['|', '>']) {
            block = Some(indent);
        } else if let Some(list) = value.strip_prefix('[').and_then(|list| list.strip_suffix(']')) {
            path.push(key);
            values.extend(list.split(',').filter_map(plain).map(|value| (path.clone(), value)));
        } else if value.starts_with(['&', '*', '!', '{', '[']) {
            return Err(wrong("this part of YAML is not read"));
        } else {
            path.push(key);
            values.extend(plain(value).map(|value| (path, value)));
        }
    }
    Ok(values)
}

/// A key and what stands behind it on the line.
fn key_of(text: &str) -> Option<(String, &str)> {
    let (key, value) = match text.strip_suffix(':') {
        // `a: b:` is a key with the value `b:`.
        Some(key) if !key.contains(": ") => (key, ""),
        _ => text.split_once(": ")?,
    };
    let key = plain(key)?.to_lowercase().replace('-', "_");
    // A sentence with a colon in it is a text.
    (!key.contains(char::is_whitespace)).then(|| (key, value.trim()))
}

/// A text without its quotes; `None` for one that is empty.
fn plain(text: &str) -> Option<String> {
    let text = text.trim();
    let quoted =
        ['"', '\''].into_iter().find_map(|mark| text.strip_prefix(mark)?.strip_suffix(mark));
    Some(quoted.unwrap_or(text)).filter(|text| !text.is_empty()).map(str::to_owned)
}

/// A line as far as its comment, which follows a blank or begins the line.
fn without_comment(line: &str) -> &str {
    let mut quote = None;
    let mut before = ' ';
    for (at, c) in line.char_indices() {
        match (quote, c) {
            // In `a#b` the mark is a part of the text.
            (None, '#') if before.is_whitespace() => return &line[..at],
            // An apostrophe within a word opens nothing.
            (None, '"' | '\'') if before.is_whitespace() || matches!(before, '[' | ',') => {
                quote = Some(c)
            }
            (Some(mark), c) if mark == c => quote = None,
            _ => {}
        }
        before = c;
    }
    line
}

/// The section of the settings that says the same; empty where all is as it is by default.
pub fn section(rules: &MessageRules) -> String {
    let (own, usual) = (rules.retention, Retention::default());
    let mut lines = Vec::new();
    if own.active != usual.active {
        lines.push(format!("active = {}", own.active));
    }
    for (key, own, usual) in [
        ("archive_after", own.archive_after, usual.archive_after),
        ("delete_after", own.delete_after, usual.delete_after),
    ] {
        if own != usual {
            lines.push(format!("{key} = \"{}d\"", own.num_days()));
        }
    }
    let priorities = rules.priorities.iter();
    lines.extend(priorities.map(|(kind, priority)| format!("{kind} = \"{priority}\"")));
    let fields = rules.required.iter();
    let fields =
        fields.flat_map(|(kind, names)| names.iter().map(move |name| format!("{kind}.{name}")));
    let fields: Vec<toml::Value> = fields.map(toml::Value::from).collect();
    if !fields.is_empty() {
        lines.push(format!("require = {}", toml::Value::from(fields)));
    }
    if lines.is_empty() {
        return String::new();
    }
    format!("[messages]\n{}\n", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_the_file_come_to_the_same() {
        let wanted = "[messages]\nactive = 50\narchive_after = \"14d\"\nhandoff = \"critical\"\nnotify = \"medium\"\nrequire = [\"review.files_changed\"]\n";
        for text in [
            include_str!("../../../fixtures/kit/messenger-config.yaml"),
            "message_types:\n- type: handoff\n  priority: critical\n- type: review\n  required: [artifact_path, 'files_changed'] # more\n\
             - type: notify\n  priority: medium\n- type: poll\n  priority: low\nqueue:\n  max_active_messages: 50\n  archive_after_days: 14\n",
            "default_priorities:\n  handoff: critical\n  notify: medium\n  poll: low\ntypes:\n  review:\n    required:\n      - files_changed\n\
             max_active: 50\narchive_after: 14d\ndelete_after: 30 days\nname: |\n  priority: nothing\n",
        ] {
            let config = parse(text).expect("readable");
            assert_eq!(section(&config.rules), wanted, "{text}");
        }
        let unknown = parse("types:\n  poll:\n    priority: low\n").expect("readable");
        assert_eq!(unknown.unknown, ["poll"]);
        assert_eq!(section(&unknown.rules), "");
    }

    #[test]
    fn what_is_not_read_is_named_with_its_line() {
        for (text, line) in [
            ("types:\n\t- handoff\n", "line 2"),
            ("a: &x 1\n", "line 1"),
            ("types: {handoff: high}\n", "line 1"),
            ("max_active: 0\n", "max_active"),
            (&"a:\n".repeat(3), ""),
        ] {
            match parse(text) {
                Ok(config) => {
                    assert!(line.is_empty() && config == MessengerConfig::default(), "{text}")
                }
                Err(problem) => {
                    assert!(problem.contains(line) && !line.is_empty(), "{text}: {problem}")
                }
            }
        }
        let deep: String = (0..40).map(|at| format!("{}a:\n", " ".repeat(at))).collect();
        assert!(parse(&deep).is_err());
        assert!(parse(&"- a\n".repeat(20_000)).is_err());
    }
}
