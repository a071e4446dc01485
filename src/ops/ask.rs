//! Asking the supervisor, from inside a run, for what an agent that may spawn does not do itself.
//!
//! The request goes into the spool, and its answer comes into a directory that the agent can read and not write. LeadWork that landed on the
//! agent's branch is taken over here, by the git of the agent: out there nothing touches a worktree in which a command works.

use crate::agents::{Ctx, CurrentAgent, upkeep::spool};
use crate::domain::value::named::hex;
use crate::error::{Code, Error, Result};
use crate::git::core::command;
use crate::store::files::{fsx, layout};
use crate::store::mailbox::spool::nonce_of;
use crate::wire::row::request::{LeadAnswer, LeadRequest, SCHEMA, SpooledRequest};
use std::path::Path;
use std::time::{Duration, Instant};

/// How often the answer is looked for.
const LOOK: Duration = Duration::from_millis(20);

/// How long a request lies in the spool at most until a supervisor has taken it out.
const TAKEN: Duration = Duration::from_secs(10);

/// The agent that this process works for in a run, if it may ask for anything.
///
/// # Errors
/// Those of [`CurrentAgent::find`].
pub fn asker(ctx: &Ctx) -> Result<Option<CurrentAgent>> {
    let home = CurrentAgent::find(&ctx.env, &[&ctx.env.directory])?;
    Ok(home.filter(|home| ctx.env.spool.is_some() && home.policy.may_spawn))
}

/// Asks, and waits for the answer however long that takes.
///
/// # Errors
/// What the supervisor refuses; `target-dirty` for a landing on changes that are not committed; `lock-timeout` where there is no supervisor.
pub fn ask(
    ctx: &Ctx,
    asker: &CurrentAgent,
    request: LeadRequest,
    json: bool,
) -> Result<LeadAnswer> {
    let is_landing = matches!(request, LeadRequest::Merge { .. } | LeadRequest::Train { .. });
    if is_landing {
        require_committed(&asker.root)?;
    }
    let Some(spool) = &ctx.env.spool else {
        return Err(Error::bug("only a run has a supervisor"));
    };
    let nonce = hex(&ctx.nonce()?);
    let asked = SpooledRequest { schema: SCHEMA.to_owned(), json, request, nonce: nonce.clone() };
    let content = serde_json::to_vec(&asked).unwrap_or_default();
    let place = spool::leave(ctx, spool, &nonce, &content)?;
    let name = hex(&nonce_of(asker.agent.id, &content).0);
    let answers = layout::answers_dir(asker.repo.common_dir(), asker.agent.id);
    let answer = answers.join(format!("{name}.json"));
    let began = Instant::now();
    let bytes = loop {
        if let Some(bytes) = fsx::load_if_there(&answer)? {
            break bytes;
        }
        if began.elapsed() > TAKEN && place.exists() {
            let _ = std::fs::remove_file(&place);
            let what = "no supervisor has taken the request over";
            return Err(Error::new(Code::LockTimeout, what));
        }
        std::thread::sleep(LOOK);
    };
    let answered: LeadAnswer = serde_json::from_slice(&bytes)
        .map_err(|error| Error::bug(format!("the answer is none: {error}")))?;
    if let Some(refused) = answered.refused {
        let code = Code::ALL.iter().find(|code| code.name() == refused.code);
        let error = Error::new(*code.unwrap_or(&Code::Bug), refused.message);
        let error = refused.details.into_iter().fold(error, Error::detail);
        return Err(refused.hints.into_iter().fold(error, Error::hint));
    }
    if let Some(tip) = &answered.tip {
        // Its hooks judge what comes as they judge any commit.
        command::run(&asker.root, ["merge", "--ff-only", "--quiet", tip])?;
    }
    Ok(answered)
}

fn require_committed(root: &Path) -> Result<()> {
    let changed = command::run(root, ["status", "--porcelain", "--untracked-files=no"])?;
    if changed.is_empty() {
        return Ok(());
    }
    let what = "there are changes that are not committed, and what lands comes into this worktree";
    Err(Error::new(Code::TargetDirty, what).hint("to commit them, run git commit -a"))
}
