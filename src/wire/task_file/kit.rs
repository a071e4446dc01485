//! The form of the older kit.

use super::super::toml_reader::{Document, Key, Reader};
use super::plain;
use crate::domain::diagnostic::{Field, Located, Problem, Source};
use crate::domain::task::TaskDraft;
use std::ops::Range;

/// Every key of this form.
pub(super) const KEYS: &[Key] = &[
    ("task", "role"),
    ("task", "agent-id"),
    ("task", "parent-agent"),
    ("scope", "files-whitelist"),
    ("scope", "files-denylist"),
    ("verification", "cargo-check-crates"),
    ("verification", "cargo-test-crates"),
    ("verification", "test-count-min"),
    ("verification", "no-dep-bump"),
    ("output", "report-fields-required"),
    ("body", "text"),
];

pub(super) fn read(document: &Document<'_>, source: Source) -> TaskDraft {
    let mut reader = Reader::new(document, KEYS);
    let mut problems = Vec::new();
    let checked = reader.strings(("verification", "cargo-check-crates"));
    let tested = reader.strings(("verification", "cargo-test-crates"));
    let mut checks = commands("cargo check -p", &checked, &mut problems);
    checks.extend(commands("cargo test -p", &tested, &mut problems));
    // Both lists become one, and a problem with it can point to one place only.
    let span = span_of(&checked).or(span_of(&tested)).unwrap_or_default();
    let mut draft = TaskDraft {
        source,
        report_fields: reader.strings(("output", "report-fields-required")),
        min_tests: reader.integer(("verification", "test-count-min")),
        no_dep_bump: reader.boolean(("verification", "no-dep-bump")),
        role: reader.string(("task", "role")),
        name: reader.string(("task", "agent-id")),
        parent: reader.string(("task", "parent-agent")),
        whitelist: reader.strings(("scope", "files-whitelist")),
        denylist: reader.strings(("scope", "files-denylist")),
        checks: Field::Given(Located {
            value: checks,
            span,
        }),
        text: reader.string(("body", "text")),
        ..TaskDraft::default()
    };
    draft.problems = reader.finish(("plain", plain::KEYS));
    draft.problems.append(&mut problems);
    draft
}

fn span_of<T>(field: &Field<T>) -> Option<Range<usize>> {
    field.given().map(|located| located.span.clone())
}

/// One command for each crate. The name goes into a shell command, so it is held to cargo's rule.
fn commands(
    command: &str,
    crates: &Field<Vec<Located<String>>>,
    problems: &mut Vec<Problem>,
) -> Vec<Located<String>> {
    let mut commands = Vec::new();
    for name in crates
        .given()
        .map(|list| list.value.as_slice())
        .unwrap_or_default()
    {
        let span = name.span.clone();
        if is_crate_name(&name.value) {
            let value = format!("{command} {}", name.value);
            commands.push(Located { value, span });
        } else {
            let message = format!("`{}` is no crate name", name.value);
            problems.push(Problem::at(span, message));
        }
    }
    commands
}

fn is_crate_name(name: &str) -> bool {
    // Cargo could take a name that begins with a dash for an option.
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
}
