//! Sending messages, and what a question (`clarify`) does to the agent that asks: it waits, and the user is told.

use super::at_work::{look, shown_state};
use super::ctx::Ctx;
use super::notify::{Notice, notify};
use crate::domain::agent::{Agent, State};
use crate::domain::message::{Kind, Letter, Message};
use crate::error::Result;
use crate::store::mailbox::{Mailbox, Nonce};

/// Posts a letter. The user's command for agents that wait is run where this one begins to: another question while one is
/// open is no news.
///
/// # Errors
/// Those of [`Mailbox::post`].
pub(crate) fn post(
    ctx: &Ctx,
    mailbox: &Mailbox<'_>,
    letter: Letter,
    nonce: Nonce,
) -> Result<Message> {
    // A sender that is no agent, such as `user`, has no state that could change.
    let asker = (letter.kind == Kind::Clarify)
        .then(|| ctx.ledger().find(letter.from.as_str()).ok())
        .flatten()
        .filter(|agent| !is_waiting(ctx, agent));
    let message = mailbox.post(letter, nonce, ctx.now())?;
    if let Some(agent) = asker.filter(|agent| is_waiting(ctx, agent)) {
        notify(&ctx.repo, Notice::Waiting, &agent, State::Waiting.as_str());
    }
    Ok(message)
}

/// What the sender should know of an agent that gets a letter: one that waits and in which nothing works reads it only in
/// another run.
pub(crate) fn sleeps(ctx: &Ctx, name: &str) -> Option<Agent> {
    let agent = ctx.ledger().find(name).ok()?;
    let is_asleep = is_waiting(ctx, &agent) && look(ctx, &agent).is_none();
    is_asleep.then_some(agent)
}

/// Whether a question of the agent is open.
pub(crate) fn is_waiting(ctx: &Ctx, agent: &Agent) -> bool {
    shown_state(ctx.repo.common_dir(), agent) == State::Waiting
}
