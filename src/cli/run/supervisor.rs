//! `git agent supervisor` and `git agent launch`: this program between `run` and a command. Not for people.

use crate::agents::ctx::Env;
use crate::error::{Error, Exit, Result};
use crate::ops::run::{Order, TreeBounds, keep, launch};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Watch over a command
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct WardenArgs {
    /// Process that waits for it
    #[arg(long)]
    parent: u32,
    /// How long the command may take, in milliseconds
    #[arg(long)]
    limit: u64,
    /// How much memory its processes may take, in bytes
    #[arg(long)]
    memory: Option<u64>,
    /// How many processes and threads there may be
    #[arg(long)]
    pids: Option<u64>,
    /// What the command reads
    #[arg(long)]
    input: Option<PathBuf>,
    /// Give the command standard output as a terminal of its own
    #[arg(long)]
    terminal: bool,
    /// Directory to remove at the end
    #[arg(long)]
    scratch: Option<PathBuf>,
    /// File to lock together with the process that waits
    #[arg(long)]
    ticket: Option<PathBuf>,
    /// Command and its arguments
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// Become a command
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct LaunchArgs {
    /// Process that watches over it
    #[arg(long)]
    supervisor: u32,
    /// Take standard output as a terminal of its own
    #[arg(long)]
    terminal: bool,
    /// Command and its arguments
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

pub(in crate::cli) fn run(args: WardenArgs) -> Result<Exit> {
    let order = Order {
        program: Env::of_process()?.require_program()?.to_owned(),
        parent: args.parent,
        limit: Duration::from_millis(args.limit),
        bounds: TreeBounds {
            memory: args.memory,
            pids: args.pids,
        },
        input: args.input,
        scratch: args.scratch,
        ticket: args.ticket,
        terminal: args.terminal,
        command: args.command,
    };
    keep(&order).map(Exit::Child)
}

pub(in crate::cli) fn run_launch(args: &LaunchArgs) -> Result<Exit> {
    match args.command.split_first() {
        Some((program, arguments)) => {
            Err(launch(args.supervisor, args.terminal, program, arguments))
        }
        None => Err(Error::bug("a command has a first word")),
    }
}
