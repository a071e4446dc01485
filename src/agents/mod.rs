//! What verbs share about agents: which one is meant and which one asks, its worktree, its work, whether it is alive,
//! what it may touch, and how places that it can write are read.

/// What a command knows of its surroundings, and how places that an agent can write are read.
pub mod context {
    pub mod branch_swap;
    pub mod ctx;
    pub(crate) mod histories;
    pub mod parallel;
    pub mod real_path;
    pub mod run_repo;
    pub mod scratch;
    pub mod untrusted;
}

/// Where an agent works: its worktree, and what of it git does not keep.
pub mod place {
    pub(crate) mod hidden_places;
    pub mod ignored_files;
    pub mod kept_worktree;
    pub(crate) mod projects;
    pub mod task_copy;
    pub mod worktree;
}

/// Whether an agent lives: its runs, the sessions of its host, and what a machine can bear.
pub mod life {
    pub(crate) mod admission;
    pub mod at_work;
    pub mod host_session;
    pub mod liveness;
}

/// Which agent is meant and which one asks, what it is told to be, and what it may do.
pub mod who {
    pub mod assignment;
    pub mod authority;
    pub mod current;
    pub mod lookup;
    pub mod names;
    pub mod persona;
    pub mod scope_guard;
}

/// Worktrees and bases that are made ahead, and what makes them ready.
pub mod stock {
    pub mod commands;
    pub(crate) mod disk;
    pub(crate) mod frozen;
    pub mod furnish;
    pub(crate) mod layered;
    pub mod pool;
}

/// What is put in order around runs: clones, what a run made, hooks, messages, and what a kill left.
pub mod upkeep {
    pub mod clone;
    pub mod crash_recovery;
    pub mod half_made;
    pub mod hooks;
    pub(crate) mod merge_conflict;
    pub mod own_checkout;
    pub mod publish;
    pub mod spool;
}

/// Check commands, each in a worktree of the merge as it would be.
pub mod checks {
    pub(crate) mod check_layer;
    pub(crate) mod check_memory;
    pub mod check_run;
    pub mod check_worktree;
}

pub(crate) mod forge;
pub mod work;

pub use context::ctx::{Ctx, Env};
pub(crate) use context::scratch::Scratch;
pub(crate) use place::worktree::AgentWorktree;
pub use who::current::CurrentAgent;
pub use who::scope_guard::ScopeGuard;
pub(crate) use work::{Work, own_changes};
