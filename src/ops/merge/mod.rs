//! `merge`: an agent's work lands, exactly as it was judged.
//!
//! ```text
//! plan     Agent ─> verify (known verdict or a new one) ─> method, target ─> MergePlan
//! execute  uncommitted work as one commit ─> landing commit ─> [ref lock: worktrees, ref] ─> pointer ─> row
//! ```
//!
//! The landing commit has the tree that the verdict names; nothing is merged again. The order of the
//! steps makes every stop harmless: until the ref moves, beginning again does the same once more; after
//! that, beginning again finds the work landed and writes down what is missing (`landed`). A kill
//! between worktree and ref leaves the landing staged in that worktree, which the next landing takes back, and the ref's `.lock` file,
//! which it clears ([`crate::git::files::lock_file`]). A kill while files move leaves an `index.lock` that
//! says whose it is, and files that are missing or new, which the next landing takes for what they are.
//!
//! Deliberately absent: removing worktree and branch, which is `discard`'s, and every git hook of the
//! repository that `[merge] hooks` does not name: no merge takes place in a worktree, and a hook could change what was judged. Those that it
//! names may object (`git_hooks`). The commands of `[hooks]` run before and after it, in the main worktree, and change nothing of what
//! lands.

mod execute;
mod git_hooks;
mod land;
mod message;
mod not_accepted;
mod plan;
mod remote;
mod report;
mod summary;
mod target;
mod unrecorded;

pub use execute::{STEPS, execute, push_steps};
pub(crate) use execute::{before, execute_stack};
pub(crate) use land::concerns_all;
pub use land::land;
pub use not_accepted::NotAccepted;
pub(crate) use plan::fetch_targets;
pub use plan::{MergePlan, judged_plan, plan};
pub use remote::RemoteTarget;
pub use report::{LandingReport, LandingState};

use crate::domain::named::named;
use crate::domain::oid::Oid;

named! {
    /// How work lands.
    pub enum Method {
        /// By a merge commit, always.
        NoFf = "no-ff",
        /// As one commit without the branch's history.
        Squash = "squash",
        /// By moving the target, or not at all.
        FfOnly = "ff-only",
    }
}

/// What the caller asked for.
#[derive(Clone, Debug, Default)]
pub struct MergeOptions {
    /// How to land; the setting `agent.merge`, else a merge commit, when absent.
    pub method: Option<Method>,
    /// The branch to land on; the one that the agent started from when absent.
    pub into: Option<String>,
    /// The remote whose branch the work lands on, in place of this clone's; the usual one where it is empty.
    pub push: Option<String>,
    /// The commit that the branch is taken to be at; the one that it is at when absent.
    pub base_at: Option<Oid>,
    /// Whether the caller has fetched that branch; before a rehearsal it always has.
    pub is_fetched: bool,
    /// Leaves the check commands to the caller, who runs them on exactly what lands.
    pub leave_checks: bool,
    /// Takes what is there although something works in the agent.
    pub now: bool,
    /// Leaves the commands of `[hooks]` and the git hooks of `[merge]` out.
    pub no_hooks: bool,
    /// The message of the landing commit, in place of the one made from the agent's summary.
    pub message: Option<String>,
}
