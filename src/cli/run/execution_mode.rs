//! The options of `git agent run` that say how the caller takes part.

use crate::cli::args::at_least_one;
use crate::error::{Code, Error, Result};

/// How many run at the same time by default.
const JOBS: usize = 4;

/// How the caller takes part in a run.
#[derive(Debug, clap::Args)]
pub(super) struct ExecutionMode {
    /// Return once the command has started; follow it with wait, logs and stop
    #[arg(long, short, conflicts_with = "jobs")]
    pub(super) background: bool,
    /// Fail with status 3 instead of waiting where a limit of the clone leaves no room
    #[arg(long)]
    pub(super) no_wait: bool,
    /// How many to run at the same time when there are several
    #[arg(long, short, value_name = "N", value_parser = at_least_one)]
    jobs: Option<usize>,
    /// Let N agents do the task and name the best one, ready to land; several tasks and hosts take turns
    #[arg(long, value_name = "N", conflicts_with_all = ["background", "no_verify"], value_parser = clap::value_parser!(u16).range(2..=64))]
    best_of: Option<u16>,
    /// Show neither the command's output nor the report
    #[arg(long, short)]
    pub(super) quiet: bool,
}

/// What that comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// One run, which the caller watches.
    Plain,
    /// One run, which goes on without the caller.
    Background,
    /// Several.
    Together {
        /// So many at the same time.
        jobs: usize,
    },
}

impl ExecutionMode {
    /// How many agents compete.
    pub(super) fn best_of(&self) -> Option<usize> {
        self.best_of.map(usize::from)
    }

    /// For these targets.
    pub(super) fn way(&self, targets: &[String]) -> Result<Way> {
        let several = targets.len() > 1 || self.best_of.is_some();
        match (self.background, self.jobs) {
            (true, _) if several => Err(Error::new(
                Code::Usage,
                "--background is for one run, and several are asked for",
            )
            .hint("to start several, run git agent run --background for each")),
            (true, _) => Ok(Way::Background),
            (false, Some(jobs)) => Ok(Way::Together { jobs }),
            (false, None) if several => Ok(Way::Together { jobs: JOBS }),
            (false, None) => Ok(Way::Plain),
        }
    }
}
