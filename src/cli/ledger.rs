//! `git agent ledger`

use super::style::{BAD, GOOD, HINT, paint};
use super::ui::{Answer, Ui};
use super::verify::counted;
use crate::agents::ctx::Ctx;
use crate::domain::message::plain;
use crate::error::{Exit, Result};
use crate::ops::ledger::{self, LedgerReport, RemovalReport};
use clap::Subcommand;
use serde_json::{Value, json};

/// Examine the ledger
#[derive(Debug, clap::Args)]
pub(super) struct LedgerArgs {
    #[command(subcommand)]
    what: LedgerAction,
}

#[derive(Debug, Subcommand)]
enum LedgerAction {
    /// Find events that were removed or altered, and the commits of the ledger that did it; status 1 where there are any
    Verify,
}

pub(super) fn run(ctx: &Ctx, ui: &mut Ui, args: &LedgerArgs) -> Result<Exit> {
    let LedgerAction::Verify = args.what;
    let report = ledger::verify(ctx)?;
    ui.answer(&report)?;
    Ok(match report.verdict {
        "accept" => Exit::Yes,
        _ => Exit::No,
    })
}

impl Answer for LedgerReport {
    fn text(&self) -> String {
        let rows = match self.rows {
            0 => "no rows".to_owned(),
            rows => counted(rows, "row", ""),
        };
        if self.verdict == "accept" {
            return format!("{}: {rows}, no event is missing\n", paint(GOOD, "accepted"));
        }
        let mut text = format!("{}: {rows}\n", paint(BAD, "rejected"));
        for removal in &self.removals {
            text.push_str(&format!("  {}\n", removed(removal)));
        }
        for row in &self.broken {
            for (count, what) in [
                (row.removed, "an event that was removed or changed"),
                (row.unknown, "an event that was never there"),
            ] {
                if count > 0 {
                    let events = counted(count, "event", "");
                    text.push_str(&format!("  {}: {events} after {what}\n", row.short_id));
                }
            }
        }
        if !self.removals.is_empty() {
            let hint = "to restore what is missing, run git agent doctor --fix";
            text.push_str(&format!("{} {hint}\n", paint(HINT, "hint:")));
        }
        text
    }

    fn json(&self) -> Value {
        json!(self)
    }
}

fn removed(removal: &RemovalReport) -> String {
    let whose = removal.short_id.as_deref().unwrap_or(&removal.note[..7]);
    match (&removal.commit, &removal.by) {
        (Some(commit), Some(by)) => format!(
            "{whose}: {} removed by commit {} of {}",
            counted(removal.events, "event", ""),
            &commit[..7],
            plain(by)
        ),
        _ => {
            format!("{whose}: events are missing since the ref was moved to a history without them")
        }
    }
}
