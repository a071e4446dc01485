//! `git agent sync`, and `--sync` of other verbs.

use super::style::{GOOD, WARN, paint};
use super::ui::{Answer, Format, Ui};
use crate::agents::ctx::Ctx;
use crate::agents::remote_name::remote_name;
use crate::domain::task::parse_duration;
use crate::error::{Exit, Result};
use crate::ops::sync::{self, BranchReport, SyncOptions, SyncReport, SyncedRef};
use serde_json::{Value, json};
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

/// `--sync` of a verb that changes something.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct SyncArg {
    /// Exchange the ledger with this remote afterwards, as git agent sync does
    #[arg(long, value_name = "REMOTE", conflicts_with = "dry_run")]
    sync: Option<String>,
}

pub(super) fn run(ctx: &Ctx, ui: &mut Ui, args: SyncArgs) -> Result<Exit> {
    let options = SyncOptions {
        remote: args.remote,
        limit: args.timeout,
    };
    let report = {
        let _doing = ui.doing("waiting for the remote");
        sync::sync(ctx, &options)
    };
    match report {
        Ok(report) => {
            if ui.format() == Format::Text {
                report.warnings.iter().for_each(|text| ui.warn(text));
            }
            ui.answer(&report)?;
        }
        Err(error) if args.best_effort => ui.warn(&format!("nothing was synchronised: {error}")),
        Err(error) => return Err(error),
    }
    Ok(Exit::Yes)
}

/// `--push` of a verb that lands work.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct PushArg {
    /// Land on the branch of a remote, judged against what the remote has, and then exchange the ledger with it
    ///
    /// Without a name the remote is agent.remote, origin, or the only one. The branch and the claims on the tasks
    /// (run --claim) move together or not at all. If the remote's branch moves meanwhile, the work is judged again. This
    /// clone's branch follows where it can be fast-forwarded.
    #[arg(long, value_name = "REMOTE", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    push: Option<String>,
}

impl PushArg {
    /// The remote that work lands on; empty for the usual one.
    pub(super) fn remote(&self) -> Option<String> {
        self.push.clone()
    }

    /// The exchange that follows, because the rows travel with what has landed.
    ///
    /// # Errors
    /// `usage` when there is no such remote.
    pub(super) fn after_landing(&self, ctx: &Ctx, dry_run: bool) -> Result<SyncArg> {
        let remote = self.push.as_deref().filter(|_| !dry_run);
        let named = |remote: &str| {
            let wanted = Some(remote).filter(|name| !name.is_empty());
            remote_name(ctx, wanted)
        };
        Ok(SyncArg {
            sync: remote.map(named).transpose()?,
        })
    }
}

impl SyncArg {
    /// The remote that was named.
    pub(super) fn remote(&self) -> Option<&str> {
        self.sync.as_deref()
    }

    /// Synchronises after a command that ended like that, whatever its answer was. The status is that of the command,
    /// unless it was successful and this is not.
    pub(super) fn after(&self, ctx: &Ctx, ui: &mut Ui, exit: Exit) -> Exit {
        let Some(remote) = &self.sync else {
            return exit;
        };
        let report = {
            let _doing = ui.doing("waiting for the remote");
            sync::sync(ctx, &SyncOptions::with(Some(remote.clone())))
        };
        match report {
            Ok(report) => {
                if ui.format() == Format::Text {
                    report.warnings.iter().for_each(|text| ui.warn(text));
                }
                exit
            }
            Err(error) => {
                let failed = ui.fail(&error);
                if exit.code() == 0 { failed } else { exit }
            }
        }
    }
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

    fn json(&self) -> Value {
        json!(self)
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
