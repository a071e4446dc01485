//! The branch of an agent in this clone: the local one, or the copy that was fetched from a remote.
//!
//! A row names its branch. Two clones may have given one name to two agents (branch names of older versions did
//! not hold the agent's id, and `--branch` takes any name), and once their ledgers are united two rows claim one
//! branch. It belongs to the agent whose spawn commit its history holds.

use super::ledger::Ledger;
use super::{landed, layout, spawn_commit};
use crate::domain::agent::Agent;
use crate::domain::oid::Oid;
use crate::error::Result;
use crate::git::Repo;
use crate::git::refs::Tip;

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

/// Whether the branch that an agent started from has its work, for each of them.
pub fn have_landed<'a>(repo: &Repo, agents: impl Iterator<Item = &'a Agent>) -> landed::Answers {
    let mut answers = landed::Answers::new();
    let mut questions = Vec::new();
    for agent in agents {
        let target = agent.base.as_ref().and_then(|base| base.refname.clone());
        match (local(repo, agent), target) {
            (Ok(Tip::At(tip)), Some(target)) => questions.push((agent, tip, target)),
            (Ok(_), _) => drop(answers.insert(agent.id, Ok(false))),
            (Err(error), _) => drop(answers.insert(agent.id, Err(error))),
        }
    }
    answers.extend(landed::landed(repo, questions));
    answers
}

/// Whether a branch of that name at that tip is the agent's: no other agent's row claims it with more right.
fn is_own(repo: &Repo, agent: &Agent, branch: &str, tip: Oid) -> Result<bool> {
    if spawn_commit::is_held_by(repo, tip, agent) {
        return Ok(true);
    }
    let claimants = Ledger::new(repo).agents_with_branch(branch)?;
    let mut others = claimants.iter().filter(|other| other.id != agent.id);
    Ok(!others.any(|other| spawn_commit::is_held_by(repo, tip, other)))
}
