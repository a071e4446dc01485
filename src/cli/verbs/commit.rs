//! `git agent commit`

use crate::agents::Ctx;
use crate::cli::input::args::OwnAgentArg;
use crate::cli::out::terminal::{BOLD, WARN, paint};
use crate::cli::out::ui::{Answer, Ui};
use crate::domain::Quoted;
use crate::error::{Code, Exit, Result};
use crate::ops::commit::{self, CommitReport};

/// Commit an agent's work: the staged changes, or if there are none, all modified and untracked files
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct CommitArgs {
    #[command(flatten)]
    agent: OwnAgentArg,
    /// Message of the commit; several make paragraphs, as in git commit
    #[arg(long, short = 'm', value_name = "MSG", required = true)]
    message: Vec<String>,
    /// Leave out changes that are out of scope instead of refusing
    #[arg(long)]
    in_scope_only: bool,
}

pub(in crate::cli) fn run(ctx: &Ctx, ui: &mut Ui, args: &CommitArgs) -> Result<Exit> {
    let who = args.agent.or_current(ctx, ui)?;
    let report = commit::commit(ctx, &who, &args.message.join("\n\n"), args.in_scope_only);
    let report = report.map_err(|error| match error.code() {
        // The one decision that git makes as well: the hooks of the worktree look at the scope.
        Code::OrchestratorOnly => error.hint("to commit in this worktree, run git commit"),
        _ => error,
    })?;
    ui.done(&report)
}

impl Answer for CommitReport {
    fn text(&self) -> String {
        let commit = paint(BOLD, &self.commit[..7]);
        let count = self.paths.len();
        let noun = if count == 1 { "path" } else { "paths" };
        let mut text = format!("committed {commit} for {}: {count} {noun}\n", &self.agent_id[..8]);
        for path in &self.left_out {
            text.push_str(&format!(
                "  {} {}\n",
                paint(WARN, "left out:"),
                Quoted(&path.to_bytes())
            ));
        }
        text
    }

    fn to_see_it(&self) -> Option<String> {
        Some(format!("git agent show {}", self.agent_id))
    }
}
