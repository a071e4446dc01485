//! `git agent hooks`

use super::ui::Ui;
use crate::agents::ctx::Ctx;
use crate::error::{Exit, Result};
use crate::ops::hooks;
use clap::Subcommand;

/// Look after the git hooks of agents' worktrees
#[derive(Debug, clap::Args)]
pub(super) struct HooksArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Say whether the hooks are as spawn left them; status 1 when they are not
    Status(Which),
    /// Write the hooks anew
    Repair(Which),
}

#[derive(Debug, clap::Args)]
struct Which {
    /// Agent: its id, name, branch or worktree; every agent when left out
    #[arg(value_name = "AGENT")]
    agent: Option<String>,
}

pub(super) fn run(ctx: &Ctx, ui: &mut Ui, args: &HooksArgs) -> Result<Exit> {
    let report = match &args.action {
        Action::Status(which) => hooks::status(ctx, which.agent.as_deref())?,
        Action::Repair(which) => hooks::repair(ctx, which.agent.as_deref())?,
    };
    ui.answer(&report)?;
    Ok(if report.is_ok() { Exit::Yes } else { Exit::No })
}
