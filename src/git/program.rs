//! What git's own programs are asked for: its version, its pager, hooks, trailers and signatures.

pub mod hooks;
pub mod show;
pub mod signing;
pub mod trailer;
pub mod version;
