//! `git agent show`, `log` and `path`

use super::ui::Ui;
use crate::agents::ctx::Ctx;
use crate::agents::current;
use crate::error::{Exit, Result};
use crate::ops::mail::conversation;
use crate::ops::show;

/// Show one agent: its state, its scope and what happened to it; or a message and its conversation
#[derive(Debug, clap::Args)]
pub(super) struct ShowArgs {
    /// Agent: its id or a prefix of 4 digits or more, its name, its branch, its worktree, or the commit that its work
    /// landed as; or MSG-…; without one, the agent whose worktree this is
    #[arg(value_name = "AGENT")]
    who: Option<String>,
    /// Print the call for a host's agent tool: type, description, prompt, isolation
    #[arg(long)]
    invocation: bool,
}

/// Show what happened to an agent, oldest first
#[derive(Debug, clap::Args)]
pub(super) struct LogArgs {
    #[command(flatten)]
    agent: OwnAgentArg,
}

/// Print where an agent's worktree is
#[derive(Debug, clap::Args)]
pub(super) struct PathArgs {
    #[command(flatten)]
    agent: OwnAgentArg,
}

/// How an agent is named on the command line by verbs that an agent uses too.
#[derive(Debug, clap::Args)]
pub(super) struct OwnAgentArg {
    /// Agent: its id or a prefix of 4 digits or more, its name, its branch or its worktree; without one, the agent whose
    /// worktree this is
    #[arg(value_name = "AGENT")]
    agent: Option<String>,
}

impl OwnAgentArg {
    /// What was named, else the agent that this process works for.
    ///
    /// # Errors
    /// `usage` where it works for none.
    pub(super) fn or_current(&self, ctx: &Ctx) -> Result<String> {
        or_current(ctx, self.agent.as_deref())
    }
}

fn or_current(ctx: &Ctx, named: Option<&str>) -> Result<String> {
    match named {
        Some(named) => Ok(named.to_owned()),
        None => Ok(current::require_current(ctx)?.to_string()),
    }
}

/// How an agent is named on the command line.
#[derive(Debug, clap::Args)]
pub(super) struct AgentArg {
    /// Agent: its id or a prefix of 4 digits or more, its name, its branch or its worktree
    #[arg(value_name = "AGENT")]
    pub(super) agent: String,
}

pub(super) fn run(ctx: &Ctx, ui: &mut Ui, args: &ShowArgs) -> Result<Exit> {
    let who = or_current(ctx, args.who.as_deref())?;
    if args.invocation {
        ui.answer(&show::invocation(ctx, &who)?)?;
    } else if conversation::is_id(&who) {
        ui.answer(&conversation::show(ctx, &who)?)?;
    } else {
        ui.answer(&show::show(ctx, &who)?)?;
    }
    Ok(Exit::Yes)
}

pub(super) fn run_log(ctx: &Ctx, ui: &mut Ui, args: &LogArgs) -> Result<Exit> {
    ui.answer(&show::log(ctx, &args.agent.or_current(ctx)?)?)?;
    Ok(Exit::Yes)
}

pub(super) fn run_path(ctx: &Ctx, ui: &mut Ui, args: &PathArgs) -> Result<Exit> {
    ui.answer(&show::path(ctx, &args.agent.or_current(ctx)?)?)?;
    Ok(Exit::Yes)
}
