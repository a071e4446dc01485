//! The ledger: one note per spawn commit, one line per event.
//!
//! Writing: take the lock, read the row, stamp the event after the row's last one, write the blob, the
//! trees on the way to it and a commit, swap the ref. Reading: find the note, fold its lines. The
//! row of an agent is the note on its own spawn commit; a copy that a rebase made, or the pointer on
//! a landed commit, is not a second row.

use super::belief::Belief;
use super::chain::{self, Chain};
use super::row::Row;
use super::{clone_id, closed, layout, lock, maintenance, recovery, signatures};
use crate::domain::agent::{Agent, State};
use crate::domain::event::{Event, What};
use crate::domain::id::AgentId;
use crate::domain::oid::Oid;
use crate::error::{Code, Result};
use crate::git::Repo;
use crate::git::notes::fanout::{Batch, Put};
use crate::git::notes::{self, fanout, lines};
use crate::git::objects::Commit;
use crate::wire::event_line;
use chrono::{DateTime, Utc};

/// The ledger's ref as a chain.
pub(super) const CHAIN: Chain = Chain::Notes(layout::LEDGER_REF);

/// The longest name of an event's author, in bytes.
const ACTOR_LIMIT: usize = 64;

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
        let id = AgentId::from_spawn_commit(spawn_commit);
        self.write(spawn_commit, id, by, now, |row| {
            let agent = Belief::new(self.repo).fold(spawn_commit, row)?;
            decide(agent.as_ref())
        })
    }

    /// Points from any commit to an agent, so that `git log --notes=agents` of the branch it landed on
    /// shows where that commit came from. The pointer is no row.
    ///
    /// # Errors
    /// As [`Ledger::append`].
    pub fn point_from(
        &self,
        commit: Oid,
        agent: AgentId,
        by: &str,
        what: What,
        now: DateTime<Utc>,
    ) -> Result<Event> {
        self.write(commit, agent, by, now, |_| Ok(what.clone()))
    }

    /// The events of a row, in the order in which they happened; foreign lines are left out. Empty when there is no row.
    ///
    /// # Errors
    /// `repo-corrupt` when the ledger is damaged beyond its reflog.
    pub fn events(&self, spawn_commit: Oid) -> Result<Vec<Event>> {
        let id = AgentId::from_spawn_commit(spawn_commit);
        let body = self.read(|tree| body_of(self.repo, tree, spawn_commit))?;
        Ok(Row::read(&body.unwrap_or_default(), id).events)
    }

    /// The agent that a spawn commit makes; `None` when the ledger has no row for it.
    ///
    /// # Errors
    /// As [`Ledger::events`].
    pub fn agent(&self, spawn_commit: Oid) -> Result<Option<Agent>> {
        let id = AgentId::from_spawn_commit(spawn_commit);
        let body = self.read(|tree| body_of(self.repo, tree, spawn_commit))?;
        let body = body.unwrap_or_default();
        let row = Row::read(&body, id);
        Belief::new(self.repo).fold(spawn_commit, &row)
    }

    /// The lines of a row as they are; empty when there is none.
    ///
    /// # Errors
    /// As [`Ledger::events`].
    pub fn lines(&self, spawn_commit: Oid) -> Result<Vec<u8>> {
        let body = self.read(|tree| body_of(self.repo, tree, spawn_commit))?;
        Ok(body.unwrap_or_default())
    }

    /// Whether this clone has a ledger at all.
    ///
    /// # Errors
    /// As [`Ledger::events`].
    pub fn is_begun(&self) -> Result<bool> {
        Ok(chain::tip(self.repo, CHAIN)?.is_some())
    }

    /// Whether anything was written in the second of that moment or later.
    ///
    /// # Errors
    /// As [`Ledger::events`].
    pub fn changed_since(&self, moment: DateTime<Utc>) -> Result<bool> {
        let tip = chain::tip(self.repo, CHAIN)?;
        Ok(tip.is_some_and(|tip| tip.seconds >= moment.timestamp()))
    }

    /// The number that stands in the stamps of this clone; `None` before it has written anything.
    ///
    /// # Errors
    /// `io`.
    pub fn clone_number(&self) -> Result<Option<u16>> {
        clone_id::load(self.repo.common_dir())
    }

    /// Runs a reader on the current notes tree; on a damaged one, on what the reflog gives back.
    /// `None` for a ledger that was never begun.
    pub(super) fn read<T>(&self, reader: impl Fn(Oid) -> Result<T>) -> Result<Option<T>> {
        let Some(tip) = chain::tip(self.repo, CHAIN)? else {
            return Ok(None);
        };
        match reader(tip.tree) {
            Err(error) if error.code() == Code::RepoCorrupt => {
                match recovery::recover(self.repo, CHAIN)? {
                    Some(tip) => reader(tip.tree).map(Some),
                    None => Err(error),
                }
            }
            answer => answer.map(Some),
        }
    }

    fn write(
        &self,
        key: Oid,
        agent: AgentId,
        by: &str,
        now: DateTime<Utc>,
        decide: impl Fn(&Row<'_>) -> Result<What>,
    ) -> Result<Event> {
        let repo = self.repo;
        let who = chain::identity(repo, now);
        let is_signed = signatures::are_wanted(repo)?;
        let clone = clone_id::load_or_make(repo.common_dir())?;
        let guard = lock::hold(repo.common_dir(), layout::LEDGER_LOCK)?;
        let mut written = None;
        let message = format!("agent: event of {}", agent.short());
        let commit = chain::append(
            repo,
            &guard,
            CHAIN,
            &who,
            &message,
            |tip: Option<&Commit>| {
                let tree = tip.map_or(Oid::EMPTY_TREE, |tip| tip.tree);
                let old = body_of(repo, tree, key)?;
                let row = Row::read(&old, agent);
                let event = row.next(now, clone, (agent, actor(by)), decide(&row)?);
                let over = match event.what {
                    What::Merged { .. } => Some(State::Merged),
                    What::Rejected { .. } => Some(State::Rejected),
                    What::Discarded { .. } => Some(State::Discarded),
                    _ => None,
                };
                let line = event_line::encode(&event)?;
                let blob = repo.write_blob(&lines::union([old.as_slice(), line.as_bytes()]))?;
                let tree = fanout::put(repo, tree, Batch::from([(key, Put::Replace(blob))]))?;
                let parents: Vec<_> = tip.map(|tip| tip.oid).into_iter().collect();
                let subject = format!("agent: {} {}", event.what.kind(), agent.short());
                written = Some(event);
                let write = if is_signed {
                    chain::signed_commit
                } else {
                    chain::commit
                };
                let commit = write(repo, tree, &parents, &who, &subject)?;
                // After the signature, which may be refused, and before the event.
                if let Some(state) = over {
                    closed::note(repo.common_dir(), agent, state)?;
                }
                Ok(commit)
            },
        )?;
        drop(guard);
        maintenance::after_append(repo, commit);
        written.ok_or_else(|| crate::error::Error::bug("an append must write an event"))
    }
}

/// A name as a line has it.
pub(super) fn actor(by: &str) -> &str {
    &by[..by.floor_char_boundary(ACTOR_LIMIT)]
}

/// The body of a note, its duplicates united; empty when there is none.
pub(super) fn body_of(repo: &Repo, tree: Oid, key: Oid) -> Result<Vec<u8>> {
    united(repo, &notes::lookup(repo, tree, key)?)
}

/// The lines of all these blobs, each once.
pub(super) fn united(repo: &Repo, blobs: &[Oid]) -> Result<Vec<u8>> {
    let bodies: Vec<_> = blobs
        .iter()
        .map(|blob| repo.read_blob(*blob))
        .collect::<Result<_>>()?;
    Ok(lines::union(bodies.iter().map(Vec::as_slice)))
}
