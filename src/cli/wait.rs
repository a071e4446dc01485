//! `git agent wait`

use super::ui::Ui;
use crate::agents::ctx::Ctx;
use crate::domain::task::parse_duration;
use crate::error::{Exit, Result};
use crate::ops::runs::wait;
use crate::ops::runs::wait::WaitOptions;
use std::time::Duration;

/// Wait until runs are over, and end as they did
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Ends with the status of the run, which is 1 where its work was rejected; of several, with that of the first that failed; with \
124 when the time was up first.")]
pub(super) struct WaitArgs {
    /// Agents to wait for; when none is named, every run that goes on, and every one in the background that has ended and that
    /// no `wait` or `stop` has told of
    #[arg(value_name = "AGENT")]
    agents: Vec<String>,
    /// Wait for the first that is over, and no longer
    #[arg(long)]
    any: bool,
    /// How long to wait, 0s only to look; without it, for ever
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    timeout: Option<Duration>,
}

pub(super) fn run(ctx: &Ctx, ui: &mut Ui, args: WaitArgs) -> Result<Exit> {
    let report = wait::wait(
        ctx,
        &WaitOptions {
            agents: args.agents,
            any: args.any,
            limit: args.timeout,
        },
    )?;
    ui.answer(&report)?;
    Ok(Exit::Child(report.exit_code()))
}
