//! An agent as its events tell it: the fold, its states and the legal moves between them.
//!
//! ```text
//! spawning ──> ready ──> running ──┬──> done ────┬──> merged ──> running, idle
//!                 │         ^      ├──> idle ────┼──> rejected ──> discarded
//!                 └──> idle ┘      └──> failed ──┘    (discarded also from every state before merged)
//! ```
//!
//! A row says what was recorded: `running` is a run that has no end yet. Whether something works in an agent at this moment
//! is seen from locks and sessions (`agents::activity`), never from its row.
//!
//! What an agent says of itself stands. `failed` is a declaration or the end of a run that did not succeed, and no verdict
//! takes it back: a person does (`done`, a landing by name), or a new run. A rejecting verdict makes finished work `idle`, an
//! accepting one makes it `done`.
//!
//! What was discarded is idle once it is brought back, and so is what was merged once there is work since.
//! What an operation decided counts no more once it is taken back (`operation`): the agent is as it would be without those events.
//!
//! `deferred` is a mark. The fold is total: whatever lines a row holds, it gives an agent, and an order that cannot have happened (an edited
//! note, two clones that decided what does not go together) gives an agent that says so in [`Agent::irregular`].
//!
//! An event before one with a lower stamp, whose writer had seen it, counts as having happened no later than that one.
//!
//! Events that follow the same one were written by two who did not know of each other. Where they settle the
//! agent, the same twice changes nothing, and of `done` and `failed` the later one stands.

mod state;

pub use state::{Move, State};

use super::event::{Base, Event, Isolation, ProgramVersion, Spawning, Started, Verified, What};
use super::id::{AgentId, AgentName};
use super::operation::{self, Reverted};
use super::report::AuditVerdict;
use super::run::Run;
use crate::domain::value::named::is_branch;
use crate::domain::value::oid::Oid;
use crate::domain::value::stamp::{self, Stamp};
use crate::error::{Code, Error, Remedy, Result};
use chrono::{DateTime, Utc};
use std::collections::HashMap;
use std::collections::hash_map::Entry;

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
    /// Whether that state is what was declared, rather than a verdict or the end of a run.
    pub declared: bool,
    /// Whether a run has ended, or its end was declared, since the last run began: only then is a verdict more than a look.
    pub finished: bool,
    /// Whether its last run ended while it waited for an answer: its work is not done before it went on, or that is declared.
    pub asked: bool,
    /// What its row says although this clone does not believe it: [`State::Merged`] or [`State::Discarded`].
    pub claimed: Option<State>,
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
    /// Where its worktree was made, as text: relative to the root, or absolute in a row of an older version; absent outside of the root.
    pub worktree: Option<String>,
    /// The number of the clone that it was spawned in.
    pub clone: u16,
    /// The process that spawned it.
    pub pid: Option<u32>,
    /// The blob of the binding policy; absent while half made.
    pub policy: Option<Oid>,
    /// The blob of the policy that its owner has given it since; absent where that was never amended.
    pub amended: Option<Oid>,
    /// The lowest version of this program that understands its row, where that is above ours.
    pub needs: Option<ProgramVersion>,
    /// SHA-256 of its `spec.md`, in hex; absent while half made.
    pub spec_sha: Option<String>,
    /// The blob that says what its worktree held before it began; absent where that was nothing.
    pub baseline: Option<Oid>,
    /// The verdict that still stands; a re-opening voids it.
    pub verdict: Option<Verified>,
    /// What trains said of its work since it last landed or a person accepted it, oldest first. No other policy voids it: the checks may
    /// be those of the target.
    pub by_trains: Vec<Verified>,
    /// The commit it landed as, and where.
    pub landed: Option<(Oid, String)>,
    /// The tip of its branch that landed so; absent in rows of old, and where another program landed it.
    pub landed_tip: Option<Oid>,
    /// The commits that it landed as before, each with the tip that landed so, oldest first: a target may have lost the last one again.
    pub landed_before: Vec<(Oid, Oid)>,
    /// Those of these commits by which this clone itself landed it. What a row says of others has to be proved.
    pub landed_here: Vec<Oid>,
    /// What took its landing back by a commit on top, after which it has not landed again.
    pub reverted: Option<Reverted>,
    /// Its last run.
    pub run: Option<Run>,
    /// The last summary or reason that came with a change of state; absent where that gave none.
    pub summary: Option<String>,
    /// The time of its first event.
    pub started: DateTime<Utc>,
    /// The time of its last event.
    pub updated: DateTime<Utc>,
    /// The time of the event that brought it into its state.
    pub state_since: DateTime<Utc>,
    /// What is impossible about its history, one sentence each; the first ones, where there are very many.
    pub irregular: Vec<String>,
    /// Whether that is about how it began or what it was given since, so that what binds it is unknown.
    pub origin_in_doubt: bool,
    /// How many audits have spoken against its work.
    pub objections: usize,
}

impl Agent {
    /// Folds the events of one row, in the row's order. Events of another agent are ignored: a note copied by a rebase, or the pointer on a
    /// landed commit, is not a second agent. `None` when no event is this agent's.
    pub fn fold(spawn_commit: Oid, events: &[Event]) -> Option<Agent> {
        Agent::fold_telling(spawn_commit, events, |_, _| ())
    }

    /// As [`Agent::fold`], telling after each event of the agent in which state it left it.
    pub fn fold_telling(
        spawn_commit: Oid,
        events: &[Event],
        mut tell: impl FnMut(&Event, State),
    ) -> Option<Agent> {
        let id = AgentId::from_spawn_commit(spawn_commit);
        let own: Vec<&Event> = events.iter().filter(|event| event.agent == id).collect();
        let times = stamp::latest_times(own.iter().map(|event| event.at));
        let taken_back = operation::taken_back(events);
        let meanwhile = operation::meanwhile(&own);
        let mut own = own.into_iter().zip(times).zip(meanwhile);
        let ((first, time), _) = own.next()?;
        let mut agent = Agent::blank(id, spawn_commit, first.at);
        (agent.started, agent.updated, agent.state_since) = (time, time, time);
        if !matches!(first.what, What::Spawning(_)) {
            agent.doubt_origin(format!(
                "it begins with `{}`, not with `spawning`",
                first.what.kind()
            ));
        }
        agent.apply(first, time, true, (None, false));
        tell(first, agent.state);
        // Where the agent stood when an event was first followed by another.
        let mut forks: HashMap<&str, (State, bool)> = HashMap::new();
        // Whether the last thing that was said of its end was taken back.
        let mut is_unsaid = false;
        for ((event, time), meanwhile) in own {
            // Facts such as a run or a salvage happened, whatever is taken back; only what was
            // decided goes.
            let is_taken_back = |id| taken_back.contains(id) && event.what.is_decision();
            if event.operation.as_ref().is_some_and(is_taken_back) {
                agent.updated = agent.updated.max(time);
                is_unsaid |= says_end(&event.what);
                tell(event, agent.state);
                continue;
            }
            // One that was taken back itself says nothing of where the branch is now.
            if let What::Undone { operation, revert } = &event.what
                && !event.operation.as_ref().is_some_and(|own| taken_back.contains(own))
            {
                let counts = taken_back.contains(operation::first_taken_back(events, operation));
                match revert.zip(event.operation.clone()).filter(|_| counts) {
                    Some((commit, operation)) => {
                        let clone = Some(event.at.clone_number());
                        agent.reverted =
                            Some(Reverted { commit, operation: Some(operation), clone });
                    }
                    // Done again by moving the branch back to it, a revert is the one that was made before.
                    None if counts => {}
                    // One that takes an undo back lands the work again.
                    None => agent.reverted = None,
                }
            }
            let before = (agent.state, agent.declared);
            let fork = match event.previous.as_deref().map(|previous| forks.entry(previous)) {
                Some(Entry::Occupied(entry)) => Some(*entry.get()),
                Some(Entry::Vacant(entry)) => {
                    entry.insert(before);
                    None
                }
                None => None,
            };
            let (known, in_doubt) = (agent.irregular.len(), agent.origin_in_doubt);
            // A look of a person at it says nothing of its end.
            is_unsaid &= !says_end(&event.what)
                && !matches!(event.what, What::Started(Started { by_hand: false, .. }));
            agent.apply(event, time, false, (fork, is_unsaid));
            if meanwhile && agent.origin_in_doubt == in_doubt {
                agent.irregular.truncate(known);
            }
            if agent.state != before.0 {
                agent.state_since = time;
            }
            tell(event, agent.state);
        }
        Some(agent)
    }

    /// The blob of the policy that binds it now; absent while half made.
    pub fn binding_policy(&self) -> Option<Oid> {
        self.amended.or(self.policy)
    }

    /// Refuses to decide about an agent whose row only a later version understands: what its other events say may not be so.
    ///
    /// # Errors
    /// `agent-needs-newer`.
    pub fn require_understood(&self) -> Result<()> {
        let Some(needs) = self.needs else {
            return Ok(());
        };
        let id = self.id.short();
        let what = format!(
            "the row of agent {id} has an event that git-agent {needs} or newer understands, and this program does not"
        );
        Err(Error::new(Code::AgentNeedsNewer, what)
            .hint("to decide about it, install the newer git-agent")
            .remedy("to see its history", Remedy::History(id)))
    }

    /// Checks that a move is legal now.
    ///
    /// # Errors
    /// `agent-state`, naming the agent, its state and the move; `agent-needs-newer`.
    pub fn may(&self, step: Move) -> Result<()> {
        self.require_understood()?;
        if self.state.after(step, self.declared).is_some() {
            return Ok(());
        }
        let id = self.id.short();
        let what = format!("agent {id} is {} and cannot be {}", self.state, step.participle());
        let error = Error::new(Code::AgentState, what);
        Err(if self.state == State::Rejected {
            error
                .remedy("to see whether that can be taken back here", Remedy::Operations)
                .remedy("to try its task again", Remedy::Retry(id))
        } else {
            error.remedy("to see its history", Remedy::History(id))
        })
    }

    /// Checks that nothing was decided about it since it was judged that its work must not land in spite of. A row allows to
    /// land what failed, because a person may say so by name; who said so before it failed has not said that.
    ///
    /// # Errors
    /// `agent-state` where it failed or was put off since; `lost-race` where its work has to be judged again.
    pub fn require_as_judged(&self, judged: &Agent) -> Result<()> {
        let is_new = |state: State| self.state == state && judged.state != state;
        let (code, what) = if is_new(State::Failed) {
            (Code::AgentState, "failed")
        } else if self.deferred && !judged.deferred {
            (Code::AgentState, "was put off")
        } else if self.amended != judged.amended {
            (Code::LostRace, "was given another policy")
        } else if self.objections > judged.objections {
            (Code::LostRace, "was audited, and did not pass,")
        } else if self.landed != judged.landed {
            // A landing ends a deferral, so what was decided before it cannot be seen any more.
            (Code::LostRace, "was landed by another command")
        } else {
            return Ok(());
        };
        let id = self.id.short();
        let what = format!("agent {id} {what} while its work was about to land");
        Err(Error::new(code, what).remedy("to see its history", Remedy::History(id)))
    }

    fn blank(id: AgentId, spawn_commit: Oid, first: Stamp) -> Agent {
        Agent {
            id,
            spawn_commit,
            state: State::Spawning,
            declared: false,
            finished: false,
            asked: false,
            claimed: None,
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
            clone: first.clone_number(),
            pid: None,
            policy: None,
            amended: None,
            needs: None,
            spec_sha: None,
            baseline: None,
            verdict: None,
            by_trains: Vec::new(),
            landed: None,
            landed_tip: None,
            landed_before: Vec::new(),
            landed_here: Vec::new(),
            reverted: None,
            run: None,
            summary: None,
            started: first.time(),
            updated: first.time(),
            state_since: first.time(),
            irregular: Vec::new(),
            origin_in_doubt: false,
            objections: 0,
        }
    }

    /// `fork` is where the agent stood when the event before this one was first followed by another; `is_unsaid` says that what was said
    /// of its end before was taken back.
    fn apply(
        &mut self,
        event: &Event,
        time: DateTime<Utc>,
        first: bool,
        (fork, is_unsaid): (Option<(State, bool)>, bool),
    ) {
        self.updated = self.updated.max(time);
        if event.at.time() > time {
            self.doubt(format!(
                "`{}` is dated {}, ahead of the clock of what followed it",
                event.what.kind(),
                event.at.time().format("%Y-%m-%d")
            ));
        }
        if let Some(exited) = Run::follow(&mut self.run, event, time) {
            self.run_ended(exited);
            return;
        }
        match &event.what {
            // What was judged was judged by another policy.
            What::Amended { policy, .. } => {
                self.amended = Some(*policy);
                self.verdict = None;
            }
            // Finished work stays finished, as after an update; what it is now has to be judged.
            What::Committed { tree, .. } if self.state == State::Done && self.finished => {
                let is_void = self.verdict.take_if(|it| it.tree != *tree).is_some();
                self.declared &= !is_void;
            }
            // What was accepted before has to be judged again.
            What::Audited(audit) if audit.verdict != AuditVerdict::Pass => {
                self.verdict = None;
                self.objections += 1;
            }
            // The word of a person settles what a train said before it.
            What::Audited(audit) if audit.auditor.is_none() => self.by_trains.clear(),
            What::Renamed { name, task: None } => self.name.clone_from(name),
            What::Renamed { task, .. } => self.description.clone_from(task),
            What::Unknown { needs: Some(needs), .. } => {
                self.doubt_origin(format!(
                    "only git-agent {needs} or newer understands its event `{}`",
                    event.what.kind()
                ));
                self.needs = self.needs.max(Some(*needs));
            }
            _ => {}
        }
        let Some(step) = self.step(&event.what) else {
            // A later `spawning` cannot be how the agent began.
            if let (What::Spawning(facts), true) = (&event.what, self.role.is_none()) {
                self.born(facts);
            }
            if matches!(event.what, What::Spawning(_)) && !first {
                self.doubt_origin(format!("`spawning` came while it was {}", self.state));
            }
            return;
        };
        let mut next = self.state.after(step, self.declared);
        // A verdict on work that was said to be finished makes it no more finished than it is by what else was said, or by its last run.
        let is_held = is_unsaid && !self.finished && step == Move::Accept;
        if is_held && matches!(self.state, State::Ready | State::Idle) {
            next = Some(self.state);
        }
        if next.is_none() {
            next = fork.and_then(|fork| match &event.what {
                // A clone that judged more than what had landed did not know of the landing, and goes on.
                What::Verified(it)
                    if self.state == State::Merged && self.landed_tip != Some(it.tip) =>
                {
                    fork.0.after(step, fork.1)
                }
                _ => self.state.after_fork(fork, step),
            });
            // Two clones decided the same. The first one's words stay.
            if next == Some(self.state) {
                return;
            }
        }
        if next.is_none() {
            let sentence = format!("`{}` came while it was {}", event.what.kind(), self.state);
            match &event.what {
                // Saying again what is known changes nothing that binds the agent.
                What::Spawned(it)
                    if (Some(it.policy), Some(&it.spec_sha))
                        != (self.policy, self.spec_sha.as_ref()) =>
                {
                    self.doubt_origin(sentence)
                }
                _ => self.doubt(sentence),
            }
        }
        if step == Move::Merge {
            // A fact of the outside world stands even where the row's order denies it.
            next = Some(State::Merged);
        }
        // Taken in even out of order: without a policy nothing could be judged at all.
        if next.is_some() || step == Move::Ready {
            self.learn(&event.what);
        }
        if let Some(state) = next {
            self.enter(state, step);
        }
    }

    /// Takes a legal step, once what came with it is known.
    fn enter(&mut self, state: State, step: Move) {
        // The reason of a failure goes with it.
        if step == Move::Start && self.state == State::Failed {
            self.summary = None;
        }
        let is_declaration = matches!(step, Move::Done | Move::Fail);
        self.finished = is_declaration || self.finished && step != Move::Start;
        self.asked &= !(is_declaration || matches!(step, Move::Start | Move::Merge));
        let state = if self.asked && state == State::Done { State::Idle } else { state };
        self.declared = is_declaration || (self.declared && state == self.state);
        self.state = state;
        // Judging the same work again decides nothing.
        let is_judged = matches!(step, Move::Accept | Move::Reject);
        self.deferred = step == Move::Defer || (self.deferred && is_judged);
        // A verdict is void once the work goes on, or once something says the opposite of it: judging the same
        // work again must then be able to move the agent.
        self.verdict = self.verdict.take().filter(|it| match step {
            Move::Start | Move::Reopen | Move::BringBack | Move::Fail | Move::RunFailed => false,
            Move::Done => it.accepted,
            _ => true,
        });
    }

    /// The move that an event makes; `None` for those that change no state.
    fn step(&self, what: &What) -> Option<Move> {
        Some(match what {
            What::Spawned(_) => Move::Ready,
            // A look changes no state, but work after a landing re-opens the agent, and `ready` is over.
            What::Started(Started { by_hand: true, .. }) => match self.state {
                State::Ready | State::Merged => Move::Reopen,
                _ => return None,
            },
            What::Started(_) => Move::Start,
            What::Reopened {} => Move::Reopen,
            What::Verified(verdict) if verdict.accepted => Move::Accept,
            What::Verified(_) | What::Unjudged { .. } => Move::Reject,
            // Committing exactly what was judged is part of landing it; anything else is a new tip.
            // A declared `done` was about no tip, so committing that work leaves it.
            What::Committed { tree, .. } => match &self.verdict {
                Some(verdict) if verdict.tree != *tree => Move::Reopen,
                None if matches!(self.state, State::Ready | State::Merged) => Move::Reopen,
                _ => return None,
            },
            What::Done { .. } => Move::Done,
            What::Failed { .. } => Move::Fail,
            What::Merged { .. } => Move::Merge,
            What::Rejected { .. } => Move::TurnDown,
            What::Deferred { .. } => Move::Defer,
            What::Discarded { .. } => Move::Discard,
            what if what.brings_back() => Move::BringBack,
            What::Spawning(_)
            | What::Exited(_)
            | What::Salvaged { .. }
            | What::Amended { .. }
            | What::Competed(_)
            | What::Audited(_)
            | What::Rescued { .. }
            | What::Expired { .. }
            | What::Renamed { .. }
            | What::Undone { .. }
            | What::Noted { .. }
            | What::Unknown { .. } => return None,
        })
    }

    fn born(&mut self, facts: &Spawning) {
        self.role = Some(facts.role.clone());
        self.isolation = Some(facts.isolation);
        self.description = Some(facts.description.clone());
        self.name = facts.name.clone();
        self.parent = facts.parent;
        self.base = Some(facts.base.clone());
        self.dna = Some(facts.dna.clone());
        // Paths are made of it, and refs are read by it: what is no branch is left out of everything from here on.
        self.branch = facts.branch.clone().filter(|name| is_branch(name));
        self.worktree = facts.worktree.clone();
        self.pid = Some(facts.pid);
    }

    fn learn(&mut self, what: &What) {
        match what {
            What::Spawned(facts) => {
                self.policy = Some(facts.policy);
                self.spec_sha = Some(facts.spec_sha.clone());
                self.baseline = facts.baseline;
            }
            What::Verified(verdict) => {
                if verdict.into.is_some() {
                    self.by_trains.push(verdict.clone());
                }
                self.verdict = Some(verdict.clone());
            }
            What::Merged { commit, into, tip, .. } => {
                let before = self.landed.take().map(|(commit, _)| commit).zip(self.landed_tip);
                self.landed_before.extend(before);
                self.landed = Some((*commit, into.clone()));
                self.landed_tip = *tip;
                self.reverted = None;
                // What lands was green in a later train, or was accepted.
                self.by_trains.clear();
            }
            What::Done { summary: text, .. }
            | What::Failed { reason: text, .. }
            | What::Rejected { reason: text, .. }
            | What::Deferred { reason: text, .. } => {
                self.summary = Some(text.clone()).filter(|text| !text.is_empty());
            }
            _ => {}
        }
    }
}

/// Whether an event says whether the work is finished.
fn says_end(what: &What) -> bool {
    matches!(what, What::Done { .. } | What::Failed { .. } | What::Deferred { .. })
}

#[cfg(test)]
mod tests;

// What is impossible about the history of an agent.

/// So many sentences are worth reading. A row that a remote brought may hold a hundred thousand impossible events.
const MOST: usize = 50;

impl Agent {
    /// Adds a sentence to [`Agent::irregular`], unless it has very many.
    pub fn doubt(&mut self, sentence: String) {
        if self.irregular.len() < MOST {
            self.irregular.push(sentence);
        } else if self.irregular.len() == MOST {
            self.irregular
                .push("its row holds more that is impossible, which is not listed".into());
        }
    }

    fn doubt_origin(&mut self, sentence: String) {
        self.doubt(sentence);
        self.origin_in_doubt = true;
    }

    // An agent of which only the spawn commit is known.

    /// The agent that a spawn commit alone tells of, where no ledger has a row for it. Nothing is known of its life.
    pub fn without_row(
        spawn_commit: Oid,
        role: String,
        isolation: Option<Isolation>,
        base: Base,
        policy: Oid,
    ) -> Agent {
        let id = AgentId::from_spawn_commit(spawn_commit);
        Agent {
            state: State::Idle,
            role: Some(role),
            isolation,
            base: Some(base),
            policy: Some(policy),
            ..Agent::blank(id, spawn_commit, Stamp::next(DateTime::UNIX_EPOCH, 0, None))
        }
    }
}
