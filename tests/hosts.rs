//! Agent hosts: every payload is read as what it is, and settings files lose nothing.

/// What each fixture is to be read as.
mod expected;
/// Tool calls of every host, valid and broken, and anything else that may arrive on stdin.
mod payloads;
/// Registrations merged into, kept up in and taken out of settings files.
mod settings;
