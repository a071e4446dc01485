//! `git agent rescue`

use crate::agents::Ctx;
use crate::cli::input::args::OwnAgentArg;
use crate::cli::out::terminal::{BOLD, HINT, paint};
use crate::cli::out::ui::{Answer, Ui};
use crate::error::{Exit, Result};
use crate::ops::rescue::{self, RescueDestination, RescueReport};
use std::path::PathBuf;

/// Restore what a discard kept: as a branch, as files, or as the agent itself
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct RescueArgs {
    #[command(flatten)]
    agent: OwnAgentArg,
    /// Make this branch instead of rescued/<slug>
    #[arg(long, value_name = "NAME", conflicts_with = "to")]
    branch: Option<String>,
    /// Write the files, bundle included, into this directory, which must be empty or not exist
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// Recreate the agent's branch and worktree where they were, so that its work can go on, after a
    /// discard or where the worktree was removed by hand
    #[arg(long, conflicts_with_all = ["branch", "to"])]
    reopen: bool,
}

pub(in crate::cli) fn run(ctx: &Ctx, ui: &mut Ui, args: RescueArgs) -> Result<Exit> {
    let destination = match (args.branch, args.to) {
        _ if args.reopen => RescueDestination::Agent,
        (Some(name), _) => RescueDestination::Branch(name),
        (None, Some(directory)) => RescueDestination::Directory(directory),
        (None, None) => RescueDestination::RescuedBranch,
    };
    let plan = rescue::plan(ctx, &args.agent.or_current(ctx, ui)?, destination)?;
    let report = rescue::execute(ctx, &plan)?;
    report.warnings.iter().for_each(|text| ui.warn(text));
    ui.done(&report)
}

impl Answer for RescueReport {
    fn text(&self) -> String {
        let id = paint(BOLD, &self.agent.short_id);
        match (&self.rescued_branch, &self.rescued_directory) {
            (Some(branch), Some(directory)) => {
                let id8 = &self.agent.short_id;
                let run = self.agent.run.as_ref();
                let (what, resume) = match run.and_then(|run| run.session.session_id.as_ref()) {
                    Some(_) => ("to go on with its last session:", " --resume"),
                    None => ("to go on in it:", ""),
                };
                let hint = paint(HINT, what);
                format!(
                    "reopened {id} in {directory}\n  branch {branch}\n{hint} git agent run {id8} --host <host>{resume}\n"
                )
            }
            (Some(branch), _) => {
                let mut text = format!("rescued {id} as branch {branch}\n");
                if self.bundle_commit.is_some() {
                    text.push_str(&format!(
                        "{} git agent rescue {} --to <directory>\n",
                        paint(HINT, "to have its bundle too:"),
                        self.agent.short_id
                    ));
                }
                text
            }
            (None, Some(directory)) => format!("rescued {id} into {directory}\n"),
            (None, None) => String::new(),
        }
    }

    fn to_see_it(&self) -> Option<String> {
        Some(format!("git agent show --log {}", self.agent.agent_id))
    }
}
