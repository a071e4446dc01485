//! `git agent stop`

use super::args::current;
use super::ui::{Answer, Ui};
use super::wait::line;
use crate::agents::ctx::Ctx;
use crate::error::{Exit, Result};
use crate::ops::runs::{self, StopReport};
use serde_json::{Value, json};

/// End runs with everything that their commands started, and wait until that is recorded
#[derive(Debug, clap::Args)]
pub(super) struct StopArgs {
    /// Agents whose runs are to end; without one, the agent whose worktree this is
    #[arg(value_name = "AGENT")]
    agents: Vec<String>,
    /// Kill the commands at once, without time to end by themselves
    #[arg(long)]
    kill: bool,
}

pub(super) fn run(ctx: &Ctx, ui: &mut Ui, args: &StopArgs) -> Result<Exit> {
    let mut agents = args.agents.clone();
    if agents.is_empty() {
        agents.push(current(ctx, ui)?);
    }
    ui.done(&runs::stop(ctx, &agents, args.kill)?)
}

impl Answer for StopReport {
    fn text(&self) -> String {
        self.runs.iter().map(line).collect()
    }

    fn rows(&self) -> Vec<Value> {
        self.runs.iter().map(|run| json!(run)).collect()
    }
}
