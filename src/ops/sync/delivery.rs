//! The end of a task that was done under a claim: its rows, its branch and the claim in one push.
//!
//! ```text
//! push shared rows, branch and claim, all or none, if the remote is where it was seen last
//!   -> another clone was faster: the same with the outbox of this clone, which no other clone moves
//!   -> list: are they there?
//!   -> if not: an exchange as ever, and then a claim that says done
//! ```
//!
//! Nothing is fetched and nothing is united: many clones end tasks at the same moment, and none has to wait for another. What
//! the others wrote comes with the next [`sync`].

use super::exchange::Exchange;
use super::{LIMIT, SyncOptions, claim::TaskClaim, sync};
use crate::agents::ctx::Ctx;
use crate::agents::lookup;
use crate::domain::oid::Oid;
use crate::error::Result;
use crate::git::refs::Tip;
use crate::git::refs::remote::{PushManner, RefChange, RefPush};
use crate::store::chain::{self, Chain};
use crate::store::{layout, lock};
use std::time::Instant;

/// The steps of ending a task, in order, where the remote takes everything at once.
pub const STEPS: &[&str] = &["task-pushed", "task-listed", "task-noted"];

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
        let pushes: Vec<RefPush> = { rows.iter().flatten().map(NewRows::push) }
            .chain(branch.clone())
            .chain([completion.clone()])
            .collect();
        let manner = PushManner {
            // A claim that says done before the rows are there would have the work taken for lost.
            atomic: true,
            ..PushManner::default()
        };
        let pushed = ctx
            .repo
            .push_refs(&exchange.remote, &pushes, manner, exchange.end);
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
            from == to || chain::is_of_chain(repo, chain, from) && self.is_ancestor(from, to)
        });
        Ok(is_part.then_some(NewRows {
            refname,
            copy,
            from,
            to,
        }))
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
