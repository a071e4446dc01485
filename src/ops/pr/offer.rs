//! One pull request an agent: opened, or brought up to date.

use super::{PrPlan, short};
use crate::agents::ctx::Ctx;
use crate::agents::forge::{ForgeClient, Offer, OpenRequest};
use crate::agents::{limits, lookup};
use crate::domain::limits::Limit;
use crate::error::{Code, Error, Remedy, Result};
use std::collections::HashSet;

/// What was done with it.
pub(super) struct Offered {
    /// `created`, `updated` or `queued`.
    pub(super) outcome: &'static str,
    pub(super) url: String,
    pub(super) warnings: Vec<String>,
}

/// The open pull request of the plan's branch. Where there is none, there has to be room for another.
pub(super) fn find(
    ctx: &Ctx,
    client: &ForgeClient<'_>,
    plan: &PrPlan,
) -> Result<Option<OpenRequest>> {
    let open = client
        .open_requests(Some(short(&plan.branch)))?
        .into_iter()
        .next();
    // A request that is open already takes no further room.
    if open.is_none() {
        require_room(ctx, client)?;
    }
    Ok(open)
}

/// Refuses one more pull request than `open_prs` allows: reviewers, and the machines of the forge, take so many at a time.
fn require_room(ctx: &Ctx, client: &ForgeClient<'_>) -> Result<()> {
    let Some(most) = limits::load(ctx)?.get(Limit::OpenPrs) else {
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
        client.queue(request.number, &plan.replay.tip.to_hex())?;
        outcome = "queued";
    }
    Ok(Offered {
        outcome,
        url: request.url,
        warnings,
    })
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
        format!(
            "{} could not be asked to review it: {why}",
            owners.join(", ")
        )
    })
}
