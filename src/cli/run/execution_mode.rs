//! The options of `git agent run` that say how the caller takes part.

use super::target::at_least_one;
use crate::error::{Code, Error, Result};

/// How many run at the same time by default.
const JOBS: usize = 4;

/// How the caller takes part in a run.
#[derive(Debug, clap::Args)]
pub(super) struct ExecutionMode {
    /// Come back as soon as the command works; wait, logs and stop are for later
    #[arg(long, short, conflicts_with = "jobs")]
    pub(super) background: bool,
    /// How many to run at the same time when there are several
    #[arg(long, short, value_name = "N", value_parser = at_least_one)]
    jobs: Option<usize>,
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
    /// For these targets.
    pub(super) fn way(&self, targets: &[String]) -> Result<Way> {
        let several = targets.len() > 1;
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
