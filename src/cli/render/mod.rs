//! What answers look like: a text for people and a value for machines.

mod agents;
mod check;
mod discard;
mod doctor;
mod gc;
mod hooks;
mod init;
mod landing;
mod roles;
mod run;
mod spawn;
mod table;
pub(super) mod verify;
