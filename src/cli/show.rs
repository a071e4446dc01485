//! `git agent show`, `log` and `path`

use super::ui::Ui;
use crate::error::{Exit, Result};
use crate::ops::{Ctx, message, show};

/// Show one agent: its state, its scope and what happened to it; or a message and its conversation
#[derive(Debug, clap::Args)]
pub(super) struct ShowArgs {
    /// Agent: its id or a prefix of 4 digits or more, its name, its branch or its worktree; or MSG-…
    #[arg(value_name = "AGENT")]
    who: String,
    /// Print the call for a host's agent tool: type, description, prompt, isolation
    #[arg(long)]
    invocation: bool,
}

/// Show what happened to an agent, oldest first
#[derive(Debug, clap::Args)]
pub(super) struct LogArgs {
    #[command(flatten)]
    agent: AgentArg,
}

/// Print where an agent's worktree is
#[derive(Debug, clap::Args)]
pub(super) struct PathArgs {
    #[command(flatten)]
    agent: AgentArg,
}

/// How an agent is named on the command line.
#[derive(Debug, clap::Args)]
pub(super) struct AgentArg {
    /// Agent: its id or a prefix of 4 digits or more, its name, its branch or its worktree
    #[arg(value_name = "AGENT")]
    pub(super) agent: String,
}

pub(super) fn run(ctx: &Ctx, ui: &mut Ui, args: &ShowArgs) -> Result<Exit> {
    if args.invocation {
        ui.answer(&show::invocation(ctx, &args.who)?)?;
    } else if message::is_id(&args.who) {
        ui.answer(&message::show(ctx, &args.who)?)?;
    } else {
        ui.answer(&show::show(ctx, &args.who)?)?;
    }
    Ok(Exit::Yes)
}

pub(super) fn run_log(ctx: &Ctx, ui: &mut Ui, args: &LogArgs) -> Result<Exit> {
    ui.answer(&show::log(ctx, &args.agent.agent)?)?;
    Ok(Exit::Yes)
}

pub(super) fn run_path(ctx: &Ctx, ui: &mut Ui, args: &PathArgs) -> Result<Exit> {
    ui.answer(&show::path(ctx, &args.agent.agent)?)?;
    Ok(Exit::Yes)
}
