//! `git agent rename`

use crate::agents::Ctx;
use crate::cli::render::handle;
use crate::cli::ui::{Answer, Ui};
use crate::error::{Exit, Result};
use crate::ops::rename::{self, RenameReport};

/// Give an agent another name; its id, branch and worktree stay
#[derive(Debug, clap::Args)]
pub(super) struct RenameArgs {
    /// The agent: an id or the beginning of one, a name, a branch or a worktree
    #[arg(value_name = "AGENT")]
    agent: String,
    /// Its new name
    #[arg(value_name = "NAME")]
    name: String,
}

pub(super) fn run(ctx: &Ctx, ui: &mut Ui, args: &RenameArgs) -> Result<Exit> {
    let report = rename::rename(ctx, &args.agent, &args.name)?;
    report.warnings.iter().for_each(|warning| ui.warn(warning));
    ui.done(&report)
}

impl Answer for RenameReport {
    fn text(&self) -> String {
        match &self.previous_name {
            Some(before) => format!("{} was called {before}\n", handle(&self.agent)),
            None => format!("{} had no name\n", handle(&self.agent)),
        }
    }
}
