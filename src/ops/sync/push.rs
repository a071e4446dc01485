//! The way out: the shared refs once, this clone's outbox where another clone was faster, and the proof of both.

use super::PREFIX_HINT;
use super::exchange::{Exchange, Sight};
use super::refusal::refused;
use crate::domain::oid::Oid;
use crate::error::{Code, Error, Result};
use crate::git::remote::{self, PushManner, PushOutcome, RefChange, RefPush, RemoteRefs};
use crate::store::chain::{self, Chain};
use crate::store::remote_names::word;
use std::collections::BTreeMap;

/// A chain that the remote does not have as it is here.
struct Pending {
    chain: Chain,
    shared: String,
    tip: Oid,
    /// Where the remote's ref was.
    from: Option<Oid>,
    is_foreign: bool,
}

impl Exchange<'_> {
    /// Pushes what the remote lacks. `false` when other clones were faster, even at this clone's outbox.
    pub(super) fn push(
        &mut self,
        listed: RemoteRefs,
        sights: BTreeMap<&'static str, Sight>,
    ) -> Result<bool> {
        let pending = self.pending(&listed, &sights)?;
        // 1. The branches, which no row depends on.
        let has_branches = self.push_branches(&listed)?;
        let mut proof = listed;
        let mut late = Vec::new();
        if has_branches || !pending.is_empty() {
            // 2. The shared refs.
            let outcome = self.push_shared(&pending)?;
            proof = self.list()?;
            self.ctx.reached("shared-listed");
            self.prove_branches(&proof);
            late = self.prove(&pending, &outcome, &proof)?;
        }
        // 3. What another clone was faster with.
        if !late.is_empty() {
            let Some(listed) = self.push_outbox(&late)? else {
                return Ok(false);
            };
            proof = listed;
        }
        // 4. What this clone knows of the remote, and outboxes that are needed no more.
        self.move_copies(&proof)?;
        self.ctx.reached("copies-moved");
        self.delete_outboxes(proof, &sights)
    }

    fn push_shared(&self, pending: &[Pending]) -> Result<PushOutcome> {
        if pending.is_empty() {
            return Ok(PushOutcome::default());
        }
        let pushes: Vec<RefPush> = pending.iter().map(Pending::push).collect();
        let (repo, manner) = (&self.ctx.repo, PushManner::default());
        let outcome = repo.push_refs(&self.remote, &pushes, manner, self.end)?;
        self.ctx.reached("shared-pushed");
        Ok(outcome)
    }

    /// The chains that the remote does not have as they are here.
    fn pending(
        &mut self,
        listed: &RemoteRefs,
        sights: &BTreeMap<&'static str, Sight>,
    ) -> Result<Vec<Pending>> {
        let mut pending = Vec::new();
        for chain in self.travelling.chains.clone() {
            let Some(tip) = chain::tip(&self.ctx.repo, chain)? else {
                continue;
            };
            let shared = self.names.shared(chain);
            let sight = sights.get(word(chain)).cloned().unwrap_or_default();
            let from = sight.shared.or_else(|| listed.get(&shared).copied());
            self.report.set(chain.refname(), &shared, tip.oid, "equal");
            if sight.is_foreign && !self.names.are_reserved() {
                return Err(self.occupied(&shared));
            }
            if from != Some(tip.oid) {
                pending.push(Pending {
                    chain,
                    shared,
                    tip: tip.oid,
                    from,
                    is_foreign: sight.is_foreign,
                });
            }
        }
        Ok(pending)
    }

    fn occupied(&self, refname: &str) -> Error {
        let what = format!(
            "{refname} of `{}` is not ours, so nothing was pushed to it",
            self.remote
        );
        Error::new(Code::RemoteRefused, what).hint(
            "to use other names on remotes, run git config agent.refPrefix refs/heads/agent-sync",
        )
    }

    /// The chains that are not on the remote because another clone was faster.
    fn prove<'p>(
        &mut self,
        pending: &'p [Pending],
        outcome: &PushOutcome,
        proof: &RemoteRefs,
    ) -> Result<Vec<&'p Pending>> {
        let mut late = Vec::new();
        for one in pending {
            let is = proof.get(&one.shared).copied();
            let refusals = &outcome.refusals;
            let refusal = refusals
                .iter()
                .find(|refusal| refusal.refname == one.shared);
            if is == Some(one.tip) {
                self.report
                    .set(one.chain.refname(), &one.shared, one.tip, "pushed");
                if one.is_foreign {
                    self.report.heal(&one.shared);
                }
            } else if is != one.from || refusal.is_some_and(|one| remote::is_passing(&one.reason)) {
                late.push(one);
            } else {
                let reason = refusal.map(|refusal| refusal.reason.as_str());
                return Err(self.refused(&one.shared, reason, outcome));
            }
        }
        Ok(late)
    }

    /// The error for a ref that does not arrive although no other clone moved it.
    fn refused(&self, refname: &str, reason: Option<&str>, outcome: &PushOutcome) -> Error {
        let Some(reason) = reason else {
            let what = format!(
                "the remote `{}` took {refname} and does not list it: it hides such refs",
                self.remote
            );
            return Error::new(Code::RemoteRefused, what).hint(PREFIX_HINT);
        };
        refused(&self.remote, refname, reason, outcome).hint(PREFIX_HINT)
    }

    /// Pushes to this clone's outbox and gives what the remote has then; `None` where even that was overtaken.
    fn push_outbox(&mut self, late: &[&Pending]) -> Result<Option<RemoteRefs>> {
        let outbox = |one: &Pending| self.names.outbox(&self.clone, one.chain);
        let pushes = late.iter().map(|one| RefPush {
            refname: outbox(one),
            change: RefChange::Forward(one.tip),
        });
        let pushes: Vec<_> = pushes.collect();
        let manner = PushManner::default();
        let repo = &self.ctx.repo;
        let outcome = repo.push_refs(&self.remote, &pushes, manner, self.end)?;
        self.ctx.reached("outbox-pushed");
        let proof = self.list()?;
        self.ctx.reached("outbox-listed");
        for (one, push) in late.iter().zip(&pushes) {
            if proof.get(&push.refname) == Some(&one.tip) {
                let chain = one.chain.refname();
                self.report.set(chain, &push.refname, one.tip, "outbox");
                continue;
            }
            let refusals = &outcome.refusals;
            let refusal = refusals.iter().find(|one| one.refname == push.refname);
            match refusal {
                Some(refusal) if !remote::is_passing(&refusal.reason) => {
                    return Err(self.refused(&push.refname, Some(&refusal.reason), &outcome));
                }
                // Another clone has united it and deleted it already, or writes under the same name.
                _ => return Ok(None),
            }
        }
        Ok(Some(proof))
    }

    /// Deletes the outboxes that the shared refs of the remote contain. One that has moved on stays.
    fn delete_outboxes(
        &mut self,
        proof: RemoteRefs,
        sights: &BTreeMap<&'static str, Sight>,
    ) -> Result<bool> {
        let mut pushes = Vec::new();
        for synced in self.report.refs.iter().filter(|one| one.state != "outbox") {
            let chains = self.travelling.chains.iter();
            let chain = chains
                .into_iter()
                .find(|chain| chain.refname() == synced.refname);
            let sight = chain.and_then(|chain| sights.get(word(*chain)));
            for (refname, oid) in sight.iter().flat_map(|sight| &sight.outboxes) {
                if proof.get(refname) == Some(oid) {
                    pushes.push(RefPush {
                        refname: refname.clone(),
                        change: RefChange::Delete(*oid),
                    });
                }
            }
        }
        if pushes.is_empty() {
            return Ok(true);
        }
        let repo = &self.ctx.repo;
        let manner = PushManner::default();
        let outcome = repo.push_refs(&self.remote, &pushes, manner, self.end)?;
        self.ctx.reached("outboxes-deleted");
        for refusal in &outcome.refusals {
            if !remote::is_passing(&refusal.reason) {
                let layer = remote::refusing_layer(&refusal.reason, &outcome.remote_text);
                let name = &refusal.refname;
                self.report.warn(format!(
                    "{name} is not needed any more and stays on the remote: {layer} ({})",
                    refusal.reason
                ));
            }
        }
        Ok(true)
    }
}

impl Pending {
    fn push(&self) -> RefPush {
        let change = match self.from {
            // What is there is no chain, so no descendant of it can be pushed.
            Some(from) if self.is_foreign => RefChange::Swap {
                from: Some(from),
                to: self.tip,
            },
            _ => RefChange::Forward(self.tip),
        };
        RefPush {
            refname: self.shared.clone(),
            change,
        }
    }
}
