//! `git agent reject` and `git agent defer`

use super::show::AgentArg;
use super::ui::Ui;
use super::words::some_words;
use crate::agents::ctx::Ctx;
use crate::error::{Exit, Result};
use crate::ops::close;

/// Turn finished work down; its branch and worktree stay
#[derive(Debug, clap::Args)]
pub(super) struct RejectArgs {
    #[command(flatten)]
    agent: AgentArg,
    /// Why it is turned down
    #[arg(long, short = 'm', value_name = "TEXT", value_parser = some_words)]
    reason: Option<String>,
}

/// Put the decision about finished work off
#[derive(Debug, clap::Args)]
pub(super) struct DeferArgs {
    #[command(flatten)]
    agent: AgentArg,
    /// Why it is put off
    #[arg(long, short = 'm', value_name = "TEXT", value_parser = some_words)]
    reason: Option<String>,
}

pub(super) fn run_reject(ctx: &Ctx, ui: &mut Ui, args: &RejectArgs) -> Result<Exit> {
    let reason = args.reason.as_deref().unwrap_or_default();
    ui.answer(&close::reject(ctx, &args.agent.agent, reason)?)?;
    Ok(Exit::Yes)
}

pub(super) fn run_defer(ctx: &Ctx, ui: &mut Ui, args: &DeferArgs) -> Result<Exit> {
    let reason = args.reason.as_deref().unwrap_or_default();
    ui.answer(&close::defer(ctx, &args.agent.agent, reason)?)?;
    Ok(Exit::Yes)
}
