//! `git agent commit`

use super::show::AgentArg;
use super::ui::Ui;
use crate::agents::ctx::Ctx;
use crate::error::{Exit, Result};
use crate::ops::commit;

/// Commit an agent's work: what is staged, else all that is modified or untracked
#[derive(Debug, clap::Args)]
pub(super) struct CommitArgs {
    #[command(flatten)]
    agent: AgentArg,
    /// Message of the commit
    #[arg(long, short = 'm', value_name = "MSG")]
    message: String,
    /// Leave out what is out of scope instead of refusing
    #[arg(long)]
    in_scope_only: bool,
}

pub(super) fn run(ctx: &Ctx, ui: &mut Ui, args: &CommitArgs) -> Result<Exit> {
    let report = commit::commit(ctx, &args.agent.agent, &args.message, args.in_scope_only)?;
    ui.answer(&report)?;
    Ok(Exit::Yes)
}
