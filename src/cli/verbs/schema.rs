//! `git agent schema`

use crate::cli::out::render::table::{Cell, Table};
use crate::cli::out::terminal::{BOLD, DIM, width};
use crate::cli::out::ui::{Answer, AsJson, Ui};
use crate::error::{Code, Error, Exit, Result};
use crate::wire::output::schema::{self, answers};
use crate::wire::put;
use clap::{Arg, ArgAction};
use serde_json::{Map, Value, json};

/// Print the JSON Schema of a command's answer; without a name, list the answers
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct SchemaArgs {
    /// Command, name of an answer, or the value of its key `schema`
    #[arg(value_name = "COMMAND")]
    answer: Option<String>,
    /// Print the schema of the command's input instead: each option and argument by its name, with `_` for `-`
    #[arg(long, requires = "answer")]
    input: bool,
}

/// Finds a verb with what it takes by its name.
type VerbNamed = fn(&str) -> Option<clap::Command>;

/// Needs no repository.
pub(in crate::cli) fn run(ui: &mut Ui, args: &SchemaArgs, verb: VerbNamed) -> Result<Exit> {
    match &args.answer {
        None => ui.answer(&AllAnswers)?,
        Some(name) if args.input => ui.answer(&OneSchema(input(name, verb)?))?,
        Some(name) => ui.answer(&OneSchema(require(name)?))?,
    }
    Ok(Exit::Yes)
}

/// The list of what is answered.
struct AllAnswers;

/// One schema.
struct OneSchema(serde_json::Value);

fn require(name: &str) -> Result<serde_json::Value> {
    schema::schema(name).ok_or_else(|| {
        let what = format!("there is no JSON answer called `{}`", name.escape_debug());
        Error::new(Code::Usage, what).hint("to list the answers, run git agent schema")
    })
}

/// What a command takes, from the one definition of the command line. A value stands as it would be typed: a duration is a text, `90s`.
fn input(name: &str, verb: VerbNamed) -> Result<Value> {
    let command = verb(name).ok_or_else(|| {
        let what = format!("there is no command `{}`", name.escape_debug());
        Error::new(Code::Usage, what).hint("to list the commands, run git agent -h")
    })?;
    let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
    let properties: Map<_, _> = shown.map(property).collect();
    Ok(json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": format!("git agent {name}"),
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
    }))
}

fn property(arg: &Arg) -> (String, Value) {
    let name = arg.get_long().unwrap_or(arg.get_id().as_str());
    let values = arg.get_possible_values();
    let is_several = matches!(arg.get_action(), ArgAction::Append);
    let mut schema = if !arg.get_action().takes_values() {
        json!({ "type": "boolean" })
    } else if values.is_empty() {
        json!({ "type": "string" })
    } else {
        let names: Vec<_> = values.iter().map(|value| value.get_name()).collect();
        json!({ "type": "string", "enum": names })
    };
    if is_several {
        schema = json!({ "type": "array", "items": schema });
    }
    if let Some(help) = arg.get_help() {
        put(&mut schema, "description", help.to_string());
    }
    (name.replace('-', "_"), schema)
}

impl AsJson for AllAnswers {
    fn json(&self) -> Value {
        json!({ "schema": "git-agent.schemas/1", "answers": self.rows() })
    }
}

impl Answer for AllAnswers {
    fn text(&self) -> String {
        let mut table = Table::new(vec!["ANSWER", "OF", "WHAT"], width());
        for answer in answers() {
            table.push(vec![
                Cell::painted(BOLD, answer.name.to_owned()),
                Cell::painted(DIM, answer.verbs.replace(',', ", ")),
                Cell::plain(answer.what.to_owned()),
            ]);
        }
        table.render()
    }

    fn rows(&self) -> Vec<Value> {
        answers().iter().map(row).collect()
    }
}

fn row(answer: &schema::JsonAnswer) -> Value {
    let verbs: Vec<_> = answer.verbs.split(',').collect();
    let mut row = json!({ "name": answer.name, "of": verbs, "what": answer.what });
    if let Some(id) = answer.id() {
        put(&mut row, "id", id);
    }
    row
}

impl AsJson for OneSchema {
    fn json(&self) -> Value {
        self.0.clone()
    }
}

impl Answer for OneSchema {
    fn text(&self) -> String {
        format!("{:#}\n", self.0)
    }
}
