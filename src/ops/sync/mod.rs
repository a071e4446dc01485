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

mod branches;
pub mod claim;
mod delivery;
mod exchange;
mod push;

pub use delivery::{STEPS as DELIVERY_STEPS, complete_task};
pub(crate) use push::refused;

use crate::agents::authority::require_orchestrator;
use crate::agents::ctx::{Ctx, Env};
use crate::domain::oid::Oid;
use crate::error::{Code, Error, Result};
use crate::proc::limited;
use crate::store::{layout, lock};
use exchange::Exchange;
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
        SyncOptions {
            remote,
            limit: LIMIT,
            waits: true,
        }
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
    let patience = if options.waits {
        options.limit
    } else {
        Duration::ZERO
    };
    let _guard = lock::hold_for(ctx.repo.common_dir(), layout::SYNC_LOCK, patience)?;
    ctx.reached("sync-locked");
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
    Ok(limited::run(&program, &words, limit)?.is_some())
}

/// Waits for about so long, so that clones that met once do not meet again.
fn wait(ctx: &Ctx, pause: Duration, end: Instant, remote: &str) -> Result<()> {
    let pause = pause.mul_f64(0.5 + f64::from(ctx.nonce()?[0]) / 255.0);
    if Instant::now() + pause >= end {
        return Err(Error::new(
            Code::RemoteBusy,
            format!("other clones kept moving the refs of `{remote}` until the time was up"),
        )
        .hint(format!("to try again, run git agent sync {remote}")));
    }
    std::thread::sleep(pause);
    Ok(())
}

// The answer of `sync`.

/// The answer of `sync`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SyncReport {
    /// `git-agent.sync/1`
    pub schema: &'static str,
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
            schema: "git-agent.sync/1",
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
