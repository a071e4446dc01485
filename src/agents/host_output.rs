//! What an agent host told on the streams of a run, read from its logs: at its end, and by whichever command completes a run whose
//! supervisor was killed.

use crate::agents::ctx::Ctx;
use crate::agents::liveness;
use crate::domain::agent::Agent;
use crate::domain::event::{HostSession, What};
use crate::domain::id::AgentId;
use crate::domain::run::Run;
use crate::error::Result;
use crate::hosts::output::Told;
use crate::hosts::{self, Host};
use crate::store::fsx;
use std::path::Path;

/// Stands for the name of the session in a command line. It is filled in when the run has a number.
pub const SESSION: &str = "{session}";

/// How much of the end of a log is read for the message of a host, which may write everything on one line.
const HOST_BYTES: u64 = 16 * 1024 * 1024;

/// The name for a host's session that we choose: a UUID that no other run has, and that can be told again from the row of a run
/// that was killed before its host wrote anything.
pub(crate) fn session_name(id: AgentId, number: u32) -> String {
    let id = id.to_string();
    format!("{}{number:08x}", &id[..id.len() - 8])
}

/// What a host told in a run; `command` is the line that the row of the run has.
pub(crate) fn told(
    common: &Path,
    agent: &Agent,
    (number, command): (u32, &str),
    host: &dyn Host,
) -> Told {
    let [out, err] = ["out", "err"].map(|stream| {
        let log = liveness::log(common, agent, number, stream);
        fsx::end_of(&log, HOST_BYTES).unwrap_or_default()
    });
    let mut told = host.told(&out, &err);
    // We chose the name of the session, so it is known even if the host was killed before it wrote
    // any.
    if told.session.is_none() && command.contains(SESSION) {
        told.session = Some(session_name(agent.id, number));
    }
    told
}

/// What the row of a run keeps of that: what this run cost, so that the sum over the runs is what the session cost.
///
/// # Errors
/// Those of the ledger.
pub(crate) fn session(ctx: &Ctx, agent: &Agent, told: &Told) -> Result<HostSession> {
    let session = HostSession {
        id: (told.session.clone()).filter(|id| HostSession::is_id(id)),
        // A number that is none, or negative, becomes nothing.
        cost_micro_usd: (told.cost_usd)
            .filter(|cost| cost.is_finite() && *cost >= 0.0)
            .map(|cost| (cost * 1e6).round() as u64),
        input_tokens: told.tokens.map(|tokens| tokens.input),
        output_tokens: told.tokens.map(|tokens| tokens.output),
    };
    if !told.is_whole || session.id.is_none() {
        return Ok(session);
    }
    // Several hosts count on from where the session was before.
    let events = ctx.ledger().events(agent.spawn_commit)?;
    Ok(events
        .into_iter()
        .fold(session, |session, event| match event.what {
            What::Exited(exited) if exited.session.id == session.id => {
                session.beyond(&exited.session)
            }
            _ => session,
        }))
}

/// The session of a run whose end was not recorded, as far as its host came.
///
/// # Errors
/// Those of the ledger.
pub(crate) fn session_of_lost(ctx: &Ctx, agent: &Agent, run: &Run) -> Result<HostSession> {
    let command = run.started.command.as_str();
    let Some(host) = hosts::of_command(command) else {
        return Ok(HostSession::default());
    };
    let run = (run.number(), command);
    session(ctx, agent, &told(ctx.repo.common_dir(), agent, run, host))
}
