//! `git agent doctor`

use super::shell;
use super::ui::Ui;
use crate::agents::ctx::Ctx;
use crate::error::{Exit, Result};
use crate::ops::doctor;

/// Find what is not as it should be, and put it right; status 1 when something is left
#[derive(Debug, clap::Args)]
pub(super) struct DoctorArgs {
    /// Put right what safely can be; nothing that an agent may have written is deleted
    #[arg(long)]
    fix: bool,
}

pub(super) fn run(ctx: &Ctx, ui: &mut Ui, args: &DoctorArgs) -> Result<Exit> {
    let report = doctor::doctor(ctx, args.fix, &shell::files()?)?;
    ui.answer(&report)?;
    Ok(if report.healthy { Exit::Yes } else { Exit::No })
}
