//! opencode.
//!
//! It has plugins in place of hooks: ours is a TypeScript file that asks `git-agent hook pre-tool`.

use super::command::{CommandWords, Needs};
use super::home::{Ground, Preparation};
use super::output::{Shown, Tokens, Told, json_lines, text};
use super::payload::{EventNames, Moment, ToolKind, ToolNames};
use super::settings::Registration;
use super::{CostControl, Host};
use serde_json::{Value, json};

/// Where it keeps sessions and the login, state, and what it downloaded, each with the user's own below the
/// home.
const HOMES: [(&str, &str); 3] = [
    ("XDG_DATA_HOME", ".local/share"),
    ("XDG_STATE_HOME", ".local/state"),
    ("XDG_CACHE_HOME", ".cache"),
];

/// The variable that names where all programs have their configuration, and that place below the home.
const CONFIGURATION: (&str, &str) = ("XDG_CONFIG_HOME", ".config");

/// What the user has in opencode's own directory there. It is read, and the directory itself is of the run: opencode writes a `.gitignore` into it
/// and gives up where that place is read-only.
const CONFIGURED: [&str; 17] = [
    "opencode.json",
    "opencode.jsonc",
    "config.json",
    "tui.json",
    "AGENTS.md",
    "agent",
    "agents",
    "command",
    "commands",
    "mode",
    "modes",
    "plugin",
    "plugins",
    "skill",
    "skills",
    "themes",
    "node_modules",
];

/// Programs beside it that an agent's commands start, and whose configuration is there.
const NEIGHBOURS: [&str; 10] =
    ["git", "gh", "glab", "pip", "uv", "pypoetry", "pnpm", "yarn", "go", "jj"];

/// How our plugin names the program that it asks.
const PROGRAM: &str = "spawnSync(\"git-agent\"";

pub(super) struct Opencode;

impl Host for Opencode {
    fn name(&self) -> &'static str {
        "opencode"
    }

    fn control_files(&self) -> &'static [&'static str] {
        &["**/.opencode/**", "**/opencode.json*"]
    }

    fn program(&self) -> Option<&'static str> {
        Some("opencode")
    }

    fn arguments(&self, needs: &Needs<'_>, line: &mut CommandWords) -> Result<(), String> {
        line.add(["run", "--format", "json"]);
        // This agent of its own has no tools that change files.
        if !needs.edits {
            line.add(["--agent", "plan"]);
        }
        line.option("--model", needs.model);
        line.lacks("max_iterations", needs.max_iterations);
        line.option("--session", needs.resume);
        line.add(needs.extra);
        Ok(())
    }

    fn prepare(&self, ground: &Ground<'_>) -> Preparation {
        let mut made = Preparation::default();
        let template = self.registration().map_or("", |known| known.template);
        // As JSON, because the path of this program becomes a text in a script.
        let program = format!("spawnSync({}", json!(ground.program));
        let plugin = made.keep(ground, "git-agent.ts", template.replace(PROGRAM, &program));
        let plugin = json!({ "plugin": [format!("file://{}", plugin.display())] });
        made.variables.push(("OPENCODE_CONFIG_CONTENT", plugin.to_string().into()));
        if ground.fenced {
            for (variable, below_home) in HOMES {
                let home = ground.scratch.join(variable);
                let own = ground.own(variable, below_home);
                made.directories.push(home.clone());
                let own = own.map(|own| own.join("opencode"));
                made.link_in(&home.join("opencode"), own.as_deref(), &["auth.json"]);
                made.variables.push((variable, home.into()));
            }
            let (variable, below_home) = CONFIGURATION;
            let own = ground.own(variable, below_home);
            let place = ground.scratch.join(variable);
            made.link_in(&place, own.as_deref(), &NEIGHBOURS);
            let own = own.map(|own| own.join("opencode"));
            made.link_in(&place.join("opencode"), own.as_deref(), &CONFIGURED);
            // It replaces these when it brings its plugins up to date.
            let replaced = ["package.json", "bun.lock"].into_iter();
            let copies = replaced.filter_map(|name| {
                Some((own.as_ref()?.join(name), place.join("opencode").join(name)))
            });
            made.copies.extend(copies);
            made.variables.push((variable, place.into()));
            // Its sessions are a database of which this variable names the file.
            if ground.records.is_some() {
                let records = ground.scratch.join("opencode");
                made.record(ground, &records, "opencode");
                let database = records.join("opencode.db");
                made.variables.push(("OPENCODE_DB", database.into()));
            }
        }
        made
    }

    fn shell_variable(&self) -> Option<&'static str> {
        Some("OPENCODE")
    }

    fn home_variables(&self) -> &'static [&'static str] {
        &["XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"]
    }

    fn cost_control(&self) -> CostControl {
        CostControl::Cost
    }

    fn resumes(&self) -> bool {
        true
    }

    fn told(&self, out: &str, _err: &str) -> Told {
        let mut told = Told::default();
        let mut tokens = Tokens::default();
        for event in json_lines(out) {
            told.session = text(&event, "/sessionID").or(told.session);
            let failed = || text(&event, "/error/data/message");
            told.words = text(&event, "/part/text").or_else(failed).or(told.words);
            let cost = event.pointer("/part/cost").and_then(Value::as_f64);
            // Each step tells what it cost alone. What takes from the sum is written by no host.
            if let Some(cost) = cost.filter(|cost| *cost >= 0.0) {
                told.cost_usd = Some(told.cost_usd.unwrap_or_default() + cost);
            }
            let input = ["/input", "/cache/read", "/cache/write"];
            let step = event.pointer("/part/tokens").unwrap_or(&Value::Null);
            tokens.add(step, &input, &["/output", "/reasoning"]);
        }
        told.tokens = tokens.some();
        told
    }

    fn shown(&self, line: &str) -> Vec<Shown> {
        let Ok(event) = serde_json::from_str::<Value>(line) else {
            return vec![Shown::Said(line.to_owned())];
        };
        let shown = match text(&event, "/type").as_deref() {
            Some("text") => Shown::said(text(&event, "/part/text")),
            Some("tool_use") => {
                let arguments = event.pointer("/part/state/input").unwrap_or(&Value::Null);
                Some(Shown::call(&text(&event, "/part/tool").unwrap_or_default(), arguments))
            }
            Some("error") => Shown::said(text(&event, "/error/data/message")),
            _ => None,
        };
        shown.into_iter().collect()
    }

    fn registration(&self) -> Option<Registration> {
        Some(Registration {
            whole_file: Some("// git-agent opencode plugin, version "),
            of_user: ".config/opencode/plugins/git-agent.ts",
            ..Registration::json(
                self.name(),
                ".opencode",
                ".opencode/plugins/git-agent.ts",
                include_str!("registrations/opencode.ts"),
            )
        })
    }

    fn events(&self) -> &'static [EventNames] {
        &[(Moment::PreTool, &["tool.execute.before"]), (Moment::PostTool, &["tool.execute.after"])]
    }

    fn tools(&self) -> &'static [ToolNames] {
        &[
            (ToolKind::Writer, &["write", "edit", "patch"]),
            (ToolKind::Shell, &["bash"]),
            (ToolKind::Spawner, &["task"]),
            (ToolKind::Reader, &["read", "list", "glob", "grep"]),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hosts::command::build;
    use crate::hosts::command::tests::{PLAIN, READING, check, full};
    use crate::hosts::home::tests::prepared;
    use std::path::Path;

    #[test]
    fn the_command_line_says_what_the_agent_needs() {
        check(&Opencode, &PLAIN, "opencode run --format json");
        let extra = ["--variant".into(), "high".into()];
        let with_model = "opencode run --format json --model m --variant high";
        check(&Opencode, &full(&extra), with_model);
        let planning = "opencode run --format json --agent plan";
        check(&Opencode, &READING, planning);
        let command = build(&Opencode, &full(&[])).expect("a command line");
        assert_eq!(command.without_flag, ["max_iterations"]);
    }

    #[test]
    fn the_plugin_asks_this_program() {
        let made = prepared(&Opencode, true);
        let (_, plugin) = made.files.first().expect("a plugin");
        assert!(plugin.contains(r#"spawnSync("/opt/my bin/git-agent", ["hook""#), "{plugin}");
    }

    #[test]
    fn its_sessions_outlive_a_fenced_run() {
        let made = prepared(&Opencode, true);
        let (link, record) = made.records.first().expect("records");
        assert_eq!(record, Path::new("/records/opencode"));
        let database = (made.variables.iter()).find(|(name, _)| *name == "OPENCODE_DB");
        let (_, database) = database.expect("a database");
        assert_eq!(Path::new(database).parent(), Some(link.as_path()));
        assert_eq!(prepared(&Opencode, false).records, []);
    }

    #[test]
    fn its_last_text_or_failure_is_told_and_its_steps_are_added_up() {
        let steps = r#"{"type":"step_finish","sessionID":"s","part":{"cost":0.25,"tokens":{"input":10,"output":5,
            "reasoning":1,"cache":{"write":2,"read":3}}}}
            {"type":"text","sessionID":"s","part":{"type":"text","text":"Done."}}
            {"type":"step_finish","sessionID":"s","part":{"cost":0.5,"tokens":{"input":10,"output":5}}}
            {"part":{"cost":-0.5}}"#;
        let steps = steps.replace(",\n            \"reasoning", ",\"reasoning");
        let expected = Told {
            words: Some("Done.".into()),
            session: Some("s".into()),
            cost_usd: Some(0.75),
            tokens: Some(Tokens { input: 25, output: 11 }),
            is_whole: false,
        };
        assert_eq!(Opencode.told(&steps, ""), expected);
        let failed = r#"{"type":"error","sessionID":"s","error":{"name":"APIError","data":{"message":"no key"}}}"#;
        assert_eq!(Opencode.told(failed, "").words.as_deref(), Some("no key"));
    }
}
