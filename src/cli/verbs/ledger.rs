//! `git agent ledger`

use crate::agents::Ctx;
use crate::cli::out::render::counted;
use crate::cli::out::terminal::{BAD, GOOD, HINT, paint};
use crate::cli::out::ui::{Answer, Ui};
use crate::domain::mail::message::plain;
use crate::error::{Exit, Result};
use crate::ops::ledger::{self, LedgerReport, RemovalReport, SignaturesReport};
use clap::Subcommand;
use std::collections::BTreeMap;

/// Examine the ledger
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct LedgerArgs {
    #[command(subcommand)]
    what: LedgerAction,
}

#[derive(Debug, Subcommand)]
enum LedgerAction {
    /// Find events that were removed or altered, and the commits of the ledger that did it; exits with 1 if there are
    /// any
    Verify {
        /// Also require that every event is signed by a key that git trusts (gpg.ssh.allowedSignersFile)
        #[arg(long)]
        signed: bool,
    },
}

pub(in crate::cli) fn run(ctx: &Ctx, ui: &mut Ui, args: &LedgerArgs) -> Result<Exit> {
    let LedgerAction::Verify { signed } = args.what;
    let report = ledger::verify(ctx, signed)?;
    ui.answer(&report)?;
    Ok(Exit::answer(report.verdict == "accept"))
}

impl Answer for LedgerReport {
    fn text(&self) -> String {
        let rows = match self.rows {
            0 => "no rows".to_owned(),
            rows => counted(rows, "row", ""),
        };
        if self.verdict == "accept" {
            let signatures = self.signatures.as_ref().map(signatures).unwrap_or_default();
            let accepted = paint(GOOD, "accepted");
            return format!("{accepted}: {rows}, no event is missing\n{signatures}");
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
        text.extend(self.signatures.as_ref().map(signatures));
        if !self.removals.is_empty() {
            let hint = "to restore what is missing, run git agent doctor --fix";
            text.push_str(&format!("{} {hint}\n", paint(HINT, "hint:")));
        }
        text
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

/// How many events of one agent are named by their kind.
const NAMED: usize = 8;

/// Who signed how much, and for each agent which events lack a good signature.
fn signatures(report: &SignaturesReport) -> String {
    let mut text = String::new();
    for signed in &report.signed {
        let events = counted(signed.events, "event", "");
        text.push_str(&format!("  {events} signed by {}\n", plain(&signed.signer)));
    }
    let mut rows: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for event in &report.unsigned {
        let row = rows.entry((&event.short_id, event.signature));
        row.or_default().push(&event.event);
    }
    for ((agent, signature), kinds) in &rows {
        let what = match *signature {
            "missing" => "without a signature",
            "untrusted" => "signed by a key that git does not trust",
            "bad" => "with a bad signature",
            _ => "brought by a commit that is not here",
        };
        let events = counted(kinds.len(), "event", "");
        let more = if kinds.len() > NAMED { ", …" } else { "" };
        let kinds = plain(&kinds.get(..NAMED).unwrap_or(kinds).join(", "));
        text.push_str(&format!("  {agent}: {events} {what} ({kinds}{more})\n"));
    }
    if rows.keys().any(|(_, signature)| *signature == "untrusted") {
        let hint = "to name the keys to trust, run git config gpg.ssh.allowedSignersFile <file>";
        text.push_str(&format!("{} {hint}\n", paint(HINT, "hint:")));
    }
    text
}
