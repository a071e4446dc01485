//! `git agent wait`

use super::run::answer::ending;
use super::style::{BAD, BOLD, GOOD, paint};
use super::ui::{Answer, Ui};
use crate::agents::ctx::Ctx;
use crate::domain::task::parse_duration;
use crate::error::{Exit, Result};
use crate::ops::runs::{self, WaitOptions, WaitReport, Waited};
use serde_json::{Value, json};
use std::time::Duration;

/// Wait until runs are over, and end as they did
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Ends with the status of the run, which is 1 where its work was rejected; of several, with that of the first that failed; with \
124 when the time was up first.")]
pub(super) struct WaitArgs {
    /// Agents to wait for; when none is named, every run that goes on, and every one in the background that has ended and that
    /// no `wait` or `stop` has reported
    #[arg(value_name = "AGENT")]
    agents: Vec<String>,
    /// Wait for the first that is over, and no longer
    #[arg(long)]
    any: bool,
    /// How long to wait, 0s only to look; without it, for ever
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    timeout: Option<Duration>,
}

pub(super) fn run(ctx: &Ctx, ui: &mut Ui, args: WaitArgs) -> Result<Exit> {
    let report = runs::wait(
        ctx,
        &WaitOptions {
            agents: args.agents,
            any: args.any,
            limit: args.timeout,
        },
    )?;
    ui.answer(&report)?;
    let ended = report.runs.len();
    ui.ring(&format!("{ended} of the runs that were waited for ended"))?;
    Ok(Exit::Child(report.exit_code()))
}

impl Answer for WaitReport {
    fn text(&self) -> String {
        if self.runs.is_empty() {
            "(no runs)\n".to_owned()
        } else {
            self.runs.iter().map(line).collect()
        }
    }

    fn rows(&self) -> Vec<Value> {
        self.runs.iter().map(|run| json!(run)).collect()
    }
}

pub(super) fn line(waited: &Waited) -> String {
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
