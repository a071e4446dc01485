//! The only layer that names libgit2 (and gitoxide) or starts `git`. Everything it gives out is a
//! plain owned value of `domain`, so that all git access can be read, and audited, in one place.
//!
//! Three tools share the work, each where it was measured to be right and fast: libgit2 for refs,
//! objects and tree walks; gitoxide for populating a worktree and for the commit-graph; the user's own `git` for what depends
//! on its version or its network.

pub mod ancestry;
pub mod branch;
pub mod changes;
pub mod command;
pub mod commit;
mod commit_graph;
pub mod config;
pub mod config_file;
mod conflict_markers;
pub mod descent;
mod differences;
mod disk_use;
pub mod gained;
pub mod gitlinks;
pub mod hooks;
pub mod identity;
pub mod ignore;
pub mod landing;
pub mod lock_file;
pub mod merge;
pub mod notes;
pub mod objects;
pub mod open;
mod own_branch;
pub mod own_repository;
pub mod patch;
mod pool;
pub mod populate;
mod promised;
mod pruned;
pub mod quarantine;
pub mod raw_commit;
pub mod reflog;
pub mod refs;
pub mod remote;
pub mod repo;
pub mod restage;
pub mod salvage;
mod scratch_objects;
pub mod shallow;
mod sharing;
pub mod show;
pub mod signing;
pub mod temporary;
pub mod trailer;
pub mod tree;
pub mod uncommitted;
pub mod untrusted;
pub mod version;
pub mod view;
pub mod walk;
pub mod worktree;
pub mod worktree_config;

pub use repo::Repo;
