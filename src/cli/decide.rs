//! `git agent reject` and `git agent defer`

use super::one_of::some_words;
use super::several::AgentsArg;
use super::ui::Ui;
use crate::agents::ctx::Ctx;
use crate::error::{Exit, Result};
use crate::ops::close;

/// Turn finished work down; its branch and worktree stay
#[derive(Debug, clap::Args)]
pub(super) struct RejectArgs {
    #[command(flatten)]
    agents: AgentsArg,
    /// Why it is turned down
    #[arg(long, short = 'm', value_name = "TEXT", value_parser = some_words)]
    reason: Option<String>,
}

/// Put the decision about finished work off
#[derive(Debug, clap::Args)]
pub(super) struct DeferArgs {
    #[command(flatten)]
    agents: AgentsArg,
    /// Why it is put off
    #[arg(long, short = 'm', value_name = "TEXT", value_parser = some_words)]
    reason: Option<String>,
}

pub(super) fn run_reject(ctx: &Ctx, ui: &mut Ui, args: &RejectArgs) -> Result<Exit> {
    let reason = args.reason.as_deref().unwrap_or_default();
    let reject = |agent: &str| close::reject(ctx, agent, reason);
    args.agents.each(ctx, ui, reject)
}

pub(super) fn run_defer(ctx: &Ctx, ui: &mut Ui, args: &DeferArgs) -> Result<Exit> {
    let reason = args.reason.as_deref().unwrap_or_default();
    let defer = |agent: &str| close::defer(ctx, agent, reason);
    args.agents.each(ctx, ui, defer)
}
