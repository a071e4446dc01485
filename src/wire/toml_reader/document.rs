//! A TOML text, parsed as far as it goes.

use crate::domain::diagnostic::{Problem, Source};
use crate::domain::redaction;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue, Error};

/// With more syntax errors than this, what was recovered is noise.
const READABLE_ERRORS: usize = 20;

/// What the parser recovered, and where it could not.
pub(crate) struct Document<'t> {
    root: DeTable<'t>,
    syntax: Vec<Problem>,
    torn: Vec<Range<usize>>,
}

impl<'t> Document<'t> {
    /// Parses a text, whatever it is.
    pub(crate) fn parse(text: &'t str) -> Document<'t> {
        let (root, errors) = DeTable::parse_recoverable(text);
        let root = root.into_inner();
        let unclosed = last_string(&root, text.len());
        let syntax = errors
            .iter()
            .map(|error| syntax_problem(error, text, unclosed.as_ref()));
        let mut syntax: Vec<_> = syntax.collect();
        // A bracket that is never closed makes the parser say so again for each that it would have had to be.
        syntax.dedup();
        if errors.len() > READABLE_ERRORS {
            return Document {
                root: DeTable::new(),
                syntax,
                torn: Vec::new(),
            };
        }
        let spans = errors.iter().map(|error| error.span().unwrap_or_default());
        let torn = spans.map(|span| lines_of(text, &span)).collect();
        Document { root, syntax, torn }
    }

    /// The tables and values of the file.
    pub(crate) fn root(&self) -> &DeTable<'t> {
        &self.root
    }

    /// What is no TOML.
    pub(crate) fn syntax(&self) -> &[Problem] {
        &self.syntax
    }

    /// Whether a span touches a line that is no TOML, so that nothing in it can be trusted.
    pub(super) fn is_torn(&self, span: &Range<usize>) -> bool {
        self.torn
            .iter()
            // Both ends count: a value that ends where the broken line begins may run on into it.
            .any(|line| line.start <= span.end && span.start <= line.end)
    }

    /// Hides the lines of texts that spell a credential with escapes, where the bytes do not show it.
    pub(crate) fn hide_secrets(&self, source: &mut Source) {
        visit_table(&self.root, &mut |text, span| {
            if redaction::find_secret(text).is_some() {
                source.hide(span);
            }
        });
    }
}

fn syntax_problem(error: &Error, text: &str, unclosed: Option<&Range<usize>>) -> Problem {
    let span = error.span().unwrap_or_default();
    match unclosed {
        // The parser points at the end of the file; the mistake is where the text begins.
        Some(opening) if span.start == text.len() && error.message().contains("string") => {
            Problem::at(opening.clone(), "this text is never closed")
                .help("end it with the quotes that it begins with")
        }
        _ => Problem::at(span, format!("not TOML: {}", error.message())),
    }
}

/// Calls `visit` with every key and every text of a table, and where it stands.
fn visit_table(table: &DeTable<'_>, visit: &mut dyn FnMut(&str, Range<usize>)) {
    for (key, value) in table.iter() {
        visit(key.get_ref(), key.span());
        visit_value(value, visit);
    }
}

fn visit_value(value: &Spanned<DeValue<'_>>, visit: &mut dyn FnMut(&str, Range<usize>)) {
    match value.get_ref() {
        DeValue::String(text) => visit(text, value.span()),
        DeValue::Table(table) => visit_table(table, visit),
        DeValue::Array(items) => items.iter().for_each(|item| visit_value(item, visit)),
        _ => {}
    }
}

/// The opening quote of the text that runs into the end of the file.
fn last_string(root: &DeTable<'_>, end: usize) -> Option<Range<usize>> {
    let mut opening = None;
    visit_table(root, &mut |_, span| {
        if span.end == end && span.start < end {
            opening = Some(span.start..span.start + 1);
        }
    });
    opening
}

/// The lines that a span touches, without the last line end.
fn lines_of(text: &str, span: &Range<usize>) -> Range<usize> {
    let bytes = text.as_bytes();
    let before = bytes.get(..span.start).unwrap_or(bytes);
    let start = before
        .iter()
        .rposition(|&b| b == b'\n')
        .map_or(0, |at| at + 1);
    let after = bytes.get(span.end..).unwrap_or_default();
    let length = after
        .iter()
        .position(|&b| b == b'\n')
        .unwrap_or(after.len());
    start..span.end + length
}
