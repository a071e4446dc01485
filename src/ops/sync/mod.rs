//! `sync`: the ledger and what belongs to it, exchanged with a remote.
//!
//! ```text
//! push what is new, if the remote is where it was seen last
//!   -> list -> fetch what differs -> unite -> push the shared refs, once -> list: are they there?
//!                                                | another clone was faster
//!                                                +-> push the outbox of this clone -> list: is it there?
//!   -> delete the outboxes that the shared refs contain by now
//! ```
//!
//! What vanishes between a list and the fetch that follows is a race: the remote is listed again.
//!
//! Most exchanges end with the first list: it shows that the first push has succeeded and that there is nothing new. Where
//! other clones are likely to push at the same moment, because there are outboxes or because this clone is new, shared refs
//! and outbox are pushed together.
//!
//! No row can be lost on the way: the copies of what a remote had are united before a fetch overwrites
//! them, shared refs and outboxes only ever move to descendants, and an outbox is deleted only after the shared ref that
//! contains it was seen on the remote. Success is what the remote lists, never what a push says.

pub mod claim;
mod exchange;
mod push;

use crate::agents::who::authority::require_orchestrator;
use crate::agents::{Ctx, Env, who::lookup};
use crate::domain::Oid;
use crate::error::{Code, Error, Result};
use crate::git::Tip;
use crate::git::refs::remote::{PushManner, RefChange, RefPush};
use crate::ops::mail;
use crate::ops::sync::claim::TaskClaim;
use crate::proc::launch;
use crate::store::files::{layout, lock};
use crate::store::mailbox::reader;
use crate::store::{Chain, chain};
use exchange::Exchange;
pub(crate) use push::{refused, require_place};
use serde::Serialize;
use std::time::{Duration, Instant};

/// How long an exchange may take unless told otherwise.
pub const LIMIT: Duration = Duration::from_secs(60);

/// What [`sync`] goes through where another clone is faster; each step may be reached more than once.
pub const STEPS: &[&str] = &[
    "sync-locked",
    "pushed-ahead",
    "remote-listed",
    "copies-fetched",
    "copies-united",
    "shared-pushed",
    "shared-listed",
    "outbox-pushed",
    "outbox-listed",
    "copies-moved",
    "outboxes-deleted",
];

/// The advice for remotes that take branches only.
const PREFIX_HINT: &str =
    "where the remote takes branches only, run git config agent.refPrefix refs/heads/agent-sync";

/// The shortest and the longest pause between two attempts.
const PAUSES: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(2)];

/// How to synchronise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncOptions {
    /// The name of the remote; without it `agent.remote`, `origin`, or the only one.
    pub remote: Option<String>,
    /// How long it may take in all.
    pub limit: Duration,
    /// Whether another exchange of this clone is waited for.
    pub waits: bool,
}

impl SyncOptions {
    /// With that remote, and the usual time.
    pub fn with(remote: Option<String>) -> SyncOptions {
        SyncOptions { remote, limit: LIMIT, waits: true }
    }
}

/// Exchanges ledger, branches of live agents and what else `agent.sync` names with a remote.
///
/// # Errors
/// `orchestrator-only` for an agent; `usage` for an unknown remote or a bad setting; `remote-unreachable`, `remote-refused`; `remote-busy` when the time is
/// up; `lock-timeout`, `repo-corrupt`, `git-missing`, `disk-full`, `repo-read-only`.
pub fn sync(ctx: &Ctx, options: &SyncOptions) -> Result<SyncReport> {
    // The remote is reached with the user's keys, which are not the agent's to use.
    require_orchestrator(ctx)?;
    let end = Instant::now() + options.limit;
    // A `sync --best-effort` in a hook must not wait for the push that called the hook, if that is one of ours.
    let patience = if options.waits { options.limit } else { Duration::ZERO };
    let _guard = lock::hold_for(ctx.repo.common_dir(), layout::SYNC_LOCK, patience)?;
    ctx.reached("sync-locked");
    let waited = reader::askers(ctx.repo.common_dir());
    let mut exchange = Exchange::begin(ctx, options, end)?;
    // Put back before anything is sent, so that the remote gets the whole.
    exchange.restore()?;
    exchange.push_ahead()?;
    let mut pause = PAUSES[0];
    while !exchange.once()? {
        // Other clones push at this moment, so from now on the outbox goes along with the shared
        // refs.
        exchange.is_crowded = true;
        let obstacle = exchange.obstacle.take();
        wait(ctx, pause, end, &exchange.remote).map_err(|error| match obstacle {
            Some(said) => error.because(said),
            None => error,
        })?;
        pause = PAUSES[1].min(pause * 2);
    }
    // A person is told of those that an answer from elsewhere reached: nothing here begins a run without being asked.
    exchange.report.warnings.extend(mail::answered_since(ctx, &waited, None));
    Ok(exchange.report)
}

/// Runs the same command once more in a process of its own, which `--attempt` tells apart. It ends in time whatever it
/// waits for, be it a lock, an ssh or a disk; what was stopped half-way goes on with the next exchange. `false` when the
/// time was up.
///
/// # Errors
/// `io` when this program cannot be started.
pub fn attempt(env: Env, limit: Duration) -> Result<bool> {
    let program = env.require_program()?.to_owned();
    let mut words = env.words;
    // Behind `--` it would be taken for an operand.
    let operands = words.iter().position(|word| word == "--");
    words.insert(operands.unwrap_or(words.len()), "--attempt".into());
    Ok(launch::run_limited(&program, &words, limit)?.is_some())
}

/// Waits for about so long, so that clones that met once do not meet again.
fn wait(ctx: &Ctx, pause: Duration, end: Instant, remote: &str) -> Result<()> {
    let pause = pause.mul_f64(0.5 + f64::from(ctx.nonce()?[0]) / 255.0);
    if Instant::now() + pause >= end {
        let what = format!("other clones kept moving the refs of `{remote}` until the time was up");
        return Err(Error::new(Code::RemoteBusy, what)
            .hint(format!("to try again, run git agent sync {remote}")));
    }
    std::thread::sleep(pause);
    Ok(())
}

// The answer of `sync`.

/// The answer of `sync`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "schema", rename = "git-agent.sync/1")]
pub struct SyncReport {
    /// The remote.
    pub remote: String,
    /// What became of each ref that is exchanged and that this clone has.
    pub refs: Vec<SyncedRef>,
    /// The branches of live agents of this clone that the remote did not have as they are.
    pub branches: Vec<BranchReport>,
    /// Refs of the remote that had lost what it was seen to have, or held something else, and are whole again.
    pub healed: Vec<String>,
    /// Refs of this clone from which a forced fetch had taken rows, which are back.
    pub restored: Vec<String>,
    /// What needs attention.
    pub warnings: Vec<String>,
}

/// One ref.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SyncedRef {
    /// Its full name here.
    #[serde(rename = "ref")]
    pub refname: String,
    /// The full name of the ref on the remote that holds it: the one that all clones share, or this clone's outbox.
    pub remote_ref: String,
    /// The commit that both have.
    pub oid: String,
    /// `equal` where nothing had to be sent, `pushed`, or `outbox` where other clones were faster.
    pub state: &'static str,
    /// Whether anything new came from the remote.
    pub received: bool,
}

/// The branch of a live agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BranchReport {
    /// Its full name.
    #[serde(rename = "ref")]
    pub refname: String,
    /// The commit it is at here.
    pub oid: String,
    /// `pushed`; `refused` where the remote has another one or does not take it; `landed` where it has none, and its work has
    /// landed there.
    pub state: &'static str,
    /// Why it was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl SyncReport {
    fn new(remote: &str) -> SyncReport {
        SyncReport {
            remote: remote.to_owned(),
            refs: Vec::new(),
            branches: Vec::new(),
            healed: Vec::new(),
            restored: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// Notes what is known of one ref by now.
    fn set(&mut self, refname: &str, remote_ref: &str, oid: Oid, state: &'static str) {
        let synced = SyncedRef {
            refname: refname.to_owned(),
            remote_ref: remote_ref.to_owned(),
            oid: oid.to_hex(),
            state,
            received: false,
        };
        match self.refs.iter_mut().find(|one| one.refname == refname) {
            Some(one) => {
                let received = one.received;
                *one = SyncedRef { received, ..synced };
            }
            None => self.refs.push(synced),
        }
    }

    fn warn(&mut self, text: String) {
        if !self.warnings.contains(&text) {
            self.warnings.push(text);
        }
    }

    fn heal(&mut self, refname: &str) {
        if !self.healed.iter().any(|one| one == refname) {
            self.healed.push(refname.to_owned());
        }
    }
}

// The end of a task that was done under a claim: its rows, its branch and the claim in one push.
//
// ```text
// push shared rows, branch and claim, all or none, if the remote is where it was seen last
//   -> another clone was faster: the same with the outbox of this clone, which no other clone moves
//   -> list: are they there?
//   -> if not: an exchange as ever, and then a claim that says done
// ```
//
// Nothing is fetched and nothing is united: many clones end tasks at the same moment, and none has to wait for another. What
// the others wrote comes with the next [`sync`].

/// The steps of ending a task, in order, where the remote takes everything at once.
pub const DELIVERY_STEPS: &[&str] = &["task-pushed", "task-listed", "task-noted"];

/// Rows that the remote lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NewRows {
    refname: String,
    /// The ref of this clone that says where `refname` was seen.
    copy: String,
    from: Option<Oid>,
    to: Oid,
}

impl NewRows {
    fn push(&self) -> RefPush {
        let (from, to) = (self.from, self.to);
        RefPush::new(self.refname.clone(), RefChange::Swap { from, to })
    }
}

/// Sends what was recorded of a task that is done, and then says so in the claim, so that no clone does it again. Gives what
/// was done to the claim meanwhile.
///
/// # Errors
/// As [`sync`]; `claim-lost` when another clone has taken the task over.
pub fn complete_task(
    ctx: &Ctx,
    remote: Option<String>,
    mut claim: TaskClaim,
) -> Result<Vec<String>> {
    let options = SyncOptions::with(remote);
    if !deliver(ctx, &options, &mut claim)? {
        // The rows first: the claim says that they are there.
        sync(ctx, &options)?;
    }
    claim.finish(ctx)
}

/// The one push. `false` where it could not be made, or was refused.
fn deliver(ctx: &Ctx, options: &SyncOptions, claim: &mut TaskClaim) -> Result<bool> {
    let _guard = lock::hold_for(ctx.repo.common_dir(), layout::SYNC_LOCK, LIMIT)?;
    let exchange = Exchange::begin(ctx, options, Instant::now() + LIMIT)?;
    let branch = exchange.branch_of(claim)?;
    let completion = claim.completion(ctx)?;
    let mut tried = None;
    for through_outboxes in [false, true] {
        let rows = exchange.new_rows(through_outboxes)?;
        // The first attempt may have gone through the outbox already; the same once more would be
        // no other.
        if rows.is_none() || rows == tried {
            return Ok(false);
        }
        let pushes: Vec<RefPush> = rows
            .iter()
            .flatten()
            .map(NewRows::push)
            .chain(branch.clone())
            .chain([completion.clone()])
            .collect();
        let manner = PushManner {
            // A claim that says done before the rows are there would have the work taken for lost.
            atomic: true,
            ..PushManner::default()
        };
        let pushed = ctx.repo.push_refs(&exchange.remote, &pushes, manner, exchange.end);
        ctx.reached("task-pushed");
        // A remote that cannot take several refs at once is told apart by the exchange that follows.
        let Ok(outcome) = pushed else {
            return Ok(false);
        };
        if outcome.refusals.is_empty() {
            return exchange.settle(&rows.unwrap_or_default(), &pushes, claim);
        }
        tried = rows;
    }
    Ok(false)
}

impl Exchange<'_> {
    /// The push of the branch of the agent that worked under a claim, if it has one that travels.
    fn branch_of(&self, claim: &TaskClaim) -> Result<Option<RefPush>> {
        let Some(id) = claim.agent().filter(|_| self.travelling.branches) else {
            return Ok(None);
        };
        let agent = lookup::agent(self.ctx, &self.ctx.ledger(), &id.to_string())?;
        let branch = self.own_branch(&agent)?;
        Ok(branch.map(|(refname, tip)| RefPush::new(refname, RefChange::Forward(tip))))
    }

    /// The rows that the remote lacks, as far as it was seen; `None` where what was seen is no part of what is here.
    fn new_rows(&self, through_outboxes: bool) -> Result<Option<Vec<NewRows>>> {
        let mut rows = Vec::new();
        for chain in &self.travelling.chains {
            let Some(tip) = chain::tip(&self.ctx.repo, *chain)? else {
                continue;
            };
            let Some(new) = self.destination(*chain, tip.oid, through_outboxes)? else {
                return Ok(None);
            };
            if new.from != Some(new.to) {
                rows.push(new);
            }
        }
        Ok(Some(rows))
    }

    /// Where the rows of a chain go: into the outbox of this clone if it was needed last time.
    fn destination(&self, chain: Chain, to: Oid, through_outbox: bool) -> Result<Option<NewRows>> {
        let repo = &self.ctx.repo;
        let (shared, outbox) = (self.copy(chain, None), self.copy(chain, Some(&self.clone)));
        let seen = repo.tip(&shared)?;
        let is_sent = seen == Tip::At(to);
        // What is in an outbox already goes on through it, so that nothing of it is sent twice.
        let is_outbox = !is_sent && (through_outbox || repo.tip(&outbox)? != Tip::Absent);
        let (refname, copy) = if is_outbox {
            (self.names.outbox(&self.clone, chain), outbox)
        } else {
            (self.names.shared(chain), shared)
        };
        let from = repo.tip(&copy)?.oid();
        let is_part = from.is_none_or(|from| {
            from == to || chain::is_of_chain(repo, chain, from) && chain::holds(repo, to, from)
        });
        Ok(is_part.then_some(NewRows { refname, copy, from, to }))
    }

    /// Looks whether the remote has what was pushed, and notes it.
    fn settle(&self, rows: &[NewRows], pushes: &[RefPush], claim: &mut TaskClaim) -> Result<bool> {
        // The word of the remote is not enough: another clone may have moved a ref since.
        let listed = self.list()?;
        self.ctx.reached("task-listed");
        let is_there = |push: &RefPush| match push.change {
            RefChange::Forward(to) | RefChange::Swap { to, .. } => {
                listed.get(&push.refname) == Some(&to)
            }
            RefChange::Delete(_) => !listed.contains_key(&push.refname),
        };
        if !pushes.iter().all(is_there) {
            return Ok(false);
        }
        for one in rows {
            let was = self.ctx.repo.tip(&one.copy)?;
            self.move_copy(&one.copy, was, one.to)?;
        }
        claim.complete();
        self.ctx.reached("task-noted");
        Ok(true)
    }
}
