//! Several spawns at once, each in a thread with a repository of its own.

use crate::agents::ctx::Ctx;
use crate::error::Result;
use crate::ops::spawn::SpawnPlan;
use crate::ops::spawn::SpawnReport;
use crate::ops::spawn::execute;
use std::sync::{Mutex, mpsc};
use std::thread;

/// Carries out plans, at most `jobs` at a time, and gives each result as it comes. One that fails does
/// not stop the others.
///
/// # Errors
/// The first error of `done`; the spawns under way are finished all the same.
pub fn execute_all(
    ctx: &Ctx,
    plans: Vec<SpawnPlan>,
    jobs: usize,
    done: &mut dyn FnMut(Result<SpawnReport>) -> Result<()>,
) -> Result<()> {
    let several = plans.len() > 1;
    let workers = jobs.clamp(1, plans.len().max(1));
    let queue = Mutex::new(plans.into_iter());
    let next = || match queue.lock() {
        Ok(mut queue) => queue.next(),
        // A worker that panicked left the queue whole: taking from it is one step.
        Err(poisoned) => poisoned.into_inner().next(),
    };
    let seed = ctx.seed();
    thread::scope(|scope| {
        let (sender, results) = mpsc::channel();
        for _ in 0..workers {
            let (sender, seed, next) = (sender.clone(), seed.clone(), &next);
            scope.spawn(move || {
                while let Some(plan) = next() {
                    let file = plan.task_file.clone();
                    let result = seed.open().and_then(|ctx| execute(&ctx, plan));
                    let result = result.map_err(|error| {
                        if several {
                            error.detail(format!("the agent of {file} was not made"))
                        } else {
                            error
                        }
                    });
                    if sender.send(result).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        let mut outcome = Ok(());
        for result in results {
            let told = done(result);
            outcome = outcome.and(told);
        }
        outcome
    })
}
