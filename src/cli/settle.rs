//! `git agent done` and `git agent fail`

use super::args::OwnAgentArg;
use super::one_of::some_words;
use super::render::agents::{handle, state, state_style};
use super::style::paint;
use super::ui::{Answer, Ui};
use crate::agents::ctx::Ctx;
use crate::error::{Exit, Result};
use crate::ops::close::{self, MoveReport};

/// Declare an agent's work finished
#[derive(Debug, clap::Args)]
pub(super) struct DoneArgs {
    #[command(flatten)]
    agent: OwnAgentArg,
    /// What was achieved
    #[arg(long, short = 'm', default_value = "", hide_default_value = true)]
    summary: String,
}

/// Declare an agent's work failed
#[derive(Debug, clap::Args)]
pub(super) struct FailArgs {
    #[command(flatten)]
    agent: OwnAgentArg,
    /// Why it failed
    #[arg(long, short = 'm', value_parser = some_words)]
    reason: String,
}

pub(super) fn run_done(ctx: &Ctx, ui: &mut Ui, args: &DoneArgs) -> Result<Exit> {
    let who = args.agent.or_current(ctx)?;
    ui.answer(&close::done(ctx, &who, &args.summary)?)?;
    Ok(Exit::Yes)
}

pub(super) fn run_fail(ctx: &Ctx, ui: &mut Ui, args: &FailArgs) -> Result<Exit> {
    let who = args.agent.or_current(ctx)?;
    ui.answer(&close::fail(ctx, &who, &args.reason)?)?;
    Ok(Exit::Yes)
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
