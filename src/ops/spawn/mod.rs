//! `spawn`: a task becomes an agent with a worktree, a branch and a row.
//!
//! [`plan`] reads and decides, [`execute`] does. The steps, each named for the tests that stop the
//! process there:
//!
//! 1. `journal`: a file under `agents/spawning` names everything that may follow; its owner holds an OS
//!    lock on it that the kernel drops with the process.
//! 2. `objects`: the spawn commit and the policy.
//! 3. `keep`: the keep chain holds both, whatever happens to the branch.
//! 4. `branch`: create-only.
//! 5. `spawning`: the ledger's first row.
//! 6. `metadata`: the admin directory, published by one rename, locked as `initializing`.
//! 7. `populated`: the files and the index.
//! 8. `files`: the specification, the prompt and a private copy of the task; then `[setup]` runs.
//! 9. `locked`: the worktree has its git hooks, and its lock now names the agent.
//! 10. `spawned`: the ledger says the agent is ready. From here on it is never undone.
//!
//! An error undoes the steps, newest first (`undo`). After a kill the journal is left with no process
//! holding its lock; the next spawn finds it and does the same. What a kill can leave therefore is: the
//! journal, a branch at the spawn commit, a row that is still `spawning`, a temporary or complete admin
//! directory locked as `initializing`, and a partly filled worktree. None of it blocks another spawn. The
//! objects of steps 2 and 3 stay: they are a few hundred bytes, and the keep chain never forgets.

mod admission;
mod adopt;
mod again;
mod batch;
mod cone;
mod contract;
mod execute;
mod files;
mod globs;
mod layer;
pub(super) mod named;
mod pipeline;
mod place;
mod plan;
mod report;
mod scope_conflicts;
mod setup;
mod slot;
mod start;

pub use again::{EarlierTask, earlier_task};
pub use batch::execute_all;
pub use contract::{SpawnOptions, SpawnPlan};
pub use execute::execute;
pub(in crate::ops) use globs::{hooks_in_tree, spell_out_directories};
pub use pipeline::handed_on;
pub use plan::plan;
pub use report::SpawnReport;
pub use scope_conflicts::preview_conflicts;
pub use start::{ForgeText, Start, of_branch, of_issue, of_pull_request};

/// The steps, in order, under the names given to [`crate::agents::ctx::Seams::reached`].
pub const STEPS: [&str; 10] = [
    "journal",
    "objects",
    "keep",
    "branch",
    "spawning",
    "metadata",
    "populated",
    "files",
    "locked",
    "spawned",
];
