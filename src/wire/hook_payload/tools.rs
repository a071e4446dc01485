//! The tools that are known by name, of all hosts in one table.
//!
//! Names are compared without case and punctuation, so that `write_file` and `WriteFile` are one.
//! Names of one word (`write`, `edit`, …) count only when they are the whole name: an MCP server's
//! `mcp__tracker__create` has nothing to do with files. Names of several words also count at the
//! end, as in `mcp__fs__write_file`.

use super::json::squash;
use crate::domain::tool_call::Touch;

/// What a tool does, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Changes the files that its input names.
    Writer(Touch),
    /// Changes or shows a file, as its `command` says.
    Editor,
    /// Runs a command.
    Shell,
    /// Starts an agent.
    Spawner,
    /// Enters or leaves a worktree of the host's.
    Worktree,
    /// Only looks.
    Reader,
}

/// The kind of a tool; `None` for a tool that this version does not know.
pub(super) fn kind(name: &str) -> Option<Kind> {
    let name = squash(name);
    let at_the_end = |known: &str| known.contains('_') && name.ends_with(&squash(known));
    KNOWN.iter().find_map(|(kind, names)| {
        let known = |known: &&str| name == squash(known) || at_the_end(known);
        names.iter().any(known).then_some(*kind)
    })
}

/// Every known name. Claude Code: `Write Edit MultiEdit NotebookEdit`. Codex: `apply_patch`.
/// Gemini: `write_file replace`. Copilot: `create edit str_replace_editor apply_patch`. Cursor:
/// `Write Edit StrReplace Delete edit_notebook search_replace`. opencode: `write edit patch`. The
/// rest is what editors and MCP file servers use for the same things.
const KNOWN: &[(Kind, &[&str])] = &[
    (
        Kind::Editor,
        &["str_replace_editor", "str_replace_based_edit_tool"],
    ),
    (
        Kind::Writer(Touch::Delete),
        &["delete", "delete_file", "remove_file"],
    ),
    (
        Kind::Writer(Touch::Write),
        &[
            "write",
            "edit",
            "multi_edit",
            "notebook_edit",
            "apply_patch",
            "write_file",
            "replace",
            "create",
            "str_replace",
            "edit_notebook",
            "search_replace",
            "patch",
            "edit_file",
            "create_file",
            "move_file",
            "rename_file",
            "write_to_file",
            "replace_in_file",
            "append_to_file",
            "insert_edit_into_file",
            "replace_string_in_file",
            "edit_notebook_file",
        ],
    ),
    (
        Kind::Shell,
        &[
            "bash",
            "shell",
            "powershell",
            "monitor",
            "local_shell",
            "exec_command",
            "run_shell_command",
            "run_terminal_cmd",
            "run_in_terminal",
        ],
    ),
    (Kind::Spawner, &["agent", "task", "spawn_agent"]),
    (Kind::Worktree, &["enter_worktree", "exit_worktree"]),
    (
        Kind::Reader,
        &[
            "read",
            "read_file",
            "read_many_files",
            "view",
            "glob",
            "grep",
            "ls",
            "list",
            "list_directory",
            "search_file_content",
            "notebook_read",
        ],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_in_every_spelling_and_behind_a_server_name() {
        let writes = Some(Kind::Writer(Touch::Write));
        let cases = [
            ("Write", writes),
            ("WRITE_FILE", writes),
            ("WriteFile", writes),
            ("mcp__fs__write_file", writes),
            ("fs-server/edit_file", writes),
            ("functions.apply_patch", writes),
            ("mcp__fs__delete_file", Some(Kind::Writer(Touch::Delete))),
            ("mcp__e__str_replace_editor", Some(Kind::Editor)),
            ("MultiEdit", writes),
            ("Task", Some(Kind::Spawner)),
            ("TaskCreate", None),
            ("TodoWrite", None),
            ("mcp__tracker__create", None),
            ("mcp__tracker__task", None),
            ("ExitWorktree", Some(Kind::Worktree)),
            ("Read", Some(Kind::Reader)),
            ("", None),
            ("修复", None),
        ];
        for (name, expected) in cases {
            assert_eq!(kind(name), expected, "{name}");
        }
    }
}
