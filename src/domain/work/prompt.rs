//! The texts an agent starts with: its prompt and the `spec.md` of its bundle.
//!
//! The prompt is composed in one order, each part under a heading of its own and absent parts without a
//! trace: the rules of the role, the persona, customisations, the briefing, the system prompt, the task,
//! what to leave behind, and where the answer goes.

use super::bundle;
use super::persona::Character;
use super::role::Role;
use super::task::Task;
use crate::domain::life::event::Isolation;
use crate::domain::life::id::AgentId;
use crate::domain::paths::glob::Glob;
use crate::domain::paths::output_file;
use std::collections::BTreeSet;

/// The sentence that a host may look for before it starts an agent.
pub const GIT_BAN: &str = "MUST NOT invoke git";

/// How an agent reaches others, as one of its rules.
const MESSENGER: &str = "- To tell another agent or the user something, or to ask, run `git-agent send` (`git-agent help send` says what each type of \
     message needs; without a receiver `--type escalate` reaches the user); `git-agent receive` shows what is for you.\n";

/// What the texts are made of.
#[derive(Clone, Copy, Debug)]
pub struct Brief<'a> {
    /// The agent.
    pub id: AgentId,
    /// Its role.
    pub role: &'a Role,
    /// Its task.
    pub task: &'a Task,
    /// The denylist that binds, in words: the task's own united with the defaults.
    pub denied: &'a [String],
    /// Where it works, as text.
    pub directory: &'a str,
    /// Where the six files go, as text.
    pub bundle_directory: &'a str,
    /// Whether the bundle is required.
    pub bundle_required: bool,
    /// The directories that its worktree holds besides the files at the top; absent where it holds everything.
    pub cone: Option<&'a BTreeSet<String>>,
    /// Who it is told to be.
    pub character: &'a Character,
    /// The file its answer goes to, as text.
    pub output_file: Option<&'a str>,
}

impl Brief<'_> {
    /// The prompt. It may hold the briefing and with it credentials, so it is written to a private file
    /// and never recorded.
    pub fn prompt(&self) -> String {
        let customisations: String = self
            .character
            .customisations
            .iter()
            .map(|(name, text)| format!("### {name}\n\n{}\n\n", text.trim()))
            .collect();
        let mut text = format!("# Agent {}\n\n{}", self.id, self.rules());
        let mut part = |heading: &str, content: Option<&str>| {
            let content = content.map(str::trim).filter(|content| !content.is_empty());
            if let Some(content) = content {
                text.push_str(&format!("\n## {heading}\n\n{content}\n"));
            }
        };
        part("Persona", self.character.persona.as_deref());
        part("Customisations", Some(&customisations));
        part("Briefing", self.task.briefing.as_deref());
        part("System Prompt", self.task.system_prompt.as_deref());
        part("Task", Some(&self.task.text));
        if self.bundle_required {
            text.push_str(&deliverables(self.bundle_directory));
        }
        if let Some(file) = self.output_file {
            let instructions = output_file::instructions(file);
            text.push_str(&format!("\n## Output Instructions\n\n{instructions}"));
        }
        let fields = self.role.report.lines(&self.task.report_fields);
        if !fields.is_empty() {
            text.push_str("\n## Report\n\nYour final answer has a line `key: value` for each of these keys:\n\n");
            text.push_str(&list(fields.iter().map(String::as_str)));
        }
        text.push_str(
            "\n## When you are finished\n\nAnswer with a short summary and a list `Files written:` \
             with one path per line. Complete ALL assigned work before responding. Your output is final.\n\n\
             After receiving the result, write one sentence: what you learned and what you will do next. \
             Complete ALL your assigned work before writing your final response.\n",
        );
        text
    }

    /// The specification that verification holds the work against.
    pub fn spec(&self) -> String {
        let mut text = format!("# Specification of agent {}\n\n{}", self.id, self.scope());
        text.push_str(&format!("\n## Task\n\n{}\n", self.task.text));
        if !self.task.checks.is_empty() {
            text.push_str("\n## Checks\n\n");
            text.push_str(&list(self.task.checks.iter().map(String::as_str)));
        }
        text
    }

    fn rules(&self) -> String {
        let place = match self.role.isolation {
            Isolation::Worktree => "Work only inside your worktree",
            Isolation::Shared => "You share this directory with others; change nothing in it:",
        };
        let of_role: String =
            self.role.rules().iter().map(|rule| format!("- {}\n", rule.trim())).collect();
        let of_project: String = self.character.instructions.iter().map(|file| format!("- Read `{file}` before you begin; the project's instructions hold where these rules say nothing else.\n"))
            .collect();
        format!(
            "## Rules\n\n- You {GIT_BAN}. The orchestrator alone commits, branches, pushes and merges.\n\
             - {place} `{}`.\n{}{of_role}{of_project}{MESSENGER}\n{}",
            self.directory,
            self.cone.map(sparse).unwrap_or_default(),
            self.scope()
        )
    }

    fn scope(&self) -> String {
        format!(
            "Role: {} ({})\n{}\n\n{}",
            self.role.name,
            self.role.subagent_type,
            self.role.description,
            scope(self.role.edits, self.task.whitelist.iter().map(Glob::as_str), self.denied,)
        )
    }
}

/// That only some directories are there, as one of an agent's rules.
fn sparse(cone: &BTreeSet<String>) -> String {
    let directories: Vec<_> = cone.iter().map(|name| format!("`{name}`")).collect();
    format!(
        "- Your worktree is sparse: it holds {}, the files beside these directories and those at the top. The repository has more files, \
         which are not deleted but not on disk. If you need another directory, ask for it with `git-agent send`; the orchestrator adds it \
         with `git sparse-checkout add <directory>`.\n",
        directories.join(", ")
    )
}

/// What an agent is told in a session that was told its task before.
/// `message` is what the caller says beyond that.
pub fn going_on(id: AgentId, directory: &str, message: Option<&str>) -> String {
    let message = message
        .into_iter()
        .map(|message| format!("\nWhat you are asked for now:\n\n{message}\n"))
        .collect::<String>();
    format!(
        "You are agent {id} again, and this session goes on in `{directory}`. Look at what is there: it may have changed since you \
         stopped, and `git-agent verify` says what is still wrong with it. Then go on with your task. All rules that you were \
         given hold as before: you {GIT_BAN}.\n{message}"
    )
}

/// What an agent may touch, in words.
pub fn scope<'a>(
    edits: bool,
    whitelist: impl Iterator<Item = &'a str>,
    denied: &[String],
) -> String {
    let verb = if edits { "change" } else { "read" };
    let mut text = format!("You may {verb} only paths that match:\n\n{}", list(whitelist));
    let denied: String = denied.iter().map(|glob| format!("- {glob}\n")).collect();
    if !denied.is_empty() {
        text.push_str("\nNever, even where the list above matches:\n\n");
        text.push_str(&denied);
    }
    text
}

/// The six files that an agent has to leave in its bundle.
pub fn deliverables(bundle_directory: &str) -> String {
    let mut text = format!(
        "\n## Deliverables\n\nBesides the work itself, leave these six files in `{bundle_directory}`. They \
         are never committed, and work without them is rejected:\n\n"
    );
    for (name, content) in bundle::FILES {
        text.push_str(&format!("- `{name}`: {content}\n"));
    }
    text
}

fn list<'a>(items: impl Iterator<Item = &'a str>) -> String {
    items.map(|item| format!("- `{item}`\n")).collect()
}
