//! Warm worktrees that no spawn gets, and a pool that could not be filled.

use crate::agents::ctx::Ctx;
use crate::agents::kept_worktree::KeptWorktree;
use crate::agents::pool as slots;
use crate::domain::diagnosis::Sign;
use crate::error::Result;
use crate::ops::doctor::Finding;
use crate::ops::doctor::survey::Survey;
use crate::ops::pool;
use crate::store::layout;

/// The command that makes slots as the settings want them and removes those that are not.
const FILL: &str = "git agent setup pool fill";

pub(super) fn look(ctx: &Ctx, _: &Survey) -> Result<Vec<Finding>> {
    // Where there was never a slot, HEAD may have no commit to read settings from.
    if !layout::pool_dir(ctx.repo.common_dir()).exists() {
        return Ok(Vec::new());
    }
    let report = pool::look(ctx)?;
    let mut found = Vec::new();
    for slot in &report.slots {
        let name = &slot.name;
        match slot.state {
            "broken" => {
                let what = format!("the warm worktree {name} was never finished");
                found.push(Finding::curable(Sign::SlotHalfMade, what, |ctx| {
                    let (_, kept) = slots::sweep(ctx)?;
                    let kept: Vec<String> = kept.iter().map(KeptWorktree::sentence).collect();
                    Ok(["removed it".to_owned()]
                        .into_iter()
                        .chain(kept)
                        .collect::<Vec<_>>()
                        .join("; "))
                }));
            }
            "edited" => {
                let what = format!("{name} was edited by hand, so no agent gets it");
                found.push(Finding::report(Sign::SlotStale, what, FILL));
            }
            "stale" if report.size == 0 => {
                let what = format!("{name} is kept ready, and the settings at HEAD want no pool");
                found.push(Finding::report(Sign::SlotStale, what, FILL));
            }
            "stale" => {
                let what = format!("{name} was set up otherwise than the settings at HEAD say");
                found.push(Finding::report(Sign::SlotStale, what, FILL));
            }
            _ => {}
        }
    }
    for base in report.bases.iter().filter(|base| base.state == "damaged") {
        let what = format!(
            "{} was changed, and {} agents work over it",
            base.name,
            base.agents.len()
        );
        // An agent that has its own files works on; a base under none is removed.
        let command = match base.agents.first() {
            Some(agent) => format!("git agent materialize {agent}"),
            None => "git agent gc --yes".to_owned(),
        };
        found.push(Finding::report(Sign::BaseDamaged, what, command));
    }
    if let Some(failure) = report.failure {
        let what = format!("the pool could not be filled: {failure}");
        found.push(Finding::report(Sign::PoolNotFilled, what, FILL));
    }
    Ok(found)
}
