//! Qwen Code.
//!
//! It is made after Gemini CLI: its settings file for the system counts in every folder, and its home is one directory. Its hooks have
//! the names and the payloads of Claude Code's.

use super::command::{CommandWords, Needs};
use super::home::{Ground, Preparation, hooks};
use super::output::{Shown, Told, shown_of_messages, told_of_messages};
use super::payload::Json;
use super::settings::Registration;
use super::{CostControl, Host, context};
use crate::wire::put;
use serde_json::{Value, json};

/// Its directory, in place of `~/.qwen`.
const HOME: &str = "QWEN_HOME";

/// A settings file that counts in every folder.
const SYSTEM_SETTINGS: &str = "QWEN_CODE_SYSTEM_SETTINGS_PATH";

/// What a user's session has in its directory, and an agent's may read: settings, login, instructions, and
/// what extends the program.
const CONFIGURATION: [&str; 8] = [
    ".env",
    "QWEN.md",
    "agents",
    "commands",
    "extensions",
    "installation_id",
    "oauth_creds.json",
    "settings.json",
];

pub(super) struct Qwen;

impl Host for Qwen {
    fn name(&self) -> &'static str {
        "qwen"
    }

    fn control_files(&self) -> &'static [&'static str] {
        &["**/.qwen/**"]
    }

    fn program(&self) -> Option<&'static str> {
        Some("qwen")
    }

    fn arguments(&self, needs: &Needs<'_>, line: &mut CommandWords) -> Result<(), String> {
        line.add(["--output-format", "stream-json", "--approval-mode"]);
        line.add([match (needs.edits, needs.fenced) {
            // Behind our sandbox its shell is offered as well; what it leaves is judged after each command.
            (true, true) => "yolo",
            (true, false) => "auto-edit",
            (false, _) => "default",
        }]);
        if needs.fenced {
            line.add(["--sandbox=false"]);
        }
        if needs.private {
            line.add(["--chat-recording=false"]);
        }
        line.option("--model", needs.model);
        line.option("--max-session-turns", needs.max_iterations);
        line.option("--resume", needs.resume);
        line.add(needs.extra);
        Ok(())
    }

    fn cost_control(&self) -> CostControl {
        CostControl::Tokens
    }

    fn resumes(&self) -> bool {
        true
    }

    /// Its messages have the form of Claude Code's; what it was given from a cache is in the first number. The caller may have asked for
    /// one list of them.
    fn told(&self, out: &str, _err: &str) -> Told {
        let lines = serde_json::from_str::<Vec<Value>>(out.trim()).map(|messages| {
            let lines: Vec<_> = messages.iter().map(Value::to_string).collect();
            lines.join("\n")
        });
        told_of_messages(lines.as_deref().unwrap_or(out), &["/input_tokens"])
    }

    fn shown(&self, line: &str) -> Vec<Shown> {
        shown_of_messages(line)
    }

    /// Its events are Claude Code's, with the time in each and other tools.
    fn sent(&self, payload: &Json) -> bool {
        let tool = payload.single(&["toolname"]).ok().flatten();
        let is_own = tool.is_some_and(|tool| tool.starts_with(|c: char| c.is_ascii_lowercase()));
        is_own
            && payload.has("timestamp")
            && payload.has("hookeventname")
            && payload.has("tooluseid")
    }

    /// Of status 2 after a tool, it shows the model nothing.
    fn addition(&self, text: &str) -> Option<String> {
        Some(context("PostToolUse", text))
    }

    /// Without the version of its format it adds that to the file, which then is a change out of every agent's scope.
    fn registration(&self) -> Option<Registration> {
        Some(Registration {
            is_at_the_top: true,
            ..Registration::json(
                self.name(),
                ".qwen",
                ".qwen/settings.json",
                include_str!("registrations/qwen.json"),
            )
        })
    }

    fn shell_variable(&self) -> Option<&'static str> {
        Some("QWEN_CODE")
    }

    fn home_variables(&self) -> &'static [&'static str] {
        &[HOME]
    }

    fn prepare(&self, ground: &Ground<'_>) -> Preparation {
        let mut made = Preparation::default();
        let mut settings = hooks(self.registration(), ground.program);
        if ground.fenced {
            // A terminal for its shell is a device that our sandbox does not let it write.
            let shell = json!({ "shell": { "enableInteractiveShell": false } });
            put(&mut settings, "tools", shell);
        }
        let settings = made.keep(ground, "settings.json", settings.to_string());
        made.variables.push((SYSTEM_SETTINGS, settings.into()));
        if ground.fenced {
            let home = ground.scratch.join("qwen");
            let own = ground.own(HOME, ".qwen");
            made.link_in(&home, own.as_deref(), &CONFIGURATION);
            made.record(ground, &home.join("projects"), "qwen");
            made.variables.push((HOME, home.into()));
        }
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hosts::command::tests::{PLAIN, READING, check, full};
    use crate::hosts::output::Tokens;

    #[test]
    fn the_command_line_says_what_the_agent_needs() {
        check(&Qwen, &PLAIN, "qwen --output-format stream-json --approval-mode auto-edit");
        check(
            &Qwen,
            &full(&["--debug".into()]),
            "qwen --output-format stream-json --approval-mode yolo --sandbox=false --chat-recording=false --model m --max-session-turns 7 --debug",
        );
        check(&Qwen, &READING, "qwen --output-format stream-json --approval-mode default");
    }

    #[test]
    fn its_result_is_told() {
        let out = r#"[{"type":"system","session_id":"s"},{"type":"result","result":"Done.","session_id":"s",
            "usage":{"input_tokens":20,"output_tokens":10}}]"#;
        let expected = Told {
            words: Some("Done.".into()),
            session: Some("s".into()),
            cost_usd: None,
            tokens: Some(Tokens { input: 20, output: 10 }),
            is_whole: true,
        };
        assert_eq!(Qwen.told(out, ""), expected);
    }
}
