//! Codex CLI.
//!
//! It runs hooks only after they were trusted, and skips the others in silence. Its tool for files takes a
//! patch in a form of its own; the same patch may stand in a shell command.

use super::command::{CommandWords, Needs};
use super::home::{Ground, Preparation, hooks};
use super::output::{Shown, Tokens, Told, json_lines, text};
use super::payload::{Json, ToolKind, ToolNames};
use super::settings::{Distrust, Registered, Registration, TrustFiles};
use super::{Host, context};
use crate::domain::value::shell;
use serde_json::{Value, json};

/// Where it keeps configuration and state, in place of `~/.codex`.
const HOME: &str = "CODEX_HOME";

/// What a user's session has in its directory, and an agent's may read: settings, login, instructions, and
/// what extends the program.
const CONFIGURATION: [&str; 7] =
    ["AGENTS.md", "auth.json", "config.toml", "plugins", "prompts", "rules", "skills"];

pub(super) struct Codex;

impl Host for Codex {
    fn name(&self) -> &'static str {
        "codex"
    }

    fn control_files(&self) -> &'static [&'static str] {
        &["**/.codex/**"]
    }

    fn program(&self) -> Option<&'static str> {
        Some("codex")
    }

    fn arguments(&self, needs: &Needs<'_>, line: &mut CommandWords) -> Result<(), String> {
        line.add(["exec", "--json", "-s"]);
        line.add([match (needs.fenced, needs.edits) {
            (true, _) => "danger-full-access",
            (false, true) => "workspace-write",
            (false, false) => "read-only",
        }]);
        if needs.private {
            line.add(["--ephemeral"]);
        }
        line.option("-m", needs.model);
        line.lacks("max_iterations", needs.max_iterations);
        line.add(needs.extra);
        // Behind all options, which belong to the command above this one.
        if let Some(session) = needs.resume {
            line.add(["resume", session]);
        }
        // The prompt comes by standard input.
        line.add(["-"]);
        Ok(())
    }

    fn resumes(&self) -> bool {
        true
    }

    fn told(&self, out: &str, _err: &str) -> Told {
        let mut tokens = Tokens::default();
        // Each turn counts the session from its beginning.
        if let Some(turn) = json_lines(out).rfind(|event| event.get("usage").is_some()) {
            let input = ["/usage/input_tokens"];
            tokens.add(&turn, &input, &["/usage/output_tokens"]);
        }
        Told {
            words: json_lines(out).rev().find_map(|event| last_words(&event)),
            session: json_lines(out).find_map(|event| text(&event, "/thread_id")),
            cost_usd: None,
            tokens: tokens.some(),
            is_whole: true,
        }
    }

    fn shown(&self, line: &str) -> Vec<Shown> {
        let Ok(event) = serde_json::from_str::<Value>(line) else {
            return vec![Shown::Said(line.to_owned())];
        };
        let is = |kind: &str| event.get("type").is_some_and(|is| is == kind);
        let item = event.get("item").unwrap_or(&Value::Null);
        let shown = match text(item, "/type").as_deref() {
            Some("command_execution") if is("item.started") => Some(Shown::call("run", item)),
            Some("agent_message") if is("item.completed") => Shown::said(text(item, "/text")),
            Some("file_change") if is("item.completed") => {
                let change = item.pointer("/changes/0").unwrap_or(&Value::Null);
                Some(Shown::call("change", change))
            }
            Some("mcp_tool_call") if is("item.started") => {
                Some(Shown::call(&text(item, "/tool").unwrap_or_default(), item))
            }
            _ if is("turn.failed") => Shown::said(text(&event, "/error/message")),
            _ => None,
        };
        shown.into_iter().collect()
    }

    fn registration(&self) -> Option<Registration> {
        Some(Registration::json(
            self.name(),
            ".codex",
            ".codex/hooks.json",
            include_str!("registrations/codex.json"),
        ))
    }

    fn shell_variable(&self) -> Option<&'static str> {
        Some("CODEX_THREAD_ID")
    }

    fn trust_files(&self) -> Option<TrustFiles> {
        Some(TrustFiles { variable: HOME, below_home: ".codex", names: &["config.toml"] })
    }

    /// It reads the hooks of the main worktree for every linked one, and keeps for each hook what it was when it was trusted.
    fn distrust(&self, files: &[String], of: Registered<'_>) -> Option<Distrust> {
        let config = files.first()?.parse::<toml::Table>().unwrap_or_default();
        let trusts_folder = of.folder.is_none_or(|folder| {
            let project = config.get("projects").and_then(|all| all.get(folder.to_str()?));
            let level = project.and_then(|project| project.get("trust_level")?.as_str());
            level == Some("trusted")
        });
        let hooks = config.get("hooks").and_then(|hooks| hooks.get("state")?.as_table());
        let begin = format!("{}:", of.file.display());
        let trusts_hooks =
            hooks.is_some_and(|hooks| hooks.keys().any(|key| key.starts_with(&begin)));
        let there = shell::path(of.folder.or(of.file.parent())?);
        (!trusts_folder || !trusts_hooks).then(|| Distrust {
            what: format!(
                "Codex skips the hooks of {} without a word until it trusts them",
                of.file.display()
            ),
            command: format!("cd {there} && codex  # then trust the folder, and /hooks"),
        })
    }

    fn home_variables(&self) -> &'static [&'static str] {
        &[HOME]
    }

    fn prepare(&self, ground: &Ground<'_>) -> Preparation {
        let mut made = Preparation::default();
        let settings = hooks(self.registration(), ground.program);
        let events = settings.get("hooks").and_then(Value::as_object);
        for (event, entries) in events.into_iter().flatten() {
            made.options.push("-c".into());
            made.options.push(format!("hooks.{event}={}", toml(entries)).into());
        }
        // A login shell would lose the PATH on which this program is.
        (made.options).extend(["-c".into(), "allow_login_shell=false".into()]);
        // Else they are skipped in silence.
        made.options.push("--dangerously-bypass-hook-trust".into());
        if ground.fenced {
            let home = ground.scratch.join("codex");
            let own = ground.own(HOME, ".codex");
            made.link_in(&home, own.as_deref(), &CONFIGURATION);
            made.record(ground, &home.join("sessions"), "codex");
            made.variables.push((HOME, home.into()));
        } else {
            // Its own sandbox stays on, and would keep the agent from sending messages.
            let spool = json!([ground.spool.to_string_lossy()]);
            let roots = format!("sandbox_workspace_write.writable_roots={}", toml(&spool));
            made.options.extend(["-c".into(), roots.into()]);
        }
        made
    }

    fn tools(&self) -> &'static [ToolNames] {
        &[
            (ToolKind::Writer, &["apply_patch"]),
            (ToolKind::Shell, &["shell", "local_shell", "exec_command"]),
            (ToolKind::Spawner, &["spawn_agent"]),
        ]
    }

    /// No other host counts turns.
    fn sent(&self, payload: &Json) -> bool {
        payload.has("turnid")
    }

    /// Status 2 would put the text in the place of what the tool answered.
    fn addition(&self, text: &str) -> Option<String> {
        Some(context("PostToolUse", text))
    }

    fn skills(&self) -> &'static [&'static str] {
        &[".agents/skills", ".codex/skills"]
    }
}

/// A value as it is written behind `-c key=`: TOML on one line.
fn toml(value: &Value) -> String {
    match toml::Value::try_from(value) {
        Ok(value) => value.to_string(),
        Err(_) => String::new(),
    }
}

/// What an event says when it is a finished message of the agent, or the failure of its turn.
fn last_words(event: &Value) -> Option<String> {
    let kind = |pointer: &str| event.pointer(pointer).and_then(Value::as_str);
    match (kind("/type")?, kind("/item/type")) {
        ("item.completed", Some("agent_message")) => text(event, "/item/text"),
        ("turn.failed", _) => text(event, "/error/message"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hosts::command::build;
    use crate::hosts::command::tests::{PLAIN, READING, check, full};

    #[test]
    fn the_command_line_says_what_the_agent_needs() {
        check(&Codex, &PLAIN, "codex exec --json -s workspace-write -");
        let extra = ["-c".into(), "a=1".into()];
        check(
            &Codex,
            &full(&extra),
            "codex exec --json -s danger-full-access --ephemeral -m m -c a=1 -",
        );
        check(&Codex, &READING, "codex exec --json -s read-only -");
        let command = build(&Codex, &full(&[])).expect("a command line");
        assert_eq!(command.without_flag, ["max_iterations"]);
    }

    #[test]
    fn its_last_message_or_failure_is_told() {
        let messages = r#"{"type":"thread.started","thread_id":"t"}
            {"type":"item.completed","item":{"type":"agent_message","text":"First."}}
            {"type":"item.completed","item":{"type":"agent_message","text":"Done."}}
            {"type":"item.completed","item":{"type":"reasoning","text":"Hm."}}
            {"type":"turn.completed","usage":{"input_tokens":80,"cached_input_tokens":8,"output_tokens":40}}"#;
        let expected = Told {
            words: Some("Done.".into()),
            session: Some("t".into()),
            cost_usd: None,
            tokens: Some(Tokens { input: 80, output: 40 }),
            is_whole: true,
        };
        assert_eq!(Codex.told(messages, ""), expected);
        let failed = r#"{"type":"item.completed","item":{"type":"error","message":"a notice"}}
            {"type":"error","message":"Reconnecting... 1/1"}
            {"type":"turn.failed","error":{"message":"unexpected status 401 Unauthorized"}}"#;
        let words = Codex.told(failed, "").words;
        assert_eq!(words.as_deref(), Some("unexpected status 401 Unauthorized"));
    }
}
