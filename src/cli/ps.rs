//! `git agent ps`

use super::render::table::{Cell, Table, age};
use super::style::{BOLD, DIM};
use super::terminal::width;
use super::ui::{Answer, Ui};
use crate::agents::ctx::Ctx;
use crate::error::{Exit, Result};
use crate::ops::run_row::RunRow;
use crate::ops::runs::{self, PsReport};
use serde_json::{Value, json};

/// List the runs that go on
#[derive(Debug, clap::Args)]
pub(super) struct PsArgs {}

pub(super) fn run(ctx: &Ctx, ui: &mut Ui, PsArgs {}: &PsArgs) -> Result<Exit> {
    ui.done(&runs::ps(ctx)?)
}

impl Answer for PsReport {
    fn text(&self) -> String {
        if self.runs.is_empty() {
            return "(no runs)\n".to_owned();
        }
        let header = vec!["AGENT", "RUN", "PID", "AGE", "LEFT", "COMMAND"];
        let mut table = Table::new(header, width());
        for row in &self.runs {
            let number = |number: Option<u32>| number.map_or(String::new(), |n| n.to_string());
            table.push(vec![
                Cell::painted(BOLD, &row.agent_id[..8]),
                Cell::plain(row.run.to_string()),
                Cell::painted(DIM, number(row.pid)),
                Cell::plain(age(row.age_seconds)),
                Cell::plain(left(row)),
                Cell::plain(row.command.clone()),
            ]);
        }
        table.render()
    }

    fn rows(&self) -> Vec<Value> {
        self.runs.iter().map(|row| json!(row)).collect()
    }
}

/// How much time the command has; nothing when it has no limit, and what is done after it.
fn left(row: &RunRow) -> String {
    match (row.left_ms, row.exit_code) {
        (Some(millis), _) => age(i64::try_from(millis / 1000).unwrap_or(i64::MAX)),
        (None, Some(_)) => "judged".to_owned(),
        (None, None) => String::new(),
    }
}
