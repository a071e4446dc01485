//! `wait`, `stop`, `ps` and `logs`: runs that were started here or in another terminal.

use crate::agents::Ctx;
use crate::cli::input::args::{OwnAgentArg, current};
use crate::cli::out::render::table::{Cell, Table, age};
use crate::cli::out::terminal::{BAD, BOLD, DIM, GOOD, paint, width};
use crate::cli::out::ui::{Answer, Format, Ui};
use crate::cli::verbs::run::answer::ending;
use crate::domain::work::task::parse_duration;
use crate::error::{Error, Exit, Result};
use crate::ops::run_row::RunRow;
use crate::ops::runs::{
    self, LogOptions, LogsReport, PsReport, StopReport, WaitOptions, WaitReport, Waited,
};
use serde_json::{Value, json};
use std::io::ErrorKind;
use std::time::Duration;

// `git agent wait`

/// Wait until runs end, and exit with their status
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exits with the status of the run (1 if its work was rejected); of several runs, with that of the first that failed; \
with 124 if --timeout ran out.")]
pub(in crate::cli) struct WaitArgs {
    /// Agents to wait for; by default every active run, and every background run that has ended and that no `wait` or
    /// `stop` has reported
    #[arg(value_name = "AGENT")]
    agents: Vec<String>,
    /// Wait only until the first run ends
    #[arg(long)]
    any: bool,
    /// How long to wait; 0s checks once; without it, there is no limit
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    timeout: Option<Duration>,
}

pub(in crate::cli) fn run_wait(ctx: &Ctx, ui: &mut Ui, args: WaitArgs) -> Result<Exit> {
    let report =
        runs::wait(ctx, &WaitOptions { agents: args.agents, any: args.any, limit: args.timeout })?;
    ui.answer(&report)?;
    // What a run in the foreground says when it ends, such as where its command's stash is kept.
    let reports = report.runs.iter().filter_map(|run| run.report.as_ref());
    let warnings = reports.filter_map(|report| report["warnings"].as_array()).flatten();
    warnings.filter_map(Value::as_str).for_each(|text| ui.warn(text));
    let ended = report.runs.len();
    if ended > 0 {
        ui.ring(&format!("{ended} of the runs that were waited for ended"))?;
    }
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

pub(in crate::cli) fn line(waited: &Waited) -> String {
    let row = &waited.row;
    let end = match (row.status, row.ended) {
        ("running", _) => "is at work".to_owned(),
        (_, ended) => {
            ending(ended.unwrap_or_default(), row.exit_code.unwrap_or_default(), row.timeout_ms)
        }
    };
    let end = match row.status {
        "running" => end,
        _ if waited.exit_status() == 0 => paint(GOOD, &end),
        _ => paint(BAD, &end),
    };
    let report = waited.report.as_ref();
    let told = report.and_then(|report| report.get("verdict"));
    let is_unjudged = told.is_some_and(Value::is_null) || row.verdict == Some(None);
    let verdict = match told.and_then(Value::as_str) {
        Some(verdict) => format!(", verdict {verdict}"),
        None if is_unjudged => ", and its work was not judged".to_owned(),
        None => String::new(),
    };
    let is_waiting = report.is_some_and(|report| report["waiting"] == true);
    let waits = if is_waiting { ", waits for an answer" } else { "" };
    let id = paint(BOLD, &row.agent_id[..8]);
    format!("run {} of {id} {end}{verdict}{waits}\n", row.run)
}

// `git agent stop`

/// End runs and every process that they started, and wait until this is recorded
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct StopArgs {
    /// Agents whose runs are to end; without one, the agent whose worktree this is
    #[arg(value_name = "AGENT")]
    agents: Vec<String>,
    /// Kill the commands at once, without time to end by themselves
    #[arg(long)]
    kill: bool,
}

pub(in crate::cli) fn run_stop(ctx: &Ctx, ui: &mut Ui, args: &StopArgs) -> Result<Exit> {
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

// `git agent ps`

/// List the runs that go on
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct PsArgs {}

pub(in crate::cli) fn run_ps(ctx: &Ctx, ui: &mut Ui, PsArgs {}: &PsArgs) -> Result<Exit> {
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

// `git agent logs`

/// Print what a run wrote to its standard output
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct LogsArgs {
    #[command(flatten)]
    agent: OwnAgentArg,
    #[command(flatten)]
    which: OutputArgs,
}

/// Which output of which run.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct OutputArgs {
    /// Follow the output until the run ends
    #[arg(long, short)]
    follow: bool,
    /// Print what it wrote to standard error instead
    #[arg(long)]
    stderr: bool,
    /// Number of the run; without it, the last one
    #[arg(long, value_name = "N")]
    run: Option<u32>,
}

impl OutputArgs {
    /// Whether any of it is asked for: `show` prints output then.
    pub(in crate::cli) fn is_given(&self) -> bool {
        self.follow || self.stderr || self.run.is_some()
    }
}

pub(in crate::cli) fn run_logs(ctx: &Ctx, ui: &mut Ui, args: &LogsArgs) -> Result<Exit> {
    let who = args.agent.or_current(ctx, ui)?;
    print(ctx, ui, who, &args.which)
}

/// Prints the output of an agent's run.
pub(in crate::cli) fn print(
    ctx: &Ctx,
    ui: &mut Ui,
    agent: String,
    which: &OutputArgs,
) -> Result<Exit> {
    let options = LogOptions { agent, run: which.run, stderr: which.stderr, follow: which.follow };
    if ui.format() != Format::Text {
        // The log may be anything, so by machine it is read where the answer says it is.
        let report = runs::logs(ctx, &options, &mut |_| Ok(true))?;
        return ui.done(&report);
    }
    let mut out = ui.echo()?.out;
    runs::logs(ctx, &options, &mut |bytes| match out.as_mut() {
        None => Ok(false),
        Some(out) => match out.write_all(bytes) {
            // The reader is gone, so a log that is followed is left, too.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
            other => {
                other.map(|()| true).map_err(|source| Error::io("could not write the log", source))
            }
        },
    })?;
    Ok(Exit::Yes)
}

impl Answer for LogsReport {
    /// The log itself was written as it came.
    fn text(&self) -> String {
        String::new()
    }
}
