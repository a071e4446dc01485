//! Runs whose end was not recorded, because their supervisor was killed.

use crate::agents::ctx::Ctx;
use crate::agents::liveness::Liveness;
use crate::agents::{crash_recovery, liveness, publish};
use crate::domain::agent::Agent;
use crate::domain::diagnosis::Sign;
use crate::error::Result;
use crate::ops::doctor::Finding;
use crate::ops::doctor::survey::Survey;
use crate::store::{layout, lock};

pub(super) fn look(ctx: &Ctx, survey: &Survey) -> Result<Vec<Finding>> {
    let mut found = Vec::new();
    for agent in survey.rows() {
        let common = ctx.repo.common_dir();
        let dead = match &agent.run {
            Some(run) if liveness::of_run(common, agent, run)? == Liveness::Dead => {
                Some(run.number())
            }
            _ => None,
        };
        let short = agent.id.short();
        let what = match dead {
            Some(number) => format!("run {number} of agent {short} ended without a record"),
            None if is_unpublished(ctx, agent)? => {
                format!("what a run of agent {short} committed is not published")
            }
            None => continue,
        };
        let agent = agent.clone();
        found.push(Finding::curable(Sign::RunDead, what, move |ctx| {
            Ok(match crash_recovery::record_crashed_run(ctx, &agent)? {
                Some(buried) => {
                    let aside = buried.restored.iter().map(|path| {
                        format!(", and put back {}, which it had changed", path.display())
                    });
                    let code = buried.outcome.code;
                    format!(
                        "recorded that it ended with status {code}{}",
                        String::from_iter(aside)
                    )
                }
                None if is_unpublished(ctx, &agent)? => "could not be published".to_owned(),
                None => "published what was left, unless a process is at work for it".to_owned(),
            })
        }));
    }
    Ok(found)
}

/// Whether there is a run repository that no process works in.
fn is_unpublished(ctx: &Ctx, agent: &Agent) -> Result<bool> {
    let is_there = publish::run_repo(ctx, agent).is_some_and(|run_repo| run_repo.exists());
    // While a process is at work, what it commits is still on its way.
    Ok(is_there && !lock::is_held(ctx.repo.common_dir(), &layout::live_lock(agent.id))?)
}
