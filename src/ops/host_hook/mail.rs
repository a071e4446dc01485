//! Messages for an agent at work: it is told of each at its next tool call.
//!
//! They stay unread until the agent receives them, because a host may drop what a hook says. What it was told of is kept in a file that the agent
//! could change: then it is told again, or has to look itself.

use crate::agents::ctx::Env;
use crate::agents::current::CurrentAgent;
use crate::agents::untrusted;
use crate::domain::message::plain;
use crate::error::Result;
use crate::git::refs::Tip;
use crate::ops::host_hook::own_place;
use crate::ops::mail::MessageReport;
use crate::store::mailbox::{Mailbox, Open, Reader};
use crate::store::{fsx, layout};

/// The file: the tip of the mailbox when it was last looked at, then the ids of the messages that were told.
const TOLD: &str = "told-messages";

/// How much of a message is told, in characters; hosts cut off what is longer.
const LONGEST: usize = 2_000;

/// What came since the last look, in words for the agent; nothing where nothing did. Most calls read one ref and one file.
pub(super) fn news(env: &Env, home: &CurrentAgent) -> Result<String> {
    let Tip::At(tip) = home.repo.tip(layout::MAIL_REF)? else {
        return Ok(String::new());
    };
    let tip = tip.to_string();
    let place = own_place(env, home);
    let known = untrusted::text(&place, TOLD).unwrap_or_default();
    // Every tool call asks, and nearly always nothing came: one ref and one file tell.
    if known.lines().next() == Some(&tip) {
        return Ok(String::new());
    }
    let mailbox = Mailbox::new(&home.repo);
    let open = mailbox.open(&Reader::agent(&home.agent)?)?;
    let unread: Vec<_> = open.iter().filter(|open| open.read.is_none()).collect();
    // Written anew with what is unread now, so that the file does not grow with messages that were
    // read.
    let mut told = tip;
    let mut text = String::new();
    for open in unread {
        told.push_str(&format!("\n{}", open.id));
        if !known.lines().any(|line| line == open.id.as_str()) {
            text.push_str(&words(&mailbox, open)?);
        }
    }
    fsx::create_dir(&place)?;
    fsx::write_private(&place.join(TOLD), told.as_bytes())?;
    if !text.is_empty() {
        text.push_str("To mark what you have read, run git-agent receive; to answer, git-agent send --reply-to <id>.\n");
    }
    Ok(text)
}

/// One message.
fn words(mailbox: &Mailbox<'_>, open: &Open) -> Result<String> {
    let message = MessageReport::new(&mailbox.read(open)?, None);
    let payload = plain(&message.payload.to_string());
    let shown: String = payload.chars().take(LONGEST).collect();
    let cut = if shown.len() < payload.len() {
        " …"
    } else {
        ""
    };
    Ok(format!(
        "A message came for you: [{}] {} from {} ({}): {}\n{shown}{cut}\n",
        message.priority,
        message.kind,
        plain(&message.sender()),
        message.message_id,
        plain(&message.summary),
    ))
}
