//! Copilot CLI.
//!
//! It reads hooks from files of its own and from `.claude/settings.json`, and its payload has the shape that
//! belongs to the file: from its own, a payload with `toolArgs` or `stopReason` and without the name of an event. Of
//! a denial in its own shape the model sees the reason only if it is JSON on standard output.

use super::Host;
use super::command::{CommandWords, Needs};
use super::home::{Ground, Preparation, hooks};
use super::output::{Shown, Told, json_lines, text};
use super::payload::{EventNames, Json, Moment, ToolKind, ToolNames};
use super::settings::{Distrust, Registered, Registration, TrustFiles, read_jsonc};
use crate::domain::boundary::tool_call::HookEvent;
use crate::domain::value::shell;
use serde_json::{Value, json};

/// Where it keeps configuration and state, in place of `~/.copilot`.
const HOME: &str = "COPILOT_HOME";

/// Where it unpacks itself, in `copilot/pkg`, and keeps the number of the device.
const CACHE: &str = "XDG_CACHE_HOME";

/// What a user's session has in its directory, and an agent's may read: settings, login, instructions, and
/// what extends the program.
const CONFIGURATION: [&str; 8] = [
    "agents",
    "config.json",
    "copilot-instructions.md",
    "installed-plugins",
    "instructions",
    "mcp-config.json",
    "settings.json",
    "skills",
];

pub(super) struct Copilot;

impl Host for Copilot {
    fn name(&self) -> &'static str {
        "copilot"
    }

    fn control_files(&self) -> &'static [&'static str] {
        &["**/.github/{hooks,copilot}/**", "**/.copilot/**"]
    }

    fn program(&self) -> Option<&'static str> {
        Some("copilot")
    }

    fn arguments(&self, needs: &Needs<'_>, line: &mut CommandWords) -> Result<(), String> {
        line.add(["--output-format", "json", "--no-ask-user"]);
        // Without a terminal it cannot ask: what is not allowed is denied.
        if needs.fenced {
            line.add(["--allow-all-tools"]);
        } else if needs.edits {
            line.add(["--allow-tool=write"]);
        }
        // Denied by name as well: what all tools are allowed would include writing.
        if !needs.edits {
            line.add(["--deny-tool=write"]);
        }
        // It names its session at its end alone. With a name that it is given, one that was killed can go on; the name of a known session
        // continues that.
        line.option("--session-id", Some(needs.resume.unwrap_or("{session}")));
        line.option("--model", needs.model);
        line.lacks("max_iterations", needs.max_iterations);
        line.add(needs.extra);
        Ok(())
    }

    /// Our hooks are a plugin, which needs no trusted folder.
    fn prepare(&self, ground: &Ground<'_>) -> Preparation {
        let mut made = Preparation::default();
        let plugin = json!({
            "name": "git-agent",
            "version": "1.0.0",
            "description": "Keeps an agent in its scope",
            "hooks": "hooks.json",
        });
        made.keep(ground, "plugin.json", plugin.to_string());
        let settings = hooks(self.registration(), ground.program);
        made.keep(ground, "hooks.json", settings.to_string());
        made.options = vec!["--plugin-dir".into(), ground.hooks.into()];
        if ground.fenced {
            let home = ground.scratch.join("copilot");
            let own = ground.own(HOME, ".copilot");
            made.link_in(&home, own.as_deref(), &CONFIGURATION);
            made.record(ground, &home.join("session-state"), "copilot");
            made.variables.push((HOME, home.into()));
            let cache = ground.scratch.join("cache");
            let own = ground.own(CACHE, ".cache").map(|own| own.join("copilot"));
            made.directories.push(cache.clone());
            // The program unpacks itself there, and would do so again in each run.
            made.link_in(&cache.join("copilot"), own.as_deref(), &["pkg"]);
            made.variables.push((CACHE, cache.into()));
        }
        made
    }

    fn shell_variable(&self) -> Option<&'static str> {
        Some("COPILOT_CLI")
    }

    fn trust_files(&self) -> Option<TrustFiles> {
        Some(TrustFiles { variable: HOME, below_home: ".copilot", names: &["config.json"] })
    }

    fn distrust(&self, files: &[String], of: Registered<'_>) -> Option<Distrust> {
        let (folder, config) = (of.folder?, read_jsonc(files.first()?));
        let lists = ["trusted_folders", "trustedFolders"].map(|key| config.get(key));
        let mut trusted = lists.into_iter().flatten().filter_map(Value::as_array).flatten();
        let is_trusted =
            trusted.any(|place| place.as_str().is_some_and(|place| folder.starts_with(place)));
        (!is_trusted).then(|| Distrust {
            what: format!("Copilot does not trust {} and runs no hooks there", folder.display()),
            command: format!(
                "cd {} && copilot  # then trust the folder for all sessions",
                shell::path(folder)
            ),
        })
    }

    fn home_variables(&self) -> &'static [&'static str] {
        &[HOME, CACHE]
    }

    fn resumes(&self) -> bool {
        true
    }

    fn told(&self, out: &str, _err: &str) -> Told {
        let session = |event: Value| text(&event, "/sessionId");
        Told {
            words: json_lines(out).rev().find_map(|event| last_words(&event)),
            session: json_lines(out).rev().find_map(session),
            ..Told::default()
        }
    }

    fn shown(&self, line: &str) -> Vec<Shown> {
        let Ok(event) = serde_json::from_str::<Value>(line) else {
            return vec![Shown::Said(line.to_owned())];
        };
        let shown = match text(&event, "/type").as_deref() {
            Some("assistant.message") => Shown::said(text(&event, "/data/content")),
            Some("tool.execution_start") => {
                let arguments = event.pointer("/data/arguments").unwrap_or(&Value::Null);
                Some(Shown::call(&text(&event, "/data/toolName").unwrap_or_default(), arguments))
            }
            Some("session.error") => Shown::said(text(&event, "/data/message")),
            _ => None,
        };
        shown.into_iter().collect()
    }

    fn registration(&self) -> Option<Registration> {
        Some(Registration {
            of_user: ".copilot/hooks/git-agent.json",
            ..Registration::json(
                self.name(),
                ".github/hooks",
                ".github/hooks/git-agent.json",
                include_str!("registrations/copilot.json"),
            )
        })
    }

    fn events(&self) -> &'static [EventNames] {
        &[
            (Moment::PreTool, &["preToolUse"]),
            (Moment::PostTool, &["postToolUse"]),
            (Moment::SessionStart, &["sessionStart"]),
            (Moment::Stop, &["agentStop", "subagentStop"]),
        ]
    }

    fn tools(&self) -> &'static [ToolNames] {
        &[
            (ToolKind::Editor, &["str_replace_editor"]),
            (ToolKind::Writer, &["create", "edit", "apply_patch"]),
            (ToolKind::Shell, &["bash", "powershell"]),
            (ToolKind::Spawner, &["task"]),
            (ToolKind::Reader, &["view"]),
        ]
    }

    fn sent(&self, payload: &Json) -> bool {
        let own = payload.has("toolargs") || payload.has("stopreason");
        own && !payload.has("hookeventname")
    }

    fn denial(&self, event: &HookEvent, reason: &str) -> String {
        match event {
            HookEvent::PreTool => {
                let answer =
                    json!({"permissionDecision": "deny", "permissionDecisionReason": reason});
                format!("{answer}\n")
            }
            HookEvent::Stop { .. } => {
                format!("{}\n", json!({"decision": "block", "reason": reason}))
            }
            _ => String::new(),
        }
    }

    fn addition(&self, text: &str) -> Option<String> {
        Some(format!("{}\n", json!({ "additionalContext": text })))
    }
}

/// What an event says when it is a message of the agent with words in it, or the failure of the session.
fn last_words(event: &Value) -> Option<String> {
    match event.get("type")?.as_str()? {
        "assistant.message" => text(event, "/data/content").filter(|words| !words.is_empty()),
        "session.error" => text(event, "/data/message"),
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
        let always = "copilot --output-format json --no-ask-user";
        let named = "--session-id {session}";
        check(&Copilot, &PLAIN, &format!("{always} --allow-tool=write {named}"));
        let extra = ["--no-color".into()];
        let fenced = format!("{always} --allow-all-tools {named} --model m --no-color");
        check(&Copilot, &full(&extra), &fenced);
        let reading = format!("{always} --deny-tool=write {named}");
        check(&Copilot, &READING, &reading);
        let command = build(&Copilot, &full(&[])).expect("a command line");
        assert_eq!(command.without_flag, ["max_iterations"]);
    }

    #[test]
    fn its_last_message_or_failure_is_told() {
        let messages = r#"{"type":"assistant.message","data":{"content":"Done."}}
            {"type":"assistant.message","data":{"content":"","toolRequests":[]}}
            {"type":"result","sessionId":"s","usage":{"premiumRequests":0}}"#;
        let told = Copilot.told(messages, "");
        assert_eq!(told.words.as_deref(), Some("Done."));
        assert_eq!(told.session.as_deref(), Some("s"));
        let failed = r#"{"type":"session.error","data":{"message":"Authentication failed"}}
            {"type":"result","sessionId":"s"}"#;
        let words = Copilot.told(failed, "").words;
        assert_eq!(words.as_deref(), Some("Authentication failed"));
    }
}
