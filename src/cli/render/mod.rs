//! What answers look like: a text for people and a value for machines.

mod agents;
mod archive;
pub(super) mod batch;
mod check;
mod diff;
mod discard;
mod doctor;
mod gc;
mod hooks;
pub(super) mod html;
mod init;
mod landing;
pub(in crate::cli) mod list;
pub(super) mod mail;
mod overlap;
mod report;
mod roles;
mod run;
mod runs;
mod schema;
mod shell;
mod spawn;
pub(super) mod table;
pub(super) mod verify;
