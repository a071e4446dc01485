//! `git agent sync`, and `unite`, which does the part of it that needs no remote

use crate::agents::{Ctx, Env};
use crate::cli::input::args::some_words;
use crate::cli::out::terminal::{GOOD, WARN, paint};
use crate::cli::out::ui::{Answer, Format, Ui};
use crate::domain::branch_name;
use crate::domain::work::task::parse_duration;
use crate::error::{Code, Exit, Result};
use crate::ops::sync::{self, BranchReport, SyncOptions, SyncReport, SyncedRef};
use crate::ops::unite::{self, UniteReport};
use std::time::Duration;

/// Exchange the ledger, branches of live agents and everything else that agent.sync names with a remote
///
/// Fetches, merges, pushes, and then checks that the remote has everything. No branch is force-pushed, and no refs but
/// those of git-agent and its live agents are touched.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exits with 4 if the remote refuses a ref or cannot be reached, and with 5 if other clones kept moving the refs until \
the time ran out.")]
pub(in crate::cli) struct SyncArgs {
    /// Name of a remote; without it agent.remote, origin, or the only one
    remote: Option<String>,
    /// How long it may take in all [default: 60s, or 1s with --best-effort]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    timeout: Option<Duration>,
    /// Always exit with 0, for use in a pre-push hook: failures are warnings, and another sync is not waited for
    #[arg(long)]
    best_effort: bool,
    /// Be the process that `--best-effort` ends when its time is up
    #[arg(long, hide = true, requires = "best_effort")]
    attempt: bool,
}

/// How long `--best-effort` may take unless told otherwise: the user's push waits for it.
const MOMENT: Duration = Duration::from_secs(1);

impl SyncArgs {
    /// Whether another process does it, which is ended when the time is up.
    pub(in crate::cli) fn is_limited(&self) -> bool {
        self.best_effort && !self.attempt
    }
}

/// `--best-effort`: whatever the exchange waits for, be it a lock, an ssh or a disk, this ends in time, with 0. What was
/// killed half-way goes on with the next sync.
pub(in crate::cli) fn run_limited(ui: &mut Ui, args: &SyncArgs) -> Result<Exit> {
    let limit = args.timeout.unwrap_or(MOMENT);
    match Env::of_process().and_then(|env| sync::attempt(env, limit)) {
        Ok(true) => {}
        Ok(false) => ui.warn(&format!(
            "the time was up after {} s; what was not exchanged goes with the next sync",
            limit.as_secs()
        )),
        Err(error) => ui.warn(&format!("nothing was synchronised: {error}")),
    }
    Ok(Exit::Yes)
}

pub(in crate::cli) fn run(ctx: &Ctx, ui: &mut Ui, args: SyncArgs) -> Result<Exit> {
    let options = SyncOptions {
        remote: args.remote,
        // What ends this process otherwise does so a little later.
        limit: args.timeout.unwrap_or(if args.best_effort { MOMENT } else { sync::LIMIT }),
        waits: !args.best_effort,
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
        // The message of a lock names the wait, and there was none.
        Err(error) if args.best_effort && error.code() == Code::LockTimeout => ui.warn(
            "nothing was synchronised: another process of this clone is at work; what is new goes with the next sync",
        ),
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
        self.branches.iter().for_each(|one| text.push_str(&branch_line(one)));
        if text.is_empty() {
            text.push_str("nothing to exchange yet\n");
        }
        text
    }
}

fn line(one: &SyncedRef) -> String {
    let oid = &one.oid[..7];
    let received = if one.received { ", with what was new there" } else { "" };
    match one.state {
        "equal" => format!("{} at {oid}, here and there{received}\n", one.refname),
        "outbox" => format!(
            "{} at {oid} {} as {}: other clones were faster{received}\n",
            one.refname,
            paint(GOOD, "pushed"),
            one.remote_ref
        ),
        state => format!("{} at {oid} {}{received}\n", one.refname, paint(GOOD, state)),
    }
}

fn branch_line(one: &BranchReport) -> String {
    let style = if one.state == "refused" { WARN } else { GOOD };
    let name = branch_name(&one.refname);
    let why = one.reason.as_deref().map(|reason| format!(": {reason}"));
    format!("{name} at {} {}{}\n", &one.oid[..7], paint(style, one.state), why.unwrap_or_default())
}

// `git agent unite`

/// Unite ledger, mailbox and what is kept with the copies fetched from a remote; no network is used
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct UniteArgs {
    /// Remote, as in `refs/notes/<remote>/agents`
    #[arg(default_value = "origin", value_parser = some_words)]
    remote: String,
}

pub(in crate::cli) fn run_unite(ctx: &Ctx, ui: &mut Ui, args: &UniteArgs) -> Result<Exit> {
    ui.done(&unite::unite(ctx, &args.remote)?)
}

impl Answer for UniteReport {
    fn text(&self) -> String {
        let line = |united: &crate::ops::unite::UnitedReport| {
            let to = &united.to[..7];
            match &united.from {
                Some(from) if *from == united.to => {
                    format!("{} has it all at {to}\n", united.refname)
                }
                Some(from) => format!("{} {} -> {to}\n", united.refname, &from[..7]),
                None => format!("{} begins at {to}\n", united.refname),
            }
        };
        self.refs.iter().map(line).collect()
    }
}
