//! Runs whose end nobody could record, because whoever watched over them was killed.

use super::Finding;
use super::survey::Survey;
use crate::domain::diagnosis::Sign;
use crate::error::Result;
use crate::ops::Ctx;
use crate::ops::run::record::{self, Pulse};

pub(super) fn look(ctx: &Ctx, survey: &Survey) -> Result<Vec<Finding>> {
    let mut found = Vec::new();
    for agent in survey.rows() {
        let Some(run) = &agent.run else { continue };
        if record::pulse(ctx.repo.common_dir(), agent, run)? != Pulse::Dead {
            continue;
        }
        let what = format!(
            "run {} of agent {} ended without a record",
            run.number(),
            agent.id.short()
        );
        let agent = agent.clone();
        found.push(Finding::curable(Sign::RunDead, what, move |ctx| {
            Ok(match record::bury(ctx, &agent)? {
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
                None => "somebody is at work for it".to_owned(),
            })
        }));
    }
    Ok(found)
}
