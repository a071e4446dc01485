//! `git agent sync`

use super::style::{GOOD, WARN, paint};
use super::ui::{Answer, Format, Ui};
use crate::agents::ctx::Ctx;
use crate::domain::task::parse_duration;
use crate::error::{Exit, Result};
use crate::ops::sync::{self, BranchReport, SyncOptions, SyncReport, SyncedRef};
use std::time::Duration;

/// Exchange ledger, branches of live agents and what else agent.sync names with a remote
///
/// Fetches, unites, pushes, and looks whether the remote has it all. Nothing is ever forced on a branch, and no ref but
/// those of git-agent and of its live agents is touched.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Ends with 4 where the remote refuses a ref or cannot be reached, and with 5 where the time was up before other clones let \
this one through.")]
pub(super) struct SyncArgs {
    /// Name of a remote; without it agent.remote, origin, or the only one
    remote: Option<String>,
    /// How long it may take in all
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = parse_duration)]
    timeout: Duration,
    /// End with 0 whatever happens, as in a pre-push hook: what fails is a warning
    #[arg(long)]
    best_effort: bool,
}

pub(super) fn run(ctx: &Ctx, ui: &mut Ui, args: SyncArgs) -> Result<Exit> {
    let options = SyncOptions {
        remote: args.remote,
        limit: args.timeout,
    };
    let report = {
        let _activity = ui.activity("waiting for the remote");
        sync::sync(ctx, &options)
    };
    match report {
        Ok(report) => {
            report.warnings.iter().for_each(|text| ui.warn(text));
            ui.answer(&report)?;
        }
        Err(error) if args.best_effort && ui.format() == Format::Text => {
            ui.warn(&format!("nothing was synchronised: {error}"));
        }
        Err(error) if args.best_effort => drop(ui.fail(&error)),
        Err(error) => return Err(error),
    }
    Ok(Exit::Yes)
}

impl Answer for SyncReport {
    fn text(&self) -> String {
        let mut text = String::new();
        for refname in &self.restored {
            text.push_str(&format!(
                "{} {refname} of this clone, from which a forced fetch or damage had taken rows\n",
                paint(WARN, "restored")
            ));
        }
        for refname in &self.healed {
            text.push_str(&format!(
                "{} {refname} of {}, which had lost what it had\n",
                paint(WARN, "healed"),
                self.remote
            ));
        }
        self.refs.iter().for_each(|one| text.push_str(&line(one)));
        self.branches
            .iter()
            .for_each(|one| text.push_str(&branch_line(one)));
        if text.is_empty() {
            text.push_str("nothing to exchange yet\n");
        }
        text
    }
}

fn line(one: &SyncedRef) -> String {
    let oid = &one.oid[..7];
    let received = if one.received {
        ", with what was new there"
    } else {
        ""
    };
    match one.state {
        "equal" => format!("{} at {oid}, here and there{received}\n", one.refname),
        "outbox" => format!(
            "{} at {oid} {} as {}: other clones were faster{received}\n",
            one.refname,
            paint(GOOD, "pushed"),
            one.remote_ref
        ),
        state => format!(
            "{} at {oid} {}{received}\n",
            one.refname,
            paint(GOOD, state)
        ),
    }
}

fn branch_line(one: &BranchReport) -> String {
    let style = if one.state == "refused" { WARN } else { GOOD };
    let name = one.refname.trim_start_matches("refs/heads/");
    let why = one.reason.as_deref().map(|reason| format!(": {reason}"));
    format!(
        "{name} at {} {}{}\n",
        &one.oid[..7],
        paint(style, one.state),
        why.unwrap_or_default()
    )
}
