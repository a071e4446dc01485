//! The only layer that names libgit2 (and gitoxide) or starts `git`. Everything it gives out is a
//! plain owned value of `domain`, so that all git access can be read, and audited, in one place.
//!
//! Three tools share the work, each where it was measured to be right and fast: libgit2 for refs,
//! objects and tree walks; gitoxide for populating a worktree and for the commit-graph; the user's own `git` for what depends
//! on its version or its network.
//!
//! The rooms, from the ground up; none names a higher one:
//!
//! - `tree` knows the form of tree objects, `command` starts git, `program` asks it for its version, hooks and signatures;
//! - `files` goes into directories, reads what an agent may have written, locks and removes;
//! - `repo` opens a repository, `objects` reads and writes what is in it, `history` finds which commits belong to what, `merge` what
//!   merging them gives;
//! - `refs` moves branches and talks to remotes, `notes` reads and writes notes, `config` settings;
//! - `worktree` makes worktrees and what git sees in their place, `changes` finds what differs in them, `uncommitted` what
//!   `git add -A` would add, and `salvage` keeps it;
//! - `populate` writes the files of a worktree, `landing` moves one along with its branch, `commit` and `restage` work on what is
//!   staged, `diff` compares and shows trees.

pub mod changes;
pub mod command;
pub mod commit;
pub mod config;
pub mod diff;
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
/// Which commits belong to a history, and what one history has that another lacks.
pub mod history {
    pub mod ancestry;
    pub mod gained;
}
pub mod landing;
pub mod merge;
pub mod notes;
pub mod objects;
mod pool;
pub mod populate;
pub mod program;
pub mod refs;
pub mod repo;
pub mod salvage;
pub mod tree;
pub mod uncommitted;
pub mod worktree;

pub use files::layer::WorktreeLayer;
pub use landing::Checkout;
pub use merge::MergeResult;
pub use objects::{Commit, Identity, NewCommit};
pub use refs::Tip;
pub use repo::Repo;
pub use worktree::NewWorktree;
