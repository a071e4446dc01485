//! How a claim is taken, kept alive, and given back with the work that landed.

use crate::agents::context::ctx::Seed;
use crate::agents::who::authority::require_orchestrator;
use crate::agents::who::lookup::{remote_name, require_seen_pushes};
use crate::agents::{Ctx, life::liveness};
use crate::domain::life::claim::{Bid, ClaimMessage, ClaimState, TTLS, bid};
use crate::domain::value::named::hex;
use crate::domain::work::task::parse_duration;
use crate::domain::{AgentId, Oid};
use crate::error::{Code, Error, Result};
use crate::git::Repo;
use crate::git::refs::remote::{self, Fetched, PushManner, RefChange, RefPush, RemoteRefs};
use crate::ops::sync::claim::{
    ClaimRecord, ClaimReport, LIMIT, TaskClaim, forget, forget_loss, held, lost, lost_key,
    note_lost, write,
};
use crate::ops::sync::{refused, require_place, wait};
use crate::store::chain::remote_names;
use crate::store::chain::remote_names::RemoteNames;
use crate::store::files::lock::Guard;
use crate::store::files::{layout, lock};
use std::collections::HashSet;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
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
    require_seen_pushes(ctx, &remote)?;
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
        earlier_nonces: record.iter().flat_map(|record| record.nonces.clone()).collect(),
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
            let found = from.as_ref().map(|(_, found)| found);
            let bid = bid(found, &self.nonces(), ctx.now().timestamp());
            if let Some((oid, found)) = &from {
                if let Some(place) = self.earlier_nonces.iter().position(|it| *it == found.nonce) {
                    self.earlier_nonces.swap(0, place);
                }
                // Another clone has had the task since, so the agent of the earlier attempt is not
                // gone on with.
                if matches!(bid, Bid::Leave | Bid::Watch(_)) {
                    if let Some(earlier) = self.earlier {
                        note_lost(ctx, earlier, &self.key)?;
                    }
                    (self.agent, self.earlier) = (agent, None);
                }
                match bid {
                    Bid::Done => {
                        let own = found.agent.filter(|_| self.nonces().contains(&found.nonce));
                        own.map_or(Ok(()), |agent| forget_loss(ctx, agent, &self.key))?;
                        return Ok(Some(self.report(found.agent)));
                    }
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
        let found = commit.as_ref().and_then(ClaimMessage::read).ok_or_else(|| {
            let (remote, refname) = (&self.remote, &self.refname);
            let what = format!(
                "{refname} of `{remote}` is no claim: a clone that may push there replaced it"
            );
            Error::new(Code::RemoteRefused, what)
                .hint(format!("to see it, run git fetch {remote} {refname}"))
                .hint(format!("to free the task, run git push {remote} --delete {refname}"))
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
        // the claim, which the next one takes at once. Until this push is known to have arrived, the remote may have, or get,
        // the nonce of an earlier attempt, so that stays recorded. It is not used again: a copy of this clone has it too.
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
            self.take_token(ctx, to)?;
            ctx.reached("claim-taken");
            return Ok(None);
        }
        match outcome.refusals.first() {
            Some(refusal) if is == from && !remote::is_passing(&refusal.reason) => {
                let (remote, reason) = (&self.remote, &refusal.reason);
                Err(refused(remote, &self.refname, reason, &outcome))
            }
            _ => {
                require_place(&self.remote, &self.refname, &listed)?;
                Ok(Some(listed))
            }
        }
    }
}

// What keys and times of claims can be.

/// How long a claim holds without a sign of life, unless configured.
const TTL: Duration = Duration::from_secs(60);

/// The longest key.
const LONGEST_KEY: usize = 100;

/// Checks that a key can be part of a ref's name, and of a file's.
fn require_key(key: &str, refname: &str) -> Result<()> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_good = !key.is_empty() && key.len() <= LONGEST_KEY && key.bytes().all(is_plain);
    if is_good && Repo::is_valid_ref(refname) && !key.ends_with(".lock") {
        return Ok(());
    }
    let what = format!(
        "`{key}` cannot be the key of a claim: it has 1 to {LONGEST_KEY} letters, digits, `-`, `_` and `.`"
    );
    Err(Error::new(Code::Usage, what).hint("to see an example, run git agent run --help"))
}

/// How long claims of this clone hold without a sign of life.
fn configured_ttl(repo: &Repo) -> Result<Duration> {
    let Some(value) = repo.config_string("agent.claimTtl")? else {
        return Ok(TTL);
    };
    let wrong = |why: String| {
        Error::new(Code::Usage, format!("agent.claimTtl: {why}"))
            .hint("to have the usual time, run git config --unset agent.claimTtl")
    };
    let ttl = parse_duration(&value).map_err(wrong)?;
    if ttl < TTLS[0] || ttl > TTLS[1] {
        return Err(wrong(format!("`{value}` is not between 1s and 1h")));
    }
    Ok(ttl)
}

// The signs of life of a claim while the work goes on.

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
            let usual = claim.ttl() / 3;
            let mut pause = if claim.names_agent() { usual } else { Duration::ZERO };
            while ended.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                // A remote that cannot be reached now may be there for the next one.
                let _ = beat(&seed, &mut claim);
                pause = if claim.is_lost { AGAIN } else { usual };
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

// The claim under which work was done, when that work lands on the remote.

/// A claim that names an agent whose work is about to land.
#[derive(Debug)]
pub(crate) struct LandingClaim {
    key: String,
    refname: String,
    /// The commit that the ref was seen at.
    token: Oid,
    message: ClaimMessage,
    /// Keeps other processes of this clone away from a claim that a dead process of it holds.
    lock: Option<Guard>,
}

/// The claims of a remote that name these agents. `blamed` gets the agent whose claim keeps it from landing.
///
/// # Errors
/// `claim-lost` when another agent has an agent's task by now; `claim-held` while a process works under the claim;
/// `lost-race` when a claim goes away meanwhile; those of the network and of the file system.
pub(crate) fn of_agents(
    ctx: &Ctx,
    remote: &str,
    listed: &RemoteRefs,
    agents: &[AgentId],
    end: Instant,
    blamed: &mut Option<AgentId>,
) -> Result<Vec<LandingClaim>> {
    let names = RemoteNames::configured(&ctx.repo)?;
    names.require_distinct(&ctx.repo, remote, listed, end)?;
    let prefix = names.claim("");
    let claims: Vec<(&str, Oid)> = listed
        .iter()
        .filter_map(|(refname, oid)| Some((refname.strip_prefix(&prefix)?, *oid)))
        .collect();
    fetch(ctx, remote, &names, &claims, end)?;
    let mut found = Vec::new();
    for (key, token) in claims {
        // What another clone has put in its place says nothing of whose task it is.
        let commit = ctx.repo.read_commit(token).ok();
        let Some(message) = commit.as_ref().and_then(ClaimMessage::read) else {
            continue;
        };
        // Until its first sign of life a claim names no agent on the remote.
        let own = own_record(ctx, key, &message)?;
        let agent = message.agent.or(own.as_ref().and_then(|own| own.agent));
        if let Some(agent) = agent.filter(|agent| agents.contains(agent)) {
            // Set before what may fail, and cleared once nothing has.
            *blamed = Some(agent);
            let agent = Some(agent);
            let message = ClaimMessage { agent, ..message };
            let lock = require_at_rest(ctx, key, &message, own.is_some())?;
            let refname = names.claim(key);
            found.push(LandingClaim { key: key.to_owned(), refname, token, message, lock });
            continue;
        }
        // The claim was this agent's and is another's by now: another clone took the task over. What it put in the place of the claim,
        // and not on top, does not say whose that was; this clone may remember.
        let mut named: Vec<AgentId> =
            before(&ctx.repo, token).filter_map(|one| one.agent).collect();
        for agent in agents {
            named.extend(lost_key(ctx, *agent)?.filter(|lost| lost == key).map(|_| *agent));
        }
        if let Some(agent) = named.into_iter().find(|agent| agents.contains(agent)) {
            *blamed = Some(agent);
            note_lost(ctx, agent, key)?;
            return Err(lost(key));
        }
    }
    *blamed = None;
    Ok(found)
}

/// Notes which of this clone's claims on a remote another clone has taken over: this one may have been killed since, and lands its work
/// without asking.
///
/// # Errors
/// Those of the network and of the file system.
pub(crate) fn note_losses(
    ctx: &Ctx,
    remote: &str,
    listed: &RemoteRefs,
    end: Instant,
) -> Result<()> {
    let names = RemoteNames::configured(&ctx.repo)?;
    let prefix = names.claim("");
    let mut own = Vec::new();
    for (refname, token) in listed {
        if let Some(key) = refname.strip_prefix(&prefix)
            && let Some(record) = ClaimRecord::load(ctx.repo.common_dir(), key)?
            && let Some(agent) = record.agent
        {
            own.push((key, *token, agent, record.nonces));
        }
    }
    let claims: Vec<(&str, Oid)> = own.iter().map(|(key, token, ..)| (*key, *token)).collect();
    match fetch(ctx, remote, &names, &claims, end) {
        // A claim that is given back meanwhile was not taken over.
        Err(error) if error.code() == Code::LostRace => return Ok(()),
        fetched => fetched?,
    }
    for (key, token, agent, nonces) in own {
        // The newest first. What does not go on from this clone's claim has not taken it over.
        let mut chain = before(&ctx.repo, token);
        let is_own = |one: ClaimMessage| nonces.contains(&one.nonce);
        let newest = chain.next();
        if newest.is_some_and(|newest| !is_own(newest)) && chain.any(is_own) {
            note_lost(ctx, agent, key)?;
        }
    }
    Ok(())
}

/// Fetches the commits of claims that are not here.
fn fetch(
    ctx: &Ctx,
    remote: &str,
    names: &RemoteNames,
    claims: &[(&str, Oid)],
    end: Instant,
) -> Result<()> {
    let repo = &ctx.repo;
    let missing = claims.iter().filter(|(_, oid)| !repo.has_object(*oid));
    let copies: Vec<(String, String)> = missing
        .map(|(key, _)| {
            let copy = format!("{}claim/{key}", layout::copies(remote));
            (format!("+{}:{copy}", names.claim(key)), copy)
        })
        .collect();
    if copies.is_empty() {
        return Ok(());
    }
    let refspecs: Vec<String> = copies.iter().map(|(refspec, _)| refspec.clone()).collect();
    let fetched = repo.fetch_refs(remote, &refspecs, end)?;
    // The commits are needed for a moment, and no ref has to say so.
    for (_, copy) in copies {
        if let Some(oid) = repo.tip(&copy)?.oid() {
            repo.delete_ref(&copy, oid)?;
        }
    }
    if fetched == Fetched::All {
        return Ok(());
    }
    let what = format!("claims of `{remote}` were given back while they were read");
    Err(Error::new(Code::LostRace, what))
}

/// What this clone remembers of a claim, if it is this clone's.
fn own_record(ctx: &Ctx, key: &str, message: &ClaimMessage) -> Result<Option<ClaimRecord>> {
    let record = ClaimRecord::load(ctx.repo.common_dir(), key)?;
    Ok(record.filter(|record| record.nonces.contains(&message.nonce)))
}

/// Checks that no process works under a claim any more. Gives the lock of one that a dead process of this clone holds.
fn require_at_rest(
    ctx: &Ctx,
    key: &str,
    message: &ClaimMessage,
    is_own: bool,
) -> Result<Option<Guard>> {
    if message.state != ClaimState::Held {
        return Ok(None);
    }
    if !is_own {
        return Err(held(key, &format!("clone {}", message.clone)));
    }
    match lock::try_hold(ctx.repo.common_dir(), &layout::claim_lock(key))? {
        Some(guard) => Ok(Some(guard)),
        None => Err(held(key, "another process of this clone")),
    }
}

/// What a commit of a claim and the commits before it say, the newest first.
pub(super) fn before(repo: &Repo, token: Oid) -> impl Iterator<Item = ClaimMessage> {
    let mut seen = HashSet::from([token]);
    let mut next = vec![token];
    std::iter::from_fn(move || {
        loop {
            // What another clone put on top, or below, and is no claim says nothing.
            let Ok(commit) = repo.read_commit(next.pop()?) else {
                continue;
            };
            let Some(message) = ClaimMessage::read(&commit) else {
                continue;
            };
            next.extend(commit.parents.into_iter().filter(|oid| seen.insert(*oid)));
            return Some(message);
        }
    })
}

impl LandingClaim {
    /// The change by which the claim says that the task is done, if it is where it was seen.
    ///
    /// # Errors
    /// Those of the object store.
    pub(crate) fn finish(&self, ctx: &Ctx) -> Result<RefPush> {
        let message = ClaimMessage {
            state: ClaimState::Done,
            seconds: ctx.now().timestamp(),
            ..self.message.clone()
        };
        let to = write(ctx, &self.key, &message, Some(self.token))?;
        Ok(RefPush::new(self.refname.clone(), RefChange::Swap { from: Some(self.token), to }))
    }

    /// Notes that the work has landed.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn landed(&self, ctx: &Ctx) -> Result<()> {
        // There is a lock only where a dead process of this clone held the claim, and only then a
        // record.
        self.lock.iter().try_for_each(|_| forget(ctx, &self.key))
    }

    /// Checks that the claim is where it was seen.
    ///
    /// # Errors
    /// `claim-lost`.
    pub(crate) fn require_unmoved(&self, listed: &RemoteRefs) -> Result<()> {
        if listed.get(&self.refname) == Some(&self.token) {
            return Ok(());
        }
        Err(lost(&self.key))
    }
}
