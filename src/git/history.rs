//! Which commits belong to a history, and what one history has that another lacks.

pub mod ancestry;
pub(in crate::git) mod commit_graph;
pub mod gained;
pub mod shallow;
