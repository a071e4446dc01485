/// Every fixture, and what it is: the event, then the intent; a deletion has a `-` in front.
pub(super) const EXPECTED: &[(&str, &str)] = &[
    ("claude/agent", "PreTool spawns researcher worktree"),
    ("claude/bash", "PreTool shell: cargo test --workspace"),
    (
        "claude/broken-edit-without-path",
        "PreTool Edit unreadable: its input names no file",
    ),
    (
        "claude/broken-no-tool",
        "PreTool unreadable: the hook payload names no tool",
    ),
    (
        "claude/broken-truncated",
        "Unstated unreadable: the hook payload is not JSON: EOF while parsing a string at line 1 column 81",
    ),
    (
        "claude/broken-two-tools",
        "PreTool unreadable: `toolname` is given twice, differently",
    ),
    (
        "claude/broken-write-home",
        r#"PreTool Write unreadable: the path "~/.bashrc" begins with `~`, which hosts read differently; give the absolute path"#,
    ),
    (
        "claude/broken-write-path-is-number",
        "PreTool Write unreadable: a path is not a text",
    ),
    (
        "claude/broken-write-uri",
        r#"PreTool Write unreadable: "file:///etc/passwd" is a URI; give a path"#,
    ),
    (
        "claude/broken-write-white-space",
        r#"PreTool Write unreadable: the path " /etc/passwd" begins or ends with white space, which hosts read differently"#,
    ),
    ("claude/edit", "PreTool writes W/src/parser.rs"),
    ("claude/enter-worktree", "PreTool enters a worktree"),
    ("claude/exit-worktree", "PreTool enters a worktree"),
    ("claude/grep", "PreTool reads"),
    ("claude/mcp-move-file", "PreTool writes -src/a.rs src/b.rs"),
    ("claude/mcp-unknown", "PreTool unknown mcp__tracker__create"),
    ("claude/mcp-unknown-writer", "PreTool writes src/a.rs"),
    ("claude/mcp-write-file", "PreTool writes src/generated.rs"),
    ("claude/monitor", "PreTool shell: tail -f build.log"),
    ("claude/multi-edit", "PreTool writes W/src/lib.rs"),
    ("claude/notebook-edit", "PreTool writes W/notes/plot.ipynb"),
    ("claude/powershell", "PreTool shell: Get-ChildItem"),
    ("claude/read", "PreTool reads"),
    ("claude/session-start", "SessionStart no tool"),
    ("claude/stop", "Stop { again: false } no tool"),
    ("claude/stop-again", "Stop { again: true } no tool"),
    ("claude/subagent-stop", "Stop { again: false } no tool"),
    ("claude/task", "PreTool spawns general-purpose"),
    ("claude/todo-write", "PreTool unknown TodoWrite"),
    ("claude/two-paths", "PreTool writes /etc/passwd W/src/a.rs"),
    ("claude/user-prompt", r#"Other("UserPromptSubmit") no tool"#),
    (
        "claude/worktree-create",
        r#"WorktreeCreate { name: Some("bold-otter") } no tool"#,
    ),
    (
        "claude/worktree-remove",
        r#"WorktreeRemove { path: Some("W") } no tool"#,
    ),
    ("claude/write", "PreTool writes W/docs/über uns.md"),
    (
        "codex/apply-patch",
        "PreTool writes src/new.rs -src/old.rs src/renamed.rs -src/gone.rs",
    ),
    ("codex/bash", "PreTool shell: rg -n 'fn parse' src"),
    (
        "codex/bash-heredoc-patch",
        "PreTool shell: cd crates/cli && apply_patch <<'EOF' … writes crates/cli/src/new.rs -crates/cli/src/old.rs crates/cli/src/renamed.rs -crates/cli/src/gone.rs",
    ),
    (
        "codex/broken-heredoc-unknown-directory",
        "PreTool Bash unreadable: the command changes directory before it applies a patch with relative paths; give absolute paths",
    ),
    (
        "codex/broken-patch-unknown-header",
        r#"PreTool apply_patch unreadable: the patch has a line of unknown meaning: "*** Copy File: src/gone.rs""#,
    ),
    (
        "codex/broken-patch-without-files",
        "PreTool apply_patch unreadable: the patch names no file",
    ),
    ("codex/shell-list", "PreTool shell: bash -lc ls"),
    (
        "codex/shell-list-patch",
        "PreTool shell: apply_patch *** Begin Patch … writes crates/cli/src/new.rs -crates/cli/src/old.rs crates/cli/src/renamed.rs -crates/cli/src/gone.rs",
    ),
    ("codex/spawn-agent", "PreTool spawns explorer"),
    (
        "copilot/apply-patch",
        "PreTool writes src/new.rs -src/old.rs src/renamed.rs -src/gone.rs",
    ),
    ("copilot/bash", "PreTool shell: git status"),
    (
        "copilot/broken-create-args",
        "PreTool create unreadable: its input names no file",
    ),
    ("copilot/claude-style-edit", "PreTool writes src/a.rs"),
    (
        "copilot/claude-style-edit-is-a-patch",
        "PreTool writes src/new.rs -src/old.rs src/renamed.rs -src/gone.rs",
    ),
    ("copilot/create", "PreTool writes W/src/a.rs"),
    ("copilot/edit", "PreTool writes W/src/a.rs"),
    ("copilot/str-replace-editor", "PreTool writes src/a.rs"),
    ("copilot/str-replace-editor-view", "PreTool reads"),
    ("copilot/task", "PreTool spawns explore"),
    ("copilot/view", "PreTool reads"),
    ("cursor/after-file-edit", "PostTool writes W/src/a.rs"),
    ("cursor/before-mcp-execution", "PreTool writes a.txt"),
    ("cursor/before-read-file", "PreTool reads"),
    ("cursor/before-shell-execution", "PreTool shell: make"),
    (
        "cursor/broken-write",
        "PreTool Write unreadable: its input names no file",
    ),
    ("cursor/delete", "PreTool writes -src/a.rs"),
    ("cursor/shell", "PreTool shell: make"),
    ("cursor/stop", "Stop { again: false } no tool"),
    ("cursor/str-replace", "PreTool writes src/a.rs"),
    ("cursor/task", "PreTool spawns explore"),
    ("cursor/write", "PreTool writes W/src/a.rs"),
    ("gemini/after-agent", "Stop { again: false } no tool"),
    (
        "gemini/broken-replace-null-path",
        "PreTool replace unreadable: its input names no file",
    ),
    ("gemini/read-many-files", "PreTool reads"),
    ("gemini/replace", "PreTool writes W/src/a.rs"),
    ("gemini/run-shell-command", "PreTool shell: npm test"),
    ("gemini/session-start", "SessionStart no tool"),
    ("gemini/write-file", "PreTool writes src/../src/a.rs"),
    (
        "gemini/write-file-with-directory",
        "PreTool writes Cargo.lock src/Cargo.lock",
    ),
    ("opencode/bash", "PreTool shell: ls"),
    (
        "opencode/broken-edit",
        "PreTool edit unreadable: a path is empty",
    ),
    ("opencode/edit", "PreTool writes src/a.rs"),
    (
        "opencode/patch",
        "PreTool writes src/new.rs -src/old.rs src/renamed.rs -src/gone.rs",
    ),
    ("opencode/read", "PreTool reads"),
    ("opencode/task", "PreTool spawns explore"),
    ("opencode/write", "PreTool writes W/src/a.rs"),
    // Recorded: what real hosts sent, with other paths.
    (
        "claude/recorded-post-tool-use-bash",
        "PostTool shell: echo sneaky > docs/bash.md; echo ok > src/ok.rs",
    ),
    (
        "claude/recorded-pre-tool-use-agent",
        "PreTool spawns code-implementer worktree",
    ),
    (
        "claude/recorded-pre-tool-use-write",
        "PreTool writes W/src/greeting.rs",
    ),
    (
        "claude/recorded-session-end",
        r#"Other("SessionEnd") no tool"#,
    ),
    ("claude/recorded-session-start", "SessionStart no tool"),
    ("claude/recorded-stop", "Stop { again: false } no tool"),
    (
        "claude/recorded-subagent-start",
        r#"Other("SubagentStart") no tool"#,
    ),
    (
        "claude/recorded-subagent-stop",
        "Stop { again: false } no tool",
    ),
    (
        "claude/recorded-worktree-create",
        r#"WorktreeCreate { name: Some("feature-x") } no tool"#,
    ),
    (
        "claude/recorded-worktree-remove",
        r#"WorktreeRemove { path: Some("/home/dev/app/.claude/worktrees/side2") } no tool"#,
    ),
    (
        "cline/recorded-pre-tool-use-apply-patch",
        "PreTool writes src/greeting.rs",
    ),
    (
        "codex/recorded-pre-tool-use-apply-patch",
        "PreTool writes src/greeting.rs",
    ),
    (
        "codex/recorded-pre-tool-use-bash",
        "PreTool shell: apply_patch <<'EOF' … writes docs/heredoc.md",
    ),
    ("codex/recorded-session-start", "SessionStart no tool"),
    ("codex/recorded-stop", "Stop { again: false } no tool"),
    (
        "copilot/recorded-claude-settings-pre-tool-use-agent",
        "PreTool spawns general-purpose",
    ),
    (
        "copilot/recorded-claude-settings-pre-tool-use-write",
        "PreTool writes W/src/greeting.rs",
    ),
    (
        "copilot/recorded-claude-settings-session-start",
        "SessionStart no tool",
    ),
    (
        "copilot/recorded-claude-settings-stop",
        "Stop { again: false } no tool",
    ),
    (
        "copilot/recorded-pre-tool-bash",
        "PreTool shell: cargo test",
    ),
    (
        "copilot/recorded-pre-tool-create",
        "PreTool writes W/src/greeting.rs",
    ),
    (
        "copilot/recorded-pre-tool-edit",
        "PreTool writes W/README.md",
    ),
    (
        "copilot/recorded-pre-tool-task",
        "PreTool spawns general-purpose",
    ),
    (
        "gemini/recorded-after-agent",
        "Stop { again: false } no tool",
    ),
    (
        "gemini/recorded-before-tool-replace",
        "PreTool writes W/README.md",
    ),
    (
        "gemini/recorded-before-tool-run-shell-command",
        "PreTool shell: cargo test",
    ),
    ("gemini/recorded-session-start", "SessionStart no tool"),
    ("opencode/recorded-pre-tool-task", "PreTool spawns general"),
    (
        "opencode/recorded-pre-tool-write",
        "PreTool writes W/src/greeting.rs",
    ),
    (
        "qwen/recorded-pre-tool-use-write-file",
        "PreTool writes W/src/greeting.rs",
    ),
    ("qwen/recorded-stop", "Stop { again: true } no tool"),
];
