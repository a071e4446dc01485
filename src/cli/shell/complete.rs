//! `git agent complete`: what the completions of all shells ask.

use crate::agents::ctx::Ctx;
use crate::cli::command_line;
use crate::cli::ui::Ui;
use crate::error::{Exit, Result};
use crate::ops::list;
use crate::ops::list::ListOptions;
use clap::{Arg, Command};
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate, complete};
use std::ffi::OsString;

/// Print what could stand at the end of a command line; the completions of shells ask this
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct CompleteArgs {
    /// Words after `git agent`, the last of them the one to complete
    #[arg(last = true, value_name = "WORD")]
    words: Vec<OsString>,
}

/// What an argument that names an agent is called in every command.
const AGENT: &str = "AGENT";

/// Prints a candidate a line, with a tab and its meaning where there is one. What goes wrong is nothing to
/// say while the user types.
pub(in crate::cli) fn run(ui: &mut Ui, args: CompleteArgs) -> Result<Exit> {
    let mut words = vec![OsString::from("git-agent")];
    words.extend(args.words);
    // The shell may name no word where the line ends with a blank.
    if words.len() == 1 {
        words.push(OsString::new());
    }
    let mut command = with_agents(command_line());
    let last = words.len() - 1;
    let candidates = complete(&mut command, words, last, None).unwrap_or_default();
    // Hidden ones are offered when nothing else begins like this.
    let is_shown = |candidate: &&CompletionCandidate| !candidate.is_hide_set();
    let lines = candidates.iter().filter(is_shown).filter_map(line);
    ui.print(&lines.collect::<String>())?;
    Ok(Exit::Yes)
}

fn line(candidate: &CompletionCandidate) -> Option<String> {
    let value = candidate.get_value().to_str()?;
    // The shell reads one candidate a line.
    if value.contains(char::is_control) {
        return None;
    }
    let help = candidate.get_help().map(ToString::to_string);
    let help = help.as_deref().and_then(|help| help.lines().next());
    Some(match help {
        Some(help) => format!("{value}\t{}\n", help.replace(char::is_control, " ")),
        None => format!("{value}\n"),
    })
}

/// The command line with live agents wherever one may be named.
fn with_agents(command: Command) -> Command {
    let names_agent = |arg: &Arg| {
        let mut names = arg.get_value_names().unwrap_or_default().iter();
        names.any(|name| name.split('|').any(|word| word == AGENT))
    };
    command
        .mut_args(|arg| {
            if names_agent(&arg) {
                arg.add(ArgValueCandidates::new(agents))
            } else {
                arg
            }
        })
        .mut_subcommands(with_agents)
}

/// Every agent that is not landed or discarded: by its name, else by the beginning of its id.
fn agents() -> Vec<CompletionCandidate> {
    let options = ListOptions {
        fast: true,
        ..ListOptions::default()
    };
    let listed = Ctx::of_process().and_then(|ctx| list::list(&ctx, &options));
    let agents = listed.map_or(Vec::new(), |report| report.agents);
    agents
        .into_iter()
        .map(|row| {
            let agent = row.agent;
            let handle = agent.name.unwrap_or(agent.short_id);
            CompletionCandidate::new(handle).help(agent.description.map(Into::into))
        })
        .collect()
}
