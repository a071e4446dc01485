//! `show MSG-…`: one message and the conversation that it belongs to.

use crate::agents::ctx::Ctx;
use crate::domain::message::{ID_PREFIX, MessageId};
use crate::error::{Code, Error, Result};
use crate::ops::mail::MessageReport;
use crate::store::mailbox::Mailbox;
use serde::Serialize;

/// The answer of `show MSG-…`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConversationReport {
    /// The format's name and version.
    pub schema: &'static str,
    /// The message.
    pub message: MessageReport,
    /// Every message of the conversation, this one among them, oldest first.
    pub thread: Vec<MessageReport>,
}

/// Whether a word is meant as the id of a message.
pub fn is_id(word: &str) -> bool {
    word.starts_with(ID_PREFIX)
}

/// A message with its conversation.
///
/// # Errors
/// `message-unknown`, and those of [`find`].
pub fn show(ctx: &Ctx, who: &str) -> Result<ConversationReport> {
    let id = find(ctx, who)?;
    let conversation = Mailbox::new(&ctx.repo).conversation(&id)?;
    let thread: Vec<_> = conversation
        .iter()
        .map(|message| MessageReport::new(message, None))
        .collect();
    let message = thread
        .iter()
        .find(|message| message.message_id == id.as_str())
        .cloned()
        .ok_or_else(|| unknown(who))?;
    Ok(ConversationReport {
        schema: "git-agent.message/1",
        message,
        thread,
    })
}

/// The message whose id is this, or begins like this.
///
/// # Errors
/// `message-unknown` for none and for several; `repo-corrupt`.
pub fn find(ctx: &Ctx, who: &str) -> Result<MessageId> {
    if let Some(id) = MessageId::parse(who) {
        return Ok(id);
    }
    if !is_id(who) {
        return Err(unknown(who));
    }
    let mut found = Mailbox::new(&ctx.repo).ids_like(who)?;
    match (found.pop(), found.pop()) {
        (Some(id), None) => Ok(id),
        (Some(_), Some(_)) => Err(Error::new(
            Code::MessageUnknown,
            format!("more than one message id begins with `{who}`"),
        )
        .hint("to name one of them, give all of its id")),
        (None, _) => Err(unknown(who)),
    }
}

fn unknown(who: &str) -> Error {
    Error::new(
        Code::MessageUnknown,
        format!("there is no message `{}`", who.escape_debug()),
    )
    .hint("to see what there is, run git agent inbox")
}
