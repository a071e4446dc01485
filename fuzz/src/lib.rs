//! What each fuzz target holds: one function from any bytes to nothing, which panics where a promise is
//! broken.
//!
//! `fuzz_targets/` hands these functions to libFuzzer, and the suite of the main package runs them over
//! their seeds (`tests/fuzz.rs`), without libFuzzer.

pub mod admin_files;
pub mod hook_payload;
pub mod index;
pub mod ledger_line;
pub mod message;
pub mod scope;
pub mod task_file;
