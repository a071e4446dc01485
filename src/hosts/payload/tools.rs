//! Tools that are known by name: those of every host, and those that editors and MCP file servers have
//! for the same things.
//!
//! Names are compared without case and punctuation, so that `write_file` and `WriteFile` are one.
//! Names of one word (`write`, `edit`, …) count only when they are the whole name: an MCP server's
//! `mcp__tracker__create` has nothing to do with files. Names of several words also count at the
//! end, as in `mcp__fs__write_file`.

use super::json::squash;
use crate::hosts::HOSTS;

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
pub(super) fn kind(name: &str) -> Option<ToolKind> {
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
