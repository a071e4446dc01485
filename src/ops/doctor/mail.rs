//! The mailbox: its refs, and what waits in spools without a process to collect it.

use crate::agents::ctx::Ctx;
use crate::agents::spool::{sweep_spools, uncollected};
use crate::domain::diagnosis::Sign;
use crate::error::Result;
use crate::ops::doctor::Finding;
use crate::ops::doctor::survey::Survey;
use crate::store::chain::Chain;
use crate::store::chain::recovery::{self, Condition};

pub(super) fn look(ctx: &Ctx, _survey: &Survey) -> Result<Vec<Finding>> {
    let mut found = Vec::new();
    for chain in [Chain::Mail, Chain::Receipts] {
        let refname = chain.refname();
        match recovery::condition(&ctx.repo, chain)? {
            Condition::Sound => {}
            Condition::Damaged => found.push(Finding::curable(
                Sign::MailDamaged,
                format!("{refname} leads to nothing whole; its reflog does"),
                move |ctx| {
                    recovery::repair(&ctx.repo, chain, ctx.now())?;
                    Ok("wrote down what the reflog gave back".to_owned())
                },
            )),
            Condition::Lost => found.push(Finding::report(
                Sign::MailLost,
                format!("{refname} and its reflog lead to nothing readable"),
                super::TAKE_OVER.to_owned(),
            )),
        }
    }
    let agents = uncollected(ctx)?;
    if !agents.is_empty() {
        let ids: Vec<_> = agents.iter().map(|agent| agent.id.short()).collect();
        let what = format!("messages wait in the spools of agents {}", ids.join(", "));
        found.push(Finding::curable(Sign::SpoolWaiting, what, |ctx| {
            Ok(format!("posted {} messages", sweep_spools(ctx)?))
        }));
    }
    Ok(found)
}
