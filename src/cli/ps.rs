//! `git agent ps`

use super::ui::Ui;
use crate::agents::ctx::Ctx;
use crate::error::{Exit, Result};
use crate::ops::runs::ps;

/// List the runs that go on
#[derive(Debug, clap::Args)]
pub(super) struct PsArgs {}

pub(super) fn run(ctx: &Ctx, ui: &mut Ui, PsArgs {}: &PsArgs) -> Result<Exit> {
    ui.answer(&ps::ps(ctx)?)?;
    Ok(Exit::Yes)
}
