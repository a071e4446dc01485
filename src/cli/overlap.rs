//! `git agent overlap`

use super::ui::Ui;
use crate::agents::ctx::Ctx;
use crate::error::{Exit, Result};
use crate::ops::overlap;
use crate::ops::overlap::OverlapOptions;

/// Show which live agents get in each other's way: their scopes, their changes, their merges
#[derive(Debug, clap::Args)]
pub(super) struct OverlapArgs {
    /// One agent, to compare with all others, or several, to compare among themselves
    #[arg(value_name = "AGENT")]
    agents: Vec<String>,
    /// Compare what they may touch
    #[arg(long)]
    scopes: bool,
    /// Compare what they have touched since their bases, committed or not
    #[arg(long)]
    changes: bool,
    /// Merge those whose changes are near each other
    #[arg(long)]
    merge: bool,
    /// Work out the order in which most of what is done can land
    #[arg(long)]
    order: bool,
    /// End with status 1 if anything collides
    #[arg(long)]
    check: bool,
}

pub(super) fn run(ctx: &Ctx, ui: &mut Ui, args: OverlapArgs) -> Result<Exit> {
    let everything = !(args.scopes || args.changes || args.merge || args.order);
    let report = overlap::overlap(
        ctx,
        &OverlapOptions {
            agents: args.agents,
            scopes: args.scopes || everything,
            changes: args.changes || everything,
            merge: args.merge || everything,
            order: args.order,
        },
    )?;
    ui.answer(&report)?;
    Ok(match args.check && report.has_collision() {
        true => Exit::No,
        false => Exit::Yes,
    })
}
