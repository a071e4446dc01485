//! `git agent done` and `git agent fail`

use super::show::AgentArg;
use super::ui::Ui;
use super::words::some_words;
use crate::error::{Exit, Result};
use crate::ops::{Ctx, settle};

/// Declare an agent's work finished
#[derive(Debug, clap::Args)]
pub(super) struct DoneArgs {
    #[command(flatten)]
    agent: AgentArg,
    /// What was achieved
    #[arg(long, short = 'm', default_value = "", hide_default_value = true)]
    summary: String,
}

/// Declare an agent's work failed
#[derive(Debug, clap::Args)]
pub(super) struct FailArgs {
    #[command(flatten)]
    agent: AgentArg,
    /// Why it failed
    #[arg(long, short = 'm', value_parser = some_words)]
    reason: String,
}

pub(super) fn run_done(ctx: &Ctx, ui: &mut Ui, args: &DoneArgs) -> Result<Exit> {
    ui.answer(&settle::done(ctx, &args.agent.agent, &args.summary)?)?;
    Ok(Exit::Yes)
}

pub(super) fn run_fail(ctx: &Ctx, ui: &mut Ui, args: &FailArgs) -> Result<Exit> {
    ui.answer(&settle::fail(ctx, &args.agent.agent, &args.reason)?)?;
    Ok(Exit::Yes)
}
