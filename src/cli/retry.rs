//! `git agent retry`

use super::args::OwnAgentArg;
use super::ui::Ui;
use crate::agents::ctx::Ctx;
use crate::error::{Exit, Result};
use crate::ops::spawn::{self, SpawnOptions};

/// Spawn the task of an earlier agent once more, from the base as it is now
#[derive(Debug, clap::Args)]
pub(super) struct RetryArgs {
    #[command(flatten)]
    agent: OwnAgentArg,
    /// Start from this revision instead of HEAD or the task's own
    #[arg(long, value_name = "REV")]
    base: Option<String>,
    /// Show what would be made and stop
    #[arg(long, short = 'n')]
    dry_run: bool,
}

pub(super) fn run(ctx: &Ctx, ui: &mut Ui, args: &RetryArgs) -> Result<Exit> {
    let earlier = spawn::earlier_task(ctx, &args.agent.or_current(ctx, ui)?)?;
    let options = SpawnOptions {
        base: args.base.clone(),
        start: earlier.start.filter(|_| args.base.is_none()),
        name: earlier.name,
        succeeds: Some(earlier.id),
        parent: earlier.parent,
        ..SpawnOptions::default()
    };
    let mut plan = spawn::plan(ctx, earlier.draft, &options)?;
    plan.warnings.extend(earlier.warning);
    if args.dry_run {
        spawn::preview_conflicts(ctx, &mut plan)?;
        return ui.done(&plan);
    }
    let nowhere = super::args::SyncArg::default();
    super::spawn::make(
        ctx,
        ui,
        vec![plan],
        super::spawn::SpawnForm::Short,
        &nowhere,
    )
}
