//! `git agent enter`

use crate::agents::{Ctx, upkeep::half_made};
use crate::cli::input::args::{OwnAgentArg, one_of};
use crate::cli::out::ui::Ui;
use crate::cli::verbs::run::inputs::host;
use crate::cli::verbs::run::{echo, show};
use crate::domain::life::sandbox::Mode;
use crate::error::{Code, Error, Exit, Result};
use crate::hosts::{self, Host};
use crate::ops::run::{self, Echo, RunOptions, RunTarget};
use std::ffi::OsString;
use std::path::PathBuf;

/// Work in an agent's worktree yourself: a shell with the agent's environment and sandbox
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct EnterArgs {
    #[command(flatten)]
    agent: OwnAgentArg,
    /// Start this agent host instead of a shell, with the arguments after --
    #[arg(long, value_name = "HOST", value_parser = one_of(hosts::startable().map(Host::name), host))]
    host: Option<&'static dyn Host>,
    /// How strictly the sandbox confines the command
    #[arg(long, value_name = "HOW", default_value = "auto", value_parser = one_of(Mode::ALL.map(Mode::as_str), Mode::read))]
    sandbox: Mode,
    /// Let the command also write this file, or this directory and everything below it; repeatable
    #[arg(long, value_name = "PATH")]
    allow_write: Vec<PathBuf>,
    /// Let the command push with your credentials; without this, every push is refused
    #[arg(long)]
    allow_push: bool,
    /// Command and its arguments, instead of a shell
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(in crate::cli) fn run(ctx: &Ctx, ui: &mut Ui, args: EnterArgs) -> Result<Exit> {
    let who = args.agent.or_current(ctx, ui)?;
    let is_shell = args.command.is_empty() && args.host.is_none();
    let at_terminal = run::has_terminal();
    // A single command, such as a `git merge --abort` that an error names, needs none.
    if !at_terminal && (is_shell || args.host.is_some()) {
        let what = "`enter` requires a terminal, on standard input and on standard output";
        return Err(Error::new(Code::Usage, what)
            .hint(format!("to run a command without one, run git agent run {who} -- <command>")));
    }
    let command = if is_shell {
        vec![ctx.env.shell.clone().unwrap_or_else(|| "/bin/sh".into()).into()]
    } else {
        args.command
    };
    let options = RunOptions {
        sandbox: args.sandbox,
        allow_write: args.allow_write,
        allow_push: args.allow_push,
        // There is more to come: a person who works by hand declares when it is done.
        no_verify: true,
        terminal: at_terminal,
        // A shell ends as its last command did, which says nothing about the work.
        any_status: is_shell,
        host: args.host,
        ..RunOptions::default()
    };
    let plan = run::plan(ctx, RunTarget::Agent(who), command, options)?;
    half_made::sweep(ctx)?;
    let echo = if at_terminal { Echo::default() } else { echo(ui, false)? };
    let report = run::execute(ctx, plan, echo)?;
    show(ui, &report, false)?;
    Ok(Exit::Child(report.exit_status()))
}
