//! Child processes that are not git.
//!
//! ```text
//! we ── supervisor ── launch, which becomes the command ── whatever it starts
//!         └── ends all of it when it is over, when its time is up, when we say so or are gone
//! ```
//!
//! A command never runs right below us: [`supervisor`] is a process in between, this program again, whose only
//! descendants are the command's. It adopts those that leave their parents, so none escapes it by a
//! double fork or a session of its own, and it outlives us by as long as ending them takes. [`launch`]
//! is this program a third time: it makes the last arrangements that only a process can make for
//! itself, and becomes the command.

pub mod capture;
mod job;
pub mod launch;
pub mod sandbox;
pub mod signals;
pub mod supervisor;
pub mod terminal;

use rustix::fs::{Mode, RawMode};
use rustix::process::umask;

/// Replaces the umask of this process by what `wanted` makes of it, if anything. Children inherit it.
pub fn change_umask(wanted: impl FnOnce(RawMode) -> Option<RawMode>) {
    // It cannot be read without being set.
    let present = umask(Mode::RWXG | Mode::RWXO);
    umask(wanted(present.bits()).map_or(present, Mode::from_bits_truncate));
}

pub use job::{AGENT_VARIABLES, End, Finished, Job, run};
