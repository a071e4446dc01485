//! `git agent run` for more than one agent

use crate::agents::{Ctx, upkeep::half_made};
use crate::cli::out::render::table::{age, cut};
use crate::cli::out::terminal::{BAD, BOLD, GOOD, paint, width};
use crate::cli::out::ui::{Answer, AsJson, Format, Ui, error_object};
use crate::cli::verbs::run::answer::{ending, seconds};
use crate::cli::verbs::run::inputs::RunsAsked;
use crate::error::{Error, Exit, Result};
use crate::hosts::Host;
use crate::ops::run::RunReport;
use crate::ops::run::batch::{self, BatchReport, BatchRun, News, TournamentReport};
use crate::wire::put;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::time::Instant;

/// Runs a batch, and tells of every run as it ends: to people in a line, to machines in one JSON object.
/// With `best_of`, so many agents compete, and the answer names the best.
pub(super) fn run(
    ctx: &Ctx,
    ui: &mut Ui,
    mut asked: RunsAsked,
    (jobs, best_of): (usize, Option<usize>),
    quiet: bool,
) -> Result<Exit> {
    half_made::sweep(ctx)?;
    let batch = match best_of {
        Some(count) => asked.tournament(ctx, jobs, count)?,
        None => asked.batch(ctx, jobs),
    };
    let host = batch.options.host.map(Host::name);
    let hosts: Vec<&str> = batch.hosts.iter().map(|host| host.name()).collect();
    let names = asked.targets;
    let format = ui.format();
    let mut board = match format {
        // Lines that are drawn anew would be noise in a log.
        Format::Text if !quiet && ui.is_watched() => Some(Board::new(ui.screen()?, &names)),
        _ => None,
    };
    let (mut rows, mut attempts) = (Vec::new(), Vec::new());
    let report = batch::execute_all(ctx, batch, &mut |news| {
        if let Some(board) = &mut board {
            board.hear(&news);
        }
        let News::Ended(index, outcome) = news else {
            return Ok(());
        };
        let name = names.get(index);
        let name = name.ok_or_else(|| Error::bug("the end of a run that was not wanted"))?;
        if let (Some(_), Ok(report)) = (best_of, &outcome) {
            attempts.push(BatchRun {
                target: name.clone(),
                host: hosts.get(index).copied().or(host),
                run: report.clone(),
            });
        }
        match format {
            _ if quiet => Ok(()),
            Format::Text => {
                if let Err(error) = &outcome {
                    let _ = ui.fail(error);
                }
                ui.print(&ended(name, &outcome))
            }
            Format::Ndjson => ui.print(&format!("{}\n", row(name, &outcome))),
            _ => {
                rows.push((index, row(name, &outcome)));
                Ok(())
            }
        }
    })?;
    rows.sort_unstable_by_key(|(index, _)| *index);
    let items = rows.into_iter().map(|(_, row)| row).collect();
    let mut exit = Exit::Child(report.exit_code);
    let mut tournament = None;
    // A batch that was asked to end has no winner.
    if best_of.is_some() && !report.is_interrupted {
        let decided = batch::decide(ctx, &attempts)?;
        // Competitors that failed do not count where one of them won.
        exit = Exit::answer(decided.winner.is_some());
        tournament = Some(decided);
    }
    let answer = BatchAnswer { report, tournament, items };
    match format {
        _ if quiet => {}
        Format::Ndjson => ui.print(&format!("{}\n", answer.summary()))?,
        _ => ui.answer(&answer)?,
    }
    Ok(exit)
}

// The lines at the end of a terminal that say what is under way.

/// How many runs are shown at most, so that they fit on a terminal.
const SHOWN: usize = 16;

/// What is under way, drawn anew as it changes.
pub(super) struct Board<'a> {
    out: Box<dyn Write + Send>,
    names: &'a [String],
    begun: BTreeMap<usize, (String, Instant)>,
    ended: usize,
    /// How many lines stand there.
    drawn: usize,
}

impl<'a> Board<'a> {
    /// For runs of these names.
    pub(super) fn new(out: Box<dyn Write + Send>, names: &'a [String]) -> Board<'a> {
        Board { out, names, begun: BTreeMap::new(), ended: 0, drawn: 0 }
    }

    /// Takes news in. After an end nothing is drawn, so that its line can be written; the lines come back with
    /// the next tick.
    pub(super) fn hear(&mut self, news: &News) {
        match news {
            News::Begun(index, start) => {
                let id = start.row.agent_id[..8].to_owned();
                self.begun.insert(*index, (id, Instant::now()));
            }
            News::Ended(index, _) => {
                self.begun.remove(index);
                self.ended += 1;
                self.draw(&[]);
            }
            News::Tick => {
                let lines = self.lines();
                self.draw(&lines);
            }
        }
    }

    fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self
            .begun
            .iter()
            .take(SHOWN)
            .map(|(index, (id, since))| {
                let seconds = i64::try_from(since.elapsed().as_secs()).unwrap_or(i64::MAX);
                let name = self.names.get(*index).map_or("", String::as_str);
                format!("  {id} {:>4}  {name}", age(seconds))
            })
            .collect();
        let (all, at_work) = (self.names.len(), self.begun.len());
        let waiting = all - at_work - self.ended;
        lines.push(format!("{} of {all} over, {at_work} at work, {waiting} waiting", self.ended));
        let width = width();
        // Some terminals begin another line once the last column is full, and the way back up
        // counts lines.
        lines.iter().map(|line| cut(line, width - 1)).collect()
    }

    fn draw(&mut self, lines: &[String]) {
        let mut text = match self.drawn {
            0 => String::new(),
            drawn => format!("\x1b[{drawn}A\x1b[J"),
        };
        for line in lines {
            text.push_str(line);
            text.push('\n');
        }
        self.drawn = lines.len();
        // What cannot be drawn is told when it ends.
        let _ = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
    }
}

// How a batch of runs looks.

/// One run of a batch in one line.
pub(in crate::cli) fn ended(name: &str, outcome: &Result<Box<RunReport>, Error>) -> String {
    let Ok(report) = outcome else {
        return format!("{} {name}\n", paint(BAD, "not run "));
    };
    let style = if report.status == "success" { GOOD } else { BAD };
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
            "error": error_object(error),
        }),
    };
    put(&mut row, "target", name);
    row
}

/// The attempts of a tournament, best first.
fn ranking(tournament: &TournamentReport) -> String {
    let mut text = String::new();
    for (number, attempt) in tournament.attempts.iter().enumerate() {
        let verdict =
            if attempt.accepted { paint(GOOD, "accepted") } else { paint(BAD, "not accepted") };
        let lines = attempt.changed_lines.map(|count| match count {
            1 => ", 1 line".to_owned(),
            count => format!(", {count} lines"),
        });
        let cost = attempt.cost_usd.map(|cost| format!(", ${cost:.2}"));
        let host = attempt.host.map(|host| format!(" by {host}"));
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
            put(&mut summary, "tournament", json!(tournament));
        }
        summary
    }
}

impl AsJson for BatchAnswer {
    fn json(&self) -> Value {
        let mut answer = self.summary();
        put(&mut answer, "items", self.items.clone());
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
