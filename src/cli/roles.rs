//! `git agent roles`

use super::ui::Ui;
use crate::agents::ctx::Ctx;
use crate::error::{Code, Exit, Result};
use crate::ops::roles;

/// List the roles a task can name: the built-in ones and those of the base commit
#[derive(Debug, clap::Args)]
pub(super) struct RolesArgs {
    /// Read custom roles from this revision
    #[arg(long, value_name = "REV", default_value = "HEAD")]
    base: String,
}

pub(super) fn run(ctx: &Ctx, ui: &mut Ui, args: &RolesArgs) -> Result<Exit> {
    let base = match ctx.repo.resolve_commit(&args.base) {
        Ok(resolved) => Some(resolved.commit),
        // Without a commit there are no custom roles, and the built-in ones are still worth seeing.
        Err(error) if error.code() == Code::HeadUnborn => None,
        Err(error) => return Err(error),
    };
    ui.answer(&roles::roles(&ctx.repo, base)?)?;
    Ok(Exit::Yes)
}
