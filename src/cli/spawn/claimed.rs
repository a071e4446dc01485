//! `git agent spawn --claim`: an agent for a task that one clone works on and no other.

use super::{SpawnArgs, make, plan};
use crate::agents::Ctx;
use crate::cli::claimed::{self, TaskState};
use crate::cli::ui::Ui;
use crate::error::{Exit, Result};
use crate::ops::sync::claim::ClaimReport;

/// The format of the answer where no agent is made.
const SCHEMA: &str = "git-agent.spawn-claim/1";

/// Makes the agent of a task under a claim. Where this clone has made it before, or the task is done, that is the answer.
pub(super) fn spawn(ctx: &Ctx, ui: &mut Ui, args: SpawnArgs, key: &str) -> Result<Exit> {
    let (form, sync) = (args.form(ctx), args.sync.clone());
    let taken = claimed::acquire(ctx, "spawn", args.tasks.len(), args.sync.remote(), key, None)?;
    let (mut claim, earlier) = match taken {
        TaskState::Held(claim, earlier) => (*claim, *earlier),
        TaskState::Done(report) => {
            ui.answer(&ClaimReport { schema: SCHEMA, ..report })?;
            sync.after(ctx, ui);
            return Ok(Exit::Yes);
        }
    };
    // The same command again finds the agent that it made.
    if let Some(agent) = earlier {
        claim.keep(ctx)?;
        ui.answer(&ClaimReport { schema: SCHEMA, state: "held", ..claim.report(Some(agent.id)) })?;
        sync.after(ctx, ui);
        return Ok(Exit::Yes);
    }
    // The claim names the agent before there is one, and outlasts this process.
    let begun = plan(ctx, args).and_then(|plans| {
        for one in &plans {
            claim.note_agent(ctx, one.id)?;
        }
        claim.keep(ctx)?;
        make(ctx, ui, plans, form, &sync)
    });
    // No other clone is to wait for an agent that was never made.
    if !matches!(begun, Ok(Exit::Yes)) {
        claim.release(ctx)?;
    }
    begun
}
