//! What of a row is believed in this clone: that an agent is over, only where nothing here says otherwise.
//!
//! Rows travel, and `merged` and `discarded` are claims that any user can write who may push the ledger. Where an agent
//! has neither a worktree nor a branch in this clone, nothing can be lost by a claim, and it stands. Where it has, the
//! claim counts if this clone made it (`closed`), or if objects prove the landing ([`crate::store::landing::landed`]); otherwise
//! the agent is what its other events say, and [`Agent::claimed`] names what its row says.

use super::row::{OwnLines, Row, digest};
use crate::domain::life::event::{Spawned, Spawning};
use crate::domain::{Agent, AgentId, Event, Oid, OperationId, State, What};
use crate::error::Result;
use crate::git::{Commit, Repo};
use crate::store::files::{fsx, layout};
use crate::store::landing::spawn_commit::{self, SpawnCommit};
use crate::store::{chain::remote_names, landing::landed};
use crate::wire::row::event_line;
use crate::wire::row::policy::{Policy, TRAILER};
use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::HashSet;
use std::fs;
use std::path::Path;

/// What is known of this clone, read when it is first asked for.
pub(in crate::store) struct Belief<'r> {
    repo: &'r Repo,
    closed: OnceCell<Closed>,
    own: OnceCell<OwnLines>,
    /// The names of the admin directories of linked worktrees.
    linked: OnceCell<HashSet<String>>,
    /// The full names of local branches.
    branches: OnceCell<HashSet<String>>,
}

impl<'r> Belief<'r> {
    /// Nothing is read yet.
    pub(in crate::store) fn new(repo: &'r Repo) -> Belief<'r> {
        Belief {
            repo,
            closed: OnceCell::new(),
            own: OnceCell::new(),
            linked: OnceCell::new(),
            branches: OnceCell::new(),
        }
    }

    /// The agent that a row makes here; `None` where no event is its own.
    ///
    /// # Errors
    /// `io`, `git-failed`.
    pub(in crate::store) fn fold(&self, spawn_commit: Oid, row: &Row<'_>) -> Result<Option<Agent>> {
        // Anyone who may push the ledger can write events of three kinds that change what the others mean: that something was
        // taken back, that a policy was amended, that the agent is over. The steps below strike out those that are not
        // believed, in this order, because each fold sees only what the one before left: an amendment that was taken back
        // needs no proof, and whether a landing is denied depends on the events that stand. A struck event stays in the row.

        // 1. What this clone did, only this clone takes back, and what it decided, only this clone decides anew.
        let cleared = row.cleared_away();
        let row = cleared.as_ref().unwrap_or(row);
        let lasting = self.lasting(AgentId::from_spawn_commit(spawn_commit), row)?;
        let decided = self.decided(&lasting)?;
        let mut is_taken_back_elsewhere = decided.events.len() < row.events.len();
        let mut row = decided.as_ref();
        let Some(mut agent) = fold_origins(self.repo, spawn_commit, row) else {
            return Ok(None);
        };
        // 2. An amendment lets the agent do more than its spawn commit says, so only one of this clone's own binds.
        let own;
        let mut is_amended_elsewhere = false;
        if agent.amended.is_some() {
            let closed = self.closed()?;
            own = row.amended_by(|policy| closed.has_amended(agent.id, policy));
            if own.events.len() < row.events.len() {
                row = &own;
                let Some(rest) = fold_origins(self.repo, spawn_commit, row) else {
                    return Ok(None);
                };
                agent = rest;
                is_amended_elsewhere = true;
            }
        }
        // 3. A row may claim `merged` and `discarded` both. Each turn strikes out the state that the fold ended in; with it gone
        // the fold ends in what the other events say, which is the second claim or an open state. At most two turns.
        let mut denied = Vec::new();
        let mut undenied;
        while !agent.state.is_open() && self.is_denied(&agent)? {
            denied.push(agent.state);
            undenied = row.without(&denied);
            row = &undenied;
            match fold_origins(self.repo, spawn_commit, row) {
                Some(rest) => agent = rest,
                None => break,
            }
        }
        // 4. Work that is done here is made unfinished by no other clone. Only what the steps before leave says that it is
        // unfinished; nearly every row says `done`, so this is looked at only there.
        if row.may_have_been_done(agent.state) {
            let done = row.decided_by(self.own()?, true);
            if done.events.len() < row.events.len()
                && let Some(rest) = fold_origins(self.repo, spawn_commit, &done)
            {
                agent = rest;
                is_taken_back_elsewhere = true;
            }
        }
        // Said last: each fold above begins with an agent that has no doubts. An amendment puts in doubt what binds the agent,
        // or a landing would be judged by a policy that its author believes replaced.
        if is_amended_elsewhere {
            agent.origin_in_doubt = true;
            agent.doubt(AMENDED_ELSEWHERE.to_owned());
        }
        if is_taken_back_elsewhere {
            agent.doubt(TAKEN_BACK_ELSEWHERE.to_owned());
        }
        if agent.landed.is_some() {
            agent.landed_here = row.landed_by(self.own()?);
        }
        agent.claimed = denied.first().copied();
        denied.into_iter().for_each(|state| agent.doubt(doubt(state)));
        Ok(Some(agent))
    }

    /// The row without what takes back operations of this clone that it has not taken back itself.
    pub(in crate::store) fn lasting<'a, 'b>(
        &self,
        id: AgentId,
        row: &'a Row<'b>,
    ) -> Result<Cow<'a, Row<'b>>> {
        // Nearly every row has nothing of the kind.
        if !row.events.iter().any(|event| matches!(event.what, What::Undone { .. })) {
            return Ok(Cow::Borrowed(row));
        }
        let closed = self.closed()?;
        let clone = remote_names::load_clone_id(self.repo.common_dir())?;
        let is_own = |event: &Event| Some(event.at.clone_number()) == clone;
        Ok(Cow::Owned(row.undone_by(|operation| {
            let mut events =
                row.events.iter().filter(|event| event.operation.as_ref() == Some(operation));
            closed.has_taken_back(id, operation) || !events.any(is_own)
        })))
    }

    /// The row without what is against what this clone decided.
    fn decided<'a, 'b>(&self, row: &'a Row<'b>) -> Result<Cow<'a, Row<'b>>> {
        if !row.may_be_overruled() {
            return Ok(Cow::Borrowed(row));
        }
        Ok(Cow::Owned(row.decided_by(self.own()?, false)))
    }

    fn own(&self) -> Result<&OwnLines> {
        load(&self.own, || OwnLines::load(self.repo.common_dir()))
    }

    /// Whether this clone might deny that an agent is over; where not, what its row says stands.
    ///
    /// # Errors
    /// `io`, `git-failed`.
    pub(in crate::store) fn may_deny(&self, id: AgentId, branch: Option<&str>) -> Result<bool> {
        // What this clone closed itself it does not deny.
        if self.closed()?.names(id) {
            return Ok(false);
        }
        let has_worktree = self.linked()?.contains(&layout::worktree_name(id));
        Ok(has_worktree || branch.map_or(Ok(false), |branch| self.has_branch(branch))?)
    }

    /// Whether what this clone has denies that an agent is over.
    fn is_denied(&self, agent: &Agent) -> Result<bool> {
        // Where nothing of the agent is left in this clone, a claim can cost nothing, so it stands.
        if self.closed()?.names(agent.id) || !self.is_here(agent)? {
            return Ok(false);
        }
        // A discard leaves nothing that could prove it, so here, where something of the agent is left, it is denied. A landing is
        // proved by objects; one that cannot be examined is one that is not proved.
        let is_proved = agent.state == State::Merged
            && spawn_commit::branch_of(self.repo, agent)
                .and_then(|tip| landed::is_proved_elsewhere(self.repo, agent, tip))
                .unwrap_or(false);
        Ok(!is_proved)
    }

    /// Whether the agent has a worktree or a branch in this clone.
    fn is_here(&self, agent: &Agent) -> Result<bool> {
        if self.linked()?.contains(&layout::worktree_name(agent.id)) {
            return Ok(true);
        }
        match &agent.branch {
            // A branch of that name may be another one: it counts only if it holds this agent's
            // work.
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
            // The names alone are read: opening a thousand admin directories for a list would cost
            // more than everything else.
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

/// What a row says of which another clone took back what this one did.
const TAKEN_BACK_ELSEWHERE: &str = "its row says that what this clone did was taken back or decided otherwise, and this clone did not do that; it stands here";

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

// How an agent began, where its row says it more than once.
//
// Rows travel, and any clone that can push the ledger can add lines to one. What the spawn commit says cannot be added to:
// the agent's id is made from it. It names role, fingerprint, base and the digest of the policy. Of several `spawning`
// and `spawned` events those that fit it are believed, and they come first, because the agent was unknown before
// they were written. The others are left out of the fold and counted; they stay in the row.
//
// Where nothing fits, or the spawn commit is not here or says nothing of the policy, the row is folded as it stands, and
// a contradiction puts its beginning in doubt (`Agent::origin_in_doubt`).

/// The agent that a row makes; `None` where no event is its own.
pub(in crate::store) fn fold_origins(
    repo: &Repo,
    spawn_commit: Oid,
    row: &Row<'_>,
) -> Option<Agent> {
    // Nearly every row is plain, and then its beginning needs no object to be read.
    if is_plain(&row.events) {
        return Agent::fold(spawn_commit, &row.events);
    }
    let Some((events, sentences)) = settled(repo, spawn_commit, row) else {
        return Agent::fold(spawn_commit, &row.events);
    };
    let mut agent = Agent::fold(spawn_commit, &events)?;
    sentences.into_iter().for_each(|it| agent.doubt(it));
    Some(agent)
}

/// Whether the row begins as every spawn of ours begins one, and nothing says it again.
pub(in crate::store) fn is_plain(events: &[Event]) -> bool {
    let is_spawning = |event: &Event| matches!(event.what, What::Spawning(_));
    let is_spawned = |event: &Event| matches!(event.what, What::Spawned(_));
    let mut events = events.iter();
    events.next().is_none_or(is_spawning)
        && events.next().is_none_or(|second| {
            let again = |event| is_spawning(event) || is_spawned(event);
            !is_spawning(second) && !events.any(again)
        })
}

/// The events to fold, with what is believed of the beginning in front, and what is not believed in words.
fn settled(repo: &Repo, spawn_commit: Oid, row: &Row<'_>) -> Option<(Vec<Event>, Vec<String>)> {
    let commit = repo.read_commit(spawn_commit).ok()?;
    let spawned = spawned(repo, &commit, row);
    let (spawning, began) = spawning(repo, &commit, row, spawned.map(|(_, event)| event))?;
    let believed = spawned.and_then(|(_, event)| match &event.what {
        What::Spawned(facts) => Some(facts),
        _ => None,
    });
    let mut forged = [0usize; 2];
    let mut early = 0usize;
    let first = [Some(spawning), spawned.map(|(index, _)| index)];
    let mut events = vec![began.clone()];
    events.extend(spawned.map(|(_, event)| event.clone()));
    // The rest keeps its order. What says again how the agent began is counted and left out, unless it could be true, too
    // (`is_other`): then the fold meets both and says that they contradict each other.
    for (index, event) in row.events.iter().enumerate() {
        if first.contains(&Some(index)) {
            continue;
        }
        match &event.what {
            What::Spawning(_) => forged[0] += 1,
            What::Spawned(facts)
                if believed.is_some_and(|known| is_other(repo, &commit, known, facts)) =>
            {
                forged[1] += 1;
            }
            _ => {
                early += usize::from(index < spawning);
                events.push(event.clone());
            }
        }
    }
    let mut sentences = Vec::new();
    for (count, kind) in forged.into_iter().zip(["spawning", "spawned"]) {
        if count > 0 {
            sentences.push(format!(
                "{count} more of its events say `{kind}`; the one that fits the spawn commit is believed"
            ));
        }
    }
    if early > 0 {
        sentences.push(format!("{early} of its events are dated before it began"));
    }
    Some((events, sentences))
}

/// The first `spawned` event that fits the spawn commit.
fn spawned<'r>(repo: &Repo, commit: &Commit, row: &'r Row<'_>) -> Option<(usize, &'r Event)> {
    let mut events = row.events.iter().enumerate();
    events.find(|(_, event)| match &event.what {
        What::Spawned(facts) => fits(repo, commit, facts),
        _ => false,
    })
}

/// The `spawning` event that fits the spawn commit: of several, the one that the believed `spawned` event follows, else
/// the first.
fn spawning<'r>(
    repo: &Repo,
    commit: &Commit,
    row: &'r Row<'_>,
    spawned: Option<&Event>,
) -> Option<(usize, &'r Event)> {
    let fits = |(_, (_, event)): &(usize, (&[u8], &Event))| match &event.what {
        What::Spawning(facts) => began_as(repo, commit, facts),
        _ => false,
    };
    let fitting: Vec<_> = row.pairs().enumerate().filter(fits).collect();
    let previous = spawned.and_then(|event| event.previous.as_ref());
    let mut followed =
        fitting.iter().filter(|(_, (line, _))| previous == Some(&event_line::digest(line)));
    let (index, (_, event)) = match fitting.as_slice() {
        [] => return None,
        [only] => only,
        [first, ..] => followed.next().unwrap_or(first),
    };
    Some((*index, event))
}

/// Whether the spawn commit was made for the policy that the event names.
fn fits(repo: &Repo, commit: &Commit, facts: &Spawned) -> bool {
    // A spawn commit of an old version names no policy, so nothing can be said to fit it.
    let Some(digest) = commit.trailer(TRAILER) else {
        return false;
    };
    let policy = repo.read_blob(facts.policy).ok();
    let policy = policy.and_then(|bytes| Policy::from_bytes(&bytes));
    policy.is_some_and(|policy| policy.digest() == digest && policy.spec_sha == facts.spec_sha)
}

/// Whether the spawn commit says the same as a `spawning` event, as far as it says anything.
fn began_as(repo: &Repo, commit: &Commit, facts: &Spawning) -> bool {
    let base = facts.base.oid.to_hex();
    let said =
        [("Agent-Role", facts.role.as_str()), ("Agent-Dna", &facts.dna), ("Agent-Base", &base)];
    let agrees = |(name, value): (&str, &str)| commit.trailer(name) == Some(value);
    // The trailers are those of every version; a policy in the spawn commit says more.
    let carried = SpawnCommit::read(repo, commit.oid).ok().flatten();
    said.into_iter().all(agrees)
        && carried.is_none_or(|carried| {
            carried.terms.isolation == facts.isolation.as_str()
                && carried.terms.base_ref == facts.base.refname
        })
}

/// Whether another `spawned` event is certainly not the one that bound the agent. Two that fit the spawn commit and name
/// different specifications contradict each other, and the fold is to say so.
fn is_other(repo: &Repo, commit: &Commit, known: &Spawned, other: &Spawned) -> bool {
    known != other && (known.policy == other.policy || !fits(repo, commit, other))
}

// What this clone has decided about agents itself: `agents/closed`, one decision a line. Those that it has merged, rejected or
// discarded, those whose policy it has amended (`<id> amended <blob>`), the lines of rows by which an audit or a person cleared
// work that had failed an audit (`<id> cleared <digest>`), and the operations that it has taken back (`<id> undone <operation>`) and
// those at work again (`<id> reopened`), which both void what was said of the agent's state before. Programs that do not know such a word pass over it.
//
// A row that was fetched may say so too. Only what this file says is this clone's own doing, so only that lets a command
// remove worktrees and branches without asking objects first, and lets an agent do more than its spawn commit says. The file is written before the event, under the ledger's
// lock; a kill between the two leaves a line about something that was wanted here and did not come about.

/// What this clone has closed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Closed {
    states: HashSet<(AgentId, State)>,
    policies: HashSet<(AgentId, Oid)>,
    taken_back: HashSet<(AgentId, OperationId)>,
    cleared: HashSet<(AgentId, u64)>,
}

/// What a decision makes of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::store) enum BeliefDecision {
    /// It is over.
    Over(State),
    /// This policy binds it.
    Amended(Oid),
    /// It is at work again, so that what was said of its state before counts no more.
    Reopened,
    /// What this operation decided counts no more, so that what was said of its state before does not either.
    TakenBack(OperationId),
    /// The line of its row with this digest clears audits that failed it.
    Cleared(u64),
}

/// The word before the blob of a policy.
const AMENDED: &str = "amended ";
/// The word before an operation that was taken back.
const UNDONE: &str = "undone ";

/// The word for an agent that is at work again.
const REOPENED: &str = "reopened";

/// The word before the digest of a line.
const CLEARED: &str = "cleared ";

impl Closed {
    /// Reads the file. A line that a power loss has cut short says nothing.
    ///
    /// # Errors
    /// `io`.
    pub fn load(common_dir: &Path) -> Result<Closed> {
        let text = fsx::load_if_there(&layout::closed(common_dir))?.unwrap_or_default();
        let lines = text.split(|&byte| byte == b'\n');
        let mut closed = Closed::default();
        for line in lines {
            let Some((id, rest)) = std::str::from_utf8(line)
                .ok()
                .and_then(|line| line.split_once(' '))
                .and_then(|(id, rest)| Some((AgentId::parse(id)?, rest)))
            else {
                continue;
            };
            if let Some(blob) = rest.strip_prefix(AMENDED).and_then(Oid::from_hex) {
                closed.policies.insert((id, blob));
            } else if let Some(operation) = rest.strip_prefix(UNDONE).and_then(OperationId::parse) {
                closed.forget_states(id);
                closed.taken_back.insert((id, operation));
            } else if rest == REOPENED {
                closed.forget_states(id);
            } else if let Some(line) = rest.strip_prefix(CLEARED).and_then(digest) {
                closed.cleared.insert((id, line));
            } else if let Some(state) = State::parse(rest) {
                closed.states.insert((id, state));
            }
        }
        Ok(closed)
    }

    /// The order of the lines counts: what was said of the agent's state before one of these is void, what follows is not.
    fn forget_states(&mut self, id: AgentId) {
        self.states.retain(|(other, _)| *other != id);
    }

    /// Whether this clone gave the agent that policy.
    pub fn has_amended(&self, id: AgentId, policy: Oid) -> bool {
        self.policies.contains(&(id, policy))
    }

    /// The policies that this clone gave the agent.
    pub(in crate::store) fn policies(&self, id: AgentId) -> impl Iterator<Item = Oid> {
        self.policies.iter().filter(move |(it, _)| *it == id).map(|(_, policy)| *policy)
    }

    /// Whether this clone took back what that operation decided about the agent.
    pub(in crate::store) fn has_taken_back(&self, id: AgentId, operation: &OperationId) -> bool {
        self.taken_back.contains(&(id, operation.clone()))
    }

    /// Whether this clone wrote the line of the agent's row with that digest, which clears audits.
    pub fn has_cleared(&self, id: AgentId, line: &str) -> bool {
        digest(line).is_some_and(|line| self.cleared.contains(&(id, line)))
    }

    /// Whether this clone brought the agent into that state.
    pub fn says(&self, id: AgentId, state: State) -> bool {
        self.states.contains(&(id, state))
    }

    /// Whether this clone merged or discarded the agent.
    pub fn names(&self, id: AgentId) -> bool {
        self.says(id, State::Merged) || self.says(id, State::Discarded)
    }
}

/// Notes what this clone decides about agents. The caller holds the ledger's lock.
///
/// # Errors
/// `repo-read-only`, `disk-full`, `io`.
pub(in crate::store) fn note_closed(
    common_dir: &Path,
    decisions: &[(AgentId, BeliefDecision)],
) -> Result<()> {
    if decisions.is_empty() {
        return Ok(());
    }
    let known = Closed::load(common_dir)?;
    // Each begins with a line feed: what stands before may have been cut short.
    let voids =
        |it: &BeliefDecision| matches!(it, BeliefDecision::TakenBack(_) | BeliefDecision::Reopened);
    let is_new = |id: &AgentId| decisions.iter().any(|(other, it)| other == id && voids(it));
    let lines: String = decisions
        .iter()
        .filter(|(id, decision)| match decision {
            // What is taken back takes back the lines before it, so it is said each time.
            BeliefDecision::TakenBack(_) | BeliefDecision::Cleared(_) => true,
            BeliefDecision::Reopened => State::ALL.iter().any(|state| known.says(*id, *state)),
            BeliefDecision::Over(state) => !known.says(*id, *state) || is_new(id),
            BeliefDecision::Amended(policy) => !known.has_amended(*id, *policy),
        })
        .map(|(id, decision)| match decision {
            BeliefDecision::TakenBack(operation) => format!("\n{id} {UNDONE}{operation}\n"),
            BeliefDecision::Cleared(line) => format!("\n{id} {CLEARED}{line:016x}\n"),
            BeliefDecision::Reopened => format!("\n{id} {REOPENED}\n"),
            BeliefDecision::Over(state) => format!("\n{id} {state}\n"),
            BeliefDecision::Amended(policy) => format!("\n{id} {AMENDED}{policy}\n"),
        })
        .collect();
    if lines.is_empty() {
        return Ok(());
    }
    // Appended and never rewritten, so that a kill can cost the last line at most.
    fsx::append(&layout::closed(common_dir), lines.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::life::event::Base;
    use crate::domain::{Isolation, Stamp};
    use chrono::DateTime;

    #[test]
    fn a_row_that_says_again_how_the_agent_began_is_not_plain() {
        let id = AgentId::parse("6a48ca7b-0000-8000-8000-000000000000").expect("an id");
        let event = |what| Event {
            at: Stamp::next(DateTime::UNIX_EPOCH, 1, None),
            agent: id,
            by: "me".into(),
            operation: None,
            previous: None,
            ahead: Vec::new(),
            what,
        };
        let spawning = event(What::Spawning(Spawning {
            role: "edit-local".into(),
            isolation: Isolation::Worktree,
            description: "Do it".into(),
            name: None,
            parent: None,
            base: Base { refname: None, oid: Oid::ZERO },
            dna: "sha256:00".into(),
            branch: None,
            worktree: None,
            pid: 1,
        }));
        let spawned = event(What::Spawned(Spawned {
            policy: Oid::ZERO,
            spec_sha: "00".into(),
            baseline: None,
        }));
        let other = event(What::Noted { text: "it".into() });
        let check = |row: &[&Event], expected| {
            let row: Vec<Event> = row.iter().map(|event| (*event).clone()).collect();
            assert_eq!(is_plain(&row), expected, "{row:?}");
        };
        check(&[&spawning, &spawned, &other], true);
        check(&[&spawning, &other], true);
        check(&[&spawned, &spawning], false);
        check(&[&spawning, &spawning], false);
        check(&[&spawning, &spawned, &other, &spawned], false);
        check(&[&spawning, &spawned, &spawning], false);
    }

    #[test]
    fn what_clears_an_audit_clears_no_other() {
        let id = AgentId::parse("6a48ca7b-0000-8000-8000-000000000000").expect("an id");
        let closed = Closed { cleared: HashSet::from([(id, 0xfe)]), ..Closed::default() };
        let cleared = ["fe", "ff", "0", "", "x"].map(|line| closed.has_cleared(id, line));
        assert_eq!(cleared, [true, false, false, false, false]);
    }
}
