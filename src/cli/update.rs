//! `git agent update`

use super::args::OwnAgentArg;
use super::style::{BOLD, GOOD, paint};
use super::ui::{Answer, Ui};
use crate::agents::ctx::Ctx;
use crate::error::{Exit, Result};
use crate::ops::update::{self, UpdateReport};

/// Merge the branch that an agent's work lands on into the agent's branch
///
/// What was judged before is judged again. Uncommitted work and conflicts are refused with status 3, and nothing is changed then.
#[derive(Debug, clap::Args)]
pub(super) struct UpdateArgs {
    #[command(flatten)]
    agent: OwnAgentArg,
    /// Do it though a session or another process is at work in the agent; a run is not passed over
    #[arg(long)]
    now: bool,
    /// Show what would be merged and stop
    #[arg(long, short = 'n')]
    dry_run: bool,
}

pub(super) fn run(ctx: &Ctx, ui: &mut Ui, args: &UpdateArgs) -> Result<Exit> {
    let plan = update::plan(ctx, &args.agent.or_current(ctx)?, args.now)?;
    let report = if args.dry_run {
        plan.report()
    } else {
        update::execute(ctx, &plan)?
    };
    ui.answer(&report)?;
    Ok(Exit::Yes)
}

impl Answer for UpdateReport {
    fn text(&self) -> String {
        let at = self.target.oid.as_deref().map_or("", |oid| &oid[..7]);
        let target = format!("{} {at}", self.target.short());
        let (id, target) = (paint(BOLD, &self.short_id), target.trim());
        match (self.outcome, &self.commit) {
            (_, Some(commit)) => format!(
                "{} {id} with {target} as {}\n",
                paint(GOOD, "updated"),
                &commit[..7]
            ),
            ("up-to-date", _) => format!("{id} holds {target} already\n"),
            _ => format!("would merge {target} into the branch of {id}\n"),
        }
    }

    fn to_see_it(&self) -> Option<String> {
        let agent = &self.short_id;
        { self.commit.as_ref() }.map(|_| format!("git agent show {agent}"))
    }
}
