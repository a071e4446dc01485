//! The JSON Schema (draft 2020-12) of every answer, made from one table, `schema/answers.txt`.
//!
//! A schema says what is there now. It does not forbid more: keys are only ever added, and a program that
//! validates with it must not break on that. The tests do forbid more, so that no answer has a key that the
//! table lacks.
//!
//! # The notation
//!
//! ```text
//! answer <name>[/<n>] <verb>[,<verb>…]  <what it is>  an answer with the key `schema`, version n (1 unless it is said)
//! bare <name> <verb>[,<verb>…]  <what it is>        one without
//! shape <name>  <what it is>                        part of answers
//!   <key>[?]  <kind>  <what it is>                  `?`: absent where it does not apply
//!   +<shape>                                        all keys of a shape, and of a shape only
//! ```
//!
//! A kind is `text`, `whole` (a whole number from 0), `number` (any from 0), `integer`, `flag`, `oid`, `uuid`, `time`, `path`, `any`,
//! `null`, `@<shape or answer>`, `[<kind>]`, any other word for itself (`~` for a space), or several with `|`.

use crate::wire::put;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

const TABLE: &str = include_str!("schema/answers.txt");

/// Something that is answered in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JsonAnswer {
    /// Its name: `spawn` for `git-agent.spawn/2`.
    pub name: &'static str,
    /// The commands that answer it, separated by commas.
    pub verbs: &'static str,
    /// What it is, in one line.
    pub what: &'static str,
    /// The number in the key `schema`; `None` for an answer that has no such key.
    version: Option<&'static str>,
}

impl JsonAnswer {
    /// What the key `schema` holds; `None` for an answer that has no such key.
    pub fn id(&self) -> Option<String> {
        let version = self.version?;
        Some(format!("git-agent.{}/{version}", self.name))
    }
}

/// A part of the table: its head, and its lines.
struct Section {
    kind: &'static str,
    name: &'static str,
    version: &'static str,
    rest: &'static str,
    lines: Vec<&'static str>,
}

impl Section {
    /// The answer that it is; `None` for a mere shape.
    fn answer(&self) -> Option<JsonAnswer> {
        let (verbs, what) = cut(self.rest);
        (self.kind != "shape").then_some(JsonAnswer {
            name: self.name,
            verbs,
            what,
            version: (self.kind == "answer").then_some(self.version),
        })
    }
}

/// Every answer, in the order of the table.
pub fn answers() -> Vec<JsonAnswer> {
    sections().iter().filter_map(Section::answer).collect()
}

/// The schema of the answer of this name or id, else of the first that this command gives.
pub fn schema(name: &str) -> Option<Value> {
    let answers = answers();
    let is_named =
        |answer: &&JsonAnswer| answer.name == name || answer.id().as_deref() == Some(name);
    let named = answers.iter().find(is_named);
    let given = || {
        let mut answers = answers.iter();
        answers.find(|answer| answer.verbs.split(',').any(|verb| verb == name))
    };
    let answer = named.or_else(given)?;
    let sections = sections();
    let find = |name: &str| sections.iter().find(|section| section.name == name);
    let mut writer = SchemaWriter { find: &find, wanted: BTreeSet::new() };
    let mut schema = writer.object(find(answer.name)?);
    let dialect = "https://json-schema.org/draft/2020-12/schema";
    put(&mut schema, "$schema", dialect);
    let mut definitions = Map::new();
    // A definition may name further shapes, and itself: what is defined already is not made again.
    while let Some(name) = writer.wanted.pop_first() {
        if definitions.contains_key(&name) {
            continue;
        }
        let definition = match (name.as_str(), find(&name)) {
            ("path", _) => path(),
            (_, Some(section)) => writer.object(section),
            // A shape that the table lacks is a mistake of ours, and the rest of the schema is of
            // use all the same.
            (_, None) => continue,
        };
        definitions.insert(name, definition);
    }
    if !definitions.is_empty() {
        put(&mut schema, "$defs", definitions);
    }
    Some(schema)
}

/// Turns sections into schemas and notes which shapes they name.
struct SchemaWriter<'a> {
    find: &'a dyn Fn(&str) -> Option<&'a Section>,
    wanted: BTreeSet<String>,
}

impl SchemaWriter<'_> {
    fn object(&mut self, section: &Section) -> Value {
        let (mut properties, mut required) = (Map::new(), Vec::new());
        let answer = section.answer();
        let id = answer.and_then(|answer| answer.id());
        if let Some(id) = &id {
            properties.insert("schema".to_owned(), json!({ "const": id }));
            required.push("schema");
        }
        self.fields(section, &mut properties, &mut required);
        let mut schema = json!({
            "type": "object",
            "description": answer.map_or(section.rest, |answer| answer.what),
            "properties": properties,
            "required": required,
        });
        if let Some(id) = id {
            put(&mut schema, "title", id);
        }
        schema
    }

    fn fields(
        &mut self,
        section: &Section,
        properties: &mut Map<String, Value>,
        required: &mut Vec<&'static str>,
    ) {
        for line in &section.lines {
            if let Some(shape) = line.strip_prefix('+') {
                if let Some(shape) = (self.find)(shape) {
                    self.fields(shape, properties, required);
                }
                continue;
            }
            let (key, rest) = cut(line);
            let (kind, what) = cut(rest);
            let mut schema = self.kind(kind);
            if !what.is_empty() {
                put(&mut schema, "description", what);
            }
            match key.strip_suffix('?') {
                Some(key) => drop(properties.insert(key.to_owned(), schema)),
                None => {
                    properties.insert(key.to_owned(), schema);
                    required.push(key);
                }
            }
        }
    }

    fn kind(&mut self, kind: &str) -> Value {
        if let Some(items) = kind.strip_prefix('[').and_then(|kind| kind.strip_suffix(']')) {
            return json!({ "type": "array", "items": self.kind(items) });
        }
        let (mut words, mut schemas) = (Vec::new(), Vec::new());
        for one in alternatives(kind) {
            match self.single(one) {
                Some(schema) => schemas.push(schema),
                None => words.push(one.replace('~', " ")),
            }
        }
        if !words.is_empty() {
            schemas.insert(0, json!({ "enum": words }));
        }
        match schemas.len() {
            1 => schemas.remove(0),
            _ => json!({ "anyOf": schemas }),
        }
    }

    /// The schema of one kind; `None` for a word that stands for itself.
    fn single(&mut self, kind: &str) -> Option<Value> {
        Some(match kind {
            "text" => json!({ "type": "string" }),
            "whole" => json!({ "type": "integer", "minimum": 0 }),
            "integer" => json!({ "type": "integer" }),
            "number" => json!({ "type": "number", "minimum": 0 }),
            "flag" => json!({ "type": "boolean" }),
            "oid" => json!({ "type": "string", "pattern": "^[0-9a-f]{40}$" }),
            "uuid" => json!({ "type": "string", "format": "uuid" }),
            "time" => json!({ "type": "string", "format": "date-time" }),
            "any" => json!({}),
            "null" => json!({ "type": "null" }),
            list if list.starts_with('[') => self.kind(list),
            shape => {
                let name = match shape {
                    "path" => shape,
                    _ => shape.strip_prefix('@')?,
                };
                self.wanted.insert(name.to_owned());
                json!({ "$ref": format!("#/$defs/{name}") })
            }
        })
    }
}

/// The kinds between the bars, those within brackets aside.
fn alternatives(kind: &str) -> Vec<&str> {
    let (mut depth, mut start, mut found) = (0, 0, Vec::new());
    for (at, byte) in kind.bytes().enumerate() {
        match byte {
            b'[' => depth += 1,
            b']' => depth -= 1,
            b'|' if depth == 0 => {
                found.push(&kind[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    found.push(&kind[start..]);
    found
}

/// A path as [`super::path_text`] writes it.
fn path() -> Value {
    json!({
        "description": "A path; its bytes in base64 where it is not UTF-8",
        "anyOf": [
            { "type": "string" },
            {
                "type": "object",
                "properties": { "bytes": { "type": "string", "contentEncoding": "base64" } },
                "required": ["bytes"],
            },
        ],
    })
}

fn sections() -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    for line in TABLE.lines().filter(|line| !line.is_empty()) {
        match (line.strip_prefix("  "), sections.last_mut()) {
            (Some(field), Some(section)) => section.lines.push(field),
            _ => {
                let (kind, rest) = cut(line);
                let (name, rest) = cut(rest);
                let (name, version) = name.split_once('/').unwrap_or((name, "1"));
                sections.push(Section { kind, name, version, rest, lines: Vec::new() });
            }
        }
    }
    sections
}

/// The first word and what follows it.
fn cut(text: &'static str) -> (&'static str, &'static str) {
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    (word, rest.trim_start())
}
