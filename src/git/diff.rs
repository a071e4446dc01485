//! What two trees do not share.

pub(in crate::git) mod conflict_markers;
pub(in crate::git) mod differences;
pub mod patch;
