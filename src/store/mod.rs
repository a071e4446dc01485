//! Durable state over git and files: what survives the process, and how several processes share it.
//!
//! Everything lives in refs and below `<common dir>/agents/`; [`layout`] names it all. Writers take an
//! OS lock ([`lock`]), build their objects, and move a ref by compare-and-swap ([`chain`]). The
//! store has no clock: every write is told what time it is.

pub mod added;
pub mod agent_branch;
pub mod audit;
pub mod belief;
pub mod briefing;
mod cache;
pub mod chain;
pub mod facts;
pub mod find;
pub mod fsx;
pub mod hooks;
pub mod keep;
pub mod landed;
pub mod landing_commit;
pub mod large_files;
pub mod layout;
pub mod leases;
pub mod ledger;
pub mod lock;
pub mod mailbox;
pub mod place;
pub mod remote_names;
pub mod replay;
pub mod repository_settings;
pub mod roles;
mod row;
pub mod row_index;
pub mod spawn_commit;
pub mod target_commits;
pub mod tickets;

pub use agent_branch::OwnBranch;
pub use chain::Chain;
pub use ledger::Ledger;
pub use mailbox::Mailbox;
pub use place::RecordedPlaces;
