//! `git agent unite`

use super::ui::Ui;
use super::words::some_words;
use crate::agents::ctx::Ctx;
use crate::error::{Exit, Result};
use crate::ops::unite;

/// Unite ledger, mailbox and what is kept with the copies fetched from a remote; no network is used
#[derive(Debug, clap::Args)]
pub(super) struct UniteArgs {
    /// Remote, as in `refs/notes/<remote>/agents`
    #[arg(default_value = "origin", value_parser = some_words)]
    remote: String,
}

pub(super) fn run(ctx: &Ctx, ui: &mut Ui, args: &UniteArgs) -> Result<Exit> {
    ui.answer(&unite::unite(ctx, &args.remote)?)?;
    Ok(Exit::Yes)
}
