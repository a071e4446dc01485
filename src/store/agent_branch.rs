//! The branch of an agent in this clone: the local one, or the copy that was fetched from a remote.
//!
//! A row names its branch. Two clones may have given one name to two agents (branch names of older versions did
//! not hold the agent's id, and `--branch` takes any name), and once their ledgers are united two rows claim one
//! branch. It belongs to the agent whose spawn commit its history holds.

use super::layout;
use super::ledger::Ledger;
use super::spawn_commit::NONCE;
use crate::domain::agent::Agent;
use crate::domain::oid::Oid;
use crate::error::Result;
use crate::git::Repo;
use crate::git::refs::Tip;

/// How many commits are followed along first parents before history is searched as a whole.
const FOLLOWED: usize = 256;

/// The local branch of an agent; [`Tip::Absent`] also where the branch of that name is another agent's.
///
/// # Errors
/// `git-failed`, `repo-corrupt`.
pub fn local(repo: &Repo, agent: &Agent) -> Result<Tip> {
    let Some(branch) = &agent.branch else {
        return Ok(Tip::Absent);
    };
    let tip = repo.tip(branch)?;
    match tip {
        Tip::At(oid) if !is_own(repo, agent, branch, oid)? => Ok(Tip::Absent),
        _ => Ok(tip),
    }
}

/// The full name and the tip of an agent's branch: the local one, else a copy that was fetched from a remote;
/// `None` where there is neither, and for an agent whose worktree is here and has lost its branch.
///
/// # Errors
/// As [`local`].
pub fn local_or_fetched(repo: &Repo, agent: &Agent) -> Result<Option<(String, Oid)>> {
    let Some(branch) = &agent.branch else {
        return Ok(None);
    };
    if let Some(tip) = local(repo, agent)?.oid() {
        return Ok(Some((branch.clone(), tip)));
    }
    if repo.admin_dir(&layout::worktree_name(agent.id)).exists() {
        return Ok(None);
    }
    for (copy, tip) in repo.fetched_branches(branch)? {
        if is_own(repo, agent, branch, tip)? {
            return Ok(Some((copy, tip)));
        }
    }
    Ok(None)
}

/// Where the local branch of an agent is; `None` unless its history holds the agent's spawn commit.
///
/// # Errors
/// `git-failed`.
pub fn held(repo: &Repo, agent: &Agent) -> Result<Option<Oid>> {
    let Some(branch) = &agent.branch else {
        return Ok(None);
    };
    let tip = repo.tip(branch)?.oid();
    Ok(tip.filter(|tip| holds(repo, *tip, agent)))
}

/// Of several agents whose rows claim one branch, those whose spawn commit it holds.
///
/// # Errors
/// As [`local`].
pub(super) fn holders(repo: &Repo, branch: &str, agents: Vec<Agent>) -> Result<Vec<Agent>> {
    let Some(tip) = repo.tip(branch)?.oid() else {
        return Ok(agents);
    };
    let is_holder = |agent: &&Agent| holds(repo, tip, agent);
    let holders: Vec<Agent> = agents.iter().filter(is_holder).cloned().collect();
    Ok(if holders.is_empty() { agents } else { holders })
}

/// Whether a branch of that name at that tip is the agent's: no other agent's row claims it with more right.
fn is_own(repo: &Repo, agent: &Agent, branch: &str, tip: Oid) -> Result<bool> {
    if holds(repo, tip, agent) {
        return Ok(true);
    }
    let claimants = Ledger::new(repo).agents_with_branch(branch)?;
    let mut others = claimants.iter().filter(|other| other.id != agent.id);
    Ok(!others.any(|other| holds(repo, tip, other)))
}

/// Whether history holds an agent's spawn commit or, along first parents, what a rebase made of it. History that
/// cannot be read holds nothing.
fn holds(repo: &Repo, tip: Oid, agent: &Agent) -> bool {
    let spawn_commit = agent.spawn_commit;
    let mut nonce = None;
    let mut next = Some(tip);
    for _ in 0..FOLLOWED {
        let Some(oid) = next.filter(|oid| repo.has_object(*oid)) else {
            break;
        };
        if oid == spawn_commit {
            return true;
        }
        let Ok(commit) = repo.read_commit(oid) else {
            return false;
        };
        if let Some(found) = commit.trailer(NONCE) {
            let own = nonce.get_or_insert_with(|| nonce_of(repo, spawn_commit));
            if own.as_deref() == Some(found) {
                return true;
            }
        }
        next = commit.parents.first().copied();
    }
    let contains = |spawn| {
        repo.merge_base(spawn, tip)
            .is_ok_and(|base| base == Some(spawn))
    };
    repo.has_object(spawn_commit) && repo.has_object(tip) && contains(spawn_commit)
}

fn nonce_of(repo: &Repo, spawn_commit: Oid) -> Option<String> {
    let commit = repo.read_commit(spawn_commit).ok()?;
    commit.trailer(NONCE).map(str::to_owned)
}
