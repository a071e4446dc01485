//! Several spawns at once, each in a thread with a repository of its own.

use crate::agents::ctx::Ctx;
use crate::agents::parallel::{self, Queue};
use crate::error::Result;
use crate::ops::spawn::{SpawnPlan, SpawnReport, admission, execute};
use std::sync::mpsc::Sender;

/// Carries out plans, at most `jobs` at a time, and gives each result as it comes, with the number of its plan. One that
/// fails does not stop the others.
///
/// # Errors
/// The first error of `done`; the spawns under way are finished all the same.
pub fn execute_all(
    ctx: &Ctx,
    plans: Vec<SpawnPlan>,
    jobs: usize,
    done: &mut dyn FnMut(usize, Result<SpawnReport>) -> Result<()>,
) -> Result<()> {
    let several = plans.len() > 1;
    if several {
        // All or none; each asks again under the lock that keeps others from beginning.
        admission::require_room(ctx, &plans.iter().collect::<Vec<_>>(), &[])?;
    }
    let seed = ctx.seed();
    let work = |queue: &Queue<(usize, SpawnPlan)>,
                reports: Sender<(usize, Result<SpawnReport>)>| {
        while let Some((index, plan)) = queue.next() {
            let file = plan.task_file.clone();
            let result = seed.open().and_then(|ctx| execute(&ctx, plan));
            let result = result.map_err(|error| {
                if several {
                    error.detail(format!("the agent of {file} was not made"))
                } else {
                    error
                }
            });
            if reports.send((index, result)).is_err() {
                return;
            }
        }
    };
    parallel::share(
        plans.into_iter().enumerate().collect(),
        jobs,
        work,
        |reports| {
            let mut outcome = Ok(());
            for (index, report) in reports {
                let told = done(index, report);
                outcome = outcome.and(told);
            }
            outcome
        },
    )
}
