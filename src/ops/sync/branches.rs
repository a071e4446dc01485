//! The branches of live agents, which other clones verify and land.

use super::BranchReport;
use super::exchange::Exchange;
use crate::domain::agent::Agent;
use crate::error::Result;
use crate::git::Repo;
use crate::git::refs::Tip;
use crate::git::remote::{self, PushManner, RefChange, RefPush, RemoteRefs};
use crate::store::ledger::Ledger;
use crate::store::{agent_branch, layout};

/// Whether a branch that a row names can be an agent's: rows that were fetched may name any branch of the user's.
fn is_ours(repo: &Repo, agent: &Agent, branch: &str) -> bool {
    let admin_dir = repo.admin_dir(&layout::worktree_name(agent.id));
    branch.starts_with(AGENTS_BRANCHES) || admin_dir.exists()
}

/// What the names of agents' branches begin with unless the user gave them another name.
const AGENTS_BRANCHES: &str = "refs/heads/agent/";

impl Exchange<'_> {
    /// Fetches the branches of live agents of other clones, to where `git fetch` has them.
    pub(super) fn fetch_branches(&self, listed: &RemoteRefs) -> Result<()> {
        if !self.travelling.branches {
            return Ok(());
        }
        let repo = &self.ctx.repo;
        let mut refspecs = Vec::new();
        let agents = Ledger::new(repo).agents()?;
        for agent in agents.iter().filter(|agent| agent.state.is_live()) {
            let Some(branch) = &agent.branch else {
                continue;
            };
            let (Some(short), Some(is)) =
                (branch.strip_prefix(AGENTS_BRANCHES), listed.get(branch))
            else {
                continue;
            };
            let copy = format!("refs/remotes/{}/agent/{short}", self.remote);
            let is_here = repo.tip(branch)? != Tip::Absent || repo.tip(&copy)? == Tip::At(*is);
            if !is_here && Repo::is_valid_ref(branch) {
                refspecs.push(format!("+{branch}:{copy}"));
            }
        }
        // A branch that went away in between is fetched no more.
        if !refspecs.is_empty() {
            repo.fetch_refs(&self.remote, &refspecs, self.end)?;
        }
        Ok(())
    }

    /// Pushes the branches of this clone's live agents that the remote lacks, and says whether there were any. No branch
    /// is ever forced, and one that the remote does not take stops nothing.
    pub(super) fn push_branches(&mut self, listed: &RemoteRefs) -> Result<bool> {
        self.report.branches.clear();
        if !self.travelling.branches {
            return Ok(false);
        }
        let repo = &self.ctx.repo;
        let mut pushes = Vec::new();
        let agents = Ledger::new(repo).agents()?;
        for agent in agents.iter().filter(|agent| agent.state.is_live()) {
            let Some(refname) = agent
                .branch
                .as_ref()
                .filter(|name| is_ours(repo, agent, name))
            else {
                continue;
            };
            let Some(tip) = agent_branch::held(repo, agent)? else {
                continue;
            };
            let there = listed.get(refname).copied();
            // A clone that only fetched the branch has nothing to add to it.
            let is_behind = |there| {
                repo.merge_base(tip, there)
                    .is_ok_and(|base| base == Some(tip))
            };
            let state = if there.is_some_and(|there| there == tip || is_behind(there)) {
                "equal"
            } else {
                pushes.push(RefPush {
                    refname: refname.clone(),
                    change: RefChange::Forward(tip),
                });
                "pushed"
            };
            self.report.branches.push(BranchReport {
                refname: refname.clone(),
                oid: tip.to_hex(),
                state,
                reason: None,
            });
        }
        if pushes.is_empty() {
            return Ok(false);
        }
        let manner = PushManner {
            with_hook: true,
            ..PushManner::default()
        };
        let outcome = repo.push_refs(&self.remote, &pushes, manner, self.end)?;
        for refusal in &outcome.refusals {
            let layer = remote::refusing_layer(&refusal.reason, &outcome.remote_text);
            let branches = &mut self.report.branches;
            if let Some(one) = branches
                .iter_mut()
                .find(|one| one.refname == refusal.refname)
            {
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
