//! Every integration test, in one binary so that it links once. Each module says what it holds.

/// The layers, the doors and the ceilings of `src`.
mod architecture;
/// Agent hosts: their payloads read, their settings merged.
mod hosts;
/// The ledger as git notes: nothing lost, bytes equal to git's.
mod ledger;
/// Populating a worktree: content, index and status equal to git's.
mod populate;
/// Real repositories to test on.
mod support;
/// Task files: what is accepted, and the whole report of what is not.
mod task_file;
