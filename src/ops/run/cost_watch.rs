//! Ends a run when its session has cost what it may, as far as its host says so while it works, and when the day has, where
//! `agent.limits.costHard` asks for that.

use crate::agents::Ctx;
use crate::agents::life::{admission, host_session, liveness};
use crate::domain::life::limits::TokenPrice;
use crate::domain::{Agent, Limit, Limits};
use crate::error::{IoContext, Result};
use crate::hosts::Host;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::Duration;

/// How often the host's output is read for what the session has cost.
const ROUND: Duration = Duration::from_secs(1);

/// After so many rounds the cost of the day is added up: what a session cost is known when it ends, so it grows in steps.
const ROUNDS_OF_DAY: u32 = 5;

/// The session of a run that may cost so much.
#[derive(Clone)]
pub(super) struct SessionBudget {
    /// The host.
    pub host: &'static dyn Host,
    /// The number of the run, and its command as the row has it.
    pub run: (u32, String),
    /// What its tokens cost, where the host tells of no cost.
    pub price: Option<TokenPrice>,
    /// What it may cost, in US dollars.
    pub most: f64,
}

impl SessionBudget {
    /// Whether more was spent; what cannot be read now is read in the next round.
    fn is_spent(&self, ctx: &Ctx, agent: &Agent) -> bool {
        let run = (self.run.0, self.run.1.as_str());
        let told = host_session::told(ctx.repo.common_dir(), agent, run, self.host);
        let cost = host_session::session(ctx, agent, &told, self.price).ok();
        let cost = cost.and_then(|session| session.cost_micro_usd);
        cost.is_some_and(|cost| cost as f64 / 1e6 > self.most)
    }
}

/// A thread that adds up what is spent; it ends when this is dropped.
pub(super) struct CostWatch {
    has_ended_it: Arc<AtomicBool>,
    _stop: Sender<()>,
}

impl CostWatch {
    /// Starts the thread, if there is a limit that it has to watch.
    ///
    /// # Errors
    /// `usage` for a `costHard` that is neither true nor false; `io` when there can be no more threads.
    pub(super) fn start(
        ctx: &Ctx,
        agent: &Agent,
        limits: &Limits,
        session: Option<SessionBudget>,
    ) -> Result<Option<CostWatch>> {
        let is_day_hard = admission::is_cost_hard(ctx)? && limits.get(Limit::CostDay).is_some();
        if !is_day_hard && session.is_none() {
            return Ok(None);
        }
        let (limits, agent) = (limits.clone(), agent.clone());
        let (stop, stopped) = mpsc::channel();
        let has_ended_it = Arc::new(AtomicBool::new(false));
        let (seed, told) = (ctx.seed(), Arc::clone(&has_ended_it));
        let rounds = move || {
            let mut round = 0;
            while stopped.recv_timeout(ROUND) == Err(RecvTimeoutError::Timeout) {
                round += 1;
                let Ok(ctx) = seed.open() else { continue };
                let is_over = || {
                    is_day_hard
                        && round % ROUNDS_OF_DAY == 0
                        && matches!(admission::exhausted(&ctx, &limits), Ok(Some(_)))
                };
                let is_spent =
                    session.as_ref().is_some_and(|session| session.is_spent(&ctx, &agent));
                if is_spent || is_over() {
                    // Noted before the request, so that the end of the command finds the reason.
                    told.store(true, Ordering::Relaxed);
                    drop(liveness::ask_to_end(&ctx, agent.id, false));
                }
            }
        };
        let thread = std::thread::Builder::new().name("cost".into());
        thread.spawn(rounds).at("could not watch", "the cost of the run")?;
        Ok(Some(CostWatch { has_ended_it, _stop: stop }))
    }

    /// Whether the command was asked to end.
    pub(super) fn has_ended_it(&self) -> bool {
        self.has_ended_it.load(Ordering::Relaxed)
    }
}
