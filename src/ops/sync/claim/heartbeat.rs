//! The signs of life of a claim while the work goes on.

use super::{ClaimState, TaskClaim};
use crate::agents::ctx::{Ctx, Seed};
use crate::error::{Error, Result};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

/// A thread that renews a claim three times in the time that it holds. Dropped, it ends; the claim then expires.
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
            let pause = claim.ttl() / 3;
            while !claim.is_lost && ended.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                // A remote that cannot be reached now may be there for the next one.
                let _ = beat(&seed, &mut claim);
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
        drop(self.end.take());
        let thread = self.thread.take();
        let claim = thread.and_then(|thread| thread.join().ok());
        claim.ok_or_else(|| Error::bug("a claim must come back from its heartbeat"))
    }
}

fn beat(seed: &Seed, claim: &mut TaskClaim) -> Result<()> {
    let end = Instant::now() + claim.ttl();
    claim.renew(&seed.open()?, ClaimState::Held, end)
}
