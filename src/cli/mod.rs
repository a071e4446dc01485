//! The command line: clap in, an operation, its answer out. One verb, one file; nothing is decided
//! here but which operation runs and how its report looks.

mod check;
mod commit;
mod decide;
mod discard;
mod doctor;
mod gc;
mod hook;
mod hooks;
mod host_hook;
mod init;
mod list;
mod merge;
mod render;
mod rescue;
mod roles;
mod settle;
mod show;
mod spawn;
mod style;
mod tree;
mod ui;
mod verify;

use crate::error::{Exit, Result};
use crate::ops::Ctx;
use clap::{Parser, Subcommand};
use std::ffi::OsString;
use std::process::ExitCode;
use ui::{Format, Ui};

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

#[derive(Debug, Subcommand)]
enum Command {
    Spawn(spawn::SpawnArgs),
    List(list::ListArgs),
    Show(show::ShowArgs),
    Log(show::LogArgs),
    Tree(tree::TreeArgs),
    Path(show::PathArgs),
    Check(check::CheckArgs),
    Done(settle::DoneArgs),
    Fail(settle::FailArgs),
    Verify(verify::VerifyArgs),
    Commit(commit::CommitArgs),
    Merge(merge::MergeArgs),
    Reject(decide::RejectArgs),
    Defer(decide::DeferArgs),
    Discard(discard::DiscardArgs),
    Rescue(rescue::RescueArgs),
    Gc(gc::GcArgs),
    #[command(hide = true)]
    Sweep(discard::SweepArgs),
    Roles(roles::RolesArgs),
    Hooks(hooks::HooksArgs),
    Doctor(doctor::DoctorArgs),
    Init(init::InitArgs),
    Hook(hook::HookArgs),
}

/// Runs one command line and gives the status to end with.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => return ExitCode::from(ui::usage(&error).code()),
    };
    let mut ui = Ui::of_process(cli.format);
    let exit = dispatch(cli.command, &mut ui).unwrap_or_else(|error| ui.fail(&error));
    ExitCode::from(exit.code())
}

fn dispatch(command: Command, ui: &mut Ui) -> Result<Exit> {
    // Made by the verbs that need it: a hook is called in places that have no repository.
    let ctx = Ctx::of_process;
    match command {
        Command::Spawn(args) => spawn::run(&ctx()?, ui, args),
        Command::List(args) => list::run(&ctx()?, ui, args),
        Command::Show(args) => show::run(&ctx()?, ui, &args),
        Command::Log(args) => show::run_log(&ctx()?, ui, &args),
        Command::Tree(args) => tree::run(&ctx()?, ui, &args),
        Command::Path(args) => show::run_path(&ctx()?, ui, &args),
        Command::Check(args) => check::run(&ctx()?, ui, args),
        Command::Verify(args) => verify::run(&ctx()?, ui, args),
        Command::Done(args) => settle::run_done(&ctx()?, ui, &args),
        Command::Fail(args) => settle::run_fail(&ctx()?, ui, &args),
        Command::Commit(args) => commit::run(&ctx()?, ui, &args),
        Command::Merge(args) => merge::run(&ctx()?, ui, args),
        Command::Reject(args) => decide::run_reject(&ctx()?, ui, &args),
        Command::Defer(args) => decide::run_defer(&ctx()?, ui, &args),
        Command::Discard(args) => discard::run(&ctx()?, ui, &args),
        Command::Rescue(args) => rescue::run(&ctx()?, ui, args),
        Command::Gc(args) => gc::run(&ctx()?, ui, &args),
        Command::Sweep(args) => Ok(discard::run_sweep(&ctx()?, &args)),
        Command::Roles(args) => roles::run(&ctx()?, ui, &args),
        Command::Hooks(args) => hooks::run(&ctx()?, ui, &args),
        Command::Hook(args) => hook::run(ui, args),
        Command::Doctor(args) => doctor::run(&ctx()?, ui, &args),
        Command::Init(args) => init::run(&ctx()?, ui, args),
    }
}
