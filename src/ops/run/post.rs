//! Sending what an agent leaves in its spool, and publishing what it commits, while it works.

use crate::agents::ctx::Ctx;
use crate::agents::publish::publish;
use crate::agents::run_repo::RunRepo;
use crate::agents::spool::post_spool;
use crate::domain::agent::Agent;
use crate::error::{IoContext, Result};
use crate::store::layout;
use crate::store::mailbox::spool;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long a message lies in the spool at most. Looking into an empty directory costs microseconds.
const ROUND: Duration = Duration::from_millis(100);

/// A thread that looks into the spool again and again.
pub(super) struct Postman {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Postman {
    fn drop(&mut self) {
        drop(self.stop.take());
        // A thread that panicked has posted nothing that it did not also remove.
        drop(self.thread.take().map(JoinHandle::join));
    }
}

impl Postman {
    /// Begins to look.
    ///
    /// # Errors
    /// `io` when there can be no more threads.
    pub(super) fn start(ctx: &Ctx, agent: &Agent, run_repo: Option<&RunRepo>) -> Result<Postman> {
        let (stop, stopped) = mpsc::channel();
        let common = ctx.repo.common_dir().to_owned();
        let (seed, agent) = (ctx.seed(), agent.clone());
        let directory = layout::spool_dir(&common, agent.id);
        let run_repo = run_repo.cloned();
        let mut published = run_repo.as_ref().and_then(RunRepo::known_tip);
        let rounds = move || {
            // The channel is closed to end the thread, which is noticed without waiting for the
            // round to end.
            while stopped.recv_timeout(ROUND) == Err(RecvTimeoutError::Timeout) {
                if spool::is_waiting(&common, agent.id) {
                    // What cannot be posted now is tried again, in the end by `doctor`.
                    drop(seed.open().and_then(|ctx| post_spool(&ctx, &agent)));
                }
                let tip = run_repo.as_ref().and_then(RunRepo::tip);
                if let (Some(run_repo), true) = (&run_repo, tip.is_some() && tip != published) {
                    // What cannot be published now is published at the end, or said to be in the way then.
                    drop(seed.open().and_then(|ctx| publish(&ctx, &agent, run_repo)));
                    published = tip;
                }
            }
        };
        let thread = std::thread::Builder::new().name("postman".into());
        let thread = thread.spawn(rounds).at("could not watch", directory)?;
        Ok(Postman {
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Ends, and posts what is left, with a sentence where that is too much. The agent has ended too, so nothing is added.
    pub(super) fn finish(self, ctx: &Ctx, agent: &Agent) -> Option<String> {
        drop(self);
        // Asked again after the last posting, which has a time limit of its own.
        let is_waiting = || spool::is_waiting(ctx.repo.common_dir(), agent.id);
        if is_waiting() {
            drop(post_spool(ctx, agent));
        }
        is_waiting().then(|| {
            let what = "the command left more messages than could be sent, and the rest is kept";
            format!("{what}; to send more of them, run git agent doctor --fix")
        })
    }
}
