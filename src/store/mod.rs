//! Durable state over git and files: what survives the process, and how several processes share it.
//!
//! Everything lives in refs and below `<common dir>/agents/`; [`files::layout`] names it all. Writers take an
//! OS lock ([`files::lock`]), build their objects, and move a ref by compare-and-swap ([`chain`]). The
//! store has no clock: every write is told what time it is.

/// Files of ours: where they are, how they are written, and locks.
pub mod files {
    pub mod added;
    pub mod briefing;
    pub mod fsx;
    pub mod large_files;
    pub mod layout;
    pub mod leases;
    pub mod lock;
    pub mod place;
    pub mod tickets;
}

/// What has landed: the commits of an agent, and those of a target that stand for them.
pub mod landing {
    pub mod commit_change;
    pub mod landed;
    pub mod replay;
    pub mod spawn_commit;
    pub mod taken_back;
}

/// What the base commit says of the repository and of roles.
pub mod settings {
    pub mod repository_settings;
    pub mod roles;
}

pub mod chain;
pub mod hooks;
pub mod ledger;
pub mod mailbox;

pub use chain::Chain;
pub use files::place::RecordedPlaces;
pub use ledger::Ledger;
pub use ledger::agent_branch::OwnBranch;
pub use mailbox::Mailbox;
