//! The ledger: one note per spawn commit, one line per event.
//!
//! Writing: take the lock, read the row, stamp the event after the row's last one, write the blob, the
//! trees on the way to it and a commit, swap the ref. Reading: find the note, fold its lines. The
//! row of an agent is the note on its own spawn commit; a copy that a rebase made, or the pointer on
//! a landed commit, is not a second row.

pub mod agent_branch;
pub mod audit;
pub mod belief;
mod cache;
pub mod find;
pub mod landing_commit;
mod row;
pub mod row_index;

use self::belief::{Belief, BeliefDecision, Closed};
use self::row::{OwnLines, Row, digest};
use crate::domain::life::report::AuditVerdict;
use crate::domain::{
    Agent, AgentId, Event, Oid, OperationId, Stamp, State, What, value::redaction,
};
use crate::error::{Code, Error, Result};
use crate::git::record::notes::{Batch, Put};
use crate::git::{Commit, Repo, Tip, record::notes};
use crate::store::chain::{self, Chain};
use crate::store::chain::{keep, remote_names};
use crate::store::files::{layout, lock};
use crate::store::landing::spawn_commit;
use crate::store::mailbox::{Mailbox, reader};
use crate::wire::row::event_line;
use chrono::{DateTime, NaiveDate, Utc};
use std::collections::{BTreeMap, BTreeSet};

/// The longest name of an event's author, in bytes.
const ACTOR_LIMIT: usize = 64;

/// A commit that brought the work of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedLanding {
    /// The agent's.
    pub spawn_commit: Oid,
    /// The commit that brought its work.
    pub commit: Oid,
    /// The full name of the branch that it is on.
    pub into: String,
    /// The tip that it brought, where a landing of ours did.
    pub tip: Option<Oid>,
    /// Where the branch was before, where this landing moved it.
    pub from: Option<Oid>,
    /// What the agent's row says before that, as part of the same landing.
    pub with: Vec<What>,
}

/// A note that an event is added to: that of an agent, or the pointer on a commit that it landed.
struct NoteToWrite<T> {
    key: Oid,
    agent: AgentId,
    about: T,
}

/// The ledger of one repository.
pub struct Ledger<'r> {
    pub(super) repo: &'r Repo,
}

impl<'r> Ledger<'r> {
    /// The ledger of that repository. Nothing is read or made yet.
    pub fn new(repo: &'r Repo) -> Ledger<'r> {
        Ledger { repo }
    }

    /// The repository it is of.
    pub fn repo(&self) -> &'r Repo {
        self.repo
    }

    /// Adds an event to the row of the agent that `spawn_commit` makes, whatever state that row is in.
    ///
    /// # Errors
    /// `lock-timeout`, `event-too-long`, `disk-full`, `repo-read-only`, `repo-corrupt`; where events are signed,
    /// `commit-refused`.
    pub fn append(
        &self,
        spawn_commit: Oid,
        by: &str,
        what: What,
        now: DateTime<Utc>,
    ) -> Result<Event> {
        self.append_if(spawn_commit, by, now, |_| Ok(what.clone()))
    }

    /// Adds the event that `decide` gives for the agent as it is while the ledger is locked, so that
    /// it does not change between the question and the answer. `decide` may be called more than once.
    ///
    /// # Errors
    /// As [`Ledger::append`], and what `decide` fails with; nothing is written then.
    pub fn append_if(
        &self,
        spawn_commit: Oid,
        by: &str,
        now: DateTime<Utc>,
        decide: impl Fn(Option<&Agent>) -> Result<What>,
    ) -> Result<Event> {
        let written = self.append_each(&[(spawn_commit, ())], by, now, |(), agent| decide(agent));
        let written = written?.pop();
        written.ok_or_else(|| Error::bug("an append must write an event"))
    }

    /// As [`Ledger::append_if`] for the rows of many agents, all by one commit of the ledger: all events are added or none.
    /// `decide` is given what is named with the row. A row that is named twice gets two events.
    ///
    /// # Errors
    /// As [`Ledger::append_if`].
    pub fn append_each<T>(
        &self,
        rows: &[(Oid, T)],
        by: &str,
        now: DateTime<Utc>,
        decide: impl Fn(&T, Option<&Agent>) -> Result<What>,
    ) -> Result<Vec<Event>> {
        let notes: Vec<NoteToWrite<&T>> = rows
            .iter()
            .map(|(key, about)| NoteToWrite {
                key: *key,
                agent: AgentId::from_spawn_commit(*key),
                about,
            })
            .collect();
        let belief = Belief::new(self.repo);
        self.write(&notes, by, now, |note, row| {
            let agent = belief.fold(note.key, row)?;
            decide(note.about, agent.as_ref())
        })
    }

    /// Adds to the rows of agents which commits brought their work, all by one commit of the ledger, if `may_land` allows it
    /// for each agent as it is while the ledger is locked. Each of these commits gets a pointer to its agent, so that
    /// `git log --notes=agents` of the branch shows where it came from. The pointer is no row.
    ///
    /// # Errors
    /// As [`Ledger::append_if`].
    pub fn append_landings(
        &self,
        landings: &[RecordedLanding],
        by: &str,
        now: DateTime<Utc>,
        may_land: impl Fn(Option<&Agent>) -> Result<()>,
    ) -> Result<()> {
        let mut notes = Vec::new();
        for landing in landings {
            let agent = AgentId::from_spawn_commit(landing.spawn_commit);
            // The row of the agent is the note on its spawn commit, which is no pointer.
            let pointer = Some(landing.commit).filter(|commit| *commit != landing.spawn_commit);
            // The pointer first and the row last, because the subject of the commit names the last
            // event.
            let merged = What::Merged {
                commit: landing.commit,
                into: landing.into.clone(),
                tip: landing.tip,
                from: landing.from,
            };
            let on_row = landing
                .with
                .iter()
                .chain([&merged])
                .map(|what| (landing.spawn_commit, what.clone()));
            let on_pointer = pointer.map(|key| (key, merged.clone()));
            for (key, about) in on_pointer.into_iter().chain(on_row) {
                notes.push(NoteToWrite { key, agent, about });
            }
        }
        let belief = Belief::new(self.repo);
        let decide = |note: &NoteToWrite<What>, row: &Row<'_>| {
            // Only the row itself is asked whether the agent may land; the pointer is a copy of
            // that answer.
            let is_row = AgentId::from_spawn_commit(note.key) == note.agent;
            if is_row && matches!(note.about, What::Merged { .. }) {
                may_land(belief.fold(note.key, row)?.as_ref())?;
            }
            Ok(note.about.clone())
        };
        self.write(&notes, by, now, decide).map(drop)
    }

    /// Checks that events can be added, before something happens that they are to record.
    ///
    /// # Errors
    /// `lock-timeout`, `disk-full`, `repo-read-only`, `io`.
    pub fn require_writable(&self) -> Result<()> {
        let guard = lock::hold(self.repo.common_dir(), layout::LEDGER_LOCK)?;
        chain::require_movable(self.repo, &guard, Chain::Ledger)
    }

    /// The events of a row, in the order in which they happened; foreign lines are left out. Empty when there is no row.
    ///
    /// # Errors
    /// `repo-corrupt` when the ledger is damaged beyond its reflog.
    pub fn events(&self, spawn_commit: Oid) -> Result<Vec<Event>> {
        let id = AgentId::from_spawn_commit(spawn_commit);
        Ok(Row::read(&self.lines(spawn_commit)?, id).events)
    }

    /// The agent that a spawn commit makes; `None` when the ledger has no row for it.
    ///
    /// # Errors
    /// As [`Ledger::events`].
    pub fn agent(&self, spawn_commit: Oid) -> Result<Option<Agent>> {
        let id = AgentId::from_spawn_commit(spawn_commit);
        let body = self.lines(spawn_commit)?;
        let row = Row::read(&body, id);
        Belief::new(self.repo).fold(spawn_commit, &row)
    }

    /// The lines of a row as they are; empty when there is none.
    ///
    /// # Errors
    /// As [`Ledger::events`].
    pub fn lines(&self, spawn_commit: Oid) -> Result<Vec<u8>> {
        let body = self.read(|tree| notes::body(self.repo, tree, spawn_commit))?;
        Ok(body.unwrap_or_default())
    }

    /// Whether this clone has a ledger at all.
    ///
    /// # Errors
    /// As [`Ledger::events`].
    pub fn is_begun(&self) -> Result<bool> {
        Ok(chain::tip(self.repo, Chain::Ledger)?.is_some())
    }

    /// Whether anything was written in the second of that moment or later.
    ///
    /// # Errors
    /// As [`Ledger::events`].
    pub fn changed_since(&self, moment: DateTime<Utc>) -> Result<bool> {
        let tip = chain::tip(self.repo, Chain::Ledger)?;
        Ok(tip.is_some_and(|tip| tip.seconds >= moment.timestamp()))
    }

    /// What this clone has merged or discarded itself.
    ///
    /// # Errors
    /// `io`.
    pub fn closed_here(&self) -> Result<Closed> {
        Closed::load(self.repo.common_dir())
    }

    /// The number that stands in the stamps of this clone; `None` before it has written anything.
    ///
    /// # Errors
    /// `io`.
    pub fn clone_number(&self) -> Result<Option<u16>> {
        remote_names::load_clone_id(self.repo.common_dir())
    }

    /// Runs a reader on the current notes tree; on a damaged one, on what the reflog gives back.
    /// `None` for a ledger that was never begun.
    pub(super) fn read<T>(&self, reader: impl Fn(Oid) -> Result<T>) -> Result<Option<T>> {
        chain::read(self.repo, Chain::Ledger, |tip, _| reader(tip.tree))
    }

    /// Adds the event that `decide` gives to each of these notes, by their numbers, all by one commit.
    fn write<T>(
        &self,
        notes: &[NoteToWrite<T>],
        by: &str,
        now: DateTime<Utc>,
        decide: impl Fn(&NoteToWrite<T>, &Row<'_>) -> Result<What>,
    ) -> Result<Vec<Event>> {
        let Some(first) = notes.first() else {
            return Ok(Vec::new());
        };
        let repo = self.repo;
        // All that may fail or take long comes before the lock.
        let who = chain::identity(repo, now);
        let is_signed = spawn_commit::are_wanted(repo)?;
        let clone = remote_names::load_or_make_clone_id(repo.common_dir())?;
        let operation = repo.operation()?;
        let guard = lock::hold(repo.common_dir(), layout::LEDGER_LOCK)?;
        let (mut written, mut closed, mut own) = (Vec::new(), Vec::new(), Vec::new());
        let message = format!("agent: event of {}", first.agent.short());
        let commit =
            chain::append(repo, &guard, Chain::Ledger, &who, &message, |tip: Option<&Commit>| {
                let tree = tip.map_or(Oid::EMPTY_TREE, |tip| tip.tree);
                // The closure runs again after a lost race, and what it decided then does not
                // count.
                written.clear();
                closed.clear();
                own.clear();
                let mut bodies: BTreeMap<Oid, Vec<u8>> = BTreeMap::new();
                for note in notes {
                    let (key, agent) = (note.key, note.agent);
                    // A row that is named twice: the second event follows the first one, which is
                    // in no tree yet.
                    let old = match bodies.remove(&key) {
                        Some(body) => body,
                        None => notes::body(repo, tree, key)?,
                    };
                    let row = Row::read(&old, agent).beside(&own);
                    let event =
                        row.next(now, clone, (agent, actor(by)), operation, decide(note, &row)?);
                    let line = event_line::encode(&event)?;
                    // The pointer on a landed commit is no row.
                    if AgentId::from_spawn_commit(key) == agent {
                        closed.extend(decisions(repo, key, &row, (&event, &line))?);
                        own.push(line.clone());
                    }
                    bodies.insert(key, notes::union_of_lines([old.as_slice(), line.as_bytes()]));
                    written.push(event);
                }
                let mut batch = Batch::new();
                for (key, body) in bodies {
                    // The body was read from this tree and holds all of its lines, so it replaces
                    // the note, duplicates at other depths included.
                    batch.insert(key, Put::Replace(repo.write_blob(&body)?));
                }
                let tree = notes::with_notes(repo, tree, batch)?;
                let parents: Vec<_> = tip.map(|tip| tip.oid).into_iter().collect();
                let write = if is_signed { chain::signed_commit } else { chain::commit };
                let commit = write(repo, tree, &parents, &who, &subject(&written))?;
                // After the signature, which may be refused, and before the event.
                belief::note_closed(repo.common_dir(), &closed)?;
                OwnLines::note(repo.common_dir(), &own)?;
                Ok(commit)
            })?;
        drop(guard);
        keep::after_append(repo, commit);
        Ok(written)
    }
}

/// What an event that follows a row, and the line that says it, decides about its agent for good.
fn decisions(
    repo: &Repo,
    spawn_commit: Oid,
    row: &Row<'_>,
    (event, line): (&Event, &str),
) -> Result<Vec<(AgentId, BeliefDecision)>> {
    let decisions = match &event.what {
        What::Merged { .. } => vec![BeliefDecision::Over(State::Merged)],
        What::Rejected { .. } => vec![BeliefDecision::Over(State::Rejected)],
        What::Discarded { .. } => vec![BeliefDecision::Over(State::Discarded)],
        What::Amended { policy, .. } => vec![BeliefDecision::Amended(*policy)],
        What::Undone { operation, .. } => {
            // Where an earlier `undone` is taken back, the agent is over again; by what another clone says it is not.
            let mut events = row.ended_by(&OwnLines::load(repo.common_dir())?).events;
            events.push(event.clone());
            let state = Agent::fold(spawn_commit, &events).map(|agent| agent.state);
            let over = state.filter(|state| is_over(*state)).map(BeliefDecision::Over);
            let taken_back = BeliefDecision::TakenBack(operation.clone());
            [taken_back].into_iter().chain(over).collect()
        }
        What::Audited(audit) if audit.verdict == AuditVerdict::Pass => {
            let digest = digest(&event_line::digest(line.as_bytes()));
            digest.map(BeliefDecision::Cleared).into_iter().collect()
        }
        _ if reopens(spawn_commit, row, event) => vec![BeliefDecision::Reopened],
        _ => Vec::new(),
    };
    Ok(decisions.into_iter().map(|decision| (event.agent, decision)).collect())
}

/// Whether an agent that was over is at work again after an event: it was brought back, or goes on after a landing.
fn reopens(spawn_commit: Oid, row: &Row<'_>, event: &Event) -> bool {
    // Nearly every row has no such event, and is folded once.
    if !row.events.iter().any(|event| event.what.ends()) {
        return false;
    }
    let is_over =
        |events: &[Event]| Agent::fold(spawn_commit, events).is_some_and(|it| is_over(it.state));
    let mut after = row.events.clone();
    after.push(event.clone());
    is_over(&row.events) && !is_over(&after)
}

/// Whether an agent in that state does not go on.
fn is_over(state: State) -> bool {
    !state.is_open() || state == State::Rejected
}

/// The subject of the commit that brings these events.
fn subject(events: &[Event]) -> String {
    let agents: BTreeSet<AgentId> = events.iter().map(|event| event.agent).collect();
    let kind = events.last().map_or("", |event| event.what.kind());
    match (events.last(), agents.len()) {
        (Some(event), 1) => format!("agent: {kind} {}", event.agent.short()),
        (_, count) => format!("agent: {kind} {count} agents"),
    }
}

/// A name as a line has it.
pub(super) fn actor(by: &str) -> &str {
    &by[..by.floor_char_boundary(ACTOR_LIMIT)]
}

// Uniting the histories of two clones: keep chain, ledger, mailbox and receipts with the copies that were
// fetched from a remote.
//
// Nothing is dropped, and two clones that unite the same two histories make the same commit, whichever
// does it first. One history that goes on from the other needs no commit of its own.

/// What became of one ref.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct United {
    /// The full name of the ref.
    pub refname: &'static str,
    /// Where it was; `None` when there was none.
    pub from: Option<Oid>,
    /// Where it is.
    pub to: Oid,
}

/// Unites one chain with the copy that was fetched from a remote; `None` when there is no copy.
///
/// # Errors
/// `lock-timeout`, `repo-corrupt`, `disk-full`, `repo-read-only`.
pub fn unite(
    repo: &Repo,
    chain: Chain,
    remote: &str,
    now: DateTime<Utc>,
) -> Result<Option<United>> {
    let refname = chain.refname();
    let Tip::At(theirs) = repo.tip(&layout::fetched_ref(refname, remote))? else {
        return Ok(None);
    };
    unite_with(repo, chain, theirs, remote, now).map(Some)
}

/// Where a commit comes from that the ref of its chain was moved away from ([`chain::left_behind`]).
pub const LEFT_BEHIND: &str = "before another move";

/// Unites one chain with a commit of a chain of its kind; `from` says where that came from.
///
/// # Errors
/// As [`unite`].
pub fn unite_with(
    repo: &Repo,
    chain: Chain,
    theirs: Oid,
    from: &str,
    now: DateTime<Utc>,
) -> Result<United> {
    let refname = chain.refname();
    let who = chain::identity(repo, now);
    let guard = lock::hold(repo.common_dir(), chain.lock())?;
    let message = format!("agent: unite with {from}");
    let from = chain::tip(repo, chain)?.map(|tip| tip.oid);
    let join = |ours: Oid| match chain {
        Chain::Ledger | Chain::Receipts => notes::union_commit(repo, ours, theirs, "agent: unite"),
        Chain::Mail => Mailbox::new(repo).join(ours, theirs),
        Chain::Keep => keep::join(repo, ours, theirs),
    };
    // Looked at first, so that a ref which has it all does not move.
    let united = from.map_or(Ok(theirs), &join)?;
    let to = if from == Some(united) {
        united
    } else {
        chain::append(repo, &guard, chain, &who, &message, |tip| {
            tip.map_or(Ok(theirs), |tip| join(tip.oid))
        })?
    };
    drop(guard);
    if chain == Chain::Mail {
        reader::settle(repo)?;
    }
    Ok(United { refname, from, to })
}

// A text that is longer than a line of the ledger holds: all of it is a blob, which the
// event names and the keep chain holds.

/// As long as the digest of a line.
const DIGEST: &str = "0123456789abcdef";

/// Refuses a text with a credential in it, as that of a task: what is recorded is pushed, fetched and never forgotten.
///
/// # Errors
/// `usage`.
pub fn require_no_secret(text: &str) -> Result<()> {
    let Some(found) = redaction::find_secret(text) else {
        return Ok(());
    };
    let what = format!("the text holds what looks like {}", found.kind);
    Err(Error::new(Code::Usage, what)
        .hint("it is recorded for good; say where the credential is kept instead"))
}

/// Keeps the text of an event that a line would have to cut, and gives the event that names it; any other
/// event as it is.
///
/// # Errors
/// As [`keep::keep`].
pub fn keep_whole(
    repo: &Repo,
    agent: &Agent,
    by: &str,
    what: What,
    now: DateTime<Utc>,
) -> Result<What> {
    // Whether the text fits depends on the whole line, whose stamp and digest are known only under
    // the ledger's lock. So one is made up that is as long.
    let specimen = Event {
        at: Stamp::next(now, 0, None),
        agent: agent.id,
        by: actor(by).to_owned(),
        // As long as every other.
        operation: Some(OperationId::of(0)),
        previous: Some(DIGEST.to_owned()),
        ahead: Vec::new(),
        what: what.clone(),
    };
    let Some((text, None)) = what.said() else {
        return Ok(what);
    };
    if event_line::fits(&specimen)? {
        return Ok(what);
    }
    let blob = repo.write_blob(text.as_bytes())?;
    let why = format!("text {}", agent.id);
    // Before the event, so that no row names a text that `git gc` may take.
    keep::keep_with(repo, &[], &[("text", blob)], &why, now)?;
    Ok(what.with_whole(blob))
}

/// All of what was said with an event, where its line cut that and the blob is here; a clone that did not
/// fetch the keep chain has the line alone.
pub fn whole(repo: &Repo, what: &What) -> Option<String> {
    let (_, blob) = what.said()?;
    let bytes = repo.read_blob(blob?).ok()?;
    String::from_utf8(bytes).ok()
}

// What runs cost, as rows have it.

impl Ledger<'_> {
    /// What all runs of an agent cost, in millionths of a US dollar; `None` where no host told.
    ///
    /// # Errors
    /// As [`Ledger::cost_of_day`].
    pub fn cost_of_agent(&self, spawn_commit: Oid) -> Result<Option<u64>> {
        let events = self.events(spawn_commit)?;
        let costs = events.iter().filter_map(|event| match &event.what {
            What::Exited(exited) => exited.session.cost_micro_usd,
            _ => None,
        });
        Ok(costs.reduce(u64::saturating_add))
    }

    /// What the runs of this clone cost that ended on a day (UTC), in millionths of a US dollar. What other clones wrote is theirs to pay,
    /// and no claim of theirs stops a run here.
    ///
    /// # Errors
    /// `repo-corrupt` when the ledger is damaged beyond its reflog, `io`.
    pub fn cost_of_day(&self, day: NaiveDate) -> Result<u64> {
        let own_lines = OwnLines::load(self.repo.common_dir())?;
        let mut cost = 0_u64;
        // Stamps begin with the day, so that rows of other days are not folded.
        for agent in self.agents_mentioning(&day.format("%Y%m%dT").to_string())? {
            let body = self.lines(agent.spawn_commit)?;
            for (line, event) in Row::read(&body, agent.id).pairs() {
                if let What::Exited(exited) = &event.what
                    && event.at.time().date_naive() == day
                    && own_lines.has(line)
                {
                    let own = exited.session.cost_micro_usd.unwrap_or(0);
                    cost = cost.saturating_add(own);
                }
            }
        }
        Ok(cost)
    }
}
