//! `git agent run` for more than one agent

use super::board::Board;
use super::target::Asked;
use crate::agents::ctx::Ctx;
use crate::agents::half_made;
use crate::cli::run::batch_answer::{BatchAnswer, ended, row};
use crate::cli::terminal::is_watched;
use crate::cli::ui::{Format, Ui};
use crate::error::{Exit, Result};
use crate::hosts::Host;
use crate::ops::run::batch;
use crate::ops::run::batch::News;
use crate::ops::run::tournament::{self, Entry};

/// Runs a batch, and tells of every run as it ends: to people in a line, to machines in one JSON object.
/// With `best_of`, so many agents compete, and the answer names the best.
pub(super) fn run(
    ctx: &Ctx,
    ui: &mut Ui,
    mut asked: Asked,
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
        Format::Text if !quiet && is_watched() => Some(Board::new(ui.screen()?, &names)),
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
        if let (Some(_), Ok(report)) = (best_of, &outcome) {
            attempts.push(Entry {
                target: names[index].clone(),
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
                ui.print(&ended(&names[index], &outcome))
            }
            Format::Ndjson => ui.print(&format!("{}\n", row(&names[index], &outcome))),
            _ => {
                rows.push((index, row(&names[index], &outcome)));
                Ok(())
            }
        }
    })?;
    rows.sort_by_key(|(index, _)| *index);
    let items = rows.into_iter().map(|(_, row)| row).collect();
    let mut exit = Exit::Child(report.exit_code);
    let mut tournament = None;
    // A batch that was asked to end has no winner.
    if best_of.is_some() && report.left == 0 {
        let decided = tournament::decide(ctx, &attempts)?;
        exit = if decided.winner.is_some() {
            Exit::Yes
        } else {
            Exit::No
        };
        tournament = Some(decided);
    }
    let answer = BatchAnswer {
        report,
        tournament,
        items,
    };
    match format {
        _ if quiet => {}
        Format::Ndjson => ui.print(&format!("{}\n", answer.summary()))?,
        _ => ui.answer(&answer)?,
    }
    Ok(exit)
}
