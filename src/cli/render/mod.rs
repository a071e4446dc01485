//! Pieces of text that the answers of several verbs share.

pub(super) mod agents;
pub(super) mod findings;
pub(super) mod mail;
pub(super) mod table;
