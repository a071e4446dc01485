//! `git agent done` and `git agent fail`

use super::show::OwnAgentArg;
use super::ui::Ui;
use super::words::some_words;
use crate::agents::ctx::Ctx;
use crate::error::{Exit, Result};
use crate::ops::close;

/// Declare an agent's work finished
#[derive(Debug, clap::Args)]
pub(super) struct DoneArgs {
    #[command(flatten)]
    agent: OwnAgentArg,
    /// What was achieved
    #[arg(long, short = 'm', default_value = "", hide_default_value = true)]
    summary: String,
}

/// Declare an agent's work failed
#[derive(Debug, clap::Args)]
pub(super) struct FailArgs {
    #[command(flatten)]
    agent: OwnAgentArg,
    /// Why it failed
    #[arg(long, short = 'm', value_parser = some_words)]
    reason: String,
}

pub(super) fn run_done(ctx: &Ctx, ui: &mut Ui, args: &DoneArgs) -> Result<Exit> {
    let who = args.agent.or_current(ctx)?;
    ui.answer(&close::done(ctx, &who, &args.summary)?)?;
    Ok(Exit::Yes)
}

pub(super) fn run_fail(ctx: &Ctx, ui: &mut Ui, args: &FailArgs) -> Result<Exit> {
    let who = args.agent.or_current(ctx)?;
    ui.answer(&close::fail(ctx, &who, &args.reason)?)?;
    Ok(Exit::Yes)
}
