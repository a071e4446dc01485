//! Claims: of all clones that are given a task, one works on it.
//!
//! A claim is a ref on the remote, named by the task's key. It is created with an empty lease, so one of several clones
//! succeeds, and moves by compare-and-swap alone. The commit that it names is the fencing token: the clone that holds the claim
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
//! What a clone does about what it finds is decided in [`crate::domain::life::claim`].
//!
//! A takeover goes on from the newest commit. A claim that is deleted, moved back or replaced by something else was not taken
//! over: its holder puts it back, and says so.

mod taking;

use crate::agents::Ctx;
use crate::domain::life::claim::{ClaimMessage, ClaimState, TTLS};
use crate::domain::{AgentId, Oid};
use crate::error::{Code, Error, IoContext, Result};
use crate::git::Commit;
use crate::git::refs::remote::{Fetched, PushManner, RefChange, RefPush};
pub use crate::ops::sync::claim::taking::Heartbeat;
use crate::ops::sync::claim::taking::before;
pub(crate) use crate::ops::sync::claim::taking::{LandingClaim, note_losses, of_agents};
use crate::store::chain;
use crate::store::chain::TRAILER;
use crate::store::files::lock::Guard;
use crate::store::files::{fsx, layout};
use serde::Serialize;
use serde_with_macros::skip_serializing_none;
use std::path::Path;
use std::time::{Duration, Instant};
pub use taking::{Acquired, acquire};

/// The steps of taking a claim.
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
    /// The nonces of earlier attempts in this clone, one of which the remote may have until this one is there; the one that it was
    /// seen to have is the first.
    earlier_nonces: Vec<String>,
    ttl: Duration,
    agent: Option<AgentId>,
    /// The agent of an earlier attempt in this clone.
    earlier: Option<AgentId>,
    /// The agent that the commit at `token` names.
    named: Option<AgentId>,
    /// The commit that the ref is known to be at.
    token: Oid,
    /// Every commit that this process made for the claim: after a push without an answer, the ref may be at any.
    made: Vec<Oid>,
    is_lost: bool,
    /// Whether the remote is known to have the commit that says that the task is done.
    is_done: bool,
    /// What was done to the claim on the remote, and undone.
    warnings: Vec<String>,
    /// Keeps other processes of this clone away.
    _lock: Guard,
}

fn held(key: &str, by: &str) -> Error {
    Error::new(Code::ClaimHeld, format!("the task `{key}` is claimed: {by} works on it"))
        .hint("to see which agents there are, run git agent list --all")
}

impl TaskClaim {
    /// The agent that a process of this clone had for the task before it died.
    pub fn earlier_agent(&self) -> Option<AgentId> {
        self.earlier
    }

    /// The agent that works on the task.
    pub(super) fn agent(&self) -> Option<AgentId> {
        self.agent
    }

    /// Whether the commit on the remote names the agent that works on the task.
    fn names_agent(&self) -> bool {
        self.named == self.agent
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
        if self.agent == Some(agent) {
            return Ok(());
        }
        self.agent = Some(agent);
        self.record(ctx)
    }

    /// Checks that the claim was still this clone's when it was renewed last.
    ///
    /// # Errors
    /// `claim-lost`.
    pub fn require_held(&self) -> Result<()> {
        if self.is_lost { Err(lost(&self.key)) } else { Ok(()) }
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
        if !self.is_done {
            self.renew(ctx, ClaimState::Done, Instant::now() + LIMIT)?;
            self.require_held()?;
        }
        forget(ctx, &self.key)?;
        Ok(self.warnings)
    }

    /// The change by which the claim says that the task is done, if it is where this clone left it.
    ///
    /// # Errors
    /// Those of the object store.
    pub(super) fn completion(&mut self, ctx: &Ctx) -> Result<RefPush> {
        let from = Some(self.token);
        let to = self.commit(ctx, ClaimState::Done, from)?;
        Ok(self.push(RefChange::Swap { from, to }))
    }

    /// Notes that the remote has what [`TaskClaim::completion`] gave.
    pub(super) fn complete(&mut self) {
        self.is_done = true;
    }

    /// Gives the claim up, so that another attempt can begin at once. Where the remote does not let it, the claim
    /// expires. Gives what was done to the claim meanwhile.
    ///
    /// # Errors
    /// Those of the network and of the file system.
    pub fn release(mut self, ctx: &Ctx) -> Result<Vec<String>> {
        // One from whom the claim was taken over may only be stopped, and where there is no claim, work lands without one. A claim
        // that stays and says that it is free tells that clone, once it goes on, that it has lost the task.
        let is_takeover = before(&ctx.repo, self.token).any(|one| one.nonce != self.nonce);
        let from = self.token;
        let change = if is_takeover {
            let to = self.commit(ctx, ClaimState::Released, Some(from))?;
            RefChange::Swap { from: Some(from), to }
        } else {
            RefChange::Delete(from)
        };
        let end = Instant::now() + LIMIT;
        let manner = PushManner::default();
        let push = self.push(change);
        ctx.repo.push_refs(&self.remote, &[push], manner, end)?;
        forget(ctx, &self.key)?;
        Ok(self.warnings)
    }

    fn record(&self, ctx: &Ctx) -> Result<()> {
        let record = ClaimRecord { nonces: self.nonces(), agent: self.agent };
        let path = layout::claim_record(ctx.repo.common_dir(), &self.key);
        // By this a later command of the clone knows that the claim is its own, also after a kill.
        fsx::write_atomic(&path, record.text().as_bytes())
    }

    /// The nonces under which the remote may have this clone's claim, the newest first.
    fn nonces(&self) -> Vec<String> {
        let all = [&self.nonce].into_iter().chain(&self.earlier_nonces);
        all.take(NONCES).cloned().collect()
    }

    fn push(&self, change: RefChange) -> RefPush {
        RefPush::new(self.refname.clone(), change)
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
            // A push can fail after it has moved the ref, so the list decides.
            let listed = ctx.repo.list_remote(&self.remote, end)?;
            // From here on what is really there is replaced, so that a claim that was deleted or
            // moved back is put back.
            from = listed.get(&self.refname).copied();
            match from {
                Some(is) if is == to => return self.take_token(ctx, to),
                // An earlier push without an answer was successful after all.
                Some(is) if self.made.contains(&is) && !self.is_before(ctx, is) => self.token = is,
                is => match self.damage(ctx, is, end)? {
                    Some(what) => self.warn(what),
                    None => {
                        self.is_lost = true;
                        return self.agent.map_or(Ok(()), |agent| note_lost(ctx, agent, &self.key));
                    }
                },
            }
            super::wait(ctx, Duration::from_millis(50), end, &self.remote)?;
        }
    }

    /// Goes on with a commit that the remote has by now: the task is this clone's, also where another one had it for a while.
    fn take_token(&mut self, ctx: &Ctx, token: Oid) -> Result<()> {
        self.token = token;
        self.named = self.agent;
        self.earlier_nonces.clear();
        self.agent.map_or(Ok(()), |agent| forget_loss(ctx, agent, &self.key))
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
        // Each of them may have arrived, whatever the push said.
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
    let removed = std::fs::remove_file(&path).at_if_there("could not remove", &path);
    removed.map(drop)
}

/// Notes that an agent has lost its claim: a landing on the remote asks whose the task is, and one in this clone cannot.
fn note_lost(ctx: &Ctx, agent: AgentId, key: &str) -> Result<()> {
    let path = layout::lost_claim(ctx.repo.common_dir(), agent);
    // One of another clone has nothing here to land from but what was fetched.
    if path.parent().is_some_and(Path::is_dir) {
        fsx::write_private(&path, key.as_bytes())?;
    }
    Ok(())
}

/// Forgets that an agent has lost its claim, which is its own again.
fn forget_loss(ctx: &Ctx, agent: AgentId, key: &str) -> Result<()> {
    if lost_key(ctx, agent)?.is_some_and(|lost| lost == key) {
        let path = layout::lost_claim(ctx.repo.common_dir(), agent);
        std::fs::remove_file(&path).at_if_there("could not remove", &path)?;
    }
    Ok(())
}

/// The key of the claim that this clone saw the agent lose.
fn lost_key(ctx: &Ctx, agent: AgentId) -> Result<Option<String>> {
    let key = fsx::load_if_there(&layout::lost_claim(ctx.repo.common_dir(), agent))?;
    Ok(key.map(|key| String::from_utf8_lossy(&key).into_owned()))
}

/// Checks that this clone did not see the agent lose its claim.
///
/// # Errors
/// `claim-lost`; those of the file system.
pub(crate) fn require_not_lost(ctx: &Ctx, agent: AgentId) -> Result<()> {
    let Some(key) = lost_key(ctx, agent)? else {
        return Ok(());
    };
    let id = agent.short();
    Err(lost(&key).hint(format!(
        "to land it if the remote says that the task is free again, run git agent merge {id} --push"
    )))
}

/// The error for a claim that another clone has taken over.
fn lost(key: &str) -> Error {
    let what = format!("another clone took over the task `{key}`");
    Error::new(Code::ClaimLost, what).hint("the work is kept; to see it, run git agent list --all")
}

// What the commit of a claim says, and what the clone that holds it remembers.

impl ClaimMessage {
    /// Reads the commit of a claim; `None` for any other commit.
    fn read(commit: &Commit) -> Option<ClaimMessage> {
        commit.trailer(TRAILER)?;
        let state = commit.trailer("Claim-State")?;
        Some(ClaimMessage {
            state: { ClaimState::ALL.into_iter() }.find(|one| one.as_str() == state)?,
            clone: commit.trailer("Claim-Clone")?.to_owned(),
            nonce: commit.trailer("Claim-Nonce")?.to_owned(),
            ttl: Duration::from_secs(commit.trailer("Claim-Ttl")?.parse().ok()?),
            agent: commit.trailer("Agent-Id").and_then(AgentId::parse),
            seconds: commit.seconds,
        })
    }

    fn text(&self, key: &str) -> String {
        let agent = self.agent.map(|agent| format!("Agent-Id: {agent}\n"));
        format!(
            "agent: claim {key}\n\nClaim-State: {}\nClaim-Clone: {}\nClaim-Nonce: {}\nClaim-Ttl: {}\n{}{TRAILER}: 1\n",
            self.state.as_str(),
            self.clone,
            self.nonce,
            self.ttl.as_secs(),
            agent.unwrap_or_default(),
        )
    }
}

/// How many nonces a clone remembers of a claim: attempts that fail do not let the record grow for ever.
const NONCES: usize = 16;

/// What a clone remembers of a claim that it took.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ClaimRecord {
    /// What may be on the remote, the newest first.
    pub nonces: Vec<String>,
    pub agent: Option<AgentId>,
}

impl ClaimRecord {
    /// Reads it; `None` where this clone holds no such claim.
    fn load(common_dir: &Path, key: &str) -> Result<Option<ClaimRecord>> {
        let content = fsx::load_if_there(&layout::claim_record(common_dir, key))?;
        let Some(content) = content else {
            return Ok(None);
        };
        let text = String::from_utf8_lossy(&content).into_owned();
        let mut lines = text.lines();
        let nonce = lines.next().filter(|nonce| !nonce.is_empty());
        let agent = lines.next().and_then(AgentId::parse);
        let nonces = nonce.into_iter().chain(lines).map(str::to_owned).collect();
        Ok(nonce.map(|_| ClaimRecord { nonces, agent }))
    }

    /// The newest nonce and the agent, which is all that earlier versions read and write, and then the other nonces.
    fn text(&self) -> String {
        let agent = self.agent.map(|agent| agent.to_string());
        let agent = agent.unwrap_or_default();
        let mut lines: Vec<&str> = self.nonces.iter().map(String::as_str).collect();
        lines.insert(lines.len().min(1), &agent);
        lines.join("\n") + "\n"
    }
}

// The answer of a verb that finds a claim it need not work under.

/// The answer for a task that is done already, or that this clone has already.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClaimReport {
    /// The format's name and version.
    pub schema: &'static str,
    /// The key.
    pub key: String,
    /// The remote.
    pub remote: String,
    /// The full name of the claim on the remote.
    pub remote_ref: String,
    /// `done`, or `held` by this clone.
    pub state: &'static str,
    /// The agent that did it or works on it.
    pub agent_id: Option<String>,
    /// The first eight hex digits of its id.
    pub short_id: Option<String>,
    /// What needs attention, such as a claim that no row bears out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl TaskClaim {
    /// The answer for a task that is done, by that agent.
    pub fn report(&self, agent: Option<AgentId>) -> ClaimReport {
        ClaimReport {
            schema: "git-agent.run-claim/1",
            key: self.key.clone(),
            remote: self.remote.clone(),
            remote_ref: self.refname.clone(),
            state: "done",
            agent_id: agent.map(|agent| agent.to_string()),
            short_id: agent.map(|agent| agent.short()),
            warnings: Vec::new(),
        }
    }
}

// What another clone does to a claim on the remote other than taking it over.

impl TaskClaim {
    /// What was done to the claim, of which the holder's newest commit is not what the remote has; `None` where another
    /// clone took it over, or may have.
    fn damage(&self, ctx: &Ctx, is: Option<Oid>, end: Instant) -> Result<Option<String>> {
        let Some(is) = is else {
            return Ok(Some("was deleted".to_owned()));
        };
        let Some((is, commit)) = self.fetch(ctx, is, end)? else {
            return Ok(Some("was deleted".to_owned()));
        };
        let short = is.short();
        Ok(if self.is_before(ctx, is) {
            Some(format!("was moved back to {short}"))
        } else if commit.as_ref().and_then(ClaimMessage::read).is_none() {
            Some(format!("was replaced by {short}, which is no claim"))
        } else {
            None
        })
    }

    /// Whether the holder's newest commit goes on from that one.
    fn is_before(&self, ctx: &Ctx, is: Oid) -> bool {
        let base = ctx.repo.merge_base(is, self.token);
        is != self.token && base.is_ok_and(|base| base == Some(is))
    }

    /// Notes what was done to the claim.
    fn warn(&mut self, what: String) {
        let text = format!(
            "{} of `{}` {what} by a clone that may push there; this clone has put it back",
            self.refname, self.remote
        );
        if !self.warnings.contains(&text) {
            self.warnings.push(text);
        }
    }

    /// The object that the ref of the claim was listed at, or is at by now, and the commit that it is, if it is one; `None`
    /// where the ref has gone.
    fn fetch(&self, ctx: &Ctx, listed: Oid, end: Instant) -> Result<Option<(Oid, Option<Commit>)>> {
        let repo = &ctx.repo;
        let copy = format!("{}claim/{}", layout::copies(&self.remote), self.key);
        if !repo.has_object(listed) {
            let refspec = format!("+{}:{copy}", self.refname);
            if repo.fetch_refs(&self.remote, &[refspec], end)? != Fetched::All {
                return Ok(None);
            }
        }
        // What was fetched may be newer than what was listed.
        let is = repo.tip(&copy)?.oid().unwrap_or(listed);
        let commit = repo.read_commit(is).ok();
        repo.delete_ref(&copy, is)?;
        Ok(Some((is, commit)))
    }
}
