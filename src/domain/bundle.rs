//! The six artefact files that every agent with a worktree leaves behind.

/// The file that spawn writes and the agent must leave as it is.
pub const SPEC: &str = "spec.md";

/// The file that says whether the work is finished.
pub const PROGRESS: &str = "progress.json";

/// The six names and what each file must hold, as the prompt tells the agent.
pub const FILES: [(&str, &str); 6] = [
    (
        SPEC,
        "the specification; it is already written, do not change it",
    ),
    ("plan.md", "the steps you chose and why"),
    (
        PROGRESS,
        "a JSON object; when all work is finished its `status` is \"done\"",
    ),
    (
        "chatlog.md",
        "what was asked, answered and decided, in order",
    ),
    (
        "handoffs.md",
        "what the next agent must know; \"none\" when there is nothing",
    ),
    (
        "review.md",
        "your own review of the change, findings tagged [HIGH], [MEDIUM] or [LOW]",
    ),
];
