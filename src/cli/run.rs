//! `git agent run`

use super::commission::CommissionArgs;
use super::spawn::read_task;
use super::ui::{Format, Ui};
use crate::domain::sandbox::Mode;
use crate::domain::task::parse_duration;
use crate::error::{Exit, Result};
use crate::ops::Ctx;
use crate::ops::run::{self, Echo, RunOptions, Target};
use crate::ops::spawn;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Run a command for an agent in its worktree, wait for it, record it and judge the work
#[derive(Debug, clap::Args)]
#[command(after_help = PLACEHOLDERS)]
pub(super) struct RunArgs {
    /// Task file to make an agent of, `-` for standard input; or an agent: its id, name, branch or worktree
    #[arg(value_name = "TASK|AGENT")]
    target: String,
    /// How long the command may take; without it the task's own limit, else 5m
    #[arg(long, value_name = "DURATION", value_parser = some_time)]
    timeout: Option<Duration>,
    /// How strictly to fence the command in: auto, require, strict or off
    #[arg(long, value_name = "HOW", default_value = "auto", value_parser = Mode::parse)]
    sandbox: Mode,
    /// Let the command write there too: a file, or a directory with everything below it; repeatable
    #[arg(long, value_name = "PATH")]
    allow_write: Vec<PathBuf>,
    /// Do not judge the work when the command succeeded
    #[arg(long)]
    no_verify: bool,
    /// Show neither the command's output nor the report
    #[arg(long, short)]
    quiet: bool,
    /// Show what would be run and stop
    #[arg(long, short = 'n')]
    dry_run: bool,
    #[command(flatten)]
    commission: CommissionArgs,
    /// Command and its arguments
    #[arg(last = true, required_unless_present = "host", value_name = "COMMAND")]
    command: Vec<OsString>,
}

const PLACEHOLDERS: &str = "\
In the command, {prompt}, {prompt_file}, {model}, {max_iterations}, {worktree} and {id} stand for what they say. The \
prompt is on standard input unless one of the first two names it.";

pub(super) fn run(ctx: &Ctx, ui: &mut Ui, args: RunArgs) -> Result<Exit> {
    ui.refuse_sarif()?;
    let options = RunOptions {
        limit: args.timeout,
        sandbox: args.sandbox,
        allow_write: args.allow_write,
        no_verify: args.no_verify,
        ..RunOptions::default()
    };
    let options = args.commission.add_to(ctx, options)?;
    let plan = run::plan(ctx, target(ctx, args.target)?, args.command, options)?;
    if args.dry_run {
        let outline = plan.outline();
        if ui.format() == Format::Text {
            outline.warnings.iter().for_each(|text| ui.warn(text));
        }
        ui.answer(&outline)?;
        return Ok(Exit::Yes);
    }
    spawn::sweep(ctx)?;
    // Standard output belongs to the command, or to the machine that reads the report.
    let spoken = ui.format() == Format::Text;
    let echo = match spoken && !args.quiet {
        true => ui.echo()?,
        false => Echo::default(),
    };
    let report = run::execute(ctx, plan, echo)?;
    if spoken && !args.quiet {
        report.warnings.iter().for_each(|text| ui.warn(text));
        ui.tell(&report);
    } else if !spoken {
        ui.answer(&report)?;
    }
    Ok(Exit::Child(report.exit_code))
}

/// A task file is a file, or is called like one.
fn target(ctx: &Ctx, text: String) -> Result<Target> {
    let path = Path::new(&text);
    let is_task = text == "-" || text.ends_with(".toml") || ctx.absolute(path).is_file();
    Ok(match is_task {
        true => Target::Task(Box::new(read_task(ctx, path)?)),
        false => Target::Agent(text),
    })
}

fn some_time(text: &str) -> Result<Duration, String> {
    match parse_duration(text)? {
        Duration::ZERO => Err("a command needs more time than none".to_owned()),
        limit => Ok(limit),
    }
}
