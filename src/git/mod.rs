//! The only layer that names libgit2 (and gitoxide) or starts `git`. Everything it gives out is a
//! plain owned value of `domain`, so that all git access can be read, and audited, in one place.
//!
//! Three tools share the work, each where it was measured to be right and fast: libgit2 for refs,
//! objects and tree walks; gitoxide for populating a worktree and for the commit-graph; the user's own `git` for what depends
//! on its version or its network.
//!
//! The rooms, from the ground up; none names a higher one:
//!
//! - `core` starts git and knows the form of tree objects;
//! - `files` goes into directories, reads what an agent may have written, locks and removes;
//! - `repo` opens a repository and asks its git for version, hooks and signatures; `objects` reads and writes what is in it, `history`
//!   finds which commits belong to what and what merging them gives;
//! - `refs` moves branches and talks to remotes, `config` reads settings;
//! - `worktree` makes worktrees, writes their files and tells what git sees in their place, `changes` finds what differs in them,
//!   `uncommitted` what `git add -A` would add, and keeps it;
//! - `landing` moves a worktree along with its branch, `record` makes commits and notes and shows what trees do not share.

/// How git is started, how work is shared out to threads, and the form of tree objects.
pub mod core {
    pub mod command;
    pub(in crate::git) mod pool;
    pub mod tree;
}

/// Going into directories, reading what an agent may have written, locking, removing; what an admin directory says.
pub mod files {
    pub mod admin_dir;
    pub mod descent;
    pub mod layer;
    pub mod lock_file;
    pub mod separate;
    pub mod temporary;
    pub mod untrusted;
}

/// Which commits belong to a history, what one history has that another lacks, and what merging gives.
pub mod history {
    pub mod ancestry;
    pub mod gained;
    pub mod merge;
}

/// What is written down: commits, notes on them, and what two trees do not share.
pub mod record {
    pub mod commit;
    pub mod diff;
    pub mod notes;
}

pub mod changes;
pub mod config;
pub mod landing;
pub mod objects;
pub mod refs;
pub mod repo;
pub mod uncommitted;
pub mod worktree;

pub use files::layer::WorktreeLayer;
pub use history::merge::MergeResult;
pub use landing::Checkout;
pub use objects::{Commit, Identity, NewCommit};
pub use refs::Tip;
pub use repo::Repo;
pub use worktree::NewWorktree;
