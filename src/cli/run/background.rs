//! `git agent run --background`, and `git agent supervise`, which is that run. Not for people.

use super::RunArgs;
use crate::agents::ctx::Ctx;
use crate::cli::parse;
use crate::cli::ui::Ui;
use crate::cli::verbs::Command;
use crate::error::{Error, Exit, Result};
use crate::ops::run::{Echo, StartReport, detach, hand_over};
use std::ffi::OsString;
use std::io::Write;

/// Do what these words say, and let go of the caller when the command works
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct SuperviseArgs {
    /// Words of a `run`
    #[arg(last = true, required = true)]
    words: Vec<OsString>,
}

/// Starts the run that this process was asked for in a process of its own, and answers as that does.
pub(super) fn start(ctx: &Ctx, ui: &Ui, quiet: bool) -> Result<Exit> {
    let mut words: Vec<OsString> = vec!["supervise".into(), "--".into()];
    // The words go on as they were typed, so that both processes read the same.
    words.extend(ctx.env.words.iter().cloned());
    let over = hand_over(ctx.env.require_program()?, &words)?;
    let echo = ui.echo()?;
    for (stream, bytes) in [(echo.err, &over.err), (echo.out, &over.out)] {
        // What kept the run from beginning is told to those as well who asked for silence.
        if let Some(mut stream) = stream.filter(|_| !quiet || over.failed.is_some()) {
            // The run goes on, whether or not its output is read.
            let _ = stream.write_all(bytes);
        }
    }
    Ok(over.failed.map_or(Exit::Yes, Exit::Child))
}

pub(in crate::cli) fn run(args: SuperviseArgs) -> Result<Exit> {
    let words: Vec<_> = std::iter::once("git-agent".into())
        .chain(args.words)
        .collect();
    let (cli, command) = parse(&words)
        .map_err(|error| Error::bug(format!("a run that was asked for is none: {error}")))?;
    let Command::Run(args) = command else {
        return Err(Error::bug("only runs go into the background"));
    };
    // No person is at the terminal of this process who could pick an agent.
    let mut ui = Ui::of_process(cli.format);
    let ctx = Ctx::of_process()?;
    let sync = args.sync.clone();
    let told = supervised(&ctx, *args, &mut |report| begun(&mut ui, report));
    let exit = told.map_or_else(|error| ui.fail(&error), Exit::Child);
    Ok(sync.after_run(&ctx, &mut ui, exit))
}

/// Gives the status to end with.
fn supervised(ctx: &Ctx, args: RunArgs, begun: &mut dyn FnMut(&StartReport)) -> Result<u8> {
    let echo = Echo {
        begun: Some(Box::new(begun)),
        ..Echo::default()
    };
    Ok(super::one(ctx, args, echo)?.exit_status())
}

/// From here on there is no reader: the caller has read the answer to its end.
fn begun(ui: &mut Ui, report: &StartReport) {
    report.warnings.iter().for_each(|text| ui.warn(text));
    // A run that cannot be told of is in the ledger, and its command works already.
    let _ = ui.answer(report);
    let _ = detach();
}
