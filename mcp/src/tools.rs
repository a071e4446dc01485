//! The tools: which options of a command each takes, and which words of the command line its input becomes.
//!
//! The list is closed. What widens an agent's fence or lets its work out (`--sandbox`, `--allow-write`, `--allow-push`, `--no-verify`, `--path`,
//! `--into`, `--push`) is in none of them: that stays with a person at the command line.

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// A tool, which is the command of the same name.
#[derive(Debug)]
pub struct ToolTable {
    pub name: &'static str,
    what: &'static str,
    agents: Agents,
    /// Fields that are options of the command under the same name; a star stands before one that must be given.
    options: &'static [&'static str],
    /// The field whose texts stand after `--`.
    last: Option<&'static str>,
    /// Options that are always there.
    always: &'static [&'static str],
    effect: Effect,
}

/// How many agents a tool names.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Agents {
    None,
    One,
    Some,
}

/// What a tool changes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Effect {
    /// Nothing, so that its command can be ended at any moment.
    Nothing,
    /// What belongs to agents.
    Agents,
    /// As that, by a program that may use the network.
    World,
    /// The user's branch and files.
    Branch,
}

pub const TOOLS: &[ToolTable] = &[
    ToolTable {
        name: "spawn",
        what: "Make an agent for a task: a worktree, a branch and a prompt. Nothing is started; `run` does that",
        agents: Agents::None,
        options: &[
            "*message",
            "name",
            "scope",
            "new",
            "deny",
            "check",
            "role",
            "base",
            "exclusive",
            "sparse",
        ],
        last: None,
        always: &[],
        effect: Effect::Agents,
    },
    ToolTable {
        name: "run",
        what: "Run an agent host, or a command, for an agent in its worktree, wait until it is over, and judge the work. With \
               `background` it returns at once, and `wait` tells how it ended. Cancelling stops the run",
        agents: Agents::One,
        options: &[
            "host",
            "model",
            "timeout",
            "max_cost",
            "max_iterations",
            "resume",
            "message",
            "background",
            "no_wait",
        ],
        last: Some("command"),
        always: &[],
        effect: Effect::World,
    },
    ToolTable {
        name: "wait",
        what: "Wait until runs in the background are over, and tell how they ended. Cancelling ends the waiting, not the runs",
        agents: Agents::Some,
        options: &["timeout", "any"],
        last: None,
        always: &[],
        effect: Effect::Nothing,
    },
    ToolTable {
        name: "list",
        what: "List the agents: state, verdict, changes; those that are neither landed nor discarded, unless `all` is set",
        agents: Agents::None,
        options: &["all", "state", "role", "name", "fast"],
        last: None,
        always: &[],
        effect: Effect::Nothing,
    },
    ToolTable {
        name: "show",
        what: "Show one agent: its task, scope, state, runs and history",
        agents: Agents::One,
        options: &[],
        last: None,
        always: &[],
        effect: Effect::Nothing,
    },
    ToolTable {
        name: "diff",
        what: "Show what an agent changed since its base, committed or not: the paths, and the lines as a patch",
        agents: Agents::One,
        options: &["name_only", "since_verdict"],
        last: Some("paths"),
        always: &["--patch"],
        effect: Effect::Nothing,
    },
    ToolTable {
        name: "verify",
        what: "Judge an agent's work from git objects: its scope, its checks, whether it merges",
        agents: Agents::One,
        options: &["timeout"],
        last: None,
        always: &[],
        effect: Effect::Agents,
    },
    ToolTable {
        name: "merge",
        what: "Land an agent's accepted work on the branch that it started from, exactly as it was judged",
        agents: Agents::One,
        options: &["squash", "no_ff", "ff_only", "message", "dry_run"],
        last: None,
        always: &[],
        effect: Effect::Branch,
    },
    ToolTable {
        name: "send",
        what: "Send a message to agents or to the user; an agent that runs is told after its next tool call. Which fields `payload` \
               needs depends on the type: notify message; clarify question, context; handoff artifact_path, context_summary, \
               next_actions; review artifact_path, review_type; escalate issue, severity, recommendation; collaborate topic, deadline",
        agents: Agents::None,
        options: &["*type", "to", "from", "*payload", "priority", "reply_to"],
        last: None,
        always: &[],
        effect: Effect::Agents,
    },
];

/// A tool with the published schema of what it takes.
#[derive(Clone, Debug)]
pub struct Offer {
    pub table: &'static ToolTable,
    pub tool: Tool,
    properties: Map<String, Value>,
    required: Vec<&'static str>,
}

impl ToolTable {
    /// Whether its command changes nothing, so that it can be ended at any moment.
    pub fn only_looks(&self) -> bool {
        self.effect == Effect::Nothing
    }

    /// The tool as clients see it, of the published schemas of what the command takes and of what it answers.
    ///
    /// # Errors
    /// The name of an option that this `git-agent` does not have.
    pub fn offer(&'static self, input: &Value, answer: Value) -> Result<Offer, String> {
        let (mut properties, mut required) = (Map::new(), Vec::new());
        let what = "The agent: its short_id, id, name or branch";
        match self.agents {
            Agents::None => {}
            Agents::One => {
                required.push("agent");
                let schema = json!({ "type": "string", "description": what });
                properties.insert("agent".to_owned(), schema);
            }
            Agents::Some => {
                let what = format!("{what}; without any, every run that goes on");
                let schema =
                    json!({ "type": "array", "items": { "type": "string" }, "description": what });
                properties.insert("agents".to_owned(), schema);
            }
        }
        for option in self.options.iter().chain(&self.last) {
            let name = option.trim_start_matches('*');
            if name.len() < option.len() {
                required.push(name);
            }
            let Some(mut schema) = input["properties"].get(name).cloned() else {
                return Err(format!("{} has no option `{name}`", self.name));
            };
            // As text it could be `@FILE`, and a client has no business with the files of this machine.
            if name == "payload" {
                schema = json!({ "type": "object", "description": "What it says" });
            }
            properties.insert(name.to_owned(), schema);
        }
        let schema = json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        });
        let object = |value: Value| -> Arc<JsonObject> {
            Arc::new(value.as_object().cloned().unwrap_or_default())
        };
        let annotations = ToolAnnotations::new()
            .read_only(self.only_looks())
            .destructive(self.effect == Effect::Branch)
            .open_world(self.effect == Effect::World);
        let tool = Tool::new(self.name, self.what, object(schema))
            .with_raw_output_schema(object(answer))
            .with_annotations(annotations);
        Ok(Offer {
            table: self,
            tool,
            properties,
            required,
        })
    }
}

impl Offer {
    /// The words of the command.
    ///
    /// # Errors
    /// A sentence for a field that is missing, unknown or of another type.
    pub fn words(&self, input: &Map<String, Value>) -> Result<Vec<String>, String> {
        let table = self.table;
        let is_given = |name: &str| input.get(name).is_some_and(|value| !value.is_null());
        if let Some(missing) = self.required.iter().find(|name| !is_given(name)) {
            return Err(format!("{} needs `{missing}`", table.name));
        }
        let mut words = vec![table.name.to_owned(), "--format=json".to_owned()];
        words.extend(table.always.iter().map(|&word| word.to_owned()));
        let mut last = Vec::new();
        for (name, value) in input.iter().filter(|(_, value)| !value.is_null()) {
            let Some(schema) = self.properties.get(name) else {
                let known: Vec<_> = self.properties.keys().map(String::as_str).collect();
                let known = known.join(", ");
                return Err(format!("{} takes no `{name}`, but {known}", table.name));
            };
            let option = format!("--{}", name.replace('_', "-"));
            for text in texts(name, schema, value)? {
                // The system ends an argument at a NUL, and starts nothing that has one.
                if text.contains('\0') {
                    return Err(format!("`{name}` has a NUL"));
                }
                if table.last == Some(name) {
                    last.push(text);
                } else if ["agent", "agents"].contains(&name.as_str()) {
                    // It stands alone on the command line, so it must not look like an option.
                    if text.starts_with('-') || text.is_empty() {
                        return Err(format!("`{text}` names no agent"));
                    }
                    words.push(text);
                } else if schema["type"] == "boolean" {
                    words.push(option.clone());
                } else {
                    // In one word, so that no value is taken for an option.
                    words.push(format!("{option}={text}"));
                }
            }
        }
        if !last.is_empty() {
            words.push("--".to_owned());
            words.extend(last);
        }
        Ok(words)
    }
}

/// The texts that a value stands for; none for a flag that is not set, and an empty one for a flag that is.
fn texts(name: &str, schema: &Value, value: &Value) -> Result<Vec<String>, String> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let kind = schema["type"].as_str().unwrap_or_default();
    let texts = match (kind, value) {
        ("boolean", Value::Bool(is_set)) => Some(is_set.then(String::new).into_iter().collect()),
        ("object", Value::Object(_)) => Some(vec![value.to_string()]),
        ("array", Value::Array(items)) => items.iter().map(text).collect(),
        // A model that has one text often forgets the brackets.
        ("array" | "string", Value::String(one)) => Some(vec![one.clone()]),
        _ => None,
    };
    texts.ok_or_else(|| format!("`{name}` must be of type {kind}"))
}
