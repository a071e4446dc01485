//! What verbs share about agents: which one is meant and which one asks, its worktree, its work, whether it is alive,
//! what it may touch, and how places that it can write are read.

pub mod assignment;
pub mod authority;
pub mod baseline;
pub mod branch_swap;
pub mod bundle;
pub mod check_run;
pub mod check_worktree;
pub mod clone;
pub mod commands;
pub mod crash_recovery;
pub mod ctx;
pub mod current;
pub mod half_made;
pub mod hooks;
pub mod ignored_files;
pub mod instructions;
pub mod liveness;
mod located;
pub mod lookup;
pub mod moves;
pub mod names;
pub mod open_places;
pub mod own_checkout;
pub mod parallel;
pub mod persona;
pub mod pool;
pub mod publish;
pub mod real_path;
pub mod run_repo;
pub mod scope_guard;
pub mod scratch;
pub mod spool;
mod step_log;
pub mod untrusted;
pub mod work;
pub mod worktree;
