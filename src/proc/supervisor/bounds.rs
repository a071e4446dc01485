//! What a command may take, watched by its supervisor.
//!
//! A limit of the kernel for each process bounds no tree, so the supervisor adds the tree up, several times a second. Between two looks a
//! command can pass the limit by what it takes in that time.

use super::descendants;
use crate::domain::limits::{Limit, Limits};
use crate::domain::run::Outcome;
use crate::system;
use rustix::process::{Pid, Signal, getpid};
use std::time::{Duration, Instant};

/// How often the tree is looked at. A fork bomb of a shell makes some fifty processes in that time, and no program fills a tenth of a
/// gigabyte.
const LOOK: Duration = Duration::from_millis(50);

/// How often those that are there are stopped before they are killed. Each time fewer are left that can start others, so that the killing
/// comes to an end.
const STOPS: usize = 5;

/// The most that all processes below a supervisor may take together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeBounds {
    /// Bytes of memory.
    pub memory: Option<u64>,
    /// Processes and threads.
    pub pids: Option<u64>,
}

impl TreeBounds {
    /// What limits leave to one command.
    pub fn of(limits: &Limits) -> TreeBounds {
        TreeBounds {
            memory: limits.memory_of_run(),
            pids: limits.get(Limit::Pids),
        }
    }

    /// Whether nothing is bounded.
    pub fn is_none(self) -> bool {
        self == TreeBounds::default()
    }

    /// Why they cannot be kept here; `None` where they can.
    pub fn obstacle(self) -> Option<&'static str> {
        if self.is_none() || system::usage_below(getpid(), false).is_ok() {
            return None;
        }
        Some(
            "this system does not tell what the processes of a run take, so `memory` and `pids` are not enforced",
        )
    }
}

/// A supervisor's looks at what its command takes.
pub(super) struct BoundsWatch {
    bounds: TreeBounds,
    due: Instant,
}

impl BoundsWatch {
    pub(super) fn new(bounds: TreeBounds) -> BoundsWatch {
        BoundsWatch {
            bounds,
            due: Instant::now() + LOOK,
        }
    }

    /// How long the supervisor may wait for something else.
    pub(super) fn patience(&self, left: Duration) -> Duration {
        if self.bounds.is_none() {
            return left;
        }
        left.min(self.due.saturating_duration_since(Instant::now()))
    }

    /// Looks if it is time to; what the command is to end with, where it takes too much.
    pub(super) fn look(&mut self, main: Pid) -> Option<Outcome> {
        if self.bounds.is_none() || Instant::now() < self.due {
            return None;
        }
        let outcome = self.exceeded();
        if outcome == Some(Outcome::LIMIT_PIDS) {
            for _ in 0..STOPS {
                descendants::signal(getpid(), main, Signal::STOP);
            }
        }
        // After the look, so that on a busy machine the looks do not follow each other without a pause.
        self.due = Instant::now() + LOOK;
        outcome
    }

    fn exceeded(&self) -> Option<Outcome> {
        // The rough sum is cheap and never too low, so the exact one is asked for only where that
        // is above the limit.
        let rough = system::usage_below(getpid(), false).ok()?;
        if self.bounds.pids.is_some_and(|most| rough.tasks > most) {
            return Some(Outcome::LIMIT_PIDS);
        }
        let most = self.bounds.memory.filter(|most| rough.memory > *most)?;
        // What processes share was counted for each of them.
        let exact = system::usage_below(getpid(), true).ok()?;
        (exact.memory > most).then_some(Outcome::LIMIT_MEMORY)
    }
}
