//! What of a row is believed in this clone: that an agent is over, only where nothing here says otherwise.
//!
//! Rows travel, and `merged` and `discarded` are claims that any user can write who may push the ledger. Where an agent
//! has neither a worktree nor a branch in this clone, nothing can be lost by a claim, and it stands. Where it has, the
//! claim counts if this clone made it ([`super::closed`]), or if objects prove the landing ([`super::landed`]); otherwise
//! the agent is what its other events say, and [`Agent::claimed`] names what its row says.

use super::closed::Closed;
use super::row::Row;
use super::{landed, layout, row_origin, spawn_commit};
use crate::domain::agent::{Agent, State};
use crate::domain::id::AgentId;
use crate::domain::oid::Oid;
use crate::error::Result;
use crate::git::Repo;
use std::cell::OnceCell;
use std::collections::HashSet;
use std::fs;

/// What is known of this clone, read when it is first asked for.
pub(super) struct Belief<'r> {
    repo: &'r Repo,
    closed: OnceCell<Closed>,
    /// The names of the admin directories of linked worktrees.
    linked: OnceCell<HashSet<String>>,
    /// The full names of local branches.
    branches: OnceCell<HashSet<String>>,
}

impl<'r> Belief<'r> {
    /// Nothing is read yet.
    pub(super) fn new(repo: &'r Repo) -> Belief<'r> {
        Belief {
            repo,
            closed: OnceCell::new(),
            linked: OnceCell::new(),
            branches: OnceCell::new(),
        }
    }

    /// The agent that a row makes here; `None` where no event is its own.
    ///
    /// # Errors
    /// `io`, `git-failed`.
    pub(super) fn fold(&self, spawn_commit: Oid, row: &Row<'_>) -> Result<Option<Agent>> {
        let Some(mut agent) = row_origin::fold(self.repo, spawn_commit, row) else {
            return Ok(None);
        };
        // Who may push the ledger can write that a policy was amended. Only what this clone did itself binds.
        let own;
        let mut row = row;
        if agent.amended.is_some() {
            let closed = self.closed()?;
            own = row.amended_by(|policy| closed.has_amended(agent.id, policy));
            if own.events.len() < row.events.len() {
                row = &own;
                match row_origin::fold(self.repo, spawn_commit, row) {
                    Some(rest) => agent = rest,
                    None => return Ok(None),
                }
                agent.amended_elsewhere = true;
                agent.origin_in_doubt = true;
                agent.doubt(AMENDED_ELSEWHERE.to_owned());
            }
        }
        let mut denied = Vec::new();
        // A row may claim both.
        while !agent.state.is_open() && self.is_denied(&agent)? {
            denied.push(agent.state);
            let rest = row.without(&denied);
            match row_origin::fold(self.repo, spawn_commit, &rest) {
                Some(rest) => {
                    agent = Agent {
                        amended_elsewhere: agent.amended_elsewhere,
                        ..rest
                    }
                }
                None => break,
            }
        }
        agent.claimed = denied.first().copied();
        denied
            .into_iter()
            .for_each(|state| agent.doubt(doubt(state)));
        Ok(Some(agent))
    }

    /// Whether this clone might deny that an agent is over; where not, what its row says stands.
    ///
    /// # Errors
    /// `io`, `git-failed`.
    pub(super) fn may_deny(&self, id: AgentId, branch: Option<&str>) -> Result<bool> {
        if self.closed()?.names(id) {
            return Ok(false);
        }
        let has_worktree = self.linked()?.contains(&layout::worktree_name(id));
        Ok(has_worktree || branch.map_or(Ok(false), |branch| self.has_branch(branch))?)
    }

    /// Whether what this clone has denies that an agent is over.
    fn is_denied(&self, agent: &Agent) -> Result<bool> {
        if self.closed()?.names(agent.id) || !self.is_here(agent)? {
            return Ok(false);
        }
        // A landing that cannot be examined is one that is not proved.
        let is_proved = agent.state == State::Merged
            && spawn_commit::branch_of(self.repo, agent)
                .and_then(|tip| landed::as_claimed(self.repo, agent, tip, true))
                .unwrap_or(false);
        Ok(!is_proved)
    }

    /// Whether the agent has a worktree or a branch in this clone.
    fn is_here(&self, agent: &Agent) -> Result<bool> {
        if self.linked()?.contains(&layout::worktree_name(agent.id)) {
            return Ok(true);
        }
        match &agent.branch {
            Some(branch) if self.has_branch(branch)? => {
                Ok(spawn_commit::branch_of(self.repo, agent)?.is_some())
            }
            _ => Ok(false),
        }
    }

    fn closed(&self) -> Result<&Closed> {
        load(&self.closed, || Closed::load(self.repo.common_dir()))
    }

    fn linked(&self) -> Result<&HashSet<String>> {
        load(&self.linked, || {
            let entries = fs::read_dir(self.repo.common_dir().join("worktrees"));
            let entries = entries.into_iter().flatten().flatten();
            let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
            Ok(names.collect())
        })
    }

    fn has_branch(&self, branch: &str) -> Result<bool> {
        let branches = load(&self.branches, || self.repo.local_branches())?;
        Ok(branches.contains(branch))
    }
}

/// What a row says whose policy another clone has amended.
const AMENDED_ELSEWHERE: &str = "its row says that its policy was amended, and this clone did not do that; the policy that it was spawned with binds here";

/// Why a claim is not believed, in words.
fn doubt(claimed: State) -> String {
    let why = if claimed == State::Merged {
        "the branch it started from does not hold its work here"
    } else {
        "this clone, where it has a worktree or a branch, has not discarded it"
    };
    format!("its row says `{claimed}`, and {why}")
}

/// What is read once; a failure is not remembered.
fn load<T>(cell: &OnceCell<T>, read: impl FnOnce() -> Result<T>) -> Result<&T> {
    if let Some(known) = cell.get() {
        return Ok(known);
    }
    let read = read()?;
    Ok(cell.get_or_init(|| read))
}
