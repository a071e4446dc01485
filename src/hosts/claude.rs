//! Claude Code.
//!
//! It reads its hooks from the project's settings, shows the model the reason of a denial, and asks for
//! worktrees of its own when it isolates subagents.

use super::command::{CommandWords, Needs};
use super::home::{Ground, Preparation, hooks};
use super::output::{Shown, Told, shown_of_messages, told_of_messages, told_of_result};
use super::payload::{EventNames, Moment, ToolKind, ToolNames};
use super::settings::Registration;
use super::{CostControl, Host};
use crate::wire::put;
use serde_json::{Value, json};
use std::path::Path;

/// Where it keeps worktrees, below the root of a project. It is the default place of ours as well, because a
/// host that confines itself to the project can reach it.
pub const WORKTREE_DIR: &str = ".claude/worktrees";

/// Where it keeps configuration and state, in place of `~/.claude`.
const HOME: &str = "CLAUDE_CONFIG_DIR";

/// What a user's session has in its directory, and an agent's may read: settings, login, instructions, and
/// what extends the program. Not the state of sessions: a running one sources files from there.
const CONFIGURATION: [&str; 13] = [
    ".credentials.json",
    "CLAUDE.md",
    "agents",
    "commands",
    "hooks",
    "output-styles",
    "plugins",
    "policy-limits.json",
    "remote-settings.json",
    "rules",
    "settings.json",
    "skills",
    "workflows",
];

/// Our commands that an agent may run without being asked; others could start programs.
const OWN_COMMANDS: [&str; 9] =
    ["send", "receive", "inbox", "archive", "check", "verify", "mark", "done", "fail"];

pub(super) struct Claude;

impl Host for Claude {
    fn name(&self) -> &'static str {
        "claude"
    }

    fn control_files(&self) -> &'static [&'static str] {
        &[
            "**/.claude/settings*",
            "**/.claude/{hooks,commands,agents,skills,plugins}/**",
            "**/.mcp.json",
        ]
    }

    fn program(&self) -> Option<&'static str> {
        Some("claude")
    }

    fn arguments(&self, needs: &Needs<'_>, line: &mut CommandWords) -> Result<(), String> {
        // A line an event, from which a person sees what it does and a killed run knows its session.
        line.add(["-p", "--output-format", "stream-json", "--verbose"]);
        line.add(["--permission-mode"]);
        line.add([if needs.edits { "acceptEdits" } else { "default" }]);
        if needs.private {
            line.add(["--no-session-persistence"]);
        }
        line.option("--model", needs.model);
        line.option("--max-turns", needs.max_iterations);
        line.option("--max-budget-usd", needs.max_cost);
        line.option("--resume", needs.resume);
        // It takes the last of several in silence, and the agent would run without our hooks.
        if needs.extra.iter().any(|word| is_settings(word)) {
            line.warn("claude takes one --settings: this one replaces the one with our hooks");
        }
        line.add(needs.extra);
        Ok(())
    }

    fn cost_control(&self) -> CostControl {
        CostControl::Own
    }

    fn resumes(&self) -> bool {
        true
    }

    fn told(&self, out: &str, _err: &str) -> Told {
        let input = ["/input_tokens", "/cache_read_input_tokens", "/cache_creation_input_tokens"];
        // The caller may have asked for one object, on several lines.
        match serde_json::from_str::<Value>(out.trim()) {
            Ok(result) => told_of_result(&result, &input, Told::default()),
            Err(_) => told_of_messages(out, &input),
        }
    }

    fn shown(&self, line: &str) -> Vec<Shown> {
        shown_of_messages(line)
    }

    fn registration(&self) -> Option<Registration> {
        Some(Registration {
            is_at_the_top: true,
            on_request: &["SubagentStart", "WorktreeCreate", "WorktreeRemove"],
            ..Registration::json(
                self.name(),
                ".claude",
                ".claude/settings.json",
                include_str!("registrations/claude.json"),
            )
        })
    }

    fn shell_variable(&self) -> Option<&'static str> {
        Some("CLAUDECODE")
    }

    fn home_variables(&self) -> &'static [&'static str] {
        &[HOME]
    }

    fn prepare(&self, ground: &Ground<'_>) -> Preparation {
        let mut made = Preparation::default();
        let mut settings = hooks(self.registration(), ground.program);
        block_without_answer(&mut settings);
        let own = OWN_COMMANDS.map(|verb| format!("Bash(git-agent {verb}:*)"));
        let mut allowed = own.to_vec();
        if ground.fenced && ground.edits {
            // Without a terminal it cannot ask, and what a command writes is bounded by our sandbox.
            allowed.push("Bash".to_owned());
        }
        if let Some(answer) = ground.answer.and_then(Path::to_str) {
            // An absolute path has two slashes; an agent that edits nothing may write this file.
            allowed.push(format!("Edit(/{answer})"));
        }
        put(&mut settings, "permissions", json!({ "allow": allowed }));
        // Its own sandbox cannot be started inside of ours.
        if ground.fenced {
            put(&mut settings, "sandbox", json!({ "enabled": false }));
        }
        let settings = made.keep(ground, "settings.json", settings.to_string());
        made.options = vec!["--settings".into(), settings.into()];
        if ground.fenced {
            let home = ground.scratch.join("claude");
            let own = ground.own(HOME, ".claude");
            made.link_in(&home, own.as_deref(), &CONFIGURATION);
            // Without the variable this file lies beside the directory.
            let beside = ground.own(HOME, "").map(|own| own.join(".claude.json"));
            made.copies.extend(beside.map(|from| (from, home.join(".claude.json"))));
            made.projects = Some(home.join(".claude.json"));
            made.record(ground, &home.join("projects"), "claude");
            made.variables.push((HOME, home.into()));
        }
        made
    }

    fn events(&self) -> &'static [EventNames] {
        &[
            (Moment::PreTool, &["PreToolUse"]),
            (Moment::PostTool, &["PostToolUse", "PostToolUseFailure"]),
            (Moment::SessionStart, &["SessionStart"]),
            (Moment::Stop, &["Stop", "SubagentStop"]),
            (Moment::WorktreeCreate, &["WorktreeCreate"]),
            (Moment::WorktreeRemove, &["WorktreeRemove"]),
        ]
    }

    fn tools(&self) -> &'static [ToolNames] {
        &[
            (ToolKind::Writer, &["write", "edit", "multi_edit", "notebook_edit"]),
            (ToolKind::Shell, &["bash", "powershell", "monitor"]),
            (ToolKind::Spawner, &["agent", "task"]),
            (ToolKind::Worktree, &["enter_worktree", "exit_worktree"]),
            (ToolKind::Reader, &["read", "glob", "grep", "ls", "notebook_read"]),
        ]
    }

    fn skills(&self) -> &'static [&'static str] {
        &[".claude/skills"]
    }

    fn agent_types(&self) -> &'static [&'static str] {
        &["general-purpose", "Explore", "Plan", "claude", "statusline-setup"]
    }

    fn agent_type_directory(&self) -> Option<&'static str> {
        Some(".claude/agents")
    }
}

/// Has a call denied where our hook gives no answer. Not in a file that people commit: it would deny every call of those who
/// have no git-agent.
fn block_without_answer(settings: &mut Value) {
    let entries = settings.pointer_mut("/hooks/PreToolUse");
    for entry in entries.and_then(Value::as_array_mut).into_iter().flatten() {
        let hooks = entry.get_mut("hooks").and_then(Value::as_array_mut);
        for hook in hooks.into_iter().flatten() {
            hook["onFailure"] = json!("block");
        }
    }
}

/// Whether a word is the option for settings. Of several the last one counts, and the others are dropped.
fn is_settings(word: &str) -> bool {
    word == "--settings" || word.starts_with("--settings=")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hosts::command::build;
    use crate::hosts::command::tests::{PLAIN, READING, check, full};
    use crate::hosts::output::Tokens;

    #[test]
    fn the_command_line_says_what_the_agent_needs() {
        check(
            &Claude,
            &PLAIN,
            "claude -p --output-format stream-json --verbose --permission-mode acceptEdits",
        );
        check(
            &Claude,
            &full(&["--verbose".into()]),
            "claude -p --output-format stream-json --verbose --permission-mode acceptEdits --no-session-persistence --model m --max-turns 7 --verbose",
        );
        check(
            &Claude,
            &READING,
            "claude -p --output-format stream-json --verbose --permission-mode default",
        );
    }

    #[test]
    fn settings_of_the_caller_that_take_our_hooks_away_are_told() {
        let warned = |extra: &[String]| {
            let command = build(&Claude, &full(extra)).expect("a command line");
            !command.warnings.is_empty()
        };
        assert!(warned(&["--settings".into(), "{}".into()]));
        assert!(warned(&["--settings=x.json".into()]));
        assert!(!warned(&["--setting-sources".into(), "user".into()]));
    }

    #[test]
    fn its_result_and_its_errors_are_told() {
        let result = r#"{"type":"result","is_error":false,"result":"Done.\n","session_id":"s","total_cost_usd":0.25,
            "modelUsage":{"large":{"inputTokens":1,"cacheReadInputTokens":2,"outputTokens":4},
            "small":{"inputTokens":8,"cacheCreationInputTokens":16,"outputTokens":32}}}"#;
        let expected = Told {
            words: Some("Done.".into()),
            session: Some("s".into()),
            cost_usd: Some(0.25),
            tokens: Some(Tokens { input: 27, output: 36 }),
            is_whole: true,
        };
        assert_eq!(Claude.told(result, ""), expected);
        let errors = r#"{"type":"result","subtype":"error_max_turns","is_error":true,
            "errors":["Reached maximum number of turns (2)"]}"#;
        let words = Claude.told(errors, "").words;
        assert_eq!(words.as_deref(), Some("Reached maximum number of turns (2)"));
        // A session that was killed has no result, and every line of it names it.
        let part = |part: &str| {
            format!(
                r#"{{"type":"assistant","session_id":"s","message":{{"id":"m1","content":[{part}],"usage":{{"input_tokens":3,"cache_read_input_tokens":4,"output_tokens":2}}}}}}"#
            )
        };
        let said = part(r#"{"type":"text","text":"I look."}"#);
        let called = part(r#"{"type":"tool_use","name":"Bash","input":{}}"#);
        let cut = format!("{said}\n{called}\n{{\"type\":\"assis");
        let expected = Told {
            words: Some("I look.".into()),
            session: Some("s".into()),
            cost_usd: None,
            tokens: Some(Tokens { input: 7, output: 2 }),
            is_whole: false,
        };
        assert_eq!(Claude.told(&cut, ""), expected);
    }

    #[test]
    fn what_it_says_and_does_is_shown_and_its_bookkeeping_is_not() {
        let said = r#"{"type":"assistant","message":{"content":[{"type":"text","text":"I look."},
            {"type":"tool_use","name":"Bash","input":{"command":"ls\nwc","description":"List"}},{"type":"thinking"}]}}"#;
        let expected = [Shown::Said("I look.".into()), Shown::Did("Bash ls".into())];
        assert_eq!(Claude.shown(&said.replace("},\n", "},")), expected);
        let path = format!("/home/me{}/src/greeting.rs", "/long".repeat(9));
        let call = Shown::call("Write", &json!({ "file_path": path, "content": "x" }));
        let line = format!("{call:?}");
        assert!(
            line.starts_with("Did(\"Write …/long/") && line.ends_with("/src/greeting.rs\")"),
            "{line}"
        );
        for line in [
            r#"{"type":"system","subtype":"init","session_id":"s"}"#,
            r#"{"type":"user","message":{"content":[{"type":"text","text":"file"}]}}"#,
            r#"{"type":"result","result":"I look."}"#,
        ] {
            assert_eq!(Claude.shown(line), []);
        }
        assert_eq!(Claude.shown("no JSON"), [Shown::Said("no JSON".into())]);
        let failed = Claude.shown(r#"{"type":"result","errors":["too many turns"]}"#);
        assert_eq!(failed, [Shown::Said("too many turns".into())]);
    }
}
