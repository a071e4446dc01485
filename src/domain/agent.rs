//! An agent as its events tell it: the fold, its states and the legal moves between them.
//!
//! ```text
//! spawning ──> running ──> done ───┬──> merged
//!                 ^  └───> failed ─┼──> rejected ──> discarded
//!                 └── a new run or ┘    (discarded also from every state before merged)
//!                     a new tip re-opens
//! ```
//!
//! `deferred` is a mark on done and failed. The fold is total: whatever lines a row holds, it gives an
//! agent, and an order that cannot have happened (two clones decided differently, somebody edited the
//! note) gives an agent that says so in [`Agent::irregular`]. What landed, landed: `merged` wins over
//! everything.

mod state;

pub use state::{Move, State};

use super::event::{Base, Event, Isolation, Spawning, Verified, What};
use super::id::{AgentId, AgentName};
use super::oid::Oid;
use super::run::Run;
use crate::error::{Code, Error, Result};
use chrono::{DateTime, Utc};

/// The fold of one row of the ledger. What only the `spawning` event says is absent from a row that
/// lost it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agent {
    /// The id, made from the spawn commit.
    pub id: AgentId,
    /// The commit that carries the row.
    pub spawn_commit: Oid,
    /// Where it stands.
    pub state: State,
    /// Whether the decision about it was put off.
    pub deferred: bool,
    /// Its alias.
    pub name: Option<AgentName>,
    /// The agent that asked for it.
    pub parent: Option<AgentId>,
    /// Its role.
    pub role: Option<String>,
    /// Whether it has a worktree.
    pub isolation: Option<Isolation>,
    /// Its task in one line.
    pub description: Option<String>,
    /// Where it started from.
    pub base: Option<Base>,
    /// The fingerprint of role, task and scope.
    pub dna: Option<String>,
    /// The full name of its branch.
    pub branch: Option<String>,
    /// The absolute path of its worktree, as text.
    pub worktree: Option<String>,
    /// The process that spawned it.
    pub pid: Option<u32>,
    /// The blob of the binding policy; absent while half made.
    pub policy: Option<Oid>,
    /// SHA-256 of its `spec.md`, in hex; absent while half made.
    pub spec_sha: Option<String>,
    /// The blobs of the uncommitted ignore rules of its spawn.
    pub excludes: Vec<Oid>,
    /// The verdict that still stands; a re-opening voids it.
    pub verdict: Option<Verified>,
    /// The commit it landed as, and where.
    pub landed: Option<(Oid, String)>,
    /// Its last run.
    pub run: Option<Run>,
    /// The last summary, reason or remark that came with a change of state.
    pub summary: Option<String>,
    /// The time of its first event.
    pub started: DateTime<Utc>,
    /// The time of its last event.
    pub updated: DateTime<Utc>,
    /// What is impossible about its history, one sentence each.
    pub irregular: Vec<String>,
}

impl Agent {
    /// Folds the events of one row, in the row's order. Events of another agent are ignored: a note
    /// copied by a rebase, or the pointer on a landed commit, is not a second agent. `None` when no
    /// event is this agent's.
    pub fn fold(spawn_commit: Oid, events: &[Event]) -> Option<Agent> {
        let id = AgentId::from_spawn_commit(spawn_commit);
        let mut own = events.iter().filter(|event| event.agent == id);
        let first = own.next()?;
        let mut agent = Agent::blank(id, spawn_commit, first.at.time());
        if !matches!(first.what, What::Spawning(_)) {
            agent.irregular.push(format!(
                "it begins with `{}`, not with `spawning`",
                first.what.kind()
            ));
        }
        agent.apply(first, true);
        for event in own {
            agent.apply(event, false);
        }
        Some(agent)
    }

    /// Checks that a move is legal now.
    ///
    /// # Errors
    /// `agent-state`, naming the agent, its state and the move.
    pub fn may(&self, step: Move) -> Result<()> {
        if self.state.after(step).is_some() {
            return Ok(());
        }
        Err(Error::new(
            Code::AgentState,
            format!(
                "agent {} is {} and cannot be {}",
                self.id.short(),
                self.state,
                step.participle()
            ),
        )
        .hint(format!(
            "to see its history, run git agent log {}",
            self.id.short()
        )))
    }

    fn blank(id: AgentId, spawn_commit: Oid, time: DateTime<Utc>) -> Agent {
        Agent {
            id,
            spawn_commit,
            state: State::Spawning,
            deferred: false,
            name: None,
            parent: None,
            role: None,
            isolation: None,
            description: None,
            base: None,
            dna: None,
            branch: None,
            worktree: None,
            pid: None,
            policy: None,
            spec_sha: None,
            excludes: Vec::new(),
            verdict: None,
            landed: None,
            run: None,
            summary: None,
            started: time,
            updated: time,
            irregular: Vec::new(),
        }
    }

    fn apply(&mut self, event: &Event, first: bool) {
        self.updated = self.updated.max(event.at.time());
        self.ran(event);
        let Some(step) = self.step(&event.what) else {
            if let (What::Spawning(facts), true) = (&event.what, self.role.is_none()) {
                self.born(facts);
            }
            if matches!(event.what, What::Spawning(_)) && !first {
                self.irregular
                    .push(format!("`spawning` came while it was {}", self.state));
            }
            return;
        };
        let mut next = self.state.after(step);
        if next.is_none() {
            self.irregular.push(format!(
                "`{}` came while it was {}",
                event.what.kind(),
                self.state
            ));
        }
        if step == Move::Merge {
            // A fact of the outside world stands even where the row's order denies it.
            next = Some(State::Merged);
        }
        if next.is_some() || step == Move::Ready {
            self.learn(&event.what);
        }
        let Some(state) = next else {
            return;
        };
        self.state = state;
        // Judging the same work again decides nothing.
        let is_judged = matches!(step, Move::Accept | Move::Reject);
        self.deferred = step == Move::Defer || (self.deferred && is_judged);
        if step == Move::Start || step == Move::Reopen {
            self.verdict = None;
        }
    }

    /// The move that an event makes; `None` for those that change no state.
    fn step(&self, what: &What) -> Option<Move> {
        Some(match what {
            What::Spawned(_) => Move::Ready,
            What::Started(_) => Move::Start,
            What::Verified(verdict) if verdict.accepted => Move::Accept,
            What::Verified(_) => Move::Reject,
            // Committing exactly what was judged is part of landing it; anything else is a new tip.
            // A declared `done` was about no tip, so committing that work leaves it.
            What::Committed { tree, .. } => match &self.verdict {
                Some(verdict) if verdict.tree != *tree => Move::Reopen,
                _ => return None,
            },
            What::Done { .. } => Move::Done,
            What::Failed { .. } => Move::Fail,
            What::Merged { .. } => Move::Merge,
            What::Rejected { .. } => Move::TurnDown,
            What::Deferred { .. } => Move::Defer,
            What::Discarded { .. } => Move::Discard,
            What::Spawning(_)
            | What::Exited(_)
            | What::Salvaged { .. }
            | What::Rescued { .. }
            | What::Expired { .. }
            | What::Noted { .. }
            | What::Unknown { .. } => return None,
        })
    }

    /// Runs are facts of the outside world too: they are told whatever state the agent is in.
    fn ran(&mut self, event: &Event) {
        match (&event.what, &mut self.run) {
            (What::Started(started), run) => {
                *run = Some(Run {
                    started: started.clone(),
                    began: event.at.time(),
                    end: None,
                });
            }
            (What::Exited(exited), Some(run)) if run.end.is_none() => {
                run.end = Some((exited.clone(), event.at.time()));
            }
            _ => {}
        }
    }

    fn born(&mut self, facts: &Spawning) {
        self.role = Some(facts.role.clone());
        self.isolation = Some(facts.isolation);
        self.description = Some(facts.description.clone());
        self.name = facts.name.clone();
        self.parent = facts.parent;
        self.base = Some(facts.base.clone());
        self.dna = Some(facts.dna.clone());
        self.branch = facts.branch.clone();
        self.worktree = facts.worktree.clone();
        self.pid = Some(facts.pid);
    }

    fn learn(&mut self, what: &What) {
        match what {
            What::Spawned(facts) => {
                self.policy = Some(facts.policy);
                self.spec_sha = Some(facts.spec_sha.clone());
                self.excludes = facts.excludes.clone();
            }
            What::Verified(verdict) => self.verdict = Some(verdict.clone()),
            What::Merged { commit, into } => self.landed = Some((*commit, into.clone())),
            What::Done { summary: text, .. }
            | What::Failed { reason: text, .. }
            | What::Rejected { reason: text, .. }
            | What::Deferred { reason: text, .. } => self.summary = Some(text.clone()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
