//! Ends a run when the day has cost what it may, where `agent.limits.costHard` says so.

use crate::agents::ctx::Ctx;
use crate::agents::{admission, limits, liveness};
use crate::domain::agent::Agent;
use crate::domain::limits::{Limit, Limits};
use crate::error::{IoContext, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::Duration;

/// How often the cost of the day is added up: what a session cost is known when it ends, so it grows in steps.
const ROUND: Duration = Duration::from_secs(5);

/// A thread that looks; it ends when this is dropped.
pub(super) struct CostWatch {
    has_ended_it: Arc<AtomicBool>,
    _stop: Sender<()>,
}

impl CostWatch {
    /// Begins to look, if that is wanted.
    ///
    /// # Errors
    /// `usage` for a `costHard` that is neither true nor false; `io` when there can be no more threads.
    pub(super) fn start(ctx: &Ctx, agent: &Agent, limits: &Limits) -> Result<Option<CostWatch>> {
        if limits.get(Limit::CostDay).is_none() || !limits::is_cost_hard(ctx)? {
            return Ok(None);
        }
        let limits = limits.clone();
        let (stop, stopped) = mpsc::channel();
        let has_ended_it = Arc::new(AtomicBool::new(false));
        let (seed, id, told) = (ctx.seed(), agent.id, Arc::clone(&has_ended_it));
        let rounds = move || {
            while stopped.recv_timeout(ROUND) == Err(RecvTimeoutError::Timeout) {
                let Ok(ctx) = seed.open() else { continue };
                // What cannot be read now is read in the next round.
                if let Ok(Some(_)) = admission::exhausted(&ctx, &limits) {
                    // Noted before the request, so that the end of the command finds the reason.
                    told.store(true, Ordering::Relaxed);
                    drop(liveness::ask_to_end(&ctx, id, false));
                }
            }
        };
        let thread = std::thread::Builder::new().name("cost".into());
        thread
            .spawn(rounds)
            .at("could not watch", "the cost of the day")?;
        Ok(Some(CostWatch {
            has_ended_it,
            _stop: stop,
        }))
    }

    /// Whether the command was asked to end.
    pub(super) fn has_ended_it(&self) -> bool {
        self.has_ended_it.load(Ordering::Relaxed)
    }
}
