//! Reads what an agent host sends to a hook: one tolerant reader for the payloads of all hosts.
//!
//! Bytes become [`Json`], which keeps every one of several equal keys; the tool's name decides
//! through `tools` what it does; `paths` and `patch` find the files. Tolerant in shape (any
//! style of key, input as an object or as JSON in a text, any known key for a path), strict in
//! meaning: a writing tool whose files cannot all be told is [`Intent::Unreadable`], never guessed
//! at, because the caller denies that and allows what is merely unknown.
//!
//! Most payloads do not say which host sent them, so the names of every host's events and tools count,
//! whichever host sends them. A host whose shape is its own is asked for it ([`Host::sent`], [`Host::unfold`]).
//!
//! Nothing here looks at a file, and nothing panics, whatever the bytes.

mod json;
mod patch;
mod paths;

pub use json::Json;

use super::{HOSTS, Host};
use crate::domain::boundary::tool_call::{FileTouch, HookEvent, Intent, ToolCall};
use json::{Keys, squash};
use sha2::{Digest, Sha256};

/// The longest payload that is read, in bytes. A file that an agent writes in one call is far below.
pub const LONGEST_PAYLOAD: usize = 8 << 20;

/// Keys of a payload, squashed: which tool, with what, when, where.
const TOOL: Keys = &["toolname", "tool"];
const INPUT: Keys =
    &["toolinput", "toolargs", "args", "arguments", "input", "parameters", "params"];
const EVENT: Keys = &["hookeventname"];
/// What a tool answered: such a payload comes after it ran.
const RESULT: Keys = &["toolresult", "toolresponse"];
/// Why an agent stopped: such a payload comes when it wants to end.
const STOPPED: Keys = &["stopreason"];
const CWD: Keys = &["cwd"];
/// What no two calls of a session have in common.
const MARKS: Keys = &["tooluseid", "timestamp"];

/// Keys of a command line, among the arguments of a tool.
const COMMAND: Keys = &["command", "cmd", "commandline", "script"];

/// The moment in a session at which a hook is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Before a tool runs.
    PreTool,
    /// Before a file is read.
    PreRead,
    /// After a tool ran.
    PostTool,
    /// When a session begins or resumes.
    SessionStart,
    /// When an agent or one of its subagents wants to end.
    Stop,
    /// When the host wants a worktree.
    WorktreeCreate,
    /// When the host is done with a worktree.
    WorktreeRemove,
}

/// The names that a host has for one moment; compared without case and punctuation.
pub type EventNames = (Moment, &'static [&'static str]);

/// One payload.
#[derive(Clone, Debug)]
pub struct HookPayload {
    /// The host that sent it; `None` for a payload that several hosts could have sent.
    pub host: Option<&'static dyn Host>,
    /// What it asks for.
    pub call: ToolCall,
}

impl HookPayload {
    /// What goes to standard output with a denial of this call.
    pub fn denial(&self, reason: &str) -> String {
        let answer = |host: &dyn Host| host.denial(&self.call.event, reason);
        self.host.map(answer).unwrap_or_default()
    }

    /// What goes to standard output, with status 0, where a reason after a tool is added to what the tool
    /// answered.
    pub fn addition(&self, reason: &str) -> Option<String> {
        let after = self.call.event == HookEvent::PostTool;
        self.host.filter(|_| after)?.addition(reason)
    }
}

/// Reads a payload. Total: whatever cannot be read comes back as [`Intent::Unreadable`].
pub fn read(bytes: &[u8]) -> HookPayload {
    let digest = Sha256::digest(bytes).into();
    match parse(bytes) {
        Ok(json) => {
            let host = HOSTS.into_iter().find(|host| host.sent(&json));
            let json = match host {
                Some(host) => host.unfold(json),
                None => json,
            };
            let is_marked = MARKS.iter().any(|mark| json.has(mark));
            let call = ToolCall { digest, is_marked, ..call(json) };
            HookPayload { host, call }
        }
        Err(why) => HookPayload {
            host: None,
            call: ToolCall {
                event: HookEvent::Unstated,
                cwd: None,
                session: None,
                subagent: None,
                prompt: None,
                transcript: None,
                intent: Intent::Unreadable { tool: None, why },
                digest,
                is_marked: false,
            },
        },
    }
}

fn call(payload: Json) -> ToolCall {
    let event_name = payload.single(EVENT).ok().flatten();
    let event_name = event_name.unwrap_or_default().to_owned();
    // Some hosts name no event, and tell the end of a session by its reason alone.
    let stopped = || payload.all(STOPPED).next().map(|_| Moment::Stop);
    let moment = moment(&event_name).or_else(|| stopped().filter(|_| event_name.is_empty()));
    let event = event(moment, &event_name, &payload);
    let text = |keys: Keys| payload.single(keys).ok().flatten().map(str::to_owned);
    let (session, subagent) = (text(&["sessionid"]), text(&["agentid"]));
    let prompt = text(&["prompt"]);
    // Beside the session's own file, in a directory of that name.
    let of_session = text(&["transcriptpath"]);
    let transcript = match (&subagent, of_session) {
        (Some(id), Some(path)) => path
            .strip_suffix(".jsonl")
            .map(|directory| format!("{directory}/subagents/agent-{id}.jsonl")),
        (_, path) => path,
    };
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
        (Ok(None), Ok(cwd)) => (cwd, intent_without_tool(moment, &event, payload)),
    };
    let event = match (event, &intent) {
        // A call without an event is judged as one that is still to come, which is the stricter
        // reading.
        (HookEvent::Unstated, Intent::Unreadable { tool: None, .. }) => HookEvent::Unstated,
        (HookEvent::Unstated, _) => HookEvent::PreTool,
        (event, _) => event,
    };
    ToolCall {
        event,
        cwd,
        session,
        subagent,
        prompt,
        transcript,
        intent,
        digest: [0; 32],
        is_marked: false,
    }
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

/// The moment that an event's name stands for in some host.
fn moment(name: &str) -> Option<Moment> {
    let name = squash(name);
    let mut known = HOSTS.into_iter().flat_map(|host| host.events());
    known
        .find(|(_, names)| names.iter().any(|known| squash(known) == name))
        .map(|(moment, _)| *moment)
}

fn event(moment: Option<Moment>, name: &str, payload: &Json) -> HookEvent {
    let text = |keys: Keys| payload.single(keys).ok().flatten().map(str::to_owned);
    match moment {
        Some(Moment::PreTool | Moment::PreRead) => HookEvent::PreTool,
        Some(Moment::PostTool) => HookEvent::PostTool,
        Some(Moment::SessionStart) => HookEvent::SessionStart,
        Some(Moment::Stop) => HookEvent::Stop {
            // Anything but a plain "no" counts: an agent that can never stop is worse than one
            // that stops once too early.
            again: payload
                .all(&["stophookactive", "loopcount"])
                .any(|value| !matches!(value, Json::Bool(false) | Json::Number(0.0))),
        },
        Some(Moment::WorktreeCreate) => HookEvent::WorktreeCreate { name: text(&["name"]) },
        Some(Moment::WorktreeRemove) => HookEvent::WorktreeRemove { path: text(&["worktreepath"]) },
        None if squash(name).is_empty() && payload.all(RESULT).next().is_some() => {
            HookEvent::PostTool
        }
        None if squash(name).is_empty() => HookEvent::Unstated,
        None => HookEvent::Other(name.to_owned()),
    }
}

/// The directory of the call: `cwd`, or the workspace root where a host names only that.
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
    let (inputs, rest): (Vec<_>, Vec<_>) =
        members.into_iter().partition(|(key, _)| INPUT.contains(&key.as_str()));
    if inputs.is_empty() {
        vec![Json::Object(rest)]
    } else {
        inputs.into_iter().map(|(_, input)| input.unwrapped()).collect()
    }
}

fn intent_of_tool(tool: &str, inputs: &[Json]) -> Intent {
    let kind = kind(tool);
    match kind {
        Some(ToolKind::Deleter) => writes(tool, inputs, FileTouch::Delete),
        Some(ToolKind::Writer) => writes(tool, inputs, FileTouch::Write),
        Some(ToolKind::Editor) if only_views(inputs) => Intent::Reads,
        Some(ToolKind::Editor) => writes(tool, inputs, FileTouch::Write),
        Some(ToolKind::Spawner) => spawn(inputs),
        Some(ToolKind::Worktree) => Intent::EntersWorktree,
        Some(ToolKind::Shell) => shell(tool, inputs),
        // A tool that reads by its name, or that is not known, is judged by what it was given: a
        // path and a content mean writing.
        Some(ToolKind::Reader) | None if inputs.iter().any(paths::look_written) => {
            writes(tool, inputs, FileTouch::Write)
        }
        Some(ToolKind::Reader) => Intent::Reads,
        // An unknown tool may run a command, and there may be a patch in it.
        None => shell(tool, inputs),
    }
}

/// Some events carry the arguments without a tool's name.
fn intent_without_tool(moment: Option<Moment>, event: &HookEvent, payload: Json) -> Intent {
    if moment == Some(Moment::PreRead) {
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

fn writes(tool: &str, inputs: &[Json], touch: FileTouch) -> Intent {
    match paths::written(inputs, touch) {
        Ok(touched) => Intent::Writes(touched),
        Err(why) => Intent::Unreadable { tool: Some(tool.to_owned()), why },
    }
}

/// A command and the patches in it; a tool that is given no command is an unknown one.
fn shell(tool: &str, inputs: &[Json]) -> Intent {
    let of_keys = inputs.iter().flat_map(|input| input.all(COMMAND));
    // The input as a whole may be the command.
    let commands: Vec<String> = of_keys.chain(inputs).filter_map(Json::joined).collect();
    if commands.is_empty() {
        return Intent::Unknown { tool: tool.to_owned() };
    }
    let command = commands.join("\n");
    match paths::patched(&command, inputs) {
        Ok(patched) => Intent::Shell { command, patched },
        Err(why) => Intent::Unreadable { tool: Some(tool.to_owned()), why },
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
        prompt: text(&["prompt"]),
    }
}

/// Whether an editor tool is asked for its one command that changes nothing, and for nothing else.
fn only_views(inputs: &[Json]) -> bool {
    let mut commands = inputs.iter().flat_map(|input| input.all(&["command"]));
    let views = |value: &Json| matches!(value, Json::Text(text) if text == "view");
    commands.next().is_some_and(views) && commands.all(views)
}

// Tools that are known by name: those of every host, and those that editors and MCP file servers have
// for the same things.
//
// Names are compared without case and punctuation, so that `write_file` and `WriteFile` are one.
// Names of one word (`write`, `edit`, …) count only when they are the whole name: an MCP server's
// `mcp__tracker__create` has nothing to do with files. Names of several words also count at the
// end, as in `mcp__fs__write_file`.

/// What a tool does, by its name. Where hosts differ about a name, the first of these counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ToolKind {
    /// Changes or shows a file, as its `command` says.
    Editor,
    /// Deletes the files that its input names.
    Deleter,
    /// Creates or changes them.
    Writer,
    /// Runs a command.
    Shell,
    /// Starts an agent.
    Spawner,
    /// Enters or leaves a worktree of the host's.
    Worktree,
    /// Only looks.
    Reader,
}

/// Tools of one kind, in snake case.
pub type ToolNames = (ToolKind, &'static [&'static str]);

/// The kind of a tool; `None` for a tool that this version does not know.
fn kind(name: &str) -> Option<ToolKind> {
    let name = squash(name);
    let is_meant = |known: &&str| {
        let squashed = squash(known);
        name == squashed || (known.contains('_') && name.ends_with(&squashed))
    };
    let of_hosts = HOSTS.into_iter().flat_map(|host| host.tools());
    of_hosts
        .chain(OTHERS)
        .filter(|(_, names)| names.iter().any(is_meant))
        .map(|(kind, _)| *kind)
        .min()
}

/// What editors and MCP file servers use.
const OTHERS: &[ToolNames] = &[
    (ToolKind::Editor, &["str_replace_based_edit_tool"]),
    (ToolKind::Deleter, &["delete_file", "remove_file"]),
    (
        ToolKind::Writer,
        &[
            "edit_file",
            "create_file",
            "move_file",
            "rename_file",
            "append_to_file",
            "insert_edit_into_file",
            "replace_string_in_file",
            "edit_notebook_file",
        ],
    ),
    (ToolKind::Shell, &["run_in_terminal"]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_in_every_spelling_and_behind_a_server_name() {
        let writes = Some(ToolKind::Writer);
        let cases = [
            ("Write", writes),
            ("WRITE_FILE", writes),
            ("WriteFile", writes),
            ("mcp__fs__write_file", writes),
            ("fs-server/edit_file", writes),
            ("functions.apply_patch", writes),
            ("mcp__fs__delete_file", Some(ToolKind::Deleter)),
            ("mcp__e__str_replace_editor", Some(ToolKind::Editor)),
            ("MultiEdit", writes),
            ("Task", Some(ToolKind::Spawner)),
            ("TaskCreate", None),
            ("TodoWrite", None),
            ("mcp__tracker__create", None),
            ("mcp__tracker__task", None),
            ("ExitWorktree", Some(ToolKind::Worktree)),
            ("Read", Some(ToolKind::Reader)),
            ("", None),
            ("修复", None),
        ];
        for (name, expected) in cases {
            assert_eq!(kind(name), expected, "{name}");
        }
    }
}
