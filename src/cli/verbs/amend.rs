//! `git agent amend`

use crate::agents::Ctx;
use crate::cli::input::args::OwnAgentArg;
use crate::cli::input::typed_task::{from_here, new_from_here};
use crate::cli::out::render::handle;
use crate::cli::out::terminal::{BOLD, DIM, paint};
use crate::cli::out::ui::{Answer, Ui};
use crate::cli::verbs::show::never;
use crate::domain::work::task::parse_duration;
use crate::error::{Exit, Result};
use crate::ops::amend::{self, AmendOptions, AmendReport};
use clap::ArgGroup;
use std::time::Duration;

/// Change the scope, checks, bundle or time limit of a live agent; an option replaces the whole list
///
/// Works only in the clone that spawned the agent, outside of agents, and while nothing runs for it. The new policy is
/// recorded in the ledger and applies to every later verdict; no commit is made.
#[derive(Debug, clap::Args)]
#[command(group(ArgGroup::new("change").required(true).multiple(true)))]
pub(in crate::cli) struct AmendArgs {
    #[command(flatten)]
    agent: OwnAgentArg,
    /// Glob or directory that the agent may touch, instead of its present whitelist; repeatable
    #[arg(long, value_name = "GLOB", group = "change")]
    scope: Vec<String>,
    /// Glob or directory to add to the whitelist; repeatable
    #[arg(long, value_name = "GLOB", group = "change")]
    add_scope: Vec<String>,
    /// As --add-scope, for what does not exist yet; repeatable
    #[arg(long, value_name = "GLOB", group = "change")]
    new: Vec<String>,
    /// Glob or directory that the agent may not touch, instead of those of its task; the defaults stay; repeatable
    #[arg(long, value_name = "GLOB", group = "change")]
    deny: Vec<String>,
    /// Command that `verify` runs, instead of the present ones; repeatable
    #[arg(long, value_name = "CMD", group = "change")]
    check: Vec<String>,
    /// Take the check commands from the present settings of the branch to land on
    #[arg(
        long,
        value_name = "FROM",
        group = "change",
        conflicts_with = "check",
        require_equals = true
    )]
    checks: Option<ChecksFrom>,
    /// No longer require a bundle
    #[arg(long, group = "change")]
    no_bundle: bool,
    /// How long a run may take, such as 90s or 1h30m
    #[arg(long, value_name = "TIME", group = "change", value_parser = parse_duration)]
    timeout: Option<Duration>,
    /// Why
    #[arg(long, short = 'm', value_name = "TEXT", default_value = "", hide_default_value = true)]
    reason: String,
    /// Show the new policy and stop
    #[arg(long, short = 'n')]
    dry_run: bool,
}

/// Where checks are taken from.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum ChecksFrom {
    /// The settings at the tip of the branch to land on.
    Target,
}

pub(in crate::cli) fn run(ctx: &Ctx, ui: &mut Ui, args: AmendArgs) -> Result<Exit> {
    let options = AmendOptions {
        scope: from_here(ctx, &args.scope),
        add_scope: from_here(ctx, &args.add_scope),
        new: new_from_here(ctx, &args.new),
        deny: from_here(ctx, &args.deny),
        checks: args.check,
        checks_of_target: args.checks.is_some(),
        no_bundle: args.no_bundle,
        timeout: args.timeout,
        reason: args.reason,
        dry_run: args.dry_run,
    };
    let report = amend::amend(ctx, &args.agent.or_current(ctx, ui)?, &options)?;
    report.warnings.iter().for_each(|warning| ui.warn(warning));
    ui.done(&report)
}

impl Answer for AmendReport {
    fn text(&self) -> String {
        let verb = if self.dry_run { "would amend" } else { "amended" };
        let mut text = format!("{verb} {}\n", paint(BOLD, &handle(&self.agent)));
        let mut line = |name: &str, value: String| {
            text.push_str(&format!("{} {value}\n", paint(DIM, &format!("{name}:"))));
        };
        line("may touch", self.whitelist.join(", "));
        line("must not touch", never(&self.denylist, &self.opened));
        line(
            "checks",
            match self.checks.as_slice() {
                [] => "(none)".to_owned(),
                checks => checks.join(", "),
            },
        );
        line("bundle", if self.bundle_required { "required" } else { "not required" }.to_owned());
        if let Some(limit) = self.timeout_ms {
            // Rounded up, so that a short limit does not look like none.
            line("time limit", format!("{}s", limit.div_ceil(1000)));
        }
        text
    }

    fn to_see_it(&self) -> Option<String> {
        Some(format!("git agent verify {}", self.agent.short_id))
    }
}
