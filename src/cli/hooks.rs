//! `git agent hooks`

use super::style::{BAD, BOLD, GOOD, paint};
use super::ui::{Answer, Ui};
use crate::agents::ctx::Ctx;
use crate::error::{Exit, Result};
use crate::ops::hooks::{self, HooksReport};
use clap::Subcommand;
use serde_json::{Value, json};

/// Look after the git hooks of agents' worktrees
#[derive(Debug, clap::Args)]
pub(super) struct HooksArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Say whether the hooks are as spawn left them; status 1 when they are not
    Status(Which),
    /// Write the hooks anew
    Repair(Which),
}

#[derive(Debug, clap::Args)]
struct Which {
    /// Agent: its id, name, branch or worktree; every agent when left out
    #[arg(value_name = "AGENT")]
    agent: Option<String>,
}

pub(super) fn run(ctx: &Ctx, ui: &mut Ui, args: &HooksArgs) -> Result<Exit> {
    let report = match &args.action {
        Action::Status(which) => hooks::status(ctx, which.agent.as_deref())?,
        Action::Repair(which) => hooks::repair(ctx, which.agent.as_deref())?,
    };
    ui.answer(&report)?;
    Ok(if report.is_ok() { Exit::Yes } else { Exit::No })
}

impl Answer for HooksReport {
    fn text(&self) -> String {
        if self.agents.is_empty() {
            return "(no agents with a worktree here)\n".to_owned();
        }
        let mut text = String::new();
        for agent in &self.agents {
            let verdict = match (agent.ok, agent.route) {
                (true, Some(route)) => paint(GOOD, &format!("ok ({route})")),
                _ => paint(BAD, "not as they should be"),
            };
            text.push_str(&format!(
                "{} {verdict}\n",
                paint(BOLD, &agent.agent_id[..8])
            ));
            for problem in &agent.problems {
                text.push_str(&format!("  {}: {}\n", problem.code, problem.message));
            }
        }
        if !self.is_ok() {
            text.push_str("to write them anew, run git agent doctor hooks repair\n");
        }
        text
    }

    fn rows(&self) -> Vec<Value> {
        self.agents.iter().map(|agent| json!(agent)).collect()
    }
}
