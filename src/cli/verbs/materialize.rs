//! `git agent materialize`

use crate::agents::Ctx;
use crate::cli::input::args::OwnAgentArg;
use crate::cli::out::render::handle;
use crate::cli::out::ui::{Answer, Ui};
use crate::error::{Exit, Result};
use crate::ops::materialize::{self, MaterializeReport};

/// Replace an agent's layered worktree by an ordinary one with the same files
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct MaterializeArgs {
    #[command(flatten)]
    agent: OwnAgentArg,
}

pub(in crate::cli) fn run(ctx: &Ctx, ui: &mut Ui, args: &MaterializeArgs) -> Result<Exit> {
    let who = args.agent.or_current(ctx, ui)?;
    ui.done(&materialize::materialize(ctx, &who)?)
}

impl Answer for MaterializeReport {
    fn text(&self) -> String {
        let mut text =
            format!("{} has an ordinary worktree: {} files\n", handle(&self.agent), self.files);
        for warning in &self.warnings {
            text.push_str(&format!("  warning: {warning}\n"));
        }
        text
    }
}
