//! What verbs share about agents: where one works, and how places that it can write are read.

pub mod run_repo;
pub mod untrusted;
