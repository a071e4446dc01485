//! What answers look like: a text for people and a value for machines.

mod agents;
mod check;
mod hooks;
mod init;
mod roles;
mod spawn;
mod table;
pub(super) mod verify;
