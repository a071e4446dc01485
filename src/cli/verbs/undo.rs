//! `git agent undo`

use crate::agents::Ctx;
use crate::cli::out::render::table::{Cell, Table};
use crate::cli::out::render::{handle, state, state_style};
use crate::cli::out::terminal::{BOLD, GOOD, paint, width};
use crate::cli::out::ui::{Answer, Ui};
use crate::error::{Exit, Result};
use crate::ops::undo::{self, BranchMoveReport, OperationsReport, UndoOptions, UndoReport};
use serde_json::{Value, json};

/// Undo what a command did: a landing, a train, an update, a discard, a decision
///
/// Without an argument, this undoes the newest operation of this clone. If something was built on it or it was pushed,
/// nothing moves (status 3); --revert then makes a commit that reverts it. An undo is an operation too, and undoing it
/// redoes the first one.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct UndoArgs {
    /// Operation to undo (op-...), or an agent whose newest operation to undo
    #[arg(value_name = "OPERATION|AGENT", conflicts_with = "list")]
    what: Option<String>,
    /// List the operations, newest first
    #[arg(long)]
    list: bool,
    /// If the branch cannot be moved back, make a commit that reverts the landing
    #[arg(long, conflicts_with = "list")]
    revert: bool,
    /// Show what would move and stop
    #[arg(long, short = 'n', conflicts_with = "list")]
    dry_run: bool,
}

pub(in crate::cli) fn run(ctx: &Ctx, ui: &mut Ui, args: UndoArgs) -> Result<Exit> {
    if args.list {
        return ui.done(&undo::list(ctx)?);
    }
    let options = UndoOptions { what: args.what, revert: args.revert };
    let plan = undo::plan(ctx, &options)?;
    let report =
        if args.dry_run { undo::rehearse(ctx, &plan)? } else { undo::execute(ctx, &plan)? };
    report.warnings.iter().for_each(|warning| ui.warn(warning));
    ui.done(&report)
}

impl Answer for UndoReport {
    fn text(&self) -> String {
        let is_done = self.outcome == "undone";
        let mut text = if is_done {
            format!("{} {}\n", paint(GOOD, "undone"), self.operation)
        } else {
            format!("would undo {}\n", self.operation)
        };
        for one in &self.moves {
            text.push_str(&format!("  {}\n", moved(one)));
        }
        for (agents, what) in [(&self.restored, "back"), (&self.removed, "removed again")] {
            for agent in agents {
                text.push_str(&format!("  worktree and branch of {} {what}\n", agent.short_id));
            }
        }
        for agent in &self.agents {
            let is = paint(state_style(agent.state), &state(agent));
            // Before it is done, the state is the one that the operation has led to.
            let verb = if is_done { " is" } else { ", which is" };
            text.push_str(&format!("  {}{verb} {is}\n", paint(BOLD, &handle(agent))));
        }
        if let Some(operation) = &self.undone_by {
            text.push_str(&format!("to do it again: git agent undo {operation}\n"));
        }
        text
    }
}

impl Answer for OperationsReport {
    fn text(&self) -> String {
        if self.operations.is_empty() {
            return "nothing was done yet that could be taken back\n".to_owned();
        }
        let header = vec!["OPERATION", "TIME", "EVENTS", "AGENTS", "MOVED", "STATE"];
        let mut table = Table::new(header, width()).yielding(&["MOVED", "TIME", "STATE"]);
        for one in &self.operations {
            let agents: Vec<&str> = one
                .agents
                .iter()
                .map(|agent| agent.name.as_deref().unwrap_or(&agent.short_id))
                .collect();
            let agents = match agents[..] {
                [] => String::new(),
                [only] => only.to_owned(),
                [first, ..] => format!("{first} and {} more", agents.len() - 1),
            };
            let moves: Vec<String> = one.moves.iter().map(moved).collect();
            let mark = one.obstacle.unwrap_or_default();
            table.push(vec![
                Cell::painted(BOLD, &one.operation),
                Cell::plain(one.recorded_at.get(..19).unwrap_or(&one.recorded_at)),
                Cell::plain(one.events.join(" ")),
                Cell::plain(agents),
                Cell::plain(moves.join(", ")),
                Cell::plain(mark),
            ]);
        }
        table.render()
    }

    fn rows(&self) -> Vec<Value> {
        self.operations.iter().map(|one| json!(one)).collect()
    }
}

/// `main 1a2b3c4 -> 5d6e7f8`
fn moved(one: &BranchMoveReport) -> String {
    let name = one.refname.trim_start_matches("refs/heads/");
    let to = one.to.as_ref().map_or("a commit that reverts it", |to| &to[..7]);
    format!("{name} {} -> {to}", &one.from[..7])
}
