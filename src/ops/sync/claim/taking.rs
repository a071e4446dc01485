//! How a claim is taken.

use super::message::ClaimRecord;
use super::terms::{configured_ttl, require_key};
use super::{ClaimReport, LIMIT, TaskClaim, forget, held};
use crate::agents::authority::require_orchestrator;
use crate::agents::ctx::Ctx;
use crate::agents::remote_name::remote_name;
use crate::domain::claim::{Bid, ClaimMessage, ClaimState, TTLS, bid};
use crate::domain::id::AgentId;
use crate::domain::named::hex;
use crate::domain::oid::Oid;
use crate::error::{Code, Error, Result};
use crate::git::refs::remote::{self, PushManner, RefChange, RemoteRefs};
use crate::ops::sync::{PREFIX_HINT, refused, wait};
use crate::store::remote_names::{self, RemoteNames};
use crate::store::{layout, lock};
use std::time::{Duration, Instant};

/// What became of the wish for a claim.
#[derive(Debug)]
pub enum Acquired {
    /// It is held.
    Held(Box<TaskClaim>),
    /// The task is done already.
    Done(ClaimReport),
}

/// Takes the claim of that key on a remote. It names `agent`, who is about to work on the task, unless this clone has an
/// agent of an earlier attempt.
///
/// # Errors
/// `orchestrator-only` for an agent; `claim-held` while another clone or process works on the task; `usage` for a key that cannot be part of a ref's name;
/// `remote-refused`, `remote-unreachable`, `remote-busy`; those of the file system.
pub fn acquire(
    ctx: &Ctx,
    remote: Option<&str>,
    key: &str,
    agent: Option<AgentId>,
) -> Result<Acquired> {
    require_orchestrator(ctx)?;
    let names = RemoteNames::configured(&ctx.repo)?;
    let refname = names.claim(key);
    require_key(key, &refname)?;
    let remote = remote_name(ctx, remote)?;
    let common_dir = ctx.repo.common_dir();
    let Some(guard) = lock::try_hold(common_dir, &layout::claim_lock(key))? else {
        return Err(held(key, "another process of this clone"));
    };
    let record = ClaimRecord::load(common_dir, key)?;
    let earlier = record.as_ref().and_then(|record| record.agent);
    let mut claim = TaskClaim {
        key: key.to_owned(),
        refname,
        clone: remote_names::long_name(common_dir)?,
        nonce: hex(&ctx.nonce()?[..8]),
        ttl: configured_ttl(&ctx.repo)?,
        agent: earlier.or(agent),
        earlier,
        named: None,
        token: Oid::ZERO,
        made: Vec::new(),
        is_lost: false,
        is_done: false,
        warnings: Vec::new(),
        remote,
        _lock: guard,
    };
    // Time for the network, and the time for which an old claim may have to be watched.
    let end = Instant::now() + LIMIT + TTLS[1].min(claim.ttl);
    let taken = claim.take(ctx, agent, record.as_ref(), end);
    let is_anothers = match &taken {
        Ok(done) => done.is_some(),
        Err(error) => error.code() == Code::ClaimHeld,
    };
    // What was noted before the claim turned out to be another's.
    if is_anothers && record.is_none() {
        forget(ctx, key)?;
    }
    Ok(match taken? {
        Some(done) => Acquired::Done(done),
        None => Acquired::Held(Box::new(claim)),
    })
}

impl TaskClaim {
    /// Takes the claim, unless the task is done: then the answer says by which agent.
    fn take(
        &mut self,
        ctx: &Ctx,
        agent: Option<AgentId>,
        record: Option<&ClaimRecord>,
        end: Instant,
    ) -> Result<Option<ClaimReport>> {
        // A task that this clone has not met is likely to be free: then one push is enough, and the list after it
        // shows what there is if it is not.
        let mut listed = match record {
            Some(_) => ctx.repo.list_remote(&self.remote, end)?,
            None => RemoteRefs::default(),
        };
        let mut is_guess = record.is_none();
        let mut pause = Duration::from_millis(20);
        loop {
            let from = self.look(ctx, &listed, end)?;
            let own = record.map(|record| record.nonce.as_str());
            let found = from.as_ref().map(|(_, found)| found);
            let bid = bid(found, own, ctx.now().timestamp());
            if let Some((oid, found)) = &from {
                // Another clone has had the task since, so the agent of the earlier attempt is not
                // gone on with.
                if matches!(bid, Bid::Leave | Bid::Watch(_)) {
                    (self.agent, self.earlier) = (agent, None);
                }
                match bid {
                    Bid::Done => return Ok(Some(self.report(found.agent))),
                    Bid::Leave => return Err(held(&self.key, &format!("clone {}", found.clone))),
                    Bid::Watch(time) => self.require_dead(ctx, *oid, found, time)?,
                    Bid::Take => {}
                }
            }
            match self.swap(ctx, from.map(|(oid, _)| oid), end)? {
                None => return Ok(None),
                Some(now) => listed = now,
            }
            // That a guess was wrong is no race, so it costs no pause.
            if !std::mem::take(&mut is_guess) {
                wait(ctx, pause, end, &self.remote)?;
                pause *= 2;
            }
        }
    }

    /// What a list of the remote has under this key; `None` for nothing.
    fn look(
        &self,
        ctx: &Ctx,
        listed: &RemoteRefs,
        end: Instant,
    ) -> Result<Option<(Oid, ClaimMessage)>> {
        let Some(oid) = listed.get(&self.refname).copied() else {
            return Ok(None);
        };
        let names = RemoteNames::configured(&ctx.repo)?;
        names.require_distinct(&ctx.repo, &self.remote, listed, end)?;
        let Some((oid, commit)) = self.fetch(ctx, oid, end)? else {
            return Ok(None);
        };
        let found = commit.as_ref().and_then(ClaimMessage::read);
        let found = found.ok_or_else(|| {
            let (remote, refname) = (&self.remote, &self.refname);
            let what = format!(
                "{refname} of `{remote}` is no claim: a clone that may push there replaced it"
            );
            Error::new(Code::RemoteRefused, what)
                .hint(format!("to see it, run git fetch {remote} {refname}"))
                .hint(format!(
                    "to free the task, run git push {remote} --delete {refname}"
                ))
        })?;
        Ok(Some((oid, found)))
    }

    /// Watches a claim that looks old.
    ///
    /// # Errors
    /// `claim-held` for one that is alive.
    fn require_dead(&self, ctx: &Ctx, oid: Oid, found: &ClaimMessage, ttl: Duration) -> Result<()> {
        let by = format!("clone {}", found.clone);
        let end = Instant::now() + ttl;
        while Instant::now() < end {
            // A living holder renews three times in this period, so a sign of life cannot be
            // missed.
            std::thread::sleep(ttl / 8);
            let listed = ctx.repo.list_remote(&self.remote, end + LIMIT)?;
            if listed.get(&self.refname) != Some(&oid) {
                return Err(held(&self.key, &by));
            }
        }
        Ok(())
    }

    /// Creates the ref, or moves it from where it was seen. Gives what the remote has where another clone was faster.
    fn swap(&mut self, ctx: &Ctx, from: Option<Oid>, end: Instant) -> Result<Option<RemoteRefs>> {
        // Recorded before the push: a process that dies right after it is then known to have held
        // the claim, which the next one takes at once.
        self.record(ctx)?;
        ctx.reached("claim-recorded");
        let to = self.commit(ctx, ClaimState::Held, from)?;
        let push = self.push(RefChange::Swap { from, to });
        let manner = PushManner::default();
        let outcome = ctx.repo.push_refs(&self.remote, &[push], manner, end)?;
        ctx.reached("claim-pushed");
        let listed = ctx.repo.list_remote(&self.remote, end)?;
        let is = listed.get(&self.refname).copied();
        if is == Some(to) {
            self.take_token(to);
            ctx.reached("claim-taken");
            return Ok(None);
        }
        match outcome.refusals.first() {
            Some(refusal) if is == from && !remote::is_passing(&refusal.reason) => {
                let (remote, reason) = (&self.remote, &refusal.reason);
                let error = refused(remote, &self.refname, reason, &outcome);
                Err(error.hint(PREFIX_HINT))
            }
            _ => Ok(Some(listed)),
        }
    }
}
