//! One pull request an agent: opened, or brought up to date; and the comments on it.

use crate::agents::context::ctx::Ctx;
use crate::agents::forge::{Comment, ForgeClient, Offer, OpenRequest};
use crate::agents::who::names::resolve;
use crate::agents::{life::admission, who::lookup};
use crate::domain::life::agent::Agent;
use crate::domain::life::limits::Limit;
use crate::domain::mail::message::Kind;
use crate::domain::mail::message_rules::Draft;
use crate::domain::value::named::first_half;
use crate::domain::value::quoted::{beginning, quoted, visible_line};
use crate::error::{Code, Error, Remedy, Result};
use crate::ops::pr::{PrPlan, short};
use crate::store::mailbox::{Mailbox, Nonce, spool};
use crate::store::settings::repository_settings;
use crate::wire::row::message::payload;
use chrono::TimeDelta;
use serde_json::json;
use sha2::{Digest, Sha256};
use std::collections::HashSet;

/// What was done with it.
pub(super) struct Offered {
    /// `created`, `updated`, `queued` or `closed`.
    pub(super) outcome: &'static str,
    pub(super) url: String,
    pub(super) warnings: Vec<String>,
}

/// Refuses one more pull request than `open_prs` allows: reviewers, and the machines of the forge, take so many at a time.
pub(super) fn require_room(ctx: &Ctx, client: &ForgeClient<'_>) -> Result<()> {
    let Some(most) = admission::load(ctx)?.get(Limit::OpenPrs) else {
        return Ok(());
    };
    let agents = lookup::agents(ctx)?.into_iter();
    // Requests of people do not count.
    let own: HashSet<String> = agents
        .filter_map(|agent| agent.branch.as_deref().map(|name| short(name).to_owned()))
        .collect();
    let open = client.open_requests(None)?;
    let open = open.iter().filter(|one| own.contains(&one.branch)).count();
    if u64::try_from(open).unwrap_or(u64::MAX) < most {
        return Ok(());
    }
    let what = format!(
        "the pull request is not opened: {open} of agents are open, and `{}` is {most}",
        Limit::OpenPrs
    );
    Err(Error::new(Code::LimitReached, what).remedy("to see all of them", Remedy::Agents))
}

/// Opens the pull request of a branch that is pushed, or brings the open one up to date.
pub(super) fn offer(
    client: &ForgeClient<'_>,
    plan: &PrPlan,
    open: Option<OpenRequest>,
    body: &str,
) -> Result<Offered> {
    let branch = short(&plan.branch);
    let offer = Offer {
        branch,
        target: short(&plan.target),
        title: &plan.title(),
        body,
        labels: &plan.options.labels,
        draft: plan.options.draft,
    };
    let mut warnings = Vec::new();
    let (mut outcome, request) = match open {
        Some(open) => {
            client.edit(open.number, &offer)?;
            ("updated", open)
        }
        None => match client.open(&offer) {
            Ok(url) => {
                let number = url
                    // The forge's program answers with the page, and its number ends it.
                    .rsplit('/')
                    .next()
                    .and_then(|number| number.parse().ok());
                let request = OpenRequest {
                    number: number.unwrap_or_default(),
                    url,
                    branch: branch.to_owned(),
                };
                // A draft is not to be reviewed yet.
                if request.number > 0 && !plan.options.draft {
                    warnings.extend(ask_owners(client, plan, request.number));
                }
                ("created", request)
            }
            // Another process may have been quicker.
            Err(error) => match client.open_requests(Some(branch))?.into_iter().next() {
                Some(open) => {
                    client.edit(open.number, &offer)?;
                    ("updated", open)
                }
                None => return Err(error),
            },
        },
    };
    if plan.options.queue {
        let tip = plan.replay.tip.to_hex();
        client.queue(request.number, short(&plan.target), &tip)?;
        outcome = "queued";
    }
    Ok(Offered { outcome, url: request.url, warnings })
}

/// Asks those to review it whom the target's `CODEOWNERS` names for what it changes. A forge refuses the author, and names that it does
/// not know: that is a warning, because the pull request is open.
fn ask_owners(client: &ForgeClient<'_>, plan: &PrPlan, number: u64) -> Option<String> {
    let owners = &plan.owners;
    if owners.is_empty() {
        return None;
    }
    let asked = client.ask_reviewers(number, owners);
    // An owner may have no account there, or be the author; the request is open all the same.
    asked.err().map(|error| {
        let why = error.causes().join(" ");
        format!("{} could not be asked to review it: {why}", owners.join(", "))
    })
}

// `pr --comments`: what people wrote under an agent's pull request becomes messages to the agent.
//
// Each is sent once, whichever clone sends it: what tells it from every other of the forge is the number that tells the message from
// every other. It is quoted, because its author commands no agent; what the agent makes of it is judged as all of its work is.

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
        let nonce = Nonce(first_half(Sha256::digest(key.as_bytes())));
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
            Error::new(Code::MessageInvalid, format!("{}: {}", comment.key, problems.join("; ")))
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
) -> Result<crate::domain::mail::message::Payload> {
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
