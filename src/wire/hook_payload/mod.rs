//! Reads what an agent host sends to a hook: one tolerant reader for the payloads of Claude Code,
//! Codex, Gemini, Copilot, Cursor and opencode.
//!
//! Bytes become `Json`, which keeps every one of several equal keys; the tool's name decides
//! through `tools` what it does; `paths` and `patch` find the files. Tolerant in shape (any
//! style of key, input as an object or as JSON in a text, any known key for a path), strict in
//! meaning: a writing tool whose files cannot all be told is [`Intent::Unreadable`], never guessed
//! at, because the caller denies that and allows what is merely unknown.
//!
//! Nothing here looks at a file, and nothing panics, whatever the bytes. The keys per host are listed
//! in `docs/hosts.md`.

mod json;
mod patch;
mod paths;
mod tools;

use crate::domain::tool_call::{HookEvent, Intent, ToolCall, Touch};
use json::{Json, Keys, squash};
use tools::Kind;

/// The longest payload that is read, in bytes. A file that an agent writes in one call is far below.
pub const LONGEST_PAYLOAD: usize = 8 << 20;

/// Keys of a payload, squashed: which tool, with what, when, where.
const TOOL: Keys = &["toolname", "tool"];
const INPUT: Keys = &[
    "toolinput",
    "toolargs",
    "args",
    "arguments",
    "input",
    "parameters",
    "params",
];
const EVENT: Keys = &["hookeventname"];
const CWD: Keys = &["cwd"];

/// Keys of a command line, among the arguments of a tool.
const COMMAND: Keys = &["command", "cmd", "commandline", "script"];

/// What a payload asks for. Total: whatever cannot be read comes back as [`Intent::Unreadable`].
pub fn read(bytes: &[u8]) -> ToolCall {
    let payload = match parse(bytes) {
        Ok(payload) => payload,
        Err(why) => {
            return ToolCall {
                event: HookEvent::Unstated,
                cwd: None,
                intent: Intent::Unreadable { tool: None, why },
            };
        }
    };
    let event_name = payload.single(EVENT).ok().flatten();
    let event_name = event_name.unwrap_or_default().to_owned();
    let event = event(&event_name, &payload);
    let (cwd, intent) = match (payload.single(TOOL), cwd(&payload)) {
        (Err(why), _) => (None, Intent::Unreadable { tool: None, why }),
        (Ok(tool), Err(why)) => {
            let tool = tool.map(str::to_owned);
            (None, Intent::Unreadable { tool, why })
        }
        (Ok(Some(tool)), Ok(cwd)) => {
            let tool = tool.to_owned();
            (cwd, intent_of_tool(&tool, &inputs(payload)))
        }
        (Ok(None), Ok(cwd)) => (cwd, intent_without_tool(&event, &event_name, payload)),
    };
    let event = match (event, &intent) {
        (HookEvent::Unstated, Intent::Unreadable { tool: None, .. }) => HookEvent::Unstated,
        (HookEvent::Unstated, _) => HookEvent::PreTool,
        (event, _) => event,
    };
    ToolCall { event, cwd, intent }
}

fn parse(bytes: &[u8]) -> Result<Json, String> {
    if bytes.len() > LONGEST_PAYLOAD {
        return Err("the hook payload is longer than 8 MiB".to_owned());
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    match Json::parse(bytes) {
        Ok(payload @ Json::Object(_)) => Ok(payload),
        Ok(_) => Err("the hook payload is not a JSON object".to_owned()),
        Err(error) => Err(format!("the hook payload is not JSON: {error}")),
    }
}

fn event(name: &str, payload: &Json) -> HookEvent {
    let text = |keys: Keys| payload.single(keys).ok().flatten().map(str::to_owned);
    match squash(name).as_str() {
        "" => HookEvent::Unstated,
        "pretooluse"
        | "beforetool"
        | "beforeshellexecution"
        | "beforemcpexecution"
        | "beforereadfile"
        | "toolexecutebefore" => HookEvent::PreTool,
        "posttooluse" | "aftertool" | "afterfileedit" | "toolexecuteafter" => HookEvent::PostTool,
        "sessionstart" => HookEvent::SessionStart,
        "stop" | "subagentstop" | "agentstop" | "afteragent" => HookEvent::Stop {
            // Anything but a plain "no" counts: an agent that can never stop is worse than one
            // that stops once too early.
            again: payload
                .all(&["stophookactive", "loopcount"])
                .any(|value| !matches!(value, Json::Bool(false) | Json::Number(0.0))),
        },
        "worktreecreate" => HookEvent::WorktreeCreate {
            name: text(&["name"]),
        },
        "worktreeremove" => HookEvent::WorktreeRemove {
            path: text(&["worktreepath"]),
        },
        _ => HookEvent::Other(name.to_owned()),
    }
}

/// The directory of the call: `cwd`, or the workspace root where a host (Cursor) names only that.
///
/// # Errors
/// A sentence, when it is given twice: relative paths would mean two files.
fn cwd(payload: &Json) -> Result<Option<String>, String> {
    let stated = payload.single(CWD)?;
    let mut roots = payload.all(&["workspaceroots"]);
    let only_root = match (roots.next(), roots.next()) {
        (Some(Json::List(roots)), None) => match roots.as_slice() {
            [Json::Text(root)] => Some(root.as_str()),
            _ => None,
        },
        _ => None,
    };
    let absolute = |path: &&str| path.starts_with('/');
    Ok(stated.or(only_root).filter(absolute).map(str::to_owned))
}

/// What the tool gets: every input of the payload, or the payload itself when it is flat.
fn inputs(payload: Json) -> Vec<Json> {
    let Json::Object(members) = payload else {
        return Vec::new();
    };
    let (inputs, rest): (Vec<_>, Vec<_>) = members
        .into_iter()
        .partition(|(key, _)| INPUT.contains(&key.as_str()));
    match inputs.is_empty() {
        true => vec![Json::Object(rest)],
        false => inputs
            .into_iter()
            .map(|(_, input)| input.unwrapped())
            .collect(),
    }
}

fn intent_of_tool(tool: &str, inputs: &[Json]) -> Intent {
    let kind = tools::kind(tool);
    match kind {
        Some(Kind::Writer(touch)) => writes(tool, inputs, touch),
        Some(Kind::Editor) if only_views(inputs) => Intent::Reads,
        Some(Kind::Editor) => writes(tool, inputs, Touch::Write),
        Some(Kind::Spawner) => spawn(inputs),
        Some(Kind::Worktree) => Intent::EntersWorktree,
        Some(Kind::Shell) => shell(tool, inputs),
        Some(Kind::Reader) | None if inputs.iter().any(paths::look_written) => {
            writes(tool, inputs, Touch::Write)
        }
        Some(Kind::Reader) => Intent::Reads,
        None => shell(tool, inputs),
    }
}

/// Cursor's own events carry the arguments without a tool's name.
fn intent_without_tool(event: &HookEvent, event_name: &str, payload: Json) -> Intent {
    if squash(event_name) == "beforereadfile" {
        return Intent::Reads;
    }
    match event {
        HookEvent::PreTool | HookEvent::PostTool | HookEvent::Unstated => {
            match intent_of_tool("", &inputs(payload)) {
                Intent::Unknown { .. } => Intent::Unreadable {
                    tool: None,
                    why: "the hook payload names no tool".to_owned(),
                },
                Intent::Unreadable { why, .. } => Intent::Unreadable { tool: None, why },
                known => known,
            }
        }
        _ => Intent::NoTool,
    }
}

fn writes(tool: &str, inputs: &[Json], touch: Touch) -> Intent {
    match paths::written(inputs, touch) {
        Ok(touched) => Intent::Writes(touched),
        Err(why) => Intent::Unreadable {
            tool: Some(tool.to_owned()),
            why,
        },
    }
}

/// A command and the patches in it; a tool that is given no command is an unknown one.
fn shell(tool: &str, inputs: &[Json]) -> Intent {
    let of_keys = inputs.iter().flat_map(|input| input.all(COMMAND));
    let commands: Vec<String> = of_keys.chain(inputs).filter_map(Json::joined).collect();
    if commands.is_empty() {
        return Intent::Unknown {
            tool: tool.to_owned(),
        };
    }
    let command = commands.join("\n");
    match paths::patched(&command, inputs) {
        Ok(patched) => Intent::Shell { command, patched },
        Err(why) => Intent::Unreadable {
            tool: Some(tool.to_owned()),
            why,
        },
    }
}

fn spawn(inputs: &[Json]) -> Intent {
    let text = |keys: Keys| {
        let mut found = inputs.iter().filter_map(|input| input.single(keys).ok()?);
        found.next().map(str::to_owned)
    };
    Intent::SpawnsAgent {
        subagent_type: text(&["subagenttype", "agenttype"]),
        isolation: text(&["isolation"]),
    }
}

/// Whether an editor tool is asked for its one command that changes nothing, and for nothing else.
fn only_views(inputs: &[Json]) -> bool {
    let mut commands = inputs.iter().flat_map(|input| input.all(&["command"]));
    let views = |value: &Json| matches!(value, Json::Text(text) if text == "view");
    commands.next().is_some_and(views) && commands.all(views)
}
