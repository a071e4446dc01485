//! `git agent fenced`: `run` starts this program again by this name, to restrict itself and then become
//! the agent's command.

use crate::domain::sandbox::{Fence, Landlock, LayerMount, Level, Namespaces, Replaced};
use crate::error::{Exit, Result};
use crate::ops::run::fence::{Plan, become_mounted, enter, probe, probe_layer};
use std::ffi::OsString;
use std::path::PathBuf;

/// Become a command that can write nowhere but in the places named; `run` calls this
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct FencedArgs {
    /// End with a status that says which namespaces can be had
    #[arg(long)]
    probe: bool,
    /// Mount a layered worktree and become the command, without any restriction
    #[arg(long, requires = "layer", conflicts_with = "probe")]
    mounted: bool,
    /// A base, an upper directory, a work directory and a place: the overlay mount of a layered worktree
    #[arg(long, value_name = "DIR", num_args = 4)]
    layer: Vec<PathBuf>,
    /// What Landlock has to enforce
    #[arg(long, value_name = "LEVEL", value_parser = landlock, default_value = "files")]
    landlock: Landlock,
    /// Which namespaces there have to be
    #[arg(long, value_name = "WHICH", value_parser = namespaces, default_value = "none")]
    namespaces: Namespaces,
    /// Be the first process of a namespace
    #[arg(long)]
    first: bool,
    /// Where to say what came of it
    #[arg(long, value_name = "FILE", required_unless_present_any = ["probe", "mounted"])]
    report: Option<PathBuf>,
    /// A file that the command may write, or a directory with everything below it
    #[arg(long, value_name = "PATH")]
    write: Vec<PathBuf>,
    /// A program, an empty file for it, and the program that takes its place
    #[arg(long, value_name = "PATH", num_args = 3)]
    replace: Vec<PathBuf>,
    /// A directory of which that is a part
    #[arg(long, value_name = "PATH")]
    own: Vec<PathBuf>,
    /// A directory that appears empty
    #[arg(long, value_name = "PATH")]
    hide: Vec<PathBuf>,
    /// What is seen below such a directory
    #[arg(long, value_name = "PATH")]
    show: Vec<PathBuf>,
    /// Refuse to make unix sockets
    #[arg(long)]
    no_unix_sockets: bool,
    /// Allow commands to the terminal
    #[arg(long)]
    terminal: bool,
    /// Program and arguments
    #[arg(value_name = "COMMAND", required_unless_present = "probe", last = true)]
    command: Vec<OsString>,
}

fn landlock(word: &str) -> Result<Landlock, String> {
    Landlock::parse(word).ok_or_else(|| "no such level".to_owned())
}

fn namespaces(word: &str) -> Result<Namespaces, String> {
    Namespaces::parse(word).ok_or_else(|| "no such namespaces".to_owned())
}

/// Opens no repository: a fence has nothing to do with where the command runs.
pub(in crate::cli) fn run(args: FencedArgs) -> Result<Exit> {
    let layer = match args.layer.as_slice() {
        [base, upper, work, place] => Some(LayerMount {
            base: base.clone(),
            upper: upper.clone(),
            work: work.clone(),
            place: place.clone(),
        }),
        _ => None,
    };
    if args.mounted
        && let Some(layer) = &layer
    {
        return Err(become_mounted(layer, &args.command));
    }
    if args.probe {
        return match layer {
            Some(layer) => probe_layer(&layer).map(|()| Exit::Yes),
            None => Ok(Exit::Child(probe())),
        };
    }
    // They come in threes.
    let replaced = args.replace.chunks(3).filter_map(|three| match three {
        [original, kept, by] => Some(Replaced {
            original: original.clone(),
            kept: kept.clone(),
            by: by.clone(),
        }),
        _ => None,
    });
    let fence = Fence {
        layer,
        replaced: replaced.collect(),
        writable: args.write,
        own: args.own,
        hidden: args.hide,
        shown: args.show,
        unix_sockets: !args.no_unix_sockets,
        terminal: args.terminal,
    };
    let plan = Plan {
        fence: &fence,
        level: Level {
            landlock: args.landlock,
            namespaces: args.namespaces,
            why: None,
        },
        // Only a probe has none, and that has ended above.
        report: &args.report.unwrap_or_default(),
    };
    enter(&plan, args.first, &args.command).map(Exit::Child)
}
