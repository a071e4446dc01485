//! Every verb of the command line, with lines that let it look at an agent's worktree.

use super::Scene;
use serde_json::json;

/// A verb and how it is called.
pub struct Verb {
    /// Its name, with that of the subcommand.
    pub name: &'static str,
    /// Whether it may change what the next line would meet.
    pub changes: bool,
    /// How the names of programs begin that it runs for the agent: git calls it in the agent's own commit, and it runs
    /// the hooks that git would run there.
    pub own: Option<&'static str>,
    /// The words after `git agent`; `{id}`, `{branch}`, `{worktree}`, `{task}` and `{out}` stand for the agent's.
    pub lines: &'static [&'static str],
}

const fn looks(name: &'static str, lines: &'static [&'static str]) -> Verb {
    Verb { name, changes: false, own: None, lines }
}

const fn changes(name: &'static str, lines: &'static [&'static str]) -> Verb {
    Verb { name, changes: true, own: None, lines }
}

/// What `run` starts for itself: tried by its rows.
pub const INTERNAL: [&str; 4] = ["supervise", "supervisor", "launch", "fenced"];

/// All verbs.
pub const VERBS: &[Verb] = &[
    looks("ps", &["ps"]),
    looks("wait", &["wait {id} --timeout 1s"]),
    looks("stop", &["stop {id}"]),
    looks("logs", &["logs {id}"]),
    looks("board", &["board"]),
    looks("list", &["list", "list --format json", "list --ci"]),
    looks("show", &["show {id}", "show {id} --invocation"]),
    looks("log", &["log {id}"]),
    looks("tree", &["tree"]),
    looks("report", &["report", "report --html {out}"]),
    looks("path", &["path {id}"]),
    looks("diff", &["diff {id}", "diff {id} --stat", "diff {id} --name-only"]),
    looks(
        "check",
        &[
            "check {id}",
            "check {id} --worktree",
            "check {id} --staged",
            "check {id} --range main..{branch}",
            "check --worktree",
        ],
    ),
    looks("verify", &["verify {id}", "verify {id} {worktree}", "verify --tip {branch}"]),
    looks("guard", &["guard --base main --tip {branch} --scope src/**"]),
    looks("overlap", &["overlap", "overlap --changes", "overlap --merge", "overlap --order"]),
    looks("inbox", &["inbox --agent {id}"]),
    looks("receive", &["receive --agent {id}"]),
    looks("ack", &["ack nothing --agent {id}"]),
    looks("archive", &["archive --agent {id}"]),
    looks("send", &["send --type notify --from main --to {id}"]),
    looks("roles", &["roles"]),
    looks("config", &["config", "config --base {branch}"]),
    looks("bundle", &["bundle", "bundle {id}"]),
    looks("help", &["help", "help commit"]),
    looks("schema", &["schema"]),
    looks("mcp", &["mcp"]),
    looks("install-shell", &["install-shell --dry-run --dir {out}"]),
    looks("complete", &["complete -- git-agent show "]),
    looks("unite", &["unite origin"]),
    looks("pool", &["pool status"]),
    looks("setup shell", &["setup shell --dry-run --dir {out}"]),
    looks("uninstall", &["uninstall", "uninstall --ledger"]),
    changes("update", &["update {id}"]),
    changes("adopt", &["adopt {worktree}"]),
    changes("amend", &["amend {id} --timeout 1h"]),
    changes("rename", &["rename {id} second"]),
    changes("materialize", &["materialize {id}"]),
    changes("undo", &["undo --list", "undo --dry-run", "undo {id}"]),
    changes("train", &["train {id}", "train --all --push"]),
    changes("sync", &["sync origin", "sync --best-effort"]),
    looks("hooks status", &["hooks status", "hooks status {id}"]),
    looks("ledger verify", &["ledger verify", "ledger verify --signed"]),
    looks("doctor", &["doctor"]),
    looks("gc", &["gc", "gc --dry-run --older-than 0s"]),
    looks("rescue", &["rescue {id} --to {out}"]),
    Verb {
        name: "hook git",
        changes: false,
        own: Some("husky-"),
        lines: &["hook git pre-commit", "hook git reference-transaction prepared"],
    },
    looks("hook pre-tool", &["hook pre-tool"]),
    looks("hook session-start", &["hook session-start"]),
    looks("hook session-end", &["hook session-end"]),
    looks("hook prompt", &["hook prompt"]),
    looks("hook notification", &["hook notification"]),
    looks("hook subagent-start", &["hook subagent-start"]),
    looks("hook stop", &["hook stop"]),
    looks("hook post-tool", &["hook post-tool"]),
    looks("init", &["init --dry-run --host claude"]),
    changes("hook worktree-create", &["hook worktree-create"]),
    changes("hook worktree-remove", &["hook worktree-remove"]),
    changes("spawn", &["spawn {task} --base {branch}", "spawn {task}"]),
    changes(
        "run",
        &["run {id} -- true", "run {id} --sandbox=off -- true", "run {id} --no-verify -- true"],
    ),
    changes("pr", &["pr {id} --dry-run", "pr {id}"]),
    changes("enter", &["enter {id} -- true"]),
    changes("done", &["done {id}"]),
    changes("mark accept", &["mark done {id}", "mark accept {id} -m fine"]),
    changes("fail", &["fail {id} -m broken"]),
    changes("commit", &["commit {id} -m work", "commit {id} -m work --in-scope-only"]),
    changes(
        "merge",
        &[
            "merge {id}",
            "merge {id} --squash",
            "merge {id} --push",
            "merge {id} --dry-run",
            "merge --all",
        ],
    ),
    changes("reject", &["reject {id} -m no"]),
    changes("retry", &["retry {id}"]),
    changes("defer", &["defer {id} -m later"]),
    changes("discard", &["discard {id}", "discard {id} --with-ignored", "discard {id} --force"]),
    changes("sweep", &["sweep"]),
    changes("catch-up", &["catch-up {id}"]),
    changes("hooks repair", &["hooks repair {id}"]),
];

/// The words of a line.
pub fn words(line: &str, scene: &Scene) -> Vec<String> {
    let agent = &scene.agent;
    let beside = |name: &str| agent.repo.path().with_file_name(name).display().to_string();
    line.split(' ')
        .map(|word| {
            word.replace("{id}", &agent.id)
                .replace("{branch}", &agent.branch)
                .replace("{worktree}", &agent.worktree.display().to_string())
                .replace("{task}", &beside("task.toml"))
                .replace("{out}", &beside("out"))
        })
        .collect()
}

/// What a hook reads.
pub fn input(line: &str, scene: &Scene) -> String {
    let agent = &scene.agent;
    let (main, worktree) = (agent.repo.path(), &agent.worktree);
    let payload = match line {
        "hook pre-tool" => json!({"hook_event_name": "PreToolUse", "cwd": worktree,
            "tool_name": "Write", "tool_input": {"file_path": worktree.join("src/lib.rs")}}),
        "hook session-start" => json!({"hook_event_name": "SessionStart", "cwd": worktree}),
        "hook subagent-start" => {
            json!({"hook_event_name": "SubagentStart", "cwd": worktree, "agent_id": "a1"})
        }
        "hook post-tool" => json!({"hook_event_name": "PostToolUse", "cwd": worktree,
            "tool_name": "Bash", "tool_input": {"command": "true"}}),
        "hook stop" => json!({"hook_event_name": "Stop", "cwd": worktree}),
        "hook worktree-create" => {
            json!({"hook_event_name": "WorktreeCreate", "cwd": main, "name": "bold-otter"})
        }
        "hook worktree-remove" => json!({"hook_event_name": "WorktreeRemove", "cwd": main,
            "worktree_path": worktree}),
        _ => return String::new(),
    };
    payload.to_string()
}
