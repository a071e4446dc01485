//! Commands that an agent gives which may spawn: read as any, and asked of its supervisor.

use super::typed_task::{from_here, is_task_text};
use super::usage_error;
use crate::agents::{Ctx, Env};
use crate::cli::Cli;
use crate::cli::out::ui::{Answer, AsJson, Format, Ui};
use crate::cli::verbs;
use crate::error::{Code, Error, Exit, Result};
use crate::ops::ask::{ask, asker};
use crate::wire::row::request::{COMMANDS, LeadRequest};
use clap::parser::ValueSource;
use clap::{ArgAction, CommandFactory};
use serde_json::{Map, Value, json};
use std::ffi::OsString;

/// The status of a command that the agent's supervisor carries out; `None` where this process does it itself, as it does outside of the
/// runs of such agents, and for what an agent asks about itself.
///
/// # Errors
/// `usage` for options that no agent may use; what the supervisor refuses.
pub(in crate::cli) fn asked(arguments: &[OsString], ui: &mut Ui) -> Result<Option<Exit>> {
    if !Env::is_in_run() {
        return Ok(None);
    }
    let Some((verb, mut fields)) = fields(arguments) else {
        return Ok(None);
    };
    let ctx = Ctx::of_process()?;
    let Some(home) = asker(&ctx)? else {
        return Ok(None);
    };
    let own = home.agent.id;
    let named = ["agent", "who", "agents"].iter().find_map(|key| fields.get(*key));
    let is_own = |named: &Value| {
        let found = named.as_str().map(|who| ctx.ledger().find(who));
        found.is_some_and(|found| found.is_ok_and(|agent| agent.id == own))
    };
    if named.is_none() && (verb == "train" || fields.contains_key("all")) {
        let what = format!("an agent names those that its {verb} lands");
        return Err(Error::new(Code::Usage, what)
            .hint(format!("to land some of yours, run git agent {verb} <agent>...")));
    }
    if !["spawn", "run", "wait"].contains(&verb.as_str()) && named.is_none_or(is_own) {
        return Ok(None);
    }
    if verb == "spawn" {
        spawn_fields(&ctx, &mut fields)?;
    }
    fields.insert("verb".to_owned(), verb.clone().into());
    let request: LeadRequest = serde_json::from_value(fields.into()).map_err(|error| {
        let what =
            format!("an agent asks its supervisor for {verb}, and cannot in this way: {error}");
        Error::new(Code::Usage, what)
    })?;
    let is_spawn = verb == "spawn";
    let answered = ask(&ctx, &home, request, ui.format() != Format::Text)?;
    if is_spawn {
        let report = serde_json::from_str(&answered.out).unwrap_or_default();
        return ui.done(&SpawnedForLead(report)).map(Some);
    }
    ui.print(&answered.out)?;
    ui.say(&answered.err);
    Ok(Some(Exit::Child(answered.status)))
}

/// A verb of [`COMMANDS`] with the options and arguments that were given, by their names with `_` for `-`.
fn fields(arguments: &[OsString]) -> Option<(String, Map<String, Value>)> {
    let (_, verb) = usage_error::verb_among(arguments)?;
    let verb = verb.to_str()?;
    let command = COMMANDS.contains(&verb).then(|| verbs::verb(verb)).flatten()?;
    let matches = Cli::command().subcommand(command.clone());
    let matches = matches.try_get_matches_from(arguments).ok()?;
    let matches = matches.subcommand_matches(verb)?;
    let mut fields = Map::new();
    for argument in command.get_arguments() {
        let id = argument.get_id().as_str();
        // How the answer is written is no matter of the command.
        let is_of_answer = ["format", "no_pick"].contains(&id);
        if is_of_answer || matches.value_source(id) != Some(ValueSource::CommandLine) {
            continue;
        }
        let name = argument.get_long().unwrap_or(id).replace('-', "_");
        let texts: Vec<_> = matches
            .get_raw(id)
            .into_iter()
            .flatten()
            .map(|text| text.to_string_lossy().into_owned())
            .collect();
        let value = match (argument.get_action(), texts.as_slice()) {
            (ArgAction::SetTrue, _) => Value::Bool(true),
            (ArgAction::Append, _) => json!(texts),
            (_, [number]) if ["max_cost", "max_iterations"].contains(&name.as_str()) => {
                serde_json::from_str(number).unwrap_or_default()
            }
            (_, [text]) => json!(text),
            _ => json!(texts),
        };
        fields.insert(name, value);
    }
    Some((verb.to_owned(), fields))
}

/// The text of the task, and globs as they are from the top of the repository.
fn spawn_fields(ctx: &Ctx, fields: &mut Map<String, Value>) -> Result<()> {
    if let Some(tasks) = fields.remove("tasks") {
        let text = tasks.get(0).and_then(Value::as_str).unwrap_or_default();
        let others = tasks.get(1).is_some() || fields.contains_key("message");
        if others || !is_task_text(ctx, text) {
            let what = "an agent says a task in words, and one at a time";
            return Err(Error::new(Code::Usage, what)
                .hint("to spawn one, run git agent spawn -m <text> --scope <glob>"));
        }
        fields.insert("message".to_owned(), tasks);
    }
    for key in ["scope", "new", "deny"] {
        if let Some(Value::Array(globs)) = fields.get_mut(key) {
            let texts = globs.iter().map(|glob| glob.as_str().unwrap_or_default().to_owned());
            let globs_here = from_here(ctx, &texts.collect::<Vec<_>>());
            *globs = globs_here.into_iter().map(Value::from).collect();
        }
    }
    Ok(())
}

/// The answer to a request to spawn.
struct SpawnedForLead(Value);

impl AsJson for SpawnedForLead {
    fn json(&self) -> Value {
        self.0.clone()
    }
}

impl Answer for SpawnedForLead {
    fn text(&self) -> String {
        let field = |key| self.0.get(key).and_then(Value::as_str);
        let id = field("short_id").unwrap_or_default();
        let name = field("name").unwrap_or(id);
        format!("agent {name} ({id}) is ready\nnext: git agent run {name} --host <host>\n")
    }

    fn rows(&self) -> Vec<Value> {
        vec![self.json()]
    }
}
