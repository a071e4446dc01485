//! The branches of live agents, which other clones verify and land.

use super::BranchReport;
use super::exchange::Exchange;
use crate::agents::landed_there::landed_there;
use crate::agents::own_changes;
use crate::domain::agent::Agent;
use crate::domain::oid::Oid;
use crate::error::Result;
use crate::git::Repo;
use crate::git::refs::Tip;
use crate::git::refs::remote::{self, PushManner, RefChange, RefPush, RemoteRefs};
use crate::store::agent_branch::{AGENTS_BRANCHES, OwnBranch};
use crate::store::replay::Replay;
use crate::store::spawn_commit::NONCE;
use std::collections::{BTreeMap, HashSet};

/// The trailers of commits that agents' branches end with: of the spawn commit, and of every later one.
const TRAILERS: [&str; 2] = [NONCE, "Agent-Id"];

impl Exchange<'_> {
    /// Fetches the branches of live agents of other clones, to where `git fetch` has them.
    pub(super) fn fetch_branches(&self, listed: &RemoteRefs) -> Result<()> {
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
            if is_candidate && repo.tip(branch)? == Tip::Absent && repo.tip(&copy)? != Tip::At(*is)
            {
                missing.insert(branch.as_str(), copy);
            }
        }
        let mut refspecs = Vec::new();
        for agent in self.live_agents(missing.is_empty())? {
            let branch = agent.branch.as_deref().unwrap_or_default();
            refspecs.extend(missing.get(branch).map(|copy| format!("+{branch}:{copy}")));
        }
        // A branch that went away in between is fetched no more.
        if !refspecs.is_empty() {
            repo.fetch_refs(&self.remote, &refspecs, self.end)?;
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
        let absent = own.iter().filter(|(_, name, _)| !listed.contains_key(name));
        let absent: Vec<_> = absent.map(|(agent, _, tip)| (agent, *tip)).collect();
        let landed = landed_there(self.ctx, &self.remote, listed, &absent, self.end)?;
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
            let is_behind = |there: Oid| {
                repo.merge_base(tip, there)
                    .is_ok_and(|base| base == Some(tip))
            };
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
    Ok(tip)
}
