//! One verb, one file. Readers return a report; writers are `plan`, then `execute`, so that
//! `--dry-run` is stopping in between.

pub mod agent_report;
pub mod archive;
pub mod check;
pub mod close;
pub mod commit;
pub mod diff;
pub mod discard;
pub mod doctor;
pub mod event_report;
pub mod gc;
pub mod git_hook;
pub mod hooks;
pub mod host_hook;
pub mod init;
pub mod install_shell;
pub mod list;
pub mod mail;
pub mod merge;
pub mod overlap;
pub mod receive;
pub mod remedy;
pub mod report;
pub mod rescue;
pub mod retention;
pub mod roles;
pub mod run;
pub mod run_row;
pub mod runs;
pub mod send;
pub mod show;
pub mod spawn;
pub mod status;
pub mod tree;
pub mod unite;
pub mod verify;
