//! How a batch of runs looks.

use super::answer::{ending, seconds};
use crate::cli::style::{BAD, BOLD, GOOD, paint};
use crate::cli::ui::{Answer, AsJson, error_json};
use crate::error::Error;
use crate::ops::run::RunReport;
use crate::ops::run::batch::BatchReport;
use crate::ops::run::tournament::TournamentReport;
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
    let end = ending(report.ended, report.exit_code, report.timeout_ms);
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

/// The attempts of a tournament, best first.
fn ranking(tournament: &TournamentReport) -> String {
    let mut text = String::new();
    for (number, attempt) in tournament.attempts.iter().enumerate() {
        let verdict = if attempt.accepted {
            paint(GOOD, "accepted")
        } else {
            paint(BAD, "not accepted")
        };
        let lines = { attempt.changed_lines }.map(|count| match count {
            1 => ", 1 line".to_owned(),
            count => format!(", {count} lines"),
        });
        let cost = attempt.cost_usd.map(|cost| format!(", ${cost:.2}"));
        let host = { attempt.host }.map(|host| format!(" by {host}"));
        text.push_str(&format!(
            "  {}. {} {verdict}{}{}, {} {}{}\n",
            number + 1,
            paint(BOLD, &attempt.short_id),
            lines.unwrap_or_default(),
            cost.unwrap_or_default(),
            seconds(attempt.duration_ms),
            attempt.target,
            host.unwrap_or_default()
        ));
    }
    match &tournament.winner {
        Some(winner) => format!("{text}to land the best, run git agent train {winner}\n"),
        None => format!("{text}no work may land\n"),
    }
}

/// The answer of a batch.
pub(in crate::cli) struct BatchAnswer {
    pub report: BatchReport,
    /// Who won, where agents competed.
    pub tournament: Option<TournamentReport>,
    /// In the order of the command line; nothing when each was told of as it ended.
    pub items: Vec<Value>,
}

impl BatchAnswer {
    /// The answer without its runs.
    pub(in crate::cli) fn summary(&self) -> Value {
        let mut summary = json!(self.report);
        if let Some(tournament) = &self.tournament {
            summary["tournament"] = json!(tournament);
        }
        summary
    }
}

impl AsJson for BatchAnswer {
    fn json(&self) -> Value {
        let mut answer = self.summary();
        answer["items"] = json!(self.items);
        answer
    }
}

impl Answer for BatchAnswer {
    fn text(&self) -> String {
        let report = &self.report;
        let mut text = format!("{} succeeded, {} failed", report.succeeded, report.failed);
        if report.left > 0 {
            text.push_str(&format!(", {} not begun", report.left));
        }
        text = format!("{text} ({})\n", seconds(report.duration_ms));
        text.extend(self.tournament.as_ref().map(ranking));
        text
    }
}
