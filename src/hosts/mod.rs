//! Agent hosts: the programs that run a coding agent. One file per host implements [`Host`].
//!
//! Everything that differs between hosts is here: the command line that starts one, the file in which it
//! learns about our hooks, the words of its hook payloads, the answer it understands and what it prints.
//! A host overrides only what it has. To add one, write its file and name it twice below: as a module
//! and in [`HOSTS`].
//!
//! ```text
//! run --host   Needs -> command::build -> HostCommand;  Ground -> Host::prepare -> Preparation;
//!              its output -> Host::told -> Told
//! init         Registration + the file that is there -> settings::merge -> the file to write
//! hook         bytes -> payload::read -> Payload (the sender, a ToolCall);  HookAnswer -> Host::denial, Host::addition
//! ```
//!
//! Text in, text out: no file is opened and no process started here. No other module names a host.

pub mod command;
pub mod home;
pub mod output;
pub mod payload;
pub mod settings;

mod aider;
mod claude;
mod cline;
mod codex;
mod copilot;
mod cursor;
mod gemini;
mod opencode;
mod qwen;
mod shell;

/// Every host, in the order of the documentation.
pub const HOSTS: [&dyn Host; 10] = [
    &claude::Claude,
    &codex::Codex,
    &gemini::Gemini,
    &qwen::Qwen,
    &copilot::Copilot,
    &cursor::Cursor,
    &opencode::Opencode,
    &cline::Cline,
    &aider::Aider,
    &shell::ShellHost,
];

/// The files in which a project tells hosts' agents what to heed, the preferred one first.
pub const INSTRUCTIONS: [&str; 3] = ["AGENTS.md", "CLAUDE.md", "GEMINI.md"];

pub use claude::WORKTREE_DIR;

use crate::domain::boundary::tool_call::HookEvent;
use crate::domain::life::agent::Agent;
use command::{CommandWords, Needs};
use home::{Ground, Preparation};
use output::{Shown, Told};
use payload::{EventNames, Json, ToolNames};
use serde_json::json;
use settings::{Distrust, Registered, Registration, TrustFiles};
use std::fmt;
use std::path::PathBuf;

/// How a session can be ended when it costs more than it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CostControl {
    /// What is started ends by itself, by an option or by our variable.
    Own,
    /// Its output tells the cost of each step.
    Cost,
    /// Its output tells the tokens of each step, and the cost follows from what they cost.
    Tokens,
    /// It tells of neither before it ends.
    Never,
}

/// What one agent host needs, sends and prints.
pub trait Host: Sync {
    /// The name used with `--host`.
    fn name(&self) -> &'static str;

    /// The program that `run --host` starts; `None` where `run` has no recipe for the host.
    fn program(&self) -> Option<&'static str> {
        None
    }

    /// Adds the arguments that start it without a terminal. The caller's own come after ours, so that
    /// theirs win.
    ///
    /// # Errors
    /// One sentence, when the host cannot be started with these needs.
    fn arguments(&self, _needs: &Needs<'_>, _line: &mut CommandWords) -> Result<(), String> {
        Ok(())
    }

    /// How a session of it ends that costs more than it may.
    fn cost_control(&self) -> CostControl {
        CostControl::Never
    }

    /// Whether it can go on with an earlier session without a terminal.
    fn resumes(&self) -> bool {
        false
    }

    /// What has to be there before `run --host` starts it.
    fn prepare(&self, _ground: &Ground<'_>) -> Preparation {
        Preparation::default()
    }

    /// Variables by which its user moves its directory, as [`Ground::variables`] holds them.
    fn home_variables(&self) -> &'static [&'static str] {
        &[]
    }

    /// What it told on standard output and standard error when it was started by our recipe.
    fn told(&self, _out: &str, _err: &str) -> Told {
        Told::default()
    }

    /// What a person is shown of a line of its standard output. A host that writes text has it shown as it is.
    fn shown(&self, line: &str) -> Vec<Shown> {
        vec![Shown::Said(line.to_owned())]
    }

    /// The file in which it learns about our hooks; `None` where `init` cannot register with it.
    fn registration(&self) -> Option<Registration> {
        None
    }

    /// Where it keeps what its user trusts; `None` where it runs every hook that is registered.
    fn trust_files(&self) -> Option<TrustFiles> {
        None
    }

    /// Why it does not run what is registered, by the texts of [`Host::trust_files`], which are empty where there is no file.
    fn distrust(&self, _files: &[String], _of: Registered<'_>) -> Option<Distrust> {
        None
    }

    /// A variable that the shells of its sessions have.
    fn shell_variable(&self) -> Option<&'static str> {
        None
    }

    /// Globs of a project's files that decide what it runs: settings, hooks, tool servers, definitions of agents.
    fn control_files(&self) -> &'static [&'static str] {
        &[]
    }

    /// The names of its hook events.
    fn events(&self) -> &'static [EventNames] {
        &[]
    }

    /// The names of its tools, in snake case.
    fn tools(&self) -> &'static [ToolNames] {
        &[]
    }

    /// Whether a hook payload is certainly this host's. Only a host with an answer or a payload of its own
    /// shape has to be told from the others.
    fn sent(&self, _payload: &Json) -> bool {
        false
    }

    /// The payload with its tool and arguments at the top, where all other hosts have them.
    fn unfold(&self, payload: Json) -> Json {
        payload
    }

    /// What goes to standard output with a denial. Its exit status is 2 and the reason is on standard error
    /// for every host.
    fn denial(&self, _event: &HookEvent, _reason: &str) -> String {
        String::new()
    }

    /// What goes to standard output, with status 0, so that a text is added to what a tool answered. Where this
    /// is `None`, status 2 and the text on standard error do that.
    fn addition(&self, _text: &str) -> Option<String> {
        None
    }

    /// The directories of a project in which it keeps skills, the preferred one first.
    fn skills(&self) -> &'static [&'static str] {
        &[]
    }

    /// The types that its agent tool knows in every project, the general one first; empty where it has no such tool
    /// or its tool takes no types.
    fn agent_types(&self) -> &'static [&'static str] {
        &[]
    }

    /// The directory in which a project, and its user below the home, define more types: a file `<type>.md` each.
    fn agent_type_directory(&self) -> Option<&'static str> {
        None
    }
}

impl fmt::Debug for dyn Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The hosts that `run --host` can start.
pub fn startable() -> impl Iterator<Item = &'static dyn Host> {
    HOSTS.into_iter().filter(|host| host.program().is_some())
}

/// Those of them whose program is in one of these directories; a shell, which is everywhere, is no agent.
pub fn installed(search: &[PathBuf]) -> impl Iterator<Item = &'static dyn Host> {
    startable().filter(move |host| {
        let program = host.program().filter(|program| *program != "sh");
        program.is_some_and(|program| search.iter().any(|place| place.join(program).is_file()))
    })
}

/// The host that this command line, as a row of the ledger has it, started.
pub fn of_command(command: &str) -> Option<&'static dyn Host> {
    let program = command.split_whitespace().next()?;
    startable().find(|host| host.program() == Some(program))
}

/// Whether the agent's last run was by a host that goes on with its session.
pub fn has_session(agent: &Agent) -> bool {
    let Some(run) = &agent.run else {
        return false;
    };
    let host = of_command(&run.started.command);
    let ended = run.end.as_ref().and_then(|(exited, _)| exited.session.id.as_ref());
    host.is_some_and(Host::resumes) && ended.is_some()
}

/// Where `init` registers, for every host that it can register with.
pub fn registrations() -> impl Iterator<Item = Registration> {
    HOSTS.into_iter().filter_map(|host| host.registration())
}

/// The host of this name.
pub fn named(name: &str) -> Option<&'static dyn Host> {
    HOSTS.into_iter().find(|host| host.name() == name)
}

/// The control files of every host, as globs.
pub fn control_files() -> impl Iterator<Item = &'static str> {
    let all = HOSTS.into_iter().flat_map(|host| host.control_files());
    all.copied()
}

/// The directories in which a project's skills are looked for, the first one found counts.
pub fn skill_directories() -> Vec<&'static str> {
    let all = HOSTS.into_iter().flat_map(|host| host.skills());
    all.copied().collect()
}

/// What is answered when a host's subagent starts, so that it is told a text. One host has such an event.
pub fn subagent_context(text: &str) -> String {
    context("SubagentStart", text)
}

/// An answer that adds a text at an event, as several hosts take it.
fn context(event: &str, text: &str) -> String {
    let context = json!({"hookEventName": event, "additionalContext": text});
    format!("{}\n", json!({ "hookSpecificOutput": context }))
}

/// Whether a project's settings, read by `load`, have a host ask us for the worktrees that it isolates its subagents in.
pub fn asks_for_worktrees(load: impl Fn(&str) -> Option<String>) -> bool {
    let asks = |text: String| text.contains("hook worktree-create");
    registrations().any(|one| !one.on_request.is_empty() && load(one.path).is_some_and(asks))
}

/// The type for a call of a host's agent tool: the one that is wanted if the host has it, as `is_defined` says of a file
/// below a project or a home, or if it is a plugin's; else the host's general one. A host refuses a type that it does not know.
pub fn agent_type(wanted: &str, is_defined: impl Fn(&str) -> bool) -> String {
    let own = |host: &&dyn Host| host.agent_types().contains(&wanted);
    let defined = |host: &&dyn Host| {
        let directory = host.agent_type_directory();
        directory.is_some_and(|directory| is_defined(&format!("{directory}/{wanted}.md")))
    };
    let known = wanted.contains(':') || HOSTS.iter().any(|host| own(host) || defined(host));
    let general = || HOSTS.iter().find_map(|host| host.agent_types().first());
    match general().filter(|_| !known) {
        Some(general) => (*general).to_owned(),
        None => wanted.to_owned(),
    }
}
