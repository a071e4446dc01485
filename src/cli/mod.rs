//! The command line: clap in, an operation, its answer out. One verb, one file; nothing is decided
//! here but which operation runs and how its report looks.

mod archive;
mod check;
mod commit;
mod decide;
mod diff;
mod discard;
mod doctor;
mod gc;
mod hook;
mod hooks;
mod host_hook;
mod init;
mod list;
mod logs;
mod merge;
mod overlap;
mod ps;
mod receive;
mod render;
mod report;
mod rescue;
mod roles;
mod run;
mod schema;
mod screen;
mod send;
mod settle;
mod shell;
mod show;
mod spawn;
mod stop;
mod style;
mod terminal;
mod tree;
mod ui;
mod unite;
mod verbs;
mod verify;
mod wait;
mod watch;

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, Parser};
use std::ffi::OsString;
use std::process::ExitCode;
use ui::{Format, Ui};
use verbs::{Command, dispatch};

/// Gives every coding agent a worktree, a branch and a fence, and records what became of it
#[derive(Debug, Parser)]
#[command(
    name = "git-agent",
    bin_name = "git agent",
    version,
    propagate_version = true,
    disable_help_subcommand = false,
    max_term_width = 100
)]
struct Cli {
    /// How the answer is written: for people, as one JSON object, or one JSON object per line
    #[arg(long, global = true, value_enum, default_value_t = Format::Text, value_name = "FORMAT")]
    format: Format,
    #[command(subcommand)]
    command: Command,
}

/// Runs one command line and gives the status to end with.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => return ExitCode::from(ui::usage(&without_hidden_verbs(error)).code()),
    };
    let mut ui = Ui::of_process(cli.format);
    let exit = dispatch(cli.command, &mut ui).unwrap_or_else(|error| ui.fail(&error));
    ExitCode::from(exit.code())
}

/// Takes what is not for people out of what clap takes for the word that was meant.
fn without_hidden_verbs(mut error: clap::Error) -> clap::Error {
    let verbs = Cli::command();
    let is_shown = |word: &String| {
        verbs
            .find_subcommand(word)
            .is_some_and(|verb| !verb.is_hide_set())
    };
    if let Some(ContextValue::Strings(mut words)) = error.remove(ContextKind::SuggestedSubcommand) {
        words.retain(is_shown);
        if words.is_empty() {
            error.remove(ContextKind::Suggested);
        } else {
            let words = ContextValue::Strings(words);
            error.insert(ContextKind::SuggestedSubcommand, words);
        }
    }
    error
}
