//! The texts an agent starts with: its prompt and the `spec.md` of its bundle.

use super::bundle;
use super::event::Isolation;
use super::glob::Glob;
use super::id::AgentId;
use super::role::Role;
use super::task::Task;

/// The sentence that a host may look for before it starts an agent.
pub const GIT_BAN: &str = "MUST NOT invoke git";

/// What the texts are made of.
#[derive(Clone, Copy, Debug)]
pub struct Brief<'a> {
    /// The agent.
    pub id: AgentId,
    /// Its role.
    pub role: &'a Role,
    /// Its task.
    pub task: &'a Task,
    /// The denylist that binds: the task's own united with the defaults.
    pub denylist: &'a [Glob],
    /// Where it works, as text.
    pub directory: &'a str,
    /// Where the six files go, as text.
    pub bundle_directory: &'a str,
    /// Whether the bundle is required.
    pub bundle_required: bool,
}

impl Brief<'_> {
    /// The prompt: rules first, then the task, then what to leave behind. It may hold the briefing and
    /// with it credentials, so it is written to a private file and never recorded.
    pub fn prompt(&self) -> String {
        let mut text = format!("# Agent {}\n\n", self.id);
        for part in [&self.task.system_prompt, &self.task.briefing]
            .into_iter()
            .flatten()
        {
            text.push_str(&format!("{}\n\n", part.trim()));
        }
        text.push_str(&self.rules());
        text.push_str(&format!("\n## Task\n\n{}\n", self.task.text));
        if self.bundle_required {
            text.push_str(&deliverables(self.bundle_directory));
        }
        text.push_str(
            "\n## When you are finished\n\nAnswer with a short summary and a list `Files written:` \
             with one path per line. Complete all assigned work before responding; your output is final.\n",
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
        format!(
            "## Rules\n\n- You {GIT_BAN}. The orchestrator alone commits, branches, pushes and merges.\n\
             - {place} `{}`.\n- You must not start other agents.\n\n{}",
            self.directory,
            self.scope()
        )
    }

    fn scope(&self) -> String {
        format!(
            "Role: {} ({})\n{}\n\n{}",
            self.role.name,
            self.role.subagent_type,
            self.role.description,
            scope(
                self.role.edits,
                self.task.whitelist.iter().map(Glob::as_str),
                self.denylist.iter().map(Glob::as_str),
            )
        )
    }
}

/// What an agent may touch, in words.
pub fn scope<'a>(
    edits: bool,
    whitelist: impl Iterator<Item = &'a str>,
    denylist: impl Iterator<Item = &'a str>,
) -> String {
    let verb = if edits { "change" } else { "read" };
    let mut text = format!(
        "You may {verb} only paths that match:\n\n{}",
        list(whitelist)
    );
    let denied = list(denylist);
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
