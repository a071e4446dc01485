//! `git agent mark`: `done`, `fail`, `reject` and `defer`, which are also verbs of their own, and `accept`.

use crate::agents::Ctx;
use crate::cli::input::args::{OwnAgentArg, some_words};
use crate::cli::input::several::AgentsArg;
use crate::cli::out::render::{handle, state, state_style};
use crate::cli::out::terminal::paint;
use crate::cli::out::ui::{Answer, Ui};
use crate::error::{Exit, Result};
use crate::ops::close::{self, MoveReport};
use clap::Subcommand;

/// Mark an agent's work as done, failed, accepted, rejected or deferred
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct MarkArgs {
    #[command(subcommand)]
    state: Mark,
}

#[derive(Debug, Subcommand)]
enum Mark {
    Done(DoneArgs),
    Fail(FailArgs),
    Accept(AcceptArgs),
    Reject(RejectArgs),
    Defer(DeferArgs),
}

/// Declare an agent's work finished
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct DoneArgs {
    #[command(flatten)]
    agent: OwnAgentArg,
    /// What was achieved
    #[arg(long, short = 'm', default_value = "", hide_default_value = true)]
    summary: String,
}

/// Declare an agent's work failed
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct FailArgs {
    #[command(flatten)]
    agent: OwnAgentArg,
    /// Why it failed
    #[arg(long, short = 'm', value_parser = some_words)]
    reason: String,
}

/// Accept work although an audit or a train rejected it
///
/// Only a person can do this, outside of agents. A later audit or train counts again.
#[derive(Debug, clap::Args)]
struct AcceptArgs {
    #[command(flatten)]
    agent: OwnAgentArg,
    /// Why it may land nevertheless
    #[arg(long, short = 'm', value_name = "TEXT", value_parser = some_words)]
    reason: String,
}

/// Reject finished work; its branch and worktree stay
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct RejectArgs {
    #[command(flatten)]
    agents: AgentsArg,
    /// Why it is rejected
    #[arg(long, short = 'm', value_name = "TEXT", value_parser = some_words)]
    reason: Option<String>,
}

/// Defer the decision about finished work
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct DeferArgs {
    #[command(flatten)]
    agents: AgentsArg,
    /// Why it is deferred
    #[arg(long, short = 'm', value_name = "TEXT", value_parser = some_words)]
    reason: Option<String>,
}

pub(in crate::cli) fn run_mark(ctx: &Ctx, ui: &mut Ui, args: &MarkArgs) -> Result<Exit> {
    match &args.state {
        Mark::Done(args) => run_done(ctx, ui, args),
        Mark::Fail(args) => run_fail(ctx, ui, args),
        Mark::Accept(args) => run_accept(ctx, ui, args),
        Mark::Reject(args) => run_reject(ctx, ui, args),
        Mark::Defer(args) => run_defer(ctx, ui, args),
    }
}

pub(in crate::cli) fn run_done(ctx: &Ctx, ui: &mut Ui, args: &DoneArgs) -> Result<Exit> {
    let who = args.agent.or_current(ctx, ui)?;
    ui.done(&close::done(ctx, &who, &args.summary)?)
}

pub(in crate::cli) fn run_fail(ctx: &Ctx, ui: &mut Ui, args: &FailArgs) -> Result<Exit> {
    let who = args.agent.or_current(ctx, ui)?;
    ui.done(&close::fail(ctx, &who, &args.reason)?)
}

fn run_accept(ctx: &Ctx, ui: &mut Ui, args: &AcceptArgs) -> Result<Exit> {
    let who = args.agent.or_current(ctx, ui)?;
    ui.done(&close::accept(ctx, &who, &args.reason)?)
}

pub(in crate::cli) fn run_reject(ctx: &Ctx, ui: &mut Ui, args: &RejectArgs) -> Result<Exit> {
    let reason = args.reason.as_deref().unwrap_or_default();
    let reject = |agent: &str| close::reject(ctx, agent, reason);
    args.agents.each(ctx, ui, reject)
}

pub(in crate::cli) fn run_defer(ctx: &Ctx, ui: &mut Ui, args: &DeferArgs) -> Result<Exit> {
    let reason = args.reason.as_deref().unwrap_or_default();
    let defer = |agent: &str| close::defer(ctx, agent, reason);
    args.agents.each(ctx, ui, defer)
}

impl Answer for MoveReport {
    fn text(&self) -> String {
        let agent = &self.agent;
        if self.status.is_some() {
            return format!(
                "left in the spool of {}; it is recorded when that is collected\n",
                handle(agent)
            );
        }
        let state = paint(state_style(agent.state), &state(agent));
        format!("{} is {state}\n", handle(agent))
    }

    fn to_see_it(&self) -> Option<String> {
        Some(format!("git agent show {}", self.agent.agent_id))
    }
}
