//! `git agent discard`

use super::show::AgentArg;
use super::ui::Ui;
use crate::agents::ctx::Ctx;
use crate::error::{Exit, Result};
use crate::ops::discard;
use crate::ops::discard::DiscardOptions;

/// Remove an agent's worktree and branch; everything in them but ignored files is kept for `rescue`
#[derive(Debug, clap::Args)]
pub(super) struct DiscardArgs {
    #[command(flatten)]
    agent: AgentArg,
    /// Keep ignored files too; without it they are named and go
    #[arg(long)]
    with_ignored: bool,
    /// Discard it even if it lives in another clone, from which nothing can be salvaged here
    #[arg(long)]
    force: bool,
    /// Show what would be removed and stop
    #[arg(long, short = 'n')]
    dry_run: bool,
}

/// Delete what discarded worktrees left in the trash
#[derive(Debug, clap::Args)]
pub(super) struct SweepArgs {
    /// Names in the trash
    #[arg(value_name = "NAME")]
    names: Vec<String>,
}

pub(super) fn run(ctx: &Ctx, ui: &mut Ui, args: &DiscardArgs) -> Result<Exit> {
    let options = DiscardOptions {
        with_ignored: args.with_ignored,
        force: args.force,
    };
    if args.dry_run {
        ui.answer(&discard::rehearse(ctx, &args.agent.agent, options)?)?;
        return Ok(Exit::Yes);
    }
    let plan = discard::plan(ctx, &args.agent.agent, options)?;
    let report = discard::execute(ctx, plan)?;
    ui.answer(&report)?;
    discard::sweep_later(ctx, &report.trash);
    Ok(Exit::Yes)
}

pub(super) fn run_sweep(ctx: &Ctx, args: &SweepArgs) -> Exit {
    discard::sweep(ctx, &args.names);
    Exit::Yes
}
