//! `git agent report`

mod html;

use super::board;
use crate::agents::Ctx;
use crate::cli::out::screen::Interrupt;
use crate::cli::out::ui::{Answer, Format, Ui};
use crate::error::{Code, Error, Exit, Result};
use crate::ops::report::watch::{Opener, ReportWatch};
use crate::ops::report::{self, Competitor, FleetReport, SavedReport, TournamentOutcome};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Report on all agents: history, verdicts and landings; --html writes a page
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct ReportArgs {
    /// Write one self-contained page to this file, `-` for standard output; without a file name, inside .git
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    html: Option<Option<PathBuf>>,
    /// Open the page: with the command in BROWSER, else with xdg-open or open
    #[arg(long, requires = "html")]
    open: bool,
    /// Keep DIR/index.html current until Ctrl-C: write the page again when something has changed
    #[arg(long, requires = "html", value_name = "DIR")]
    watch: Option<PathBuf>,
}

pub(in crate::cli) fn run(ctx: &Ctx, ui: &mut Ui, args: &ReportArgs) -> Result<Exit> {
    let Some(file) = &args.html else {
        ui.answer(&report::report(ctx)?)?;
        return Ok(Exit::Yes);
    };
    let is_stdout = file.as_deref().is_some_and(|file| file == Path::new("-"));
    if is_stdout && args.open || file.is_some() && args.watch.is_some() {
        let what = "--html takes no file with --watch, and not `-` with --open";
        return Err(
            Error::new(Code::Usage, what).hint("to see what it takes, run git agent report --help")
        );
    }
    // One JSON value cannot be written while it goes on; lines can.
    if args.watch.is_some() && ui.format() == Format::Json {
        let what = "--watch answers with a line for each page that it wrote";
        let error = Error::new(Code::Usage, what);
        return Err(error.hint("to read them by machine, pass --format ndjson"));
    }
    // Asked before anything is written, so that an error is the only answer.
    let opener = args.open.then(|| Opener::require(ctx)).transpose()?;
    if let Some(directory) = &args.watch {
        return watch(ctx, ui, &report::page_in(ctx, directory)?, opener);
    }
    let report = report::report(ctx)?;
    let page = html::page(&report, None);
    if is_stdout {
        ui.print(&page)?;
        return Ok(Exit::Yes);
    }
    let file = match file {
        Some(file) => file.clone(),
        None => report::default_page(ctx)?,
    };
    let saved = report::save(ctx, &report, &file, &page, html::MARK)?;
    if let Some(opener) = opener {
        opener.open(ctx, Path::new(&saved.path), false)?;
    }
    ui.done(&saved)
}

/// How often a browser that shows a page that is kept current reads it again, in seconds.
const RELOAD: u32 = 30;

/// Writes the page whenever it would say something else, until it is interrupted.
fn watch(ctx: &Ctx, ui: &mut Ui, file: &Path, mut opener: Option<Opener>) -> Result<Exit> {
    let interrupt = Interrupt::register()?;
    let mut watch = ReportWatch::new(ctx);
    let mut is_first = true;
    let mut warned = String::new();
    loop {
        let saved = watch.renewed().and_then(|report| {
            let save = |report| {
                report::save(ctx, report, file, &html::page(report, Some(RELOAD)), html::MARK)
            };
            report.as_ref().map(save).transpose()
        });
        match saved {
            Ok(None) => {}
            Ok(Some(saved)) => {
                warned.clear();
                ui.answer(&saved)?;
                if let Some(opener) = opener.take() {
                    opener.open(ctx, Path::new(&saved.path), true)?;
                }
            }
            Err(error) if is_first => return Err(error),
            // The page stays as it was, and the next look may succeed. What is wrong for long is said once.
            Err(error) => {
                watch.again();
                if error.to_string() != warned {
                    warned = error.to_string();
                    ui.warn(&warned);
                }
            }
        }
        is_first = false;
        if interrupt.comes_within(board::INTERVAL) {
            return Ok(Exit::Yes);
        }
    }
}

impl Answer for FleetReport {
    fn text(&self) -> String {
        let states: Vec<_> =
            self.states.iter().map(|count| format!("{} {}", count.count, count.state)).collect();
        if self.agents.is_empty() {
            return "(no agents)\n".to_owned();
        }
        let (count, states) = (agents(self.agents.len()), states.join(", "));
        let won: String = self.tournaments.iter().map(tournament).collect();
        let usage = self.usage.as_ref();
        let usage = usage.map(|usage| format!("{}\n", usage.sentence()));
        let usage = usage.unwrap_or_default();
        format!("{count} as of {}: {states}\n{won}{usage}", self.made_at)
    }

    fn rows(&self) -> Vec<Value> {
        self.agents.iter().map(|agent| json!(agent)).collect()
    }
}

impl Answer for SavedReport {
    fn text(&self) -> String {
        format!("{}: {}\n", self.path, agents(self.agents))
    }
}

/// Who won a tournament, in one line.
fn tournament(outcome: &TournamentOutcome) -> String {
    let named = |one: &Competitor| match &one.host {
        Some(host) => format!("{} ({host})", one.short_id),
        None => one.short_id.clone(),
    };
    let names: Vec<String> = outcome.agents.iter().map(named).collect();
    match (&outcome.winner, names.split_first()) {
        (Some(_), Some((best, []))) => format!("{best} won\n"),
        (Some(_), Some((best, others))) => format!("{best} won against {}\n", others.join(", ")),
        _ => format!("no winner among {}\n", names.join(", ")),
    }
}

fn agents(count: usize) -> String {
    match count {
        1 => "1 agent".to_owned(),
        count => format!("{count} agents"),
    }
}
