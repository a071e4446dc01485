//! The page of JSON answers: what each key is, from the schemas, and one real answer each, which the test of the schemas
//! gathers. An answer on the page stays as long as its schema allows it, so the page changes when a schema does.

use super::generated::up_to_date;
use git_agent::wire::output::schema::{JsonAnswer, answers, schema};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;

const PAGE: &str = "docs/json.md";

const HEAD: &str = "\
# JSON

What each command answers with `--format json`: its keys, and one real answer, lists cut to their first item. This page is made from the schemas. `git agent schema` lists
them, and `git agent schema verify` prints one (draft 2020-12), by the command's name, the answer's name, or its id such as `git-agent.verify/2`.

- The number in `schema` grows when a key changes its name or meaning. Keys are only added, so a reader passes over those that it does not know.
- A key with `?` is absent where it does not apply; `null` says that a value could not be determined.
- An error is one object on standard error ([error](#error)); its codes are on a page of their own ([errors.md](errors.md)).
- With `--format ndjson` a list is written as one item per line. `overlap` writes the pairs and then the order, `gc` the agents and then what is kept, `merge --all` the agents
  and then `close`, `verify` the findings and then the verdict, and `run` with several targets the runs and then the summary.
- `discard`, `mark` and `spawn` of several answer with one [batch](#batch), in the order of the command line.
";

/// Holds the page against the schemas, or writes it: `judge` says whether an answer is as the schema of this name says.
pub fn page_up_to_date(real: &BTreeMap<&'static str, Value>, judge: &dyn Fn(&str, &Value) -> bool) {
    let old = fs::read_to_string(super::root().join(PAGE)).unwrap_or_default();
    let mut page = HEAD.to_owned();
    for answer in answers() {
        let kept =
            example(&old, answer.name).filter(|answer_of_old| judge(answer.name, answer_of_old));
        let shown = kept.or_else(|| real.get(answer.name).map(cut));
        section(&mut page, &answer, shown.as_ref());
    }
    up_to_date(PAGE, &page);
}

/// The answer that a page shows.
fn example(page: &str, name: &str) -> Option<Value> {
    let (_, section) = page.split_once(&format!("\n## {name}\n"))?;
    let section = section.split("\n## ").next()?;
    let (_, text) = section.split_once("```json\n")?;
    serde_json::from_str(text.split_once("\n```")?.0).ok()
}

/// An answer whose lists have one item at the most.
fn cut(answer: &Value) -> Value {
    match answer {
        Value::Array(items) => items.iter().take(1).map(cut).collect(),
        Value::Object(keys) => {
            Value::Object(keys.iter().map(|(key, value)| (key.clone(), cut(value))).collect())
        }
        other => other.clone(),
    }
}

fn section(page: &mut String, answer: &JsonAnswer, shown: Option<&Value>) {
    let schema = schema(answer.name).expect("a schema");
    let verbs: Vec<_> = answer
        .verbs
        .split(',')
        .filter(|verb| !verb.is_empty())
        .map(|verb| format!("`{verb}`"))
        .collect();
    let id = answer.id().map_or(String::new(), |id| format!(" `{id}`"));
    let of = if verbs.is_empty() { String::new() } else { format!(" Of {}.", verbs.join(", ")) };
    let (name, what) = (answer.name, answer.what);
    write!(page, "\n## {name}\n\n{what}.{id}{of}\n\n| key | type | meaning |\n|---|---|---|\n")
        .expect("a string");
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for (key, kind) in schema["properties"].as_object().into_iter().flatten() {
        if key == "schema" {
            continue;
        }
        let mark = if required.contains(&key.as_str()) { "" } else { "?" };
        let about = kind["description"].as_str().unwrap_or_default().replace('|', "\\|");
        writeln!(page, "| `{key}`{mark} | {} | {about} |", kind_of(kind)).expect("a string");
    }
    if let Some(shown) = shown {
        let text = serde_json::to_string_pretty(shown).expect("JSON");
        write!(page, "\n```json\n{text}\n```\n").expect("a string");
    }
}

/// The type of a key in a few words.
fn kind_of(kind: &Value) -> String {
    if let Some(shape) = kind["$ref"].as_str() {
        return shape.rsplit('/').next().unwrap_or_default().to_owned();
    }
    if let Some(words) = kind["enum"].as_array() {
        let words = words.iter().map(|word| format!("`{}`", word.as_str().unwrap_or("null")));
        return words.collect::<Vec<_>>().join(", ");
    }
    if let Some(kinds) = kind["anyOf"].as_array() {
        return kinds.iter().map(kind_of).collect::<Vec<_>>().join(" or ");
    }
    match (&kind["type"], &kind["items"]) {
        (Value::String(name), items) if name == "array" => format!("list of {}", kind_of(items)),
        (Value::String(name), _) => name.clone(),
        (Value::Array(names), _) => {
            names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or ")
        }
        _ => {
            kind.get("const").map_or("any".to_owned(), |word| format!("`{word}`").replace('"', ""))
        }
    }
}
