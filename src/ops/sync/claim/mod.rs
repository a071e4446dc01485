//! Claims: of all clones that are given a task, one works on it.
//!
//! A claim is a ref on the remote, named by the task's key. It is created with an empty lease, so one of several clones
//! succeeds, and moves by compare-and-swap alone. The commit that it names is the fencing token: whoever holds the claim
//! knows the newest one, and after a takeover that one is another clone's.
//!
//! ```text
//! no ref, or `released`  -> taken
//! `done`                 -> nothing is left to do
//! `held`, recent         -> another clone works on it
//! `held`, old or from the future, by its own clock -> watched for as long as it holds without a sign of life:
//!                           if it moves, another clone works on it, else it is taken over
//! `held` by a process of this clone that died      -> taken at once
//! ```
//!
//! Clocks decide only whether a claim is watched, so clocks that differ by an hour take nothing from a live holder.
//!
//! A takeover goes on from the newest commit. A claim that is deleted, moved back or replaced by something else was not taken
//! over: its holder puts it back, and says so.

mod damage;
mod heartbeat;
mod landing;
mod message;
mod report;
mod terms;

pub use heartbeat::Heartbeat;
pub(crate) use landing::{LandingClaim, of_agents};
use message::{ClaimMessage, ClaimRecord, ClaimState};
pub use report::ClaimReport;

use terms::{TTLS, configured_ttl, require_key};

use super::refused;
use crate::agents::authority::require_orchestrator;
use crate::agents::ctx::Ctx;
use crate::agents::remote_name::remote_name;
use crate::domain::hex::hex;
use crate::domain::id::AgentId;
use crate::domain::oid::Oid;
use crate::error::{Code, Error, Result};
use crate::git::objects::Commit;
use crate::git::remote::{self, PushManner, RefChange, RefPush};
use crate::store::lock::{self, Guard};
use crate::store::remote_names::RemoteNames;
use crate::store::{chain, clone_id, fsx, layout};
use std::time::{Duration, Instant};

/// What the taking of a claim goes through.
pub const STEPS: &[&str] = &["claim-recorded", "claim-pushed", "claim-taken"];

/// How long the remote is tried.
const LIMIT: Duration = Duration::from_secs(60);

/// A claim that is held.
#[derive(Debug)]
pub struct TaskClaim {
    key: String,
    remote: String,
    refname: String,
    clone: String,
    nonce: String,
    ttl: Duration,
    agent: Option<AgentId>,
    /// The commit that the ref is known to be at.
    token: Oid,
    /// Every commit that this process made for the claim: after a push without an answer, the ref may be at any.
    made: Vec<Oid>,
    is_lost: bool,
    /// What was done to the claim on the remote, and undone.
    warnings: Vec<String>,
    /// Keeps other processes of this clone away.
    _lock: Guard,
}

/// What became of the wish for a claim.
#[derive(Debug)]
pub enum Acquired {
    /// It is held.
    Held(Box<TaskClaim>),
    /// The task is done already.
    Done(ClaimReport),
}

/// Takes the claim of that key on a remote.
///
/// # Errors
/// `orchestrator-only` for an agent; `claim-held` while another clone or process works on the task; `usage` for a key that cannot be part of a ref's name;
/// `remote-refused`, `remote-unreachable`, `remote-busy`; those of the file system.
pub fn acquire(ctx: &Ctx, remote: Option<&str>, key: &str) -> Result<Acquired> {
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
    let mut claim = TaskClaim {
        key: key.to_owned(),
        refname,
        clone: clone_id::long_name(common_dir)?,
        nonce: hex(&ctx.nonce()?[..8]),
        ttl: configured_ttl(&ctx.repo)?,
        agent: record.as_ref().and_then(|record| record.agent),
        token: Oid::ZERO,
        made: Vec::new(),
        is_lost: false,
        warnings: Vec::new(),
        remote,
        _lock: guard,
    };
    let end = Instant::now() + LIMIT + TTLS[1].min(claim.ttl);
    let mut pause = Duration::from_millis(20);
    loop {
        let from = match claim.look(ctx, end)? {
            Some((oid, found)) => match found.state {
                ClaimState::Done => return Ok(Acquired::Done(claim.report(found.agent))),
                ClaimState::Released => Some((oid, found)),
                ClaimState::Held if record.as_ref().is_some_and(|it| it.nonce == found.nonce) => {
                    Some((oid, found))
                }
                ClaimState::Held => {
                    claim.agent = None;
                    claim.require_dead(ctx, oid, &found)?;
                    Some((oid, found))
                }
            },
            None => None,
        };
        if claim.take(ctx, from.map(|(oid, _)| oid), end)? {
            return Ok(Acquired::Held(Box::new(claim)));
        }
        super::wait(ctx, pause, end, &claim.remote)?;
        pause *= 2;
    }
}

fn held(key: &str, by: &str) -> Error {
    Error::new(
        Code::ClaimHeld,
        format!("the task `{key}` is claimed: {by} works on it"),
    )
    .hint("to see which agents there are, run git agent list --all")
}

impl TaskClaim {
    /// The agent that a process of this clone had for the task before it died.
    pub fn earlier_agent(&self) -> Option<AgentId> {
        self.agent
    }

    /// How long it holds without a sign of life.
    pub(super) fn ttl(&self) -> Duration {
        self.ttl
    }

    /// Notes which agent works on the task, here and in every sign of life from now on.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn note_agent(&mut self, ctx: &Ctx, agent: AgentId) -> Result<()> {
        self.agent = Some(agent);
        self.record(ctx)
    }

    /// Checks that the claim was still this clone's when it was renewed last.
    ///
    /// # Errors
    /// `claim-lost`.
    pub fn require_held(&self) -> Result<()> {
        if self.is_lost {
            Err(lost(&self.key))
        } else {
            Ok(())
        }
    }

    /// Lets the claim hold for as long as any claim can: from now on no process renews it.
    ///
    /// # Errors
    /// `claim-lost` when another clone has taken it over; those of the network.
    pub fn keep(&mut self, ctx: &Ctx) -> Result<()> {
        self.ttl = TTLS[1];
        self.renew(ctx, ClaimState::Held, Instant::now() + LIMIT)?;
        self.require_held()
    }

    /// Says that the task is done, so that no clone does it again. Gives what was done to the claim meanwhile.
    ///
    /// # Errors
    /// `claim-lost` when another clone has taken it over; those of the network.
    pub fn finish(mut self, ctx: &Ctx) -> Result<Vec<String>> {
        self.renew(ctx, ClaimState::Done, Instant::now() + LIMIT)?;
        self.require_held()?;
        forget(ctx, &self.key)?;
        Ok(self.warnings)
    }

    /// Gives the claim up, so that another attempt can begin at once. Where the remote does not let it, the claim
    /// expires. Gives what was done to the claim meanwhile.
    ///
    /// # Errors
    /// Those of the network and of the file system.
    pub fn release(self, ctx: &Ctx) -> Result<Vec<String>> {
        let push = self.push(RefChange::Delete(self.token));
        let end = Instant::now() + LIMIT;
        let manner = PushManner::default();
        ctx.repo.push_refs(&self.remote, &[push], manner, end)?;
        forget(ctx, &self.key)?;
        Ok(self.warnings)
    }

    fn record(&self, ctx: &Ctx) -> Result<()> {
        let record = ClaimRecord {
            nonce: self.nonce.clone(),
            agent: self.agent,
        };
        let path = layout::claim_record(ctx.repo.common_dir(), &self.key);
        fsx::write_atomic(&path, record.text().as_bytes())
    }

    fn push(&self, change: RefChange) -> RefPush {
        RefPush {
            refname: self.refname.clone(),
            change,
        }
    }

    /// What the remote has under this key; `None` for nothing.
    fn look(&self, ctx: &Ctx, end: Instant) -> Result<Option<(Oid, ClaimMessage)>> {
        let listed = ctx.repo.list_remote(&self.remote, end)?;
        let Some(oid) = listed.get(&self.refname).copied() else {
            return Ok(None);
        };
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
    fn require_dead(&self, ctx: &Ctx, oid: Oid, found: &ClaimMessage) -> Result<()> {
        let by = format!("clone {}", found.clone);
        let ttl = found.ttl.clamp(TTLS[0], TTLS[1]);
        let age = ctx.now().timestamp().saturating_sub(found.seconds);
        let is_recent = (0..=ttl.as_secs().cast_signed()).contains(&age);
        if is_recent {
            return Err(held(&self.key, &by));
        }
        let end = Instant::now() + ttl;
        while Instant::now() < end {
            std::thread::sleep(ttl / 8);
            let listed = ctx.repo.list_remote(&self.remote, end + LIMIT)?;
            if listed.get(&self.refname) != Some(&oid) {
                return Err(held(&self.key, &by));
            }
        }
        Ok(())
    }

    /// Creates the ref, or moves it from where it was seen. `false` when another clone was faster.
    fn take(&mut self, ctx: &Ctx, from: Option<Oid>, end: Instant) -> Result<bool> {
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
            self.token = to;
            ctx.reached("claim-taken");
            return Ok(true);
        }
        match outcome.refusals.first() {
            Some(refusal) if is == from && !remote::is_passing(&refusal.reason) => {
                let (remote, reason) = (&self.remote, &refusal.reason);
                let error = refused(remote, &self.refname, reason, &outcome);
                Err(error.hint(super::PREFIX_HINT))
            }
            _ => Ok(false),
        }
    }

    /// Moves the claim to a new commit of that state, and notes whether it still is this clone's.
    ///
    /// # Errors
    /// Those of the network; whether the claim has moved is found out next time.
    fn renew(&mut self, ctx: &Ctx, state: ClaimState, end: Instant) -> Result<()> {
        let mut from = Some(self.token);
        loop {
            let to = self.commit(ctx, state, Some(self.token))?;
            let push = self.push(RefChange::Swap { from, to });
            let manner = PushManner::default();
            ctx.repo.push_refs(&self.remote, &[push], manner, end)?;
            let listed = ctx.repo.list_remote(&self.remote, end)?;
            from = listed.get(&self.refname).copied();
            match from {
                Some(is) if is == to => {
                    self.token = to;
                    return Ok(());
                }
                // An earlier push without an answer was successful after all.
                Some(is) if self.made.contains(&is) && !self.is_before(ctx, is) => self.token = is,
                is => match self.damage(ctx, is, end)? {
                    Some(what) => self.warn(what),
                    None => {
                        self.is_lost = true;
                        return Ok(());
                    }
                },
            }
            super::wait(ctx, Duration::from_millis(50), end, &self.remote)?;
        }
    }

    fn commit(&mut self, ctx: &Ctx, state: ClaimState, from: Option<Oid>) -> Result<Oid> {
        let message = ClaimMessage {
            state,
            clone: self.clone.clone(),
            nonce: self.nonce.clone(),
            ttl: self.ttl,
            agent: self.agent,
            seconds: ctx.now().timestamp(),
        };
        let oid = write(ctx, &self.key, &message, from)?;
        self.made.push(oid);
        Ok(oid)
    }
}

/// Writes the commit of a claim, on top of the one that it replaces.
fn write(ctx: &Ctx, key: &str, message: &ClaimMessage, from: Option<Oid>) -> Result<Oid> {
    let repo = &ctx.repo;
    let who = chain::identity(repo, ctx.now());
    let parents: Vec<Oid> = from.into_iter().collect();
    chain::empty_commit(repo, &parents, &who, &message.text(key))
}

/// Removes what this clone remembers of a claim.
fn forget(ctx: &Ctx, key: &str) -> Result<()> {
    let path = layout::claim_record(ctx.repo.common_dir(), key);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::io(
            format!("could not remove {}", path.display()),
            error,
        )),
        _ => Ok(()),
    }
}

/// The error for a claim that another clone has taken over.
fn lost(key: &str) -> Error {
    let what = format!("another clone took over the task `{key}`");
    Error::new(Code::ClaimLost, what).hint("the work is kept; to see it, run git agent list --all")
}
