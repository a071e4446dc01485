//! `git agent spawn --claim`: an agent for a task that one clone works on and no other.

use super::{SpawnArgs, make, plan};
use crate::agents::ctx::Ctx;
use crate::cli::ui::Ui;
use crate::error::{Code, Error, Exit, Result};
use crate::ops::run;
use crate::ops::sync::claim::{self, Acquired, ClaimReport};

/// The format of the answer where no agent is made.
const SCHEMA: &str = "git-agent.spawn-claim/1";

/// Makes the agent of a task under a claim. Where this clone has made it before, or the task is done, that is the answer.
pub(super) fn spawn(ctx: &Ctx, ui: &mut Ui, args: SpawnArgs, key: &str) -> Result<Exit> {
    if args.tasks.len() > 1 {
        return Err(Error::new(
            Code::Usage,
            "--claim is for one task, and several are given",
        )
        .hint("to make several agents, run git agent spawn --claim for each"));
    }
    let mut claim = match claim::acquire(ctx, args.sync.remote(), key)? {
        Acquired::Held(claim) => *claim,
        Acquired::Done(report) => {
            ui.answer(&ClaimReport {
                schema: SCHEMA,
                ..report
            })?;
            return Ok(Exit::Yes);
        }
    };
    // The same command again finds the agent that it made.
    let earlier = claim.earlier_agent();
    let earlier = earlier
        .map(|id| run::earlier(ctx, id))
        .transpose()?
        .flatten();
    if let Some(agent) = earlier {
        claim.keep(ctx)?;
        ui.answer(&ClaimReport {
            schema: SCHEMA,
            state: "held",
            ..claim.report(Some(agent.id))
        })?;
        return Ok(Exit::Yes);
    }
    // The claim names the agent before there is one, and outlasts this process.
    let begun = plan(ctx, args).and_then(|plans| {
        for one in &plans {
            claim.note_agent(ctx, one.id)?;
        }
        claim.keep(ctx)?;
        make(ctx, ui, plans)
    });
    if !matches!(begun, Ok(Exit::Yes)) {
        claim.release(ctx)?;
    }
    begun
}
