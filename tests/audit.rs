//! Regression tests for the findings of an audit; each test is named for its number.

/// Several clones of one repository.
mod clones;
/// Locks of others, links in the place of worktrees, text that a terminal obeys.
mod field;
/// Missing history, and what is out of a clone's reach.
mod history;
/// What real agent hosts send and understand.
mod hosts;
/// Files that git ignores are neither judged nor landed.
mod ignored;
/// Symlinks that lead out.
mod links;
/// Locks that killed processes leave.
mod locks;
/// Which agent a branch belongs to, and which policy binds it.
mod origin;
/// Programs that an agent planted, at every verb.
pub mod planted;
/// The state of an agent after its runs, and what a name means.
mod runs;
/// What one agent leaves broken is that agent's matter.
pub mod states;
/// Rows from elsewhere are claims, and nothing private stays behind.
mod trust;
