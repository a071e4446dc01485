//! The way out: the shared refs once, this clone's outbox where another clone was faster, the proof of both,
//! and the branches of live agents.

use crate::agents::own_changes;
use crate::agents::work::stacked;
use crate::domain::value::ref_update::{Arrival, arrival, contained};
use crate::domain::{Agent, Oid, branch_name, value::shell};
use crate::error::{Code, Error, Result};
use crate::git::refs::remote::{
    self, Fetched, PushManner, PushOutcome, RefChange, RefPush, RemoteRefs,
};
use crate::git::{Repo, Tip};
use crate::ops::sync::exchange::{Exchange, Sight};
use crate::ops::sync::{BranchReport, PREFIX_HINT};
use crate::store::landing::replay::Replay;
use crate::store::landing::spawn_commit::NONCE;
use crate::store::ledger::agent_branch::{AGENTS_BRANCHES, is_made_here};
use crate::store::{Chain, OwnBranch, chain, landing::replay};
use std::collections::{BTreeMap, HashSet};
use std::slice;

/// A chain that the remote does not have as it is here.
struct Pending {
    chain: Chain,
    shared: String,
    tip: Oid,
    /// Where the remote's ref was.
    from: Option<Oid>,
    is_foreign: bool,
    /// What becomes of this clone's outbox where another clone is faster.
    outbox: RefPush,
}

/// The error for a ref that a remote does not take; it repeats what the remote said.
pub(crate) fn refused(remote: &str, refname: &str, reason: &str, outcome: &PushOutcome) -> Error {
    let layer = remote::refusing_layer(reason, &outcome.remote_text);
    let what = format!("the remote `{remote}` does not take {refname}: {layer} ({reason})");
    let error = Error::new(Code::RemoteRefused, what).because(outcome.remote_text.clone());
    // No other name helps against a full disk, nor a branch that the remote protects.
    if remote::depends_on_name(layer) && !refname.starts_with("refs/heads/") {
        error.hint(PREFIX_HINT)
    } else {
        error
    }
}

/// Refuses a ref for which the remote has no place: a server says of one that stands in the way what it says of a writer that was
/// faster, and it goes by no waiting.
///
/// # Errors
/// `remote-refused`.
pub(crate) fn require_place(remote: &str, refname: &str, listed: &RemoteRefs) -> Result<()> {
    let is_below = |name: &str, above: &str| {
        name.strip_prefix(above).is_some_and(|rest| rest.starts_with('/'))
    };
    let in_the_way = |name: &&String| is_below(name, refname) || is_below(refname, name);
    let Some(name) = listed.keys().find(in_the_way) else {
        return Ok(());
    };
    let what = format!("the remote `{remote}` has {name}, so it cannot have {refname}");
    Err(Error::new(Code::RemoteRefused, what)
        .hint(format!("to see it, run git fetch {remote} {name}"))
        .hint(format!("to make place, run git push {remote} --delete {name}")))
}

impl Exchange<'_> {
    /// Pushes what is new here before the remote is listed: it is likely to be where it was seen last. Where it is not, the
    /// lease fails before anything is sent. Whether the push has succeeded is read from the list that follows. A clone that
    /// is new, or that used its outbox last time, expects to meet others, and pushes nothing ahead.
    pub(super) fn push_ahead(&mut self) -> Result<()> {
        let repo = &self.ctx.repo;
        let mut pushes = Vec::new();
        let mut is_known = false;
        for chain in &self.travelling.chains {
            let Some(seen) = repo.tip(&self.copy(*chain, None))?.oid() else {
                continue;
            };
            is_known = true;
            let outbox = self.copy(*chain, Some(&self.clone));
            // An outbox of ours is there because another clone was faster the last time.
            self.is_crowded |= repo.tip(&outbox)? != Tip::Absent;
            let Some(tip) = chain::tip(repo, *chain)?.filter(|tip| tip.oid != seen) else {
                continue;
            };
            // What the copy names may have been replaced by something that is no chain.
            if chain::is_of_chain(repo, *chain, seen) && chain::holds(repo, tip.oid, seen) {
                let change = RefChange::Swap { from: Some(seen), to: tip.oid };
                let refname = self.names.shared(*chain);
                pushes.push(RefPush::new(refname, change));
            }
        }
        // Without a copy of any chain it is not known how many clones there are.
        self.is_crowded |= !is_known;
        if pushes.is_empty() || self.is_crowded {
            return Ok(());
        }
        repo.push_refs(&self.remote, &pushes, PushManner::default(), self.end)?;
        self.ahead = pushes.into_iter().map(|push| push.refname).collect();
        self.ctx.reached("pushed-ahead");
        Ok(())
    }

    /// Pushes what the remote lacks. `false` when other clones were faster, even at this clone's outbox.
    pub(super) fn push(
        &mut self,
        listed: RemoteRefs,
        mut sights: BTreeMap<&'static str, Sight>,
    ) -> Result<bool> {
        let pending = self.pending(&listed, &sights)?;
        self.is_crowded |= sights.values().any(|sight| !sight.outboxes.is_empty());
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
            // An outbox that was pushed along with them is needed no more.
            for one in &pending {
                let outboxes = &mut sights.entry(one.chain.as_str()).or_default().outboxes;
                outboxes.insert(one.outbox.refname.clone(), one.tip);
            }
        }
        // 3. What another clone was faster with.
        if !late.is_empty() {
            let Some(listed) = self.push_outbox(&late, proof)? else {
                return Ok(false);
            };
            proof = listed;
        }
        for chain in self.travelling.chains.clone() {
            let late = late.iter().find(|one| one.chain == chain);
            self.note_outbox(chain, late.map(|one| one.tip))?;
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
        let mut pushes: Vec<RefPush> = pending.iter().map(Pending::push).collect();
        // One more ref in the same push is cheaper than a second push after a race.
        if self.is_crowded {
            pushes.extend(pending.iter().map(|one| one.outbox.clone()));
        }
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
            let sight = sights.get(chain.as_str()).cloned().unwrap_or_default();
            let from = sight.shared.or_else(|| listed.get(&shared).copied());
            let is_ahead = self.ahead.contains(&shared);
            let state = if is_ahead { "pushed" } else { "equal" };
            self.report.set(chain.refname(), &shared, tip.oid, state);
            // Below a prefix that the user chose, the name may be another tool's. Below our own it
            // is replaced.
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
                    outbox: self.outbox(chain, tip.oid, listed, &sight),
                });
            }
        }
        Ok(pending)
    }

    /// The push of this clone's outbox. What another clone has put there, and could not be united, is replaced where the
    /// name is ours alone.
    fn outbox(&self, chain: Chain, tip: Oid, listed: &RemoteRefs, sight: &Sight) -> RefPush {
        let refname = self.names.outbox(&self.clone, chain);
        let is = listed.get(&refname).copied();
        let is_foreign = is.is_some() && !sight.outboxes.contains_key(&refname);
        let change = if is_foreign && self.names.are_reserved() {
            RefChange::Swap { from: is, to: tip }
        } else {
            RefChange::Forward(tip)
        };
        RefPush::new(refname, change)
    }

    fn occupied(&self, refname: &str) -> Error {
        let what =
            format!("{refname} of `{}` is not ours, so nothing was pushed to it", self.remote);
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
            let refusal = refusals.iter().find(|refusal| refusal.refname == one.shared);
            let is_passing = refusal.is_some_and(|one| remote::is_passing(&one.reason));
            match arrival(one.tip, one.from, is, is_passing) {
                Arrival::There => {
                    self.report.set(one.chain.refname(), &one.shared, one.tip, "pushed");
                    if one.is_foreign {
                        self.report.heal(&one.shared);
                    }
                }
                Arrival::Late => {
                    require_place(&self.remote, &one.shared, proof)?;
                    late.push(one);
                }
                Arrival::Refused => {
                    let reason = refusal.map(|refusal| refusal.reason.as_str());
                    return Err(self.refused(&one.shared, reason, outcome));
                }
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
        refused(&self.remote, refname, reason, outcome)
    }

    /// Sees to it that this clone's outbox has what is late, and gives what the remote has then; `None` where even that was
    /// overtaken.
    fn push_outbox(&mut self, late: &[&Pending], proof: RemoteRefs) -> Result<Option<RemoteRefs>> {
        let is_there =
            |one: &&Pending, proof: &RemoteRefs| proof.get(&one.outbox.refname) == Some(&one.tip);
        let mut outcome = PushOutcome::default();
        let mut proof = proof;
        // Where other clones were expected, the outbox was pushed along with the shared refs.
        if !late.iter().all(|one| is_there(one, &proof)) {
            let pushes: Vec<_> = late.iter().map(|one| one.outbox.clone()).collect();
            let (repo, manner) = (&self.ctx.repo, PushManner::default());
            outcome = repo.push_refs(&self.remote, &pushes, manner, self.end)?;
            self.ctx.reached("outbox-pushed");
            proof = self.list()?;
            self.ctx.reached("outbox-listed");
        }
        for one in late {
            let refname = &one.outbox.refname;
            if is_there(one, &proof) {
                let chain = one.chain.refname();
                self.report.set(chain, refname, one.tip, "outbox");
                continue;
            }
            let refusals = &outcome.refusals;
            let refusal = refusals.iter().find(|one| one.refname == *refname);
            match refusal {
                Some(refusal) if !remote::is_passing(&refusal.reason) => {
                    return Err(self.refused(refname, Some(&refusal.reason), &outcome));
                }
                // Another clone has united it and deleted it already, or writes under the same name.
                _ => {
                    require_place(&self.remote, refname, &proof)?;
                    return Ok(None);
                }
            }
        }
        Ok(Some(proof))
    }

    /// Remembers whether this clone needed its outbox, for the next exchange.
    fn note_outbox(&self, chain: Chain, used: Option<Oid>) -> Result<()> {
        let copy = self.copy(chain, Some(&self.clone));
        match (used, self.ctx.repo.tip(&copy)?) {
            (Some(oid), was) if was != Tip::At(oid) => self.move_copy(&copy, was, oid),
            (None, Tip::At(was)) => self.ctx.repo.delete_ref(&copy, was).map(|_| ()),
            _ => Ok(()),
        }
    }

    /// Deletes the outboxes that the shared refs of the remote contain. One that has moved on stays.
    fn delete_outboxes(
        &mut self,
        proof: RemoteRefs,
        sights: &BTreeMap<&'static str, Sight>,
    ) -> Result<bool> {
        let mut pushes = Vec::new();
        // What is still in an outbox alone must not go.
        for synced in self.report.refs.iter().filter(|one| one.state != "outbox") {
            let chains = self.travelling.chains.iter();
            let chain = chains.into_iter().find(|chain| chain.refname() == synced.refname);
            let sight = chain.and_then(|chain| sights.get(chain.as_str()));
            let of_chain = sight.into_iter().flat_map(|it| contained(&it.outboxes, &proof));
            pushes.extend(
                of_chain
                    .map(|(refname, oid)| RefPush::new(refname.clone(), RefChange::Delete(oid))),
            );
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
            Some(from) if self.is_foreign => RefChange::Swap { from: Some(from), to: self.tip },
            _ => RefChange::Forward(self.tip),
        };
        RefPush::new(self.shared.clone(), change)
    }
}

// The branches of live agents, which other clones verify and land.

/// The trailers of commits that agents' branches end with: of the spawn commit, and of every later one.
const TRAILERS: [&str; 2] = [NONCE, "Agent-Id"];

impl Exchange<'_> {
    /// Fetches the branches of live agents of other clones, to where `git fetch` has them.
    pub(super) fn fetch_branches(&mut self, listed: &RemoteRefs) -> Result<()> {
        if !self.travelling.branches {
            return Ok(());
        }
        // Rows are read only where there is a branch that is not here: that takes longer than all the rest.
        let repo = &self.ctx.repo;
        let mut missing = BTreeMap::new();
        for (branch, is) in listed {
            let Some(short) = branch.strip_prefix("refs/heads/") else {
                continue;
            };
            let copy = format!("refs/remotes/{}/{short}", self.remote);
            let is_candidate = branch.starts_with(AGENTS_BRANCHES) && Repo::is_valid_ref(&copy);
            let is = Tip::At(*is);
            if is_candidate && repo.tip(branch)? != is && repo.tip(&copy)? != is {
                missing.insert(branch.as_str(), copy);
            }
        }
        let (mut branches, mut refspecs) = (Vec::new(), Vec::new());
        for agent in self.live_agents(missing.is_empty())? {
            let branch = agent.branch.as_deref().unwrap_or_default();
            // One of this clone goes the other way.
            if let Some((branch, copy)) = missing.get_key_value(branch)
                && (repo.tip(branch)? == Tip::Absent || !is_made_here(repo, &agent))
            {
                branches.push(*branch);
                refspecs.push(format!("+{branch}:{copy}"));
            }
        }
        if refspecs.is_empty() {
            return Ok(());
        }
        let remote = &self.remote;
        let mut fetched = repo.fetch_refs(remote, &refspecs, self.end)?;
        let mut left = Vec::new();
        // git fetches all or none, and a branch may be gone since it was listed: then each is asked for alone.
        if matches!(fetched, Fetched::Missing | Fetched::Unadvertised) {
            for (branch, one) in branches.into_iter().zip(&refspecs) {
                match repo.fetch_refs(remote, slice::from_ref(one), self.end)? {
                    Fetched::All => {}
                    Fetched::Missing | Fetched::Unadvertised => left.push(branch),
                    locked @ Fetched::Locked(_) => fetched = locked,
                }
            }
        }
        if let Fetched::Locked(said) = fetched {
            self.report.warn(format!(
                "branches of agents could not be copied from {remote}; to see and clear what is in the way, run git fetch --prune {remote}: {}",
                said.trim()
            ));
        }
        if !left.is_empty() {
            let left = left.join(", ");
            self.report.warn(format!(
                "branches of agents that {remote} listed are gone from it, or cannot be fetched: {left}"
            ));
        }
        Ok(())
    }

    /// The agents whose work may still land; none where they are of no interest.
    fn live_agents(&self, is_idle: bool) -> Result<Vec<Agent>> {
        if is_idle {
            return Ok(Vec::new());
        }
        let mut agents = self.ctx.ledger().agents()?;
        agents.retain(|agent| agent.state.is_live());
        Ok(agents)
    }

    /// The branches here that can be agents' and that the remote has not, or elsewhere.
    fn unlike(&self, listed: &RemoteRefs) -> Result<HashSet<String>> {
        let repo = &self.ctx.repo;
        repo.require_listable("refs/heads")?;
        // A branch that the user named tells by its commits whose it is.
        let is_agents = |tip| {
            let commit = repo.read_commit(tip);
            commit.is_ok_and(|commit| TRAILERS.iter().any(|name| commit.trailer(name).is_some()))
        };
        let branches = repo.refs_below("refs/heads/")?.into_iter();
        let unlike = branches.filter(|(name, tip)| {
            listed.get(name) != Some(tip) && (name.starts_with(AGENTS_BRANCHES) || is_agents(*tip))
        });
        Ok(unlike.map(|(name, _)| name).collect())
    }

    /// The full name and the tip of the branch of a live agent of this clone.
    pub(super) fn own_branch(&self, agent: &Agent) -> Result<Option<(String, Oid)>> {
        if !agent.state.is_live() {
            return Ok(None);
        }
        let own = OwnBranch::of(&self.ctx.repo, agent)?;
        Ok(own.and_then(|own| Some((own.name().to_owned(), own.tip().oid()?))))
    }

    /// Pushes the branches of this clone's live agents that the remote lacks, and says whether there were any. No branch
    /// is ever forced, and one that the remote does not take stops nothing.
    pub(super) fn push_branches(&mut self, listed: &RemoteRefs) -> Result<bool> {
        self.report.branches.clear();
        if !self.travelling.branches {
            return Ok(false);
        }
        let repo = &self.ctx.repo;
        let mut own = Vec::new();
        let unlike = self.unlike(listed)?;
        for agent in self.live_agents(unlike.is_empty())? {
            let named = agent.branch.as_ref().filter(|name| unlike.contains(*name));
            // What its owner has not committed stays in this clone.
            let named = named.filter(|_| matches!(own_changes::below(repo, &agent), Ok(None)));
            let branch = named.map(|_| self.own_branch(&agent)).transpose()?;
            own.extend(branch.flatten().map(|(name, tip)| (agent, name, tip)));
        }
        // A forge deletes a branch once it has merged it. Work that came since is no part of what landed, and goes there.
        let absent: Vec<_> = own
            .iter()
            .filter(|(_, name, _)| !listed.contains_key(name))
            .map(|(agent, _, tip)| (agent, *tip))
            .collect();
        let landed = stacked::have_landed_there(self.ctx, &self.remote, listed, &absent, self.end)?;
        let mut pushes = Vec::new();
        for (agent, refname, tip) in own {
            if landed.contains(&agent.id) {
                self.report.branches.push(BranchReport {
                    refname,
                    oid: tip.to_hex(),
                    state: "landed",
                    reason: None,
                });
                continue;
            }
            let there = listed.get(&refname).copied();
            let tip = as_offered(repo, &agent, there, tip)?;
            // A clone that only fetched the branch has nothing to add to it.
            let is_behind =
                |there: Oid| repo.merge_base(tip, there).is_ok_and(|base| base == Some(tip));
            if there.is_some_and(is_behind) {
                continue;
            }
            pushes.push(RefPush::new(refname.clone(), RefChange::Forward(tip)));
            self.report.branches.push(BranchReport {
                refname,
                oid: tip.to_hex(),
                state: "pushed",
                reason: None,
            });
        }
        if pushes.is_empty() {
            return Ok(false);
        }
        // No hook of the user's is run: a pre-push hook that synchronises would wait for this very push.
        let manner = PushManner::default();
        let outcome = repo.push_refs(&self.remote, &pushes, manner, self.end)?;
        for refusal in &outcome.refusals {
            let layer = remote::refusing_layer(&refusal.reason, &outcome.remote_text);
            let mut branches = self.report.branches.iter_mut();
            if let Some(one) = branches.find(|one| one.refname == refusal.refname) {
                one.state = "refused";
                one.reason = Some(format!("{layer} ({})", refusal.reason));
            }
        }
        Ok(true)
    }

    /// Says of branches that were pushed, and that the remote does not list, that they were refused.
    pub(super) fn prove_branches(&mut self, listed: &RemoteRefs) {
        for one in &mut self.report.branches {
            let is = listed.get(&one.refname).map(|oid| oid.to_hex());
            if one.state == "pushed" && is.as_ref() != Some(&one.oid) {
                one.state = "refused";
                one.reason = Some("the remote does not list it".to_owned());
            }
        }
        // The rows went, and a branch that others have rewritten stays refused, so this is no failure.
        let mut refused = self.report.branches.iter().filter(|one| one.state == "refused");
        if let Some(first) = refused.next() {
            let name = shell::word(branch_name(&first.refname).as_bytes());
            let more = refused.count();
            let others = if more == 0 { String::new() } else { format!(" and {more} others") };
            let remote = shell::word(self.remote.as_bytes());
            self.report.warn(format!(
                "the remote did not take {name}{others}; to see what it has there, run git fetch {remote} {name} && git log {name}..FETCH_HEAD"
            ));
        }
    }
}

/// The commit that goes to a remote whose branch is at `there`: the branch's tip, or what stands for it without the spawn commit where
/// `pr` has pushed that.
fn as_offered(repo: &Repo, agent: &Agent, there: Option<Oid>, tip: Oid) -> Result<Oid> {
    let Some(there) = there.filter(|there| repo.has_object(*there)) else {
        return Ok(tip);
    };
    let Some(started) = agent.base.as_ref().map(|base| base.oid) else {
        return Ok(tip);
    };
    if repo.is_ancestor(there, tip)? || repo.is_ancestor(tip, there)? {
        return Ok(tip);
    }
    let replay = Replay::of(repo, agent, started, tip)?;
    let is_behind = repo.has_object(replay.tip) && repo.is_ancestor(replay.tip, there)?;
    if is_behind || replay.holds(there) {
        replay.write(repo)?;
        return Ok(replay.tip);
    }
    // Work that `pr` has put on top of what landed below it goes on with `pr` alone.
    if replay::ground(repo, agent, there)?.is_some() {
        return Ok(there);
    }
    Ok(tip)
}
