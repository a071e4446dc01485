//! `git agent update`

use crate::agents::Ctx;
use crate::cli::input::args::{OwnAgentArg, one_of};
use crate::cli::out::terminal::{BAD, BOLD, GOOD, paint};
use crate::cli::out::ui::{Answer, Ui};
use crate::cli::verbs::run::inputs::host;
use crate::cli::verbs::run::{echo, on_terminal};
use crate::domain::judge::folded_paths::folded;
use crate::error::{Exit, Result};
use crate::hosts::{self, Host};
use crate::ops::mounted;
use crate::ops::solve::solve;
use crate::ops::update::{self, UpdateOptions, UpdateReport};
use crate::wire::output::path_text::PathText;

/// Merge the branch that an agent's work lands on into the agent's branch
///
/// An earlier verdict no longer holds. Uncommitted changes and conflicts are refused with status 3, and nothing
/// changes. With --conflicts, conflicts are left in the agent's worktree as git leaves them, with status 1; once they
/// are resolved, run this command again to commit the merge.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct UpdateArgs {
    #[command(flatten)]
    agent: OwnAgentArg,
    /// Update even if a session or another process is at work in the agent; an active run is still refused
    #[arg(long)]
    now: bool,
    /// Leave conflicts in the agent's worktree
    #[arg(long)]
    conflicts: bool,
    /// Let this agent host resolve them, in a run of the agent, and commit the merge
    #[arg(long, value_name = "HOST", requires = "conflicts", value_parser = one_of(hosts::startable().map(Host::name), host))]
    host: Option<&'static dyn Host>,
    /// Show what would be merged and stop
    #[arg(long, short = 'n')]
    dry_run: bool,
}

/// Bring what came to an agent's branch to its worktree
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct CatchUpArgs {
    agent: String,
    /// The commit that the worktree is at
    seen: String,
}

pub(in crate::cli) fn run_catch_up(ctx: &Ctx, args: &CatchUpArgs) -> Result<Exit> {
    mounted::catch_up(ctx, &args.agent, &args.seen)?;
    Ok(Exit::Yes)
}

pub(in crate::cli) fn run(ctx: &Ctx, ui: &mut Ui, args: &UpdateArgs) -> Result<Exit> {
    let options = UpdateOptions { now: args.now, conflicts: args.conflicts };
    let who = args.agent.or_current(ctx, ui)?;
    let report = match args.host.filter(|_| !args.dry_run) {
        Some(host) => {
            let echo = on_terminal(echo(ui, false)?, Some(host));
            solve(ctx, &who, host, args.now, echo)?
        }
        None => {
            let plan = update::plan(ctx, &who, options)?;
            if args.dry_run { plan.report() } else { update::execute(ctx, &plan)? }
        }
    };
    ui.answer(&report)?;
    let is_left = report.is_conflicting();
    Ok(if is_left { Exit::No } else { Exit::Yes })
}

impl Answer for UpdateReport {
    fn text(&self) -> String {
        let at = self.target.oid.as_deref().map_or("", |oid| &oid[..7]);
        let target = format!("{} {at}", self.target.short());
        let (id, target) = (paint(BOLD, &self.short_id), target.trim());
        match (self.outcome, &self.commit) {
            (_, Some(commit)) => {
                format!("{} {id} with {target} as {}\n", paint(GOOD, "updated"), &commit[..7])
            }
            ("conflicts", _) => {
                let lines = lines(&self.conflicts);
                let what = paint(BAD, "conflicts");
                format!(
                    "{what} of {id} with {target} are in its worktree, to be resolved:\n{lines}"
                )
            }
            ("up-to-date", _) => format!("{id} holds {target} already\n"),
            _ => {
                let lines = lines(&self.conflicts);
                let but = if lines.is_empty() { "" } else { ", which conflicts" };
                format!("would merge {target} into the branch of {id}{but}\n{lines}")
            }
        }
    }

    fn to_see_it(&self) -> Option<String> {
        let agent = &self.short_id;
        if self.is_conflicting() {
            return Some(format!(
                "{}, or resolve them by hand; then git agent update {agent}",
                self.to_go_on
            ));
        }
        self.commit.as_ref().map(|_| format!("git agent show {agent}"))
    }
}

/// One line for each path, or for many of one directory.
fn lines(paths: &[PathText]) -> String {
    let paths: Vec<_> = paths.iter().map(|path| path.to_bytes()).collect();
    let lines = folded(&paths).into_iter();
    lines.map(|line| format!("  {line}\n")).collect()
}
