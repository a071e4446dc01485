//! The signs of life of a claim while the work goes on.

use super::{ClaimState, TaskClaim};
use crate::agents::ctx::{Ctx, Seed};
use crate::agents::liveness;
use crate::error::{Error, Result};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How often the supervisor of a command whose claim is lost is looked for: there is none yet in the first moments of a
/// run.
const AGAIN: Duration = Duration::from_millis(200);

/// A thread that renews a claim three times in the time that it holds, and at once where the claim does not name its agent
/// yet. When the claim is lost, it ends the command that works under it. Dropped, it ends; the claim then expires.
pub struct Heartbeat {
    /// Dropped to end the thread.
    end: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<TaskClaim>>,
}

impl Heartbeat {
    /// Begins to renew a claim.
    ///
    /// # Errors
    /// `io` when there can be no thread.
    pub fn start(ctx: &Ctx, mut claim: TaskClaim) -> Result<Heartbeat> {
        let (end, ended) = mpsc::channel();
        let seed = ctx.seed();
        let thread = thread::Builder::new().name("heartbeat".into());
        let thread = thread.spawn(move || {
            let mut pause = if claim.names_agent() {
                claim.ttl() / 3
            } else {
                Duration::ZERO
            };
            while ended.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                // A remote that cannot be reached now may be there for the next one.
                let _ = beat(&seed, &mut claim);
                pause = if claim.is_lost {
                    AGAIN
                } else {
                    claim.ttl() / 3
                };
            }
            claim
        });
        Ok(Heartbeat {
            end: Some(end),
            thread: Some(thread.map_err(|error| Error::io("could not start a thread", error))?),
        })
    }

    /// Ends the renewals and gives the claim back.
    ///
    /// # Errors
    /// `bug` when the thread has panicked.
    pub fn stop(mut self) -> Result<TaskClaim> {
        // The thread ends when its channel is closed.
        drop(self.end.take());
        let thread = self.thread.take();
        let claim = thread.and_then(|thread| thread.join().ok());
        claim.ok_or_else(|| Error::bug("a claim must come back from its heartbeat"))
    }
}

fn beat(seed: &Seed, claim: &mut TaskClaim) -> Result<()> {
    let ctx = seed.open()?;
    if !claim.is_lost {
        let end = Instant::now() + claim.ttl();
        claim.renew(&ctx, ClaimState::Held, end)?;
    }
    match claim.agent {
        Some(agent) if claim.is_lost => liveness::ask_to_end(&ctx, agent, false),
        _ => Ok(()),
    }
}
