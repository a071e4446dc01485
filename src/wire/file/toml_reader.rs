//! Reads a TOML file against a list of keys and finds everything that is wrong with it in one pass.
//!
//! Derived deserialisers stop at the first mistake. This reader walks the tree that the parser recovers
//! even from a broken file: each key is asked for by section and type, mistakes pile up as
//! [`Problem`]s, and at the end [`TomlReader::finish`] adds the unknown keys.
//!
//! Invariant: one mistake is one problem. Values on a line that is no TOML are passed over, and
//! nothing is called missing from a file that is broken.

use crate::domain::value::diagnostic::{Field, Located, Problem, Source, nearest};
use crate::domain::value::redaction;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeInteger, DeString, DeTable, DeValue, Error};

/// A section (empty for the top of the file) and a key in it.
pub(in crate::wire) type Key = (&'static str, &'static str);

/// Stands for any key of its section.
pub(in crate::wire) const ANY: &str = "<VARIABLE>";

/// Asks a document for its values.
pub(in crate::wire) struct TomlReader<'d, 't> {
    document: &'d Document<'t>,
    /// What is read: the whole file, or one table of a list.
    root: &'d DeTable<'t>,
    keys: &'d [Key],
    problems: Vec<Problem>,
}

impl<'d, 't> TomlReader<'d, 't> {
    /// A reader that knows these keys.
    pub(in crate::wire) fn new(document: &'d Document<'t>, keys: &'d [Key]) -> TomlReader<'d, 't> {
        let mut reader = TomlReader {
            document,
            root: document.root(),
            keys,
            problems: document.syntax().to_vec(),
        };
        // Once and here: every key of such a section would report it again.
        for (key, value) in reader.root.iter() {
            let name = key.get_ref().as_ref();
            if is_section(keys, name) && table(value).is_none() {
                let message = format!("`{name}` must be a table, not {}", kind(value.get_ref()));
                let help = format!("write [{name}] and its keys below it");
                reader.report(value, message, help);
            }
        }
        reader
    }

    /// A text.
    pub(in crate::wire) fn string(&mut self, key: Key) -> Field<String> {
        self.read(key, "a string", |value| match value {
            DeValue::String(text) => Some(text.to_string()),
            _ => None,
        })
    }

    /// A whole number.
    pub(in crate::wire) fn integer(&mut self, key: Key) -> Field<i64> {
        self.read(key, "a whole number", |value| match value {
            DeValue::Integer(number) => whole(number),
            _ => None,
        })
    }

    /// A number, whole or not.
    pub(in crate::wire) fn number(&mut self, key: Key) -> Field<f64> {
        self.read(key, "a number", |value| match value {
            // There is no conversion from `i64` to `f64` that cannot lose; parsing rounds as the
            // file's own `.0` would.
            DeValue::Integer(number) => whole(number)?.to_string().parse().ok(),
            DeValue::Float(number) => number.as_str().parse().ok(),
            _ => None,
        })
    }

    /// A number, or one with its unit in quotes; as it is written.
    pub(in crate::wire) fn amount(&mut self, key: Key) -> Field<String> {
        self.read(key, "a number, or one with its unit", |value| match value {
            DeValue::String(text) => Some(text.to_string()),
            DeValue::Integer(number) => whole(number).map(|number| number.to_string()),
            DeValue::Float(number) => Some(number.as_str().to_owned()),
            _ => None,
        })
    }

    /// `true` or `false`.
    pub(in crate::wire) fn boolean(&mut self, key: Key) -> Field<bool> {
        self.read(key, "true or false", |value| match value {
            DeValue::Boolean(truth) => Some(*truth),
            _ => None,
        })
    }

    /// A list of texts. Items of another type are reported and left out; a list of nothing else is
    /// unreadable, so that it does not pass for an empty one.
    pub(in crate::wire) fn strings(&mut self, key: Key) -> Field<Vec<Located<String>>> {
        let list = match self.find(key) {
            Ok(list) => list,
            Err(absent) => return absent,
        };
        let DeValue::Array(items) = list.get_ref() else {
            let message =
                format!("`{}` must be a list of strings, not {}", key.1, kind(list.get_ref()));
            let help = match list.get_ref() {
                DeValue::String(_) => "put it into brackets: [\"…\"]",
                _ => "write it like [\"one\", \"two\"]",
            };
            self.report(list, message, help);
            return Field::Unreadable;
        };
        let mut texts = Vec::new();
        for item in items.iter() {
            if let DeValue::String(text) = item.get_ref() {
                texts.push(Located { value: text.to_string(), span: item.span() });
            } else {
                let kind = kind(item.get_ref());
                let message = format!("`{}` must hold nothing but strings, not {kind}", key.1);
                self.report(item, message, "put it into quotes");
            }
        }
        if texts.is_empty() && items.iter().next().is_some() {
            return Field::Unreadable;
        }
        Field::Given(Located { value: texts, span: list.span() })
    }

    /// The keys of a section that takes any, each with its text.
    pub(in crate::wire) fn texts_of(
        &mut self,
        section: &'static str,
    ) -> Vec<(String, Located<String>)> {
        let mut texts = Vec::new();
        for (key, value) in self.root.get(section).and_then(table).into_iter().flatten() {
            if let DeValue::String(text) = value.get_ref() {
                let value = Located { value: text.to_string(), span: value.span() };
                texts.push((key.get_ref().to_string(), value));
            } else {
                let kind = kind(value.get_ref());
                let message = format!("`{}` must be a string, not {kind}", key.get_ref());
                self.report(value, message, "put it into quotes");
            }
        }
        texts
    }

    /// The tables of a list at the top of the file, `[[name]]`, each read by its own keys. `read` gets the bytes of the
    /// table too.
    pub(in crate::wire) fn tables<T>(
        &mut self,
        name: &'static str,
        keys: &'static [Key],
        read: impl Fn(&mut TomlReader<'d, 't>, Range<usize>) -> T,
    ) -> Vec<T> {
        let Some(list) = self.root.get(name) else {
            return Vec::new();
        };
        let items = match list.get_ref() {
            DeValue::Array(items) => items.iter().collect(),
            // It is reported below as one item, and the comparison of places tells it from an item
            // of a list.
            _ => vec![list],
        };
        let mut tables = Vec::new();
        for item in items {
            match item.get_ref() {
                DeValue::Table(root) if !std::ptr::eq(item, list) => {
                    let mut below =
                        TomlReader { document: self.document, root, keys, problems: Vec::new() };
                    tables.push(read(&mut below, item.span()));
                    self.problems.extend(below.finish(("", &[])));
                }
                other => {
                    let message = format!("`{name}` must be a list of tables, not {}", kind(other));
                    self.report(item, message, format!("write [[{name}]] and its keys below it"));
                }
            }
        }
        tables
    }

    /// Everything wrong with the file: syntax, types, and keys that are not known. `other` are keys
    /// of a form that this file does not have, and the name of that form.
    pub(in crate::wire) fn finish(mut self, other: (&str, &'static [Key])) -> Vec<Problem> {
        for (key, value) in self.root.iter() {
            let name = key.get_ref().as_ref();
            if is_section(self.keys, name) {
                for (key, _) in table(value).into_iter().flatten() {
                    if !is_key(self.keys, (name, key.get_ref())) {
                        self.unknown(name, key, false, other);
                    }
                }
            } else if !is_key(self.keys, ("", name)) {
                self.unknown("", key, table(value).is_some(), other);
            }
        }
        self.problems
    }

    fn read<T>(
        &mut self,
        key: Key,
        expected: &str,
        accept: impl Fn(&DeValue<'_>) -> Option<T>,
    ) -> Field<T> {
        let value = match self.find(key) {
            Ok(value) => value,
            Err(absent) => return absent,
        };
        if let Some(accepted) = accept(value.get_ref()) {
            return Field::Given(Located { value: accepted, span: value.span() });
        }
        let message = format!("`{}` must be {expected}, not {}", key.1, kind(value.get_ref()));
        self.report(value, message, "");
        Field::Unreadable
    }

    /// The value of a key, or what to say instead.
    fn find<T>(&self, (section, key): Key) -> Result<&'d Spanned<DeValue<'t>>, Field<T>> {
        let root = self.root;
        let header = root.get(section).filter(|_| !section.is_empty());
        let table = match section {
            "" => Some(root),
            _ => header.and_then(table),
        };
        match table.and_then(|table| table.get(key)) {
            // A value on a line that is no TOML may be a part of what was meant.
            Some(value) if self.document.is_torn(&value.span()) => Err(Field::Unreadable),
            Some(value) => Ok(value),
            // A section that is no table was reported as such.
            None if header.is_some() && table.is_none() => Err(Field::Unreadable),
            // The broken line may be the one that has this key, so it is not called missing.
            None if !self.document.syntax().is_empty() => Err(Field::Unreadable),
            None => {
                Err(Field::Absent { key: label(section, key), header: header.map(Spanned::span) })
            }
        }
    }

    fn report(&mut self, value: &Spanned<DeValue<'_>>, message: String, help: impl Into<String>) {
        // The syntax error of that line is the mistake; this would be its echo.
        if !self.document.is_torn(&value.span()) {
            let problem = Problem::at(value.span(), message);
            let help = Some(help.into()).filter(|help| !help.is_empty());
            self.problems.push(Problem { help, ..problem });
        }
    }

    fn unknown(
        &mut self,
        section: &str,
        key: &Spanned<DeString<'_>>,
        is_table: bool,
        (form, foreign): (&str, &'static [Key]),
    ) {
        if self.document.is_torn(&key.span()) {
            return;
        }
        let name = key.get_ref().as_ref();
        let (word, belongs) = if is_table {
            (format!("section [{name}]"), is_section(foreign, name))
        } else {
            (format!("key {}", label(section, name)), is_key(foreign, (section, name)))
        };
        let message = if belongs {
            format!("{word} belongs to the {form} form; this file has the other one")
        } else {
            format!("unknown {word}")
        };
        let help = self.meant(section, name, is_table);
        self.problems.push(Problem { help, ..Problem::at(key.span(), message) });
    }

    /// What an unknown key was probably meant to be.
    fn meant(&self, section: &str, name: &str, is_table: bool) -> Option<String> {
        // A key below the wrong header is the likelier slip than one that is mistyped.
        let home = self.keys.iter().find(|(_, key)| *key == name && !is_table);
        match home {
            Some(("", _)) => return Some("it belongs above the first [section]".to_owned()),
            Some((home, _)) => return Some(format!("it belongs below [{home}]")),
            None => {}
        }
        let siblings = self.keys.iter().filter(|(of, _)| *of == section);
        let sections = self.keys.iter().filter(|(of, _)| section.is_empty() && !of.is_empty());
        let candidates = siblings.map(|(_, key)| *key).chain(sections.map(|(of, _)| *of));
        let near = nearest(name, candidates)?;
        let header = is_table || is_section(self.keys, near);
        Some(if header {
            format!("did you mean [{near}]?")
        } else {
            format!("did you mean `{near}`?")
        })
    }
}

fn is_section(keys: &[Key], name: &str) -> bool {
    !name.is_empty() && keys.iter().any(|(section, _)| *section == name)
}

fn is_key(keys: &[Key], (section, key): (&str, &str)) -> bool {
    let is_it = |(of, name): &Key| *of == section && (*name == key || *name == ANY);
    keys.iter().any(is_it)
}

fn label(section: &str, key: &str) -> String {
    match section {
        "" => format!("`{key}`"),
        section => format!("`{key}` in [{section}]"),
    }
}

fn table<'v, 't>(value: &'v Spanned<DeValue<'t>>) -> Option<&'v DeTable<'t>> {
    match value.get_ref() {
        DeValue::Table(table) => Some(table),
        _ => None,
    }
}

pub(in crate::wire) fn whole(number: &DeInteger<'_>) -> Option<i64> {
    // A number of more than 64 bits is none that any key takes; `kind` says so.
    i64::from_str_radix(number.as_str(), number.radix()).ok()
}

/// What a value is, as messages say it after "not".
fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(number) if whole(number).is_none() => "one of more than 64 bits",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a float",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}

// A TOML text, parsed as far as it goes.

/// With more syntax errors than this, what was recovered is noise.
const READABLE_ERRORS: usize = 20;

/// What the parser recovered, and where it could not.
pub(in crate::wire) struct Document<'t> {
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
        let mut syntax: Vec<_> =
            errors.iter().map(|error| syntax_problem(error, text, unclosed.as_ref())).collect();
        // A bracket that is never closed makes the parser say so again for each that it would have had to be.
        syntax.dedup();
        if errors.len() > READABLE_ERRORS {
            return Document { root: DeTable::new(), syntax, torn: Vec::new() };
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
    fn is_torn(&self, span: &Range<usize>) -> bool {
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
    let start = before.iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
    let after = bytes.get(span.end..).unwrap_or_default();
    let length = after.iter().position(|&b| b == b'\n').unwrap_or(after.len());
    start..span.end + length
}

// Where in a text a byte stands, for messages.

/// The line and column of a byte, both counted from one, the column in characters.
pub(in crate::wire) fn position(text: &str, offset: usize) -> (usize, usize) {
    // An offset within a character gives the end of the text rather than a panic: it is only for a
    // message.
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line = before.matches('\n').count() + 1;
    (line, before[line_start..].chars().count() + 1)
}
