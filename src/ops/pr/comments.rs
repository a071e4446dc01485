//! `pr --comments`: what people wrote under an agent's pull request becomes messages to the agent.
//!
//! Each is sent once, whichever clone sends it: what tells it from every other of the forge is the number that tells the message from
//! every other. It is quoted, because its author commands no agent; what the agent makes of it is judged as all of its work is.

use crate::agents::ctx::Ctx;
use crate::agents::forge::{Comment, ForgeClient};
use crate::agents::names::resolve;
use crate::domain::agent::Agent;
use crate::domain::message::Kind;
use crate::domain::message_rules::Draft;
use crate::domain::quoted::{beginning, quoted, visible_line};
use crate::error::{Code, Error, Result};
use crate::store::mailbox::{Mailbox, Nonce, spool};
use crate::store::repository_settings;
use crate::wire::message::payload;
use chrono::TimeDelta;
use serde_json::json;
use sha2::{Digest, Sha256};

/// Who a message is from that repeats what was written on a forge.
const FROM: &str = "forge";

/// How much of a comment is quoted, in bytes.
const MOST: usize = 16 << 10;

/// The clocks of a forge and of this machine need not agree, and a message is looked for no further back than its comment.
const SKEW: TimeDelta = TimeDelta::days(1);

/// Sends the comments that the agent has not been sent, oldest first; gives their number.
///
/// # Errors
/// Those of the forge and of sending.
pub(super) fn send(
    ctx: &Ctx,
    client: &ForgeClient<'_>,
    agent: &Agent,
    number: u64,
) -> Result<usize> {
    let mut sent = 0;
    for comment in client.comments(number)? {
        // Made of what names the comment on every machine, so that two clones give one message.
        let key = format!("{} {} {}", agent.id, client.forge.name(), comment.key);
        let digest = Sha256::digest(key.as_bytes());
        let mut nonce = Nonce([0; 16]);
        nonce.0.copy_from_slice(&digest[..16]);
        if spool::posted(&ctx.repo, nonce, comment.written - SKEW)?.is_some() {
            continue;
        }
        let id = agent.id.to_string();
        let letter = Draft {
            kind: Kind::Notify.as_str(),
            priority: None,
            from: FROM,
            to: vec![&id],
            re: None,
            payload: Some(said(client, number, &comment)?),
            rules: repository_settings::of_main_worktree(&ctx.repo)?.messages,
        };
        let letter = letter.check().map_err(|problems| {
            Error::new(
                Code::MessageInvalid,
                format!("{}: {}", comment.key, problems.join("; ")),
            )
        })?;
        let (letter, _) = resolve(ctx, letter)?;
        Mailbox::new(&ctx.repo).post(letter, nonce, ctx.now())?;
        sent += 1;
    }
    Ok(sent)
}

fn said(
    client: &ForgeClient<'_>,
    number: u64,
    comment: &Comment,
) -> Result<crate::domain::message::Payload> {
    let called = client.forge.request_name(number);
    let author = visible_line(&comment.author);
    let about = match &comment.place {
        Some(place) => format!("comment on {}", visible_line(place)),
        None => "comment".to_owned(),
    };
    let text = quoted(
        &format!("{author} on {}", client.forge.host),
        &[(about, beginning(&comment.body, MOST))],
    );
    let payload = json!({
        "message": format!("A comment on {called}.\n{text}"),
        "pull_request": number,
        "author": author,
        "comment": comment.key,
    });
    payload::parse(&payload.to_string()).map_err(Error::bug)
}
