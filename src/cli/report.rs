//! `git agent report`

mod html;

use super::ui::{Answer, Ui};
use crate::agents::ctx::Ctx;
use crate::error::{Exit, Result};
use crate::ops::report::{self, Competitor, FleetReport, SavedReport, TournamentOutcome};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Report on all agents: lives, verdicts, what landed; as a page with --html
#[derive(Debug, clap::Args)]
pub(super) struct ReportArgs {
    /// Write one self-contained page to this file, `-` for standard output
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

pub(super) fn run(ctx: &Ctx, ui: &mut Ui, args: &ReportArgs) -> Result<Exit> {
    let report = report::report(ctx)?;
    match &args.html {
        None => ui.answer(&report)?,
        Some(file) if file.as_os_str() == "-" => ui.print(&html::page(&report))?,
        Some(file) => {
            let page = html::page(&report);
            ui.answer(&report::save(ctx, &report, file, &page, html::MARK)?)?;
        }
    }
    Ok(Exit::Yes)
}

impl Answer for FleetReport {
    fn text(&self) -> String {
        let states: Vec<_> = self
            .states
            .iter()
            .map(|count| format!("{} {}", count.count, count.state))
            .collect();
        if self.agents.is_empty() {
            return "(no agents)\n".to_owned();
        }
        let (count, states) = (agents(self.agents.len()), states.join(", "));
        let won: String = self.tournaments.iter().map(tournament).collect();
        format!("{count} as of {}: {states}\n{won}", self.made_at)
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
