//! `git agent fenced`: `run` starts this program again by this name, to restrict itself and then become
//! the agent's command.

use crate::domain::sandbox::{Fence, Level};
use crate::error::{Error, Exit, Result};
use crate::ops::run::fence::{Plan, enter};
use std::ffi::OsString;
use std::path::PathBuf;

/// Become a command that can write nowhere but in the places named; `run` calls this
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct FencedArgs {
    /// What has to be enforced
    #[arg(long, value_name = "LEVEL", value_parser = level)]
    level: Level,
    /// Where to say what came of it
    #[arg(long, value_name = "FILE")]
    report: PathBuf,
    /// A file that the command may write, or a directory with everything below it
    #[arg(long, value_name = "PATH")]
    write: Vec<PathBuf>,
    /// Refuse to make unix sockets
    #[arg(long)]
    no_unix_sockets: bool,
    /// Allow commands to the terminal
    #[arg(long)]
    terminal: bool,
    /// Program and arguments
    #[arg(value_name = "COMMAND", required = true, last = true)]
    command: Vec<OsString>,
}

fn level(word: &str) -> Result<Level, String> {
    Level::parse(word).ok_or_else(|| "no such level".to_owned())
}

/// Opens no repository: a fence has nothing to do with where the command runs.
pub(in crate::cli) fn run(args: FencedArgs) -> Result<Exit> {
    let fence = Fence {
        writable: args.write,
        unix_sockets: !args.no_unix_sockets,
        terminal: args.terminal,
    };
    let plan = Plan {
        fence: &fence,
        level: args.level,
        report: &args.report,
    };
    match args.command.split_first() {
        Some((program, arguments)) => Err(enter(&plan, program, arguments)),
        None => Err(Error::bug("a command has a first word")),
    }
}
