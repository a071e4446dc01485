//! `ps`, `wait`, `stop` and `logs`: runs that were started here or in another terminal.
//!
//! Nothing is asked of a run but what the system says: its agent's `live.lock` is held as long as a process
//! of ours works for it, its supervisor is the process that has that file as standard input, and the ledger and its logs
//! tell the rest.

pub mod logs;
mod named;
pub mod ps;
pub mod stop;
pub mod wait;
