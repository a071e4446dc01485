//! Child processes that are not git: agent commands, checks and set-up commands, each in a process
//! group of its own.

pub mod relay;
pub mod shell;
