//! `git agent tree`

use super::ui::Ui;
use crate::agents::ctx::Ctx;
use crate::error::{Exit, Result};
use crate::ops::tree;

/// Show which agent asked for which
#[derive(Debug, clap::Args)]
pub(super) struct TreeArgs {
    /// Show only the tree below this agent
    #[arg(value_name = "AGENT")]
    agent: Option<String>,
}

pub(super) fn run(ctx: &Ctx, ui: &mut Ui, args: &TreeArgs) -> Result<Exit> {
    ui.answer(&tree::tree(ctx, args.agent.as_deref())?)?;
    Ok(Exit::Yes)
}
