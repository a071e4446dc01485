//! `git agent logs`

use super::args::OwnAgentArg;
use super::ui::{Answer, Format, Ui};
use crate::agents::ctx::Ctx;
use crate::error::{Error, Exit, Result};
use crate::ops::runs::{self, LogOptions, LogsReport};
use std::io::ErrorKind;

/// Print what a run wrote to its standard output
#[derive(Debug, clap::Args)]
pub(super) struct LogsArgs {
    #[command(flatten)]
    agent: OwnAgentArg,
    #[command(flatten)]
    which: OutputArgs,
}

/// Which output of which run.
#[derive(Debug, clap::Args)]
pub(super) struct OutputArgs {
    /// Go on until the run is over
    #[arg(long, short)]
    follow: bool,
    /// Print what it wrote to its standard error
    #[arg(long)]
    stderr: bool,
    /// Number of the run; without it, the last one
    #[arg(long, value_name = "N")]
    run: Option<u32>,
}

impl OutputArgs {
    /// Whether any of it is asked for: `show` prints output then.
    pub(super) fn is_given(&self) -> bool {
        self.follow || self.stderr || self.run.is_some()
    }
}

pub(super) fn run(ctx: &Ctx, ui: &mut Ui, args: &LogsArgs) -> Result<Exit> {
    let who = args.agent.or_current(ctx, ui)?;
    print(ctx, ui, who, &args.which)
}

/// Prints the output of an agent's run.
pub(super) fn print(ctx: &Ctx, ui: &mut Ui, agent: String, which: &OutputArgs) -> Result<Exit> {
    let options = LogOptions {
        agent,
        run: which.run,
        stderr: which.stderr,
        follow: which.follow,
    };
    if ui.format() != Format::Text {
        // The log may be anything, so by machine it is read where the answer says it is.
        let report = runs::logs(ctx, &options, &mut |_| Ok(true))?;
        return ui.done(&report);
    }
    let mut out = ui.echo()?.out;
    runs::logs(ctx, &options, &mut |bytes| match out.as_mut() {
        None => Ok(false),
        Some(out) => match out.write_all(bytes) {
            // The reader is gone, so a log that is followed is left, too.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
            other => other
                .map(|()| true)
                .map_err(|source| Error::io("could not write the log", source)),
        },
    })?;
    Ok(Exit::Yes)
}

impl Answer for LogsReport {
    /// The log itself was written as it came.
    fn text(&self) -> String {
        String::new()
    }
}
