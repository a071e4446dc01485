//! `git agent rename`

use crate::agents::Ctx;
use crate::cli::input::args::or_current;
use crate::cli::out::render::handle;
use crate::cli::out::ui::{Answer, Ui};
use crate::error::{Error, Exit, Result};
use crate::ops::rename::{self, RenameReport};

/// Give an agent another name; its id, branch and worktree stay
#[derive(Debug, clap::Args)]
#[command(override_usage = "git agent rename [AGENT] <NAME>")]
pub(in crate::cli) struct RenameArgs {
    /// The agent, its id or a prefix of 4 digits or more, its name, its branch or its worktree, and its new name; without
    /// an agent, the one whose worktree this is
    #[arg(value_names = ["AGENT", "NAME"], num_args = 1..=2, required = true)]
    words: Vec<String>,
}

pub(in crate::cli) fn run(ctx: &Ctx, ui: &mut Ui, args: &RenameArgs) -> Result<Exit> {
    let (agent, name) = match args.words.as_slice() {
        [agent, name] => (Some(agent.as_str()), name),
        [name, ..] => (None, name),
        [] => return Err(Error::bug("clap asks for a name")),
    };
    let report = rename::rename(ctx, &or_current(ctx, ui, agent)?, name)?;
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
