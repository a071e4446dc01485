//! One verb, one file. Readers return a report; writers are `plan`, then `execute`, so that
//! `--dry-run` is stopping in between.

pub mod agent_report;
pub mod check;
pub mod ctx;
pub mod git_hook;
pub mod hooks;
pub mod list;
pub mod roles;
pub mod settle;
pub mod show;
pub mod spawn;
pub mod tree;

pub use ctx::Ctx;
