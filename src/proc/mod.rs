//! Child processes that are not git: hooks that run in our place, and jobs that are started in a process
//! group of their own, watched against a time limit, and ended with everything they started.

pub mod background;
mod job;
pub mod relay;
mod tail;

pub use job::{AGENT_VARIABLES, End, Finished, Job, run};
