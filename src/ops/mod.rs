//! One verb, one file. Readers return a report; writers are `plan`, then `execute`, so that
//! `--dry-run` is stopping in between.

pub mod agent_report;
pub mod archive;
pub mod check;
pub mod commit;
pub mod ctx;
pub mod decide;
pub mod diff;
pub mod discard;
pub mod doctor;
pub mod event_report;
pub mod expire;
pub mod gc;
pub mod git_hook;
pub mod home;
pub mod hooks;
pub mod host_hook;
pub mod init;
pub mod install_shell;
pub mod list;
mod live;
mod lookup;
pub mod mail;
pub mod merge;
pub mod message;
pub mod overlap;
mod parallel;
pub mod persona;
mod real_path;
pub mod receive;
pub mod recursion;
pub mod report;
pub mod rescue;
pub mod retention;
pub mod roles;
pub mod run;
pub mod runs;
pub mod send;
pub mod settle;
pub mod show;
pub mod spawn;
pub mod standing;
pub mod tree;
pub mod unite;
pub mod verify;

pub use ctx::Ctx;
