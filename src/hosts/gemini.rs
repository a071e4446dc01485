//! Gemini CLI.
//!
//! Its settings count milliseconds. It takes exit 2 with a JSON decision on standard output for a yes, and
//! shows the user what an allowing hook writes to standard error.

use super::command::{CommandWords, Needs};
use super::home::{Ground, Preparation, hooks};
use super::output::{Shown, Tokens, Told, first_object, json_lines, text};
use super::payload::{EventNames, Json, Moment, ToolKind, ToolNames};
use super::settings::{Distrust, Registered, Registration, TrustFiles, read_jsonc};
use super::{Host, context};
use crate::domain::value::shell;
use serde_json::Value;
use std::path::Path;

/// Where its directory is, in place of the user's home.
const HOME: &str = "GEMINI_CLI_HOME";

/// Its directory.
const DIRECTORY: &str = ".gemini";

/// A settings file that counts in folders that are not trusted as well. It must not lie below a directory
/// that others can write, or it is skipped.
const SYSTEM_SETTINGS: &str = "GEMINI_CLI_SYSTEM_SETTINGS_PATH";

/// What a user's session has in its directory, and an agent's may read: settings, login, instructions, and
/// what extends the program.
const CONFIGURATION: [&str; 11] = [
    ".env",
    "GEMINI.md",
    "agents",
    "commands",
    "extensions",
    "google_accounts.json",
    "installation_id",
    "oauth_creds.json",
    "policies",
    "settings.json",
    "skills",
];

pub(super) struct Gemini;

impl Host for Gemini {
    fn name(&self) -> &'static str {
        "gemini"
    }

    fn control_files(&self) -> &'static [&'static str] {
        &["**/.gemini/**"]
    }

    fn program(&self) -> Option<&'static str> {
        Some("gemini")
    }

    fn arguments(&self, needs: &Needs<'_>, line: &mut CommandWords) -> Result<(), String> {
        // An empty prompt has it work without a terminal, and take the prompt from standard input.
        line.add(["-p", "", "--output-format", "stream-json", "--skip-trust"]);
        line.add(["--approval-mode"]);
        line.add([match (needs.edits, needs.fenced) {
            // Behind our sandbox its shell is offered as well; what it leaves is judged after each command.
            (true, true) => "yolo",
            (true, false) => "auto_edit",
            (false, _) => "default",
        }]);
        if needs.fenced {
            line.add(["--sandbox=false"]);
        }
        line.option("-m", needs.model);
        line.lacks("max_iterations", needs.max_iterations);
        line.option("--resume", needs.resume);
        line.add(needs.extra);
        Ok(())
    }

    fn resumes(&self) -> bool {
        true
    }

    /// It streams events. Asked for one object by the caller, it may write notes of its own before that, and of a failure tells at the end of
    /// standard error.
    fn told(&self, out: &str, err: &str) -> Told {
        let (mut told, mut tokens) = (Told::default(), Tokens::default());
        let (mut is_stream, mut is_going_on) = (false, false);
        for event in json_lines(out) {
            let kind = text(&event, "/type").unwrap_or_default();
            is_stream |= kind == "init";
            told.session = text(&event, "/session_id").or(told.session);
            let piece = said(&event);
            if let Some(piece) = piece {
                // Pieces that follow one another are one answer; anything in between begins a new
                // one.
                let before = told.words.take().filter(|_| is_going_on);
                told.words = Some(before.unwrap_or_default() + piece);
            }
            is_going_on = piece.is_some();
            if kind == "result" {
                told.words = text(&event, "/error/message").or(told.words);
                tokens.add(&event, &["/stats/input_tokens"], &["/stats/output_tokens"]);
            }
        }
        told.words = told.words.map(|words| words.trim().to_owned());
        told.tokens = tokens.some();
        if is_stream {
            return told;
        }
        // The error is an object at the end, behind whatever else was said there.
        let failed = || first_object(err.get(err.rfind("\n{")?..)?);
        let result = first_object(out).or_else(failed).unwrap_or_default();
        let models = result.pointer("/stats/models").and_then(Value::as_object);
        for (_, used) in models.into_iter().flatten() {
            let output = ["/tokens/candidates", "/tokens/thoughts"];
            tokens.add(used, &["/tokens/prompt"], &output);
        }
        Told {
            words: text(&result, "/response").or_else(|| text(&result, "/error/message")),
            session: text(&result, "/session_id"),
            cost_usd: None,
            tokens: tokens.some(),
            is_whole: false,
        }
    }

    fn shown(&self, line: &str) -> Vec<Shown> {
        let Ok(event) = serde_json::from_str::<Value>(line) else {
            return vec![Shown::Said(line.to_owned())];
        };
        let call = || {
            let name = text(&event, "/tool_name")?;
            Some(Shown::call(&name, event.get("parameters")?))
        };
        let piece = said(&event).map(|piece| Shown::Piece(piece.to_owned()));
        let failed = || Shown::said(text(&event, "/error/message"));
        piece.or_else(call).or_else(failed).into_iter().collect()
    }

    fn registration(&self) -> Option<Registration> {
        Some(Registration {
            is_at_the_top: true,
            ..Registration::json(
                self.name(),
                ".gemini",
                ".gemini/settings.json",
                include_str!("registrations/gemini.json"),
            )
        })
    }

    fn shell_variable(&self) -> Option<&'static str> {
        Some("GEMINI_CLI")
    }

    fn trust_files(&self) -> Option<TrustFiles> {
        Some(TrustFiles {
            variable: HOME,
            below_home: "",
            names: &[".gemini/trustedFolders.json", ".gemini/settings.json"],
        })
    }

    /// Of several folders that hold this one the nearest counts.
    fn distrust(&self, files: &[String], of: Registered<'_>) -> Option<Distrust> {
        let folder = of.folder?;
        let [rules, settings] = [files.first(), files.get(1)]
            .map(|text| text.map_or(Value::Null, |text| read_jsonc(text)));
        let is_off = settings.pointer("/security/folderTrust/enabled") == Some(&Value::Bool(false));
        let rules = rules.as_object();
        let nearest = rules.into_iter().flatten().filter_map(|(place, level)| {
            let (place, level) = (Path::new(place), level.as_str()?);
            let trusted = if level == "TRUST_PARENT" { place.parent()? } else { place };
            folder
                .starts_with(trusted)
                .then(|| (trusted.components().count(), level != "DO_NOT_TRUST"))
        });
        let is_trusted = nearest.max().is_some_and(|(_, is_trusted)| is_trusted);
        (!is_off && !is_trusted).then(|| Distrust {
            what: format!("Gemini CLI does not trust {} and runs no hooks there", folder.display()),
            command: format!("cd {} && gemini  # then /permissions trust", shell::path(folder)),
        })
    }

    fn home_variables(&self) -> &'static [&'static str] {
        &[HOME]
    }

    fn prepare(&self, ground: &Ground<'_>) -> Preparation {
        let mut made = Preparation::default();
        let settings = hooks(self.registration(), ground.program);
        let settings = made.keep(ground, "settings.json", settings.to_string());
        made.variables.push((SYSTEM_SETTINGS, settings.into()));
        if ground.fenced {
            let home = ground.scratch.join("gemini");
            let own = ground.own(HOME, "").map(|own| own.join(DIRECTORY));
            made.directories.push(home.clone());
            made.link_in(&home.join(DIRECTORY), own.as_deref(), &CONFIGURATION);
            made.record(ground, &home.join(DIRECTORY).join("tmp"), "gemini");
            made.variables.push((HOME, home.into()));
        }
        made
    }

    fn events(&self) -> &'static [EventNames] {
        &[
            (Moment::PreTool, &["BeforeTool"]),
            (Moment::PostTool, &["AfterTool"]),
            (Moment::SessionStart, &["SessionStart"]),
            (Moment::Stop, &["AfterAgent"]),
        ]
    }

    fn tools(&self) -> &'static [ToolNames] {
        &[
            (ToolKind::Writer, &["write_file", "replace"]),
            (ToolKind::Shell, &["run_shell_command"]),
            (
                ToolKind::Reader,
                &["read_file", "read_many_files", "glob", "list_directory", "search_file_content"],
            ),
        ]
    }

    /// No other host has events of these names.
    fn sent(&self, payload: &Json) -> bool {
        let name = payload.single(&["hookeventname"]).ok().flatten();
        name.is_some_and(|name| name.starts_with("Before") || name.starts_with("After"))
    }

    /// Status 2 would put the text in the place of what the tool answered.
    fn addition(&self, text: &str) -> Option<String> {
        Some(context("AfterTool", text))
    }

    fn skills(&self) -> &'static [&'static str] {
        &[".gemini/skills"]
    }
}

/// A piece of what the model says.
fn said(event: &Value) -> Option<&str> {
    let is_model = event.get("role").is_some_and(|role| role == "assistant");
    event.get("content").filter(|_| is_model)?.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hosts::command::build;
    use crate::hosts::command::tests::{PLAIN, READING, check, full};
    use crate::hosts::output::Pieces;

    #[test]
    fn the_command_line_says_what_the_agent_needs() {
        check(
            &Gemini,
            &PLAIN,
            "gemini -p  --output-format stream-json --skip-trust --approval-mode auto_edit",
        );
        check(
            &Gemini,
            &full(&[]),
            "gemini -p  --output-format stream-json --skip-trust --approval-mode yolo --sandbox=false -m m",
        );
        check(
            &Gemini,
            &READING,
            "gemini -p  --output-format stream-json --skip-trust --approval-mode default",
        );
        let command = build(&Gemini, &full(&[])).expect("a command line");
        assert_eq!(command.without_flag, ["max_iterations"]);
    }

    #[test]
    fn its_stream_tells_as_far_as_it_came() {
        let stream = r#"{"type":"init","session_id":"s","model":"m"}
            {"type":"message","role":"user","content":"Do it"}
            {"type":"message","role":"assistant","content":"I look.","delta":true}
            {"type":"tool_use","tool_name":"run_shell_command","parameters":{"command":"ls"}}
            {"type":"tool_result","status":"success","output":""}
            {"type":"message","role":"assistant","content":"All is ","delta":true}
            {"type":"message","role":"assistant","content":"done.\n","delta":true}"#;
        let cut = Gemini.told(stream, "");
        assert_eq!(cut.session.as_deref(), Some("s"));
        assert_eq!(cut.words.as_deref(), Some("All is done."));
        assert_eq!(cut.tokens, None);
        let end = r#"{"type":"result","status":"success","stats":{"input_tokens":20,"output_tokens":10}}"#;
        let told = Gemini.told(&format!("{stream}\n{end}"), "");
        let expected = Some(Tokens { input: 20, output: 10 });
        assert_eq!(told.tokens, expected);
        let failed = r#"{"type":"init","session_id":"s"}
            {"type":"result","status":"error","error":{"message":"no key"}}"#;
        assert_eq!(Gemini.told(failed, "").words.as_deref(), Some("no key"));
        let mut pieces = Pieces::default();
        let shown = stream.lines().flat_map(|line| Gemini.shown(line));
        let mut shown: Vec<_> = shown.flat_map(|shown| pieces.push(shown)).collect();
        shown.extend(pieces.rest());
        let expected = [
            Shown::Said("I look.".into()),
            Shown::Did("run_shell_command ls".into()),
            Shown::Said("All is done.\n".into()),
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn its_response_or_failure_is_told() {
        let response = "Loaded cached credentials.\n{\n \"session_id\": \"s\", \"response\": \"Done.\", \"stats\": {\"models\": \
            {\"m\": {\"tokens\": {\"prompt\": 50, \"cached\": 5, \"candidates\": 25, \"thoughts\": 2}}}}\n}\n";
        let expected = Told {
            words: Some("Done.".into()),
            session: Some("s".into()),
            cost_usd: None,
            tokens: Some(Tokens { input: 50, output: 27 }),
            is_whole: false,
        };
        assert_eq!(Gemini.told(response, ""), expected);
        let failed = "at f (file.js:1) {\n  status: 401\n}\n{\n  \"session_id\": \"s\",\n  \"error\": {\n    \
            \"message\": \"no key\",\n    \"code\": 401\n  }\n}\n";
        assert_eq!(Gemini.told("", failed).words.as_deref(), Some("no key"));
    }
}
