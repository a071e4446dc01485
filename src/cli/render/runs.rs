//! How the runs of other processes are shown.

use super::run::ending;
use super::table::{Cell, Table, age};
use crate::cli::style::{BAD, BOLD, DIM, GOOD, paint};
use crate::cli::terminal::width;
use crate::cli::ui::Answer;
use crate::ops::run::StartReport;
use crate::ops::run_row::RunRow;
use crate::ops::runs::logs::LogsReport;
use crate::ops::runs::ps::PsReport;
use crate::ops::runs::stop::StopReport;
use crate::ops::runs::wait::WaitReport;
use crate::ops::runs::wait::Waited;
use serde_json::{Value, json};

impl Answer for StartReport {
    fn text(&self) -> String {
        let row = &self.row;
        let id = &row.agent_id[..8];
        let mut text = format!("run {} of {} began\n", row.run, paint(BOLD, id));
        if let Some(spawn) = &self.spawn
            && let (Some(branch), Some(path)) = (&spawn.branch, &spawn.worktree_path)
        {
            text.push_str(&format!("  branch {branch} in {path}\n"));
        }
        text.push_str(&format!("  logs {}, .err\n", row.stdout_path));
        text.push_str(&format!("  to wait for it, run git agent wait {id}\n"));
        text
    }

    fn json(&self) -> Value {
        json!(self)
    }
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

    fn json(&self) -> Value {
        json!(self)
    }

    fn rows(&self) -> Vec<Value> {
        self.runs.iter().map(|row| json!(row)).collect()
    }
}

impl Answer for WaitReport {
    fn text(&self) -> String {
        match self.runs.is_empty() {
            true => "(no runs)\n".to_owned(),
            false => self.runs.iter().map(line).collect(),
        }
    }

    fn json(&self) -> Value {
        json!(self)
    }

    fn rows(&self) -> Vec<Value> {
        self.runs.iter().map(|run| json!(run)).collect()
    }
}

impl Answer for StopReport {
    fn text(&self) -> String {
        self.runs.iter().map(line).collect()
    }

    fn json(&self) -> Value {
        json!(self)
    }

    fn rows(&self) -> Vec<Value> {
        self.runs.iter().map(|run| json!(run)).collect()
    }
}

impl Answer for LogsReport {
    /// The log itself was written as it came.
    fn text(&self) -> String {
        String::new()
    }

    fn json(&self) -> Value {
        json!(self)
    }
}

fn line(waited: &Waited) -> String {
    let row = &waited.row;
    let end = match (row.status, row.ended) {
        ("running", _) => "is at work".to_owned(),
        (_, ended) => ending(
            ended.unwrap_or_default(),
            row.exit_code.unwrap_or_default(),
            row.timeout_ms,
        ),
    };
    let end = match row.status {
        "running" => end,
        _ if waited.exit_status() == 0 => paint(GOOD, &end),
        _ => paint(BAD, &end),
    };
    let report = waited.report.as_ref();
    let verdict = report.and_then(|report| report["verdict"].as_str());
    let verdict = verdict.map_or(String::new(), |verdict| format!(", verdict {verdict}"));
    let id = paint(BOLD, &row.agent_id[..8]);
    format!("run {} of {id} {end}{verdict}\n", row.run)
}

/// How much time the command has; nothing when it has no limit, and what is done after it.
fn left(row: &RunRow) -> String {
    match (row.left_ms, row.exit_code) {
        (Some(millis), _) => age(i64::try_from(millis / 1000).unwrap_or(i64::MAX)),
        (None, Some(_)) => "judged".to_owned(),
        (None, None) => String::new(),
    }
}
