//! The ledger as a whole: its ref, what foreign writers dropped, the commits that its rows are on.

use super::Finding;
use super::survey::{Survey, is_of_this_clone};
use crate::domain::diagnosis::Sign;
use crate::domain::stamp::is_ahead;
use crate::error::Result;
use crate::ops::Ctx;
use crate::store::chain::Chain;
use crate::store::repair::{self, Condition};
use crate::store::{layout, recovery};

const CHAIN: Chain = Chain::Notes(layout::LEDGER_REF);

pub(super) fn look(ctx: &Ctx, survey: &Survey) -> Result<Vec<Finding>> {
    let mut found = Vec::new();
    match repair::condition(&ctx.repo, CHAIN)? {
        Condition::Sound => {}
        Condition::Damaged => found.push(Finding::curable(
            Sign::LedgerDamaged,
            format!(
                "{} leads to nothing whole; its reflog does",
                CHAIN.refname()
            ),
            |ctx| {
                repair::repair(&ctx.repo, CHAIN, ctx.now())?;
                Ok("wrote down what the reflog gave back".to_owned())
            },
        )),
        Condition::Lost => {
            found.push(Finding::report(
                Sign::LedgerLost,
                format!(
                    "{} and its reflog lead to nothing readable",
                    CHAIN.refname()
                ),
                format!("git fetch <remote> +{0}:{0}", CHAIN.refname()),
            ));
            return Ok(found);
        }
    }
    let dropped = recovery::foreign_writes(&ctx.repo)?.dropped.len();
    if dropped > 0 {
        let what = format!("{dropped} notes lack lines that foreign writers dropped");
        found.push(Finding::curable(Sign::LinesDropped, what, move |ctx| {
            let restored = recovery::restore(&ctx.repo, ctx.now())?;
            Ok(match restored.changed {
                true => format!("brought back the lines of {dropped} notes"),
                false => "nothing was missing any more".to_owned(),
            })
        }));
    }
    let ahead = { survey.rows().iter() }.filter(|agent| is_ahead(agent.updated, ctx.now()));
    found.extend(ahead.map(|agent| {
        let (short, date) = (agent.id.short(), agent.updated.format("%Y-%m-%d"));
        Finding::report(
            Sign::ClockAhead,
            format!("the last event of agent {short} is dated {date}, ahead of the clock"),
            format!("git agent log {short}"),
        )
    }));
    // The rows of another clone come without their commits until those are fetched.
    let gone = survey
        .rows()
        .iter()
        .filter(|agent| is_of_this_clone(ctx, agent) && !ctx.repo.has_object(agent.spawn_commit));
    found.extend(gone.map(|agent| {
        Finding::report(
            Sign::SpawnCommitGone,
            format!(
                "the row of agent {} is on commit {}, which is gone",
                agent.id.short(),
                agent.spawn_commit
            ),
            format!(
                "git fetch <remote> {}",
                layout::fetch_refspec(layout::KEEP_REF, "<remote>")
            ),
        )
    }));
    Ok(found)
}
