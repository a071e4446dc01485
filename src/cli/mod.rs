//! The command line: clap in, an operation, its answer out. One verb, one file; nothing is decided
//! here but which operation runs and how its report looks.

/// What is printed: answers as text, tables, JSON and pages, progress, and the screen of a board.
mod out {
    pub(super) mod format;
    pub(super) mod markdown;
    pub(super) mod neutral;
    pub(super) mod progress;
    pub(super) mod render;
    pub(super) mod screen;
    pub(super) mod terminal;
    pub(super) mod ui;
}

/// What is typed: arguments that verbs share, texts of tasks, and what is wrong with them.
mod input {
    pub(super) mod args;
    pub(super) mod lead;
    pub(super) mod several;
    pub(super) mod typed_task;
    pub(super) mod usage_error;
}

mod verbs;

use crate::agents::{Ctx, Env, context::scratch, upkeep::clone};
use crate::error::{Error, Exit, Result};
use crate::ops;
use clap::error::ErrorKind;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use input::{lead, usage_error};
use out::ui::{Format, KeptText, Ui};
use std::ffi::OsString;
use std::process::ExitCode;
use std::str::FromStr;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::FmtSpan;
use verbs::{Command, GROUPS, dispatch, help};

/// Gives every coding agent a worktree, a branch and a scope, and records what became of it
#[derive(Debug, Parser)]
#[command(
    name = "git-agent",
    bin_name = "git agent",
    version,
    propagate_version = true,
    disable_help_subcommand = true,
    subcommand_required = true,
    arg_required_else_help = true,
    max_term_width = 100
)]
struct Cli {
    /// Output format: text for people, one JSON object, or one JSON object per line
    #[arg(long, global = true, value_enum, default_value_t = Format::Text, value_name = "FORMAT")]
    format: Format,
    /// Fail where no agent is named, instead of letting a person pick one on the terminal
    #[arg(long, global = true, hide = true)]
    no_pick: bool,
}

/// Every verb with what it takes.
fn command_line() -> clap::Command {
    Command::augment_subcommands(Cli::command())
}

/// What the arguments say. The verb that they name is built alone, as building all takes longer than many a verb runs;
/// what is wrong is told by the whole, which knows what else could have been meant.
fn parse(arguments: &[OsString]) -> std::result::Result<(Cli, Command), clap::Error> {
    let named = usage_error::verb_among(arguments).and_then(|(_, verb)| verb.to_str());
    let narrow = match named.and_then(verbs::verb) {
        Some(verb) => Cli::command().subcommand(verb),
        None => Cli::command(),
    };
    let matches = match narrow.try_get_matches_from(arguments) {
        // The version needs no list of verbs.
        Err(error) if error.kind() != ErrorKind::DisplayVersion => {
            help::command_line(GROUPS).try_get_matches_from(arguments)
        }
        answer => answer,
    }?;
    Ok((Cli::from_arg_matches(&matches)?, Command::from_arg_matches(&matches)?))
}

/// What arguments say that name this verb, for a process that was started for it alone.
fn parse_as<T: Args>(
    verb: &'static str,
    arguments: &[OsString],
) -> std::result::Result<(Cli, T), clap::Error> {
    let command = Cli::command().subcommand(T::augment_args(clap::Command::default().name(verb)));
    let matches = command.try_get_matches_from(arguments)?;
    let of_verb = matches.subcommand_matches(verb).unwrap_or(&matches);
    Ok((Cli::from_arg_matches(&matches)?, T::from_arg_matches(of_verb)?))
}

/// The names of all verbs, hidden ones too, each with that of its subcommand unless this is a verb by itself as well.
pub fn verbs() -> Vec<String> {
    let command = command_line();
    let named = |command: &clap::Command| command.get_name().to_owned();
    let mut verbs = Vec::new();
    for verb in command.get_subcommands() {
        let before = verbs.len();
        let below = verb.get_subcommands();
        let is_only_here = |below: &&clap::Command| {
            let verb = command.find_subcommand(below.get_name());
            verb.is_none_or(|verb| verb.get_about() != below.get_about())
        };
        let below = below.filter(is_only_here);
        verbs.extend(below.map(|below| format!("{} {}", named(verb), named(below))));
        if verbs.len() == before {
            verbs.push(named(verb));
        }
    }
    verbs
}

/// Runs one command line and gives the status to end with.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<_> = arguments.into_iter().collect();
    // Before anything else: what is started from here on is found where no agent can write.
    if let Some(error) = Env::mend(&arguments) {
        return ExitCode::from(Ui::of_process(Format::Text).fail(&error).code());
    }
    start();
    let arguments = usage_error::translated(arguments);
    let exit = match parse(&arguments) {
        Ok((cli, command)) => {
            let mut ui = Ui::of_process(cli.format).picking(!cli.no_pick);
            let asked = lead::asked(&arguments, &mut ui).transpose();
            let done = asked.unwrap_or_else(|| {
                run(command, &mut ui).or_else(|error| mounted(error, &arguments, &mut ui))
            });
            done.unwrap_or_else(|error| ui.fail(&error))
        }
        Err(error) => usage_error::show(error, &arguments),
    };
    ExitCode::from(exit.code())
}

/// Runs a command whose answer can be written in the format that was asked for. Whether it can is known
/// before anything is done.
fn run(command: Command, ui: &mut Ui) -> Result<Exit> {
    let has_own = matches!(
        (&command, ui.format()),
        (Command::Verify(_) | Command::Guard(_), Format::Sarif | Format::Markdown)
            | (Command::Log(_) | Command::Show(_), Format::AgentTrace | Format::Otlp)
    );
    if !has_own {
        ui.require_common_format()?;
    }
    dispatch(command, ui)
}

/// Does a command again where a layered worktree is mounted, if that is all that it lacked: it has changed nothing then.
fn mounted(error: Error, arguments: &[OsString], ui: &mut Ui) -> Result<Exit> {
    let Some(agent) = error.needs_mount_of() else {
        return Err(error);
    };
    let behind = arguments.get(1..).unwrap_or_default();
    let (status, warning) = ops::mounted::again(&open(ui)?, agent, behind)?;
    warning.iter().for_each(|text| ui.warn(text));
    Ok(Exit::Child(status))
}

/// The surroundings, for the verbs that need them: a hook is called in places that have no repository. A ledger that
/// was overwritten is reported at the first command after that.
fn open(ui: &mut Ui) -> Result<Ctx> {
    let mut ctx = Ctx::of_process()?;
    if let Some(observer) = ui.observer() {
        ctx = ctx.narrated_by(observer);
    }
    // Agents with a clone of their own commit there, so their work is fetched before any verb looks
    // for it.
    let clones = clone::bring_in_all(&ctx);
    clones.iter().for_each(|warning| ui.warn(warning));
    if ui.format() == Format::Text
        && let Some(warning) = ops::doctor::overwritten_ledger(&ctx)
    {
        ui.warn(&warning);
    }
    Ok(ctx)
}

/// The surroundings, for the verbs that only look: a repository that cannot be written will do.
fn look(ui: &mut Ui, run: impl FnOnce(&Ctx, &mut Ui) -> Result<Exit>) -> Result<Exit> {
    let ctx = open(ui)?;
    scratch::complaint(&ctx).iter().for_each(|complaint| ui.warn(complaint));
    scratch::looking(&ctx, |ctx| run(ctx, ui))
}

/// What a command said to a screen.
struct Spoken {
    is_success: bool,
    text: String,
}

/// Runs the words after `git agent`, of this program's own making, and keeps what they say.
fn spoken(words: &[String]) -> Spoken {
    let kept = KeptText::default();
    let exit = perform(words, &mut Ui::kept(&kept));
    Spoken { is_success: exit.code() == 0, text: kept.text() }
}

/// Runs the words after `git agent`, as if they had been typed.
fn perform(words: &[String], ui: &mut Ui) -> Exit {
    let program = std::iter::once("git-agent".into());
    let arguments: Vec<OsString> = program.chain(words.iter().map(OsString::from)).collect();
    let parsed = parse(&arguments).map_err(|error| Error::bug(error.to_string()));
    let done = parsed.and_then(|(_, command)| run(command, ui));
    done.unwrap_or_else(|error| ui.fail(&error))
}

// The debug log on standard error that `GIT_AGENT_LOG` asks for.

/// Starts the log where the environment names a level: `error`, `warn`, `info`, `debug` or `trace`. At `debug` it has
/// a line for each step of an operation, with the time that it took, and for each git that is started.
fn start() {
    let level = Env::log_level().and_then(|level| LevelFilter::from_str(&level).ok());
    if let Some(level) = level {
        let log = tracing_subscriber::fmt()
            .with_max_level(level)
            .with_target(false)
            .with_span_events(FmtSpan::CLOSE)
            .with_writer(std::io::stderr);
        // It fails only where a log was started before.
        let _ = log.try_init();
    }
}
