//! How a batch of runs looks.

use super::answer::{ending, seconds};
use crate::cli::style::{BAD, BOLD, GOOD, paint};
use crate::cli::ui::{Answer, error_json};
use crate::error::Error;
use crate::ops::run::RunReport;
use crate::ops::run::batch::BatchReport;
use serde_json::{Value, json};

/// One run of a batch in one line.
pub(in crate::cli) fn ended(name: &str, outcome: &Result<Box<RunReport>, Error>) -> String {
    let Ok(report) = outcome else {
        return format!("{} {name}\n", paint(BAD, "not run "));
    };
    let style = if report.status == "success" {
        GOOD
    } else {
        BAD
    };
    let end = ending(report.ended, report.exit_code, Some(report.timeout_ms));
    let verdict = match report.verdict.as_ref().and_then(Option::as_ref) {
        Some(verdict) => format!(", {verdict}"),
        None => String::new(),
    };
    format!(
        "{} {}{verdict} ({}) {name}\n",
        paint(BOLD, &report.agent_id[..8]),
        paint(style, &end),
        seconds(report.duration_ms)
    )
}

/// One run of a batch as a value: its own answer, or the error that kept it from beginning.
pub(in crate::cli) fn row(name: &str, outcome: &Result<Box<RunReport>, Error>) -> Value {
    let mut row = match outcome {
        Ok(report) => json!(report),
        Err(error) => json!({
            "schema": "git-agent.run/2",
            "status": "failed",
            "error": error_json(error)["error"],
        }),
    };
    row["target"] = json!(name);
    row
}

/// The answer of a batch.
pub(in crate::cli) struct BatchAnswer {
    pub report: BatchReport,
    /// In the order of the command line; nothing when each was told of as it ended.
    pub items: Vec<Value>,
}

impl BatchAnswer {
    /// The answer without its runs.
    pub(in crate::cli) fn summary(&self) -> Value {
        json!(self.report)
    }
}

impl Answer for BatchAnswer {
    fn text(&self) -> String {
        let report = &self.report;
        let mut text = format!("{} succeeded, {} failed", report.succeeded, report.failed);
        if report.left > 0 {
            text.push_str(&format!(", {} not begun", report.left));
        }
        format!("{text} ({})\n", seconds(report.duration_ms))
    }

    fn json(&self) -> Value {
        let mut answer = self.summary();
        answer["items"] = json!(self.items);
        answer
    }
}
