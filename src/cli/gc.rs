//! `git agent gc`

use super::ui::Ui;
use crate::agents::ctx::Ctx;
use crate::domain::task::parse_duration;
use crate::error::{Exit, Result};
use crate::ops::discard;
use crate::ops::gc;
use crate::ops::gc::GcOptions;
use std::time::Duration;

/// Discard the agents that are provably finished; without --yes only say which
#[derive(Debug, clap::Args)]
pub(super) struct GcArgs {
    /// Also agents that were rejected this long ago, such as 30d
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    older_than: Option<Duration>,
    /// Also let go of salvages, tips and bundles kept this long ago, such as 90d
    #[arg(long, value_name = "AGE", value_parser = parse_duration)]
    expire_salvage: Option<Duration>,
    /// Keep ignored files too
    #[arg(long)]
    with_ignored: bool,
    /// Do it
    #[arg(long, short = 'y', conflicts_with = "dry_run")]
    yes: bool,
    /// Show what would be removed and stop, which is the default
    #[arg(long, short = 'n')]
    dry_run: bool,
}

pub(super) fn run(ctx: &Ctx, ui: &mut Ui, args: &GcArgs) -> Result<Exit> {
    let options = GcOptions {
        older_than: args.older_than,
        expire_salvage: args.expire_salvage,
        with_ignored: args.with_ignored,
    };
    let plan = gc::plan(ctx, options)?;
    if !args.yes {
        ui.answer(&plan.report(ctx))?;
        return Ok(Exit::Yes);
    }
    let report = gc::execute(ctx, plan)?;
    ui.answer(&report)?;
    discard::sweep_later(ctx, &report.doomed);
    Ok(Exit::Yes)
}
