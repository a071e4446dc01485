//! A git-native worktree manager for coding agents.

pub mod cli;
pub mod domain;
pub mod error;
pub mod git;
pub mod ops;
pub mod proc;
pub mod store;
pub mod wire;
