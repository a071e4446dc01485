//! The roles that every repository has, as data.

use super::{Role, Shell};
use crate::domain::event::Isolation;
use crate::domain::glob::Glob;

/// What no agent touches unless its role relaxes it: credentials, build output, and the directories
/// of other tools.
pub const DEFAULT_DENYLIST: &[&str] = &[
    "secrets/**",
    "**/*.env",
    "**/.env",
    "**/.env.*",
    "target/**",
    "node_modules/**",
    ".git/**",
    "dist/**",
    ".keisei/**",
];

/// [`DEFAULT_DENYLIST`] as globs, sorted.
pub fn default_denylist() -> Vec<Glob> {
    let mut globs: Vec<Glob> = DEFAULT_DENYLIST
        .iter()
        .filter_map(|text| Glob::parse(text).ok())
        .collect();
    globs.sort();
    globs
}

/// The four tiers, each adding one thing to the one before, and the three roles around a merge.
pub(super) fn roles() -> Vec<Role> {
    use Isolation::{Shared, Worktree};
    vec![
        Role {
            description: "Reads and answers; changes and runs nothing".to_owned(),
            preamble: "Answer with what you found and where: file and line for every claim."
                .to_owned(),
            ..role("read-only", "researcher", Shared, Shell::None)
        },
        Role {
            description: "Explores with a shell that only reads".to_owned(),
            preamble: "Answer with what you found and where: file and line for every claim."
                .to_owned(),
            ..role("explorer", "researcher", Shared, Shell::ReadOnly)
        },
        Role {
            description: "Changes one area in a worktree of its own and runs the tests".to_owned(),
            preamble:
                "Stay within one area: where the task needs a change outside it, stop and say so."
                    .to_owned(),
            ..role(
                "edit-local",
                "code-implementer",
                Worktree,
                Shell::TestRunners,
            )
        },
        Role {
            description: "Changes several areas and what they share, and runs the tests".to_owned(),
            preamble:
                "Others build on the files you share with them: keep manifests, interfaces and \
                       formats compatible unless the task says otherwise."
                    .to_owned(),
            ..role(
                "edit-shared",
                "code-implementer",
                Worktree,
                Shell::TestRunners,
            )
        },
        Role {
            description: "Judges another agent's work and hands it on to the merger".to_owned(),
            preamble: "Tag every finding [HIGH], [MEDIUM] or [LOW], and end with the lines \
                       `audited-agent:`, `body-sha:`, `findings:` and `verdict: PASS`, `FAIL` or \
                       `INCONCLUSIVE`."
                .to_owned(),
            handoff: Some("merger".to_owned()),
            ..role("auditor", "critic", Shared, Shell::ReadOnly)
        },
        Role {
            description: "Prepares a merge: resolves conflicts and proves the result".to_owned(),
            preamble:
                "The orchestrator lands what you prepare. End with the lines `FORK_AGENT_ID:`, \
                       `MERGE_METHOD:`, `COMMIT_SHA:` and `LEDGER_STATUS:`."
                    .to_owned(),
            ..role("merger", "infra-implementer", Worktree, Shell::TestRunners)
        },
        Role {
            description: "Branches, commits, merges and pushes; the orchestrator alone".to_owned(),
            spawnable: false,
            ..role("git-ops", "infra-implementer", Shared, Shell::Any)
        },
    ]
}

/// A spawnable role with the default denylist; a worktree of its own is what makes it edit.
fn role(name: &str, subagent_type: &str, isolation: Isolation, shell: Shell) -> Role {
    Role {
        name: name.to_owned(),
        subagent_type: subagent_type.to_owned(),
        isolation,
        spawnable: true,
        edits: isolation == Isolation::Worktree,
        shell,
        may_spawn: false,
        default_denylist: default_denylist(),
        handoff: None,
        description: String::new(),
        preamble: String::new(),
        defined_in: None,
    }
}
