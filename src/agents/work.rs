//! Agents as their work stands now: where it is, what it is compared with and where it would land.

use crate::agents::ctx::Ctx;
use crate::agents::histories::Histories;
use crate::agents::work::uncommitted::uncommitted_tree;
use crate::agents::worktree::AgentWorktree;
use crate::agents::{lookup, worktree};
use crate::domain::agent::Agent;
use crate::domain::change::Change;
use crate::domain::oid::Oid;
use crate::error::{Code, Error, Result};
use crate::git::Repo;
use crate::git::merge::MergeResult;
use crate::git::objects::{Identity, NewCommit};
use crate::git::repo::Resolved;
use crate::store::replay::Replay;
use crate::store::{agent_branch, spawn_commit};
use crate::wire::policy::Policy;
use std::path::Path;

pub(crate) mod own_commits;
pub(crate) mod uncommitted;

/// One agent and where its work is.
pub(crate) struct Work {
    pub agent: Agent,
    /// What binds it; absent where it is not here, or this version cannot read it.
    pub policy: Option<Policy>,
    /// The full name of the branch to land on.
    pub target: Option<String>,
    /// Where that is; absent when it is gone.
    pub target_tip: Option<Oid>,
    /// Its branch's tip, or that of the copy fetched from a remote; absent when neither is here, and for a shared
    /// agent.
    pub tip: Option<Oid>,
    /// Its worktree, when that is here.
    pub place: Option<AgentWorktree>,
}

/// Whether an agent's work may still land, so that it can overlap with another.
pub(crate) fn is_live(agent: &Agent) -> bool {
    agent.state.is_live()
}

/// As [`Work::fork`], of an agent with this tip and the branch to land on there.
///
/// # Errors
/// As [`Work::fork`].
pub(crate) fn fork(
    repo: &Repo,
    agent: &Agent,
    target: Option<Oid>,
    tip: Option<Oid>,
) -> Result<Oid> {
    Histories::of([agent]).fork(repo, agent, target, tip)
}

impl Work {
    /// Looks an agent's work up.
    ///
    /// # Errors
    /// `repo-corrupt`; those of reading a ref.
    pub(crate) fn look_up(ctx: &Ctx, agent: Agent) -> Result<Work> {
        let policy = spawn_commit::if_here(&ctx.repo, &agent)?;
        let (target, target_tip) = base_of(ctx, &agent, None)?;
        let tip = agent_branch::local_or_fetched(&ctx.repo, &agent)?.map(|(_, tip)| tip);
        let place = AgentWorktree::of(&ctx.repo, agent.id);
        Ok(Work {
            policy,
            target,
            target_tip,
            tip,
            place: place.filter(|_| agent.branch.is_some()),
            agent,
        })
    }

    /// The commit that its work is compared with: where its branch left the one to land on, which moves
    /// along when the agent merges that one; for work that has landed, where it started.
    ///
    /// # Errors
    /// `git-failed` when history cannot be walked.
    pub(crate) fn fork(&self, repo: &Repo) -> Result<Oid> {
        fork(repo, &self.agent, self.target_tip, self.tip)
    }

    /// What it has committed.
    ///
    /// # Errors
    /// `repo-corrupt`, `git-failed`.
    pub(crate) fn committed(&self, repo: &Repo, histories: &Histories) -> Result<Vec<Change>> {
        let Some(tip) = self.tip else {
            return Ok(Vec::new());
        };
        let fork = histories.fork(repo, &self.agent, self.target_tip, self.tip)?;
        let fork = repo.read_commit(fork)?.tree;
        let changes = repo.tree_changes(&[fork], repo.read_commit(tip)?.tree)?;
        Ok(self.without_bundle(changes))
    }

    /// The tree of everything: its tip's, or the one that committing the rest would make.
    ///
    /// # Errors
    /// `branch-gone`; those of git and the file system.
    pub(crate) fn tree(&self, ctx: &Ctx) -> Result<Oid> {
        let tip = self.require_tip(ctx)?;
        let uncommitted = match &self.place {
            Some(place) => uncommitted_tree(ctx, &self.agent, tip, place, self.bundle_dir())?,
            None => None,
        };
        match uncommitted {
            Some(tree) => Ok(tree),
            None => Ok(ctx.repo.read_commit(tip)?.tree),
        }
    }

    /// The branch's tip.
    ///
    /// # Errors
    /// `agent-state` for a shared agent, `branch-gone`.
    pub(crate) fn require_tip(&self, ctx: &Ctx) -> Result<Oid> {
        let short = self.agent.id.short();
        match (self.tip, &self.agent.branch) {
            (Some(tip), _) => Ok(tip),
            (None, None) => Err(Error::new(
                Code::AgentState,
                format!("agent {short} is shared and has no branch"),
            )),
            (None, Some(_)) => Err(lookup::branch_gone(ctx, &self.agent)),
        }
    }

    /// Where its bundle is in its worktree, by its path from the top.
    pub(crate) fn bundle_dir(&self) -> Option<&str> {
        self.policy.as_ref()?.bundle_dir.as_deref()
    }

    /// The agent's own bundle is part of no commit.
    pub(crate) fn without_bundle(&self, mut changes: Vec<Change>) -> Vec<Change> {
        if let Some(bundle) = self.bundle_dir() {
            let prefix = format!("{bundle}/").into_bytes();
            changes.retain(|change| !change.path.starts_with(&prefix));
        }
        changes
    }
}

/// The commit that is judged unless another is named.
pub(crate) fn tip_of(ctx: &Ctx, agent: &Agent) -> Result<Oid> {
    if agent.branch.is_none() {
        return Ok(agent.spawn_commit);
    }
    let found = agent_branch::local_or_fetched(&ctx.repo, agent)?;
    let tip = found.map(|(_, tip)| tip);
    tip.map_or_else(|| Err(lookup::without_tip(ctx, agent)), Ok)
}

/// The revision that a caller names to land on. A clone that never had the branch knows the remote's.
///
/// # Errors
/// Those of [`Repo::resolve_commit`].
pub(crate) fn landing_revision(repo: &Repo, revision: &str) -> Result<Resolved> {
    repo.resolve_commit(revision).or_else(|error| {
        let copy = format!("refs/remotes/origin/{revision}");
        match error.code() {
            Code::BaseNotCommit => repo.resolve_commit(&copy).map_err(|_| error),
            _ => Err(error),
        }
    })
}

/// The branch to land on and where it is. A clone that never had the branch knows the remote's.
pub(crate) fn base_of(
    ctx: &Ctx,
    agent: &Agent,
    wanted: Option<&str>,
) -> Result<(Option<String>, Option<Oid>)> {
    if let Some(revision) = wanted {
        let resolved = landing_revision(&ctx.repo, revision)?;
        return Ok((resolved.refname, Some(resolved.commit)));
    }
    let base = agent.base.as_ref();
    let Some(name) = base.and_then(|base| base.refname.clone()) else {
        return Ok((None, base.map(|base| base.oid)));
    };
    if let Some(oid) = ctx.repo.tip(&name)?.oid() {
        return Ok((Some(name), Some(oid)));
    }
    // A clone has the branches of others only as copies.
    let copy = ctx.repo.fetched_branches(&name)?.into_iter().next();
    Ok(match copy {
        Some((copy, oid)) => (Some(copy), Some(oid)),
        None => (Some(name), None),
    })
}

/// The tree that would be judged now: the tip's, or the one that committing everything would make.
pub(crate) fn tree_to_judge(
    ctx: &Ctx,
    agent: &Agent,
    worktree: &Path,
    policy: &Policy,
) -> Result<Oid> {
    let tip = tip_of(ctx, agent)?;
    let place = AgentWorktree::new(
        worktree.to_owned(),
        worktree::admin_dir(&ctx.repo, agent.id),
    );
    match uncommitted_tree(ctx, agent, tip, &place, policy.bundle_dir.as_deref())? {
        Some(tree) => Ok(tree),
        None => Ok(ctx.repo.read_commit(tip)?.tree),
    }
}

/// The commit that stands for work when git merges it with `target`: the work itself, unless a part of it has landed there by
/// a commit that it does not hold, as a squash is. Then it is what came since, on top of that commit, so that work does not
/// conflict with itself.
///
/// # Errors
/// `repo-corrupt`, `git-failed`.
pub(crate) fn to_merge(repo: &Repo, agent: &Agent, target: Oid, work: Oid) -> Result<Oid> {
    let base = agent.base.as_ref().and_then(|base| base.refname.as_ref());
    let on_another = base.is_some_and(|name| name.starts_with(agent_branch::AGENTS_BRANCHES));
    if agent.landed.is_some() || on_another {
        // Where the beginning has landed without its spawn commit, git finds the right base among what stands for the branch.
        let replay = Replay::of(repo, agent, target, work)?;
        if replay.is_begun(repo) {
            replay.write(repo)?;
            return Ok(replay.tip);
        }
    }
    let (Some((landed, _)), Some(tip)) = (&agent.landed, agent.landed_tip) else {
        return Ok(work);
    };
    let landed = *landed;
    // A shallow or partial clone may lack either; nothing can be proved then, and git merges the
    // work as it is.
    if ![landed, tip].iter().all(|oid| repo.has_object(*oid)) {
        return Ok(work);
    }
    // Where both sides hold the landing, or the tip that landed, git finds the right base by itself.
    let is_found = repo.is_ancestor(landed, work)?
        || repo.is_ancestor(tip, target)? && repo.is_ancestor(tip, work)?;
    // A row says which tip that was. It has to be the agent's own, and the landing has to be there.
    let is_proved =
        repo.is_ancestor(landed, target)? && repo.is_ancestor(agent.spawn_commit, tip)?;
    if is_found || !is_proved {
        return Ok(work);
    }
    let tree = |oid: Oid| repo.read_commit(oid).map(|commit| commit.tree);
    // A merge of what came since the landing, with the tip that landed as its base.
    let root = simulated(repo, tree(tip)?, &[])?;
    let ours = simulated(repo, tree(landed)?, &[root])?;
    let theirs = simulated(repo, tree(work)?, &[root])?;
    match repo.merge(ours, theirs)?.result {
        MergeResult::Clean { tree } => simulated(repo, tree, &[landed]),
        // Another agent's landing changed the same lines at the same time: the conflict is told as git finds it.
        MergeResult::Conflicts { .. } | MergeResult::Unrelated => Ok(work),
    }
}

/// A commit that no ref will ever name, only to ask git about it. It is as old as its youngest parent: a
/// commit from the beginning of time would make git walk all of history for a merge base.
pub(crate) fn simulated(repo: &Repo, tree: Oid, parents: &[Oid]) -> Result<Oid> {
    let mut seconds = 0;
    for parent in parents {
        // A time of its own would give each call another id for the same merge.
        seconds = repo.read_commit(*parent)?.seconds.max(seconds);
    }
    let who = Identity::stand_in(seconds);
    repo.write_commit(&NewCommit::ours(&who, tree, parents, "agent: simulated\n"))
}
