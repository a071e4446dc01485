//! Whether a row is as it was written: each line names the one before it.
//!
//! A line that follows one which is not there has two explanations: that one was removed or changed, or the line was made
//! up by a writer who did not know the row. The ledger's history tells them apart, because every version of a row stays
//! reachable there. Only the first is evidence against the row; the second must not be a way to block an agent.

use crate::domain::life::report::{AuditVerdict, Audited};
use crate::domain::{Agent, AgentId, Event, Oid, State, What, life::operation};
use crate::error::Result;
use crate::git::{Repo, record::notes};
use crate::store::chain::{self, Chain};
use crate::store::files::{layout, place};
use crate::store::landing::spawn_commit;
use crate::store::ledger::Ledger;
use crate::store::ledger::belief::Closed;
use crate::store::ledger::row::{OwnLines, Row};
use crate::wire::row::event_line;
use std::collections::{HashMap, HashSet, VecDeque};

/// How many commits of the ledger are searched for the lines that are not there.
const SEARCHED: usize = 10_000;

/// Lines of a row that follow a line which is not there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BrokenLinks {
    /// That line was in the row once: it was removed or changed.
    pub removed: usize,
    /// That line was never in the row, as far as the ledger's history goes.
    pub unknown: usize,
}

impl Ledger<'_> {
    /// Which lines of a row follow a line that is not there. Two clones that wrote at the same time leave two lines after
    /// one, which is no break.
    ///
    /// # Errors
    /// `repo-corrupt` when the ledger is damaged beyond its reflog.
    pub fn broken_links(&self, spawn_commit: Oid) -> Result<BrokenLinks> {
        let id = AgentId::from_spawn_commit(spawn_commit);
        let body = self.read(|tree| notes::body(self.repo, tree, spawn_commit))?;
        let body = body.unwrap_or_default();
        let row = Row::read(&body, id);
        let mut seen = HashSet::new();
        let mut missing = Vec::new();
        let mut links = BrokenLinks::default();
        for (line, event) in row.pairs() {
            match &event.previous {
                // Merging two clones' rows orders lines by their stamps, so what a line follows is
                // somewhere before it and not always right above.
                Some(previous) if !seen.contains(previous) => missing.push(previous.clone()),
                // Only the first line of a row follows nothing.
                None if !seen.is_empty() => links.unknown += 1,
                _ => {}
            }
            seen.insert(event_line::digest(line));
        }
        if !missing.is_empty() {
            let known = self.once_there(spawn_commit, &missing)?;
            links.removed = missing.iter().filter(|line| known.contains(*line)).count();
            links.unknown += missing.len() - links.removed;
        }
        Ok(links)
    }

    /// Whether another writer took lines out of a row that may have said what this clone decided. That is looked for where the ledger was
    /// just overwritten, or where the row lacks such a decision, as one does after a kill, too: walking the ledger's history costs more
    /// than all else of a verdict.
    ///
    /// # Errors
    /// `repo-corrupt`, `io`.
    pub fn was_cut(&self, spawn_commit: Oid) -> Result<bool> {
        let is_suspect = chain::is_overwritten(self.repo)? || self.lacks_decision(spawn_commit)?;
        Ok(is_suspect && chain::foreign_writes(self.repo)?.dropped.contains(&spawn_commit))
    }

    /// Whether a row lacks a policy that this clone gave the agent, or that this clone rejected it.
    fn lacks_decision(&self, spawn_commit: Oid) -> Result<bool> {
        let id = AgentId::from_spawn_commit(spawn_commit);
        let closed = Closed::load(self.repo.common_dir())?;
        let body = self.lines(spawn_commit)?;
        let events = Row::read(&body, id).events;
        let is_amended = |blob| {
            let mut all = events.iter();
            all.any(|event| matches!(event.what, What::Amended { policy, .. } if policy == blob))
        };
        let is_rejected = events.iter().any(|event| matches!(event.what, What::Rejected { .. }));
        let lacks_rejection = closed.says(id, State::Rejected) && !is_rejected;
        Ok(lacks_rejection || !closed.policies(id).all(is_amended))
    }

    /// Those of the digests that are of lines which a former version of the note held.
    fn once_there(&self, key: Oid, digests: &[String]) -> Result<HashSet<String>> {
        let mut wanted: HashSet<&str> = digests.iter().map(String::as_str).collect();
        let mut found = HashSet::new();
        let tip = chain::tip(self.repo, Chain::Ledger)?;
        let mut waiting: VecDeque<Oid> = tip.into_iter().map(|tip| tip.oid).collect();
        let (mut commits, mut blobs) = (HashSet::new(), HashSet::new());
        while let Some(oid) = waiting.pop_front() {
            if wanted.is_empty() || commits.len() >= SEARCHED {
                break;
            }
            // What is not here, as in a shallow clone, tells nothing.
            let Ok(commit) = self.repo.read_commit(oid) else {
                continue;
            };
            if !commits.insert(oid) {
                continue;
            }
            waiting.extend(&commit.parents);
            let notes = notes::lookup(self.repo, commit.tree, key).unwrap_or_default();
            // Most commits of the ledger leave a given row as it was, and its blob is then read
            // once.
            for blob in notes.into_iter().filter(|blob| blobs.insert(*blob)) {
                let body = notes::united(self.repo, &[blob]).unwrap_or_default();
                for digest in notes::lines_of(&body).map(event_line::digest) {
                    if wanted.remove(digest.as_str()) {
                        found.insert(digest);
                    }
                }
            }
        }
        Ok(found)
    }
}

// What is no longer in the ledger although it was, and which commit of the ledger took it away.
//
// Events only accumulate, so a version of a note that lacks a line of the version before it was not written by this
// program. The commit that holds it says who wrote it, as far as such a commit can be believed: a user who may write the
// ref may write any name.

/// How many commits of the ledger are searched.
const SEARCHED_TIPS: usize = 10_000;

/// Lines of one note that one commit took away and that are still gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostEvents {
    /// The annotated object: an agent's spawn commit, or a commit that landed.
    pub note: Oid,
    /// How many lines.
    pub lines: usize,
    /// The commit of the ledger; `None` where no commit that the ref reaches did it, because the ref was moved to a
    /// history without the lines.
    pub commit: Option<Oid>,
    /// The committer and the moment in seconds since the epoch, as the commit says.
    pub by: Option<(String, i64)>,
}

/// Everything that is gone, by note.
///
/// # Errors
/// `repo-corrupt`.
pub fn rows_removed(repo: &Repo) -> Result<Vec<LostEvents>> {
    let dropped = chain::foreign_writes(repo)?.dropped;
    let ledger = Ledger::new(repo);
    let mut removals = Vec::new();
    for note in dropped {
        let left = ledger.read(|tree| notes::body(repo, tree, note))?;
        let left: HashSet<Vec<u8>> = lines_of(&left.unwrap_or_default());
        removals.extend(of_note(repo, note, &left)?);
    }
    Ok(removals)
}

fn lines_of(body: &[u8]) -> HashSet<Vec<u8>> {
    notes::lines_of(body).map(<[u8]>::to_vec).collect()
}

/// The commits that took lines of a note away which are not `left` now.
fn of_note(repo: &Repo, note: Oid, left: &HashSet<Vec<u8>>) -> Result<Vec<LostEvents>> {
    let mut removals = Vec::new();
    let mut waiting: VecDeque<Oid> =
        chain::tip(repo, Chain::Ledger)?.into_iter().map(|tip| tip.oid).collect();
    let mut seen = HashSet::new();
    while let Some(oid) = waiting.pop_front() {
        // What is not here, as in a shallow clone, tells nothing.
        let Ok(commit) = repo.read_commit(oid) else {
            continue;
        };
        if seen.len() >= SEARCHED_TIPS || !seen.insert(oid) {
            continue;
        }
        waiting.extend(&commit.parents);
        let now = lines_of(&notes::body(repo, commit.tree, note).unwrap_or_default());
        let mut gone = HashSet::new();
        for parent in &commit.parents {
            let Ok(parent) = repo.read_commit(*parent) else {
                continue;
            };
            let before = lines_of(&notes::body(repo, parent.tree, note).unwrap_or_default());
            let lost = before.into_iter().filter(|line| !now.contains(line));
            // A line that a later commit brought back is not lost.
            gone.extend(lost.filter(|line| !left.contains(line)));
        }
        if !gone.is_empty() {
            removals.push(LostEvents {
                note,
                lines: gone.len(),
                commit: Some(oid),
                by: repo.read_raw_commit(oid)?.committer(),
            });
        }
    }
    if removals.is_empty() {
        removals.push(LostEvents { note, lines: 0, commit: None, by: None });
    }
    Ok(removals)
}

// Which audits of an agent count in this clone.
//
// A row travels, and who may push the ledger can add lines to it. An audit that failed the work is stricter than none, so it
// counts wherever it was written, unless its auditor is known here to be none. What clears such an audit, a later one that
// passed or the word of a person, counts only where this clone wrote it.

impl Ledger<'_> {
    /// The audits of an agent's work that count here, in the order of its row.
    ///
    /// # Errors
    /// `repo-corrupt`, `io`.
    pub fn audits(&self, agent: &Agent) -> Result<Vec<Audited>> {
        let body = self.lines(agent.spawn_commit)?;
        let row = Row::read(&body, agent.id);
        let taken_back = operation::taken_back(&row.events);
        let mut audits = Vec::new();
        let mut auditors: HashMap<AgentId, bool> = HashMap::new();
        let closed = self.closed_here()?;
        for (line, event) in row.pairs() {
            let What::Audited(audit) = &event.what else {
                continue;
            };
            let is_taken_back = event.operation.as_ref().is_some_and(|id| taken_back.contains(id));
            let counts = match (audit.verdict, audit.auditor) {
                (AuditVerdict::Pass, None) if is_taken_back => false,
                (AuditVerdict::Pass, _) => closed.has_cleared(agent.id, &event_line::digest(line)),
                // No agent judges its own work, whatever line says so.
                (_, Some(auditor)) if auditor != agent.id => match auditors.get(&auditor) {
                    Some(known) => *known,
                    None => {
                        let known = self.may_audit(auditor)?;
                        auditors.insert(auditor, known);
                        known
                    }
                },
                _ => false,
            };
            if counts {
                audits.push(audit.clone());
            }
        }
        Ok(audits)
    }

    /// Whether there is such an agent, and nothing here says that its role does not audit.
    fn may_audit(&self, auditor: AgentId) -> Result<bool> {
        let Ok(auditor) = self.find(&auditor.to_string()) else {
            return Ok(false);
        };
        let policy = spawn_commit::if_here(self.repo, &auditor)?;
        // A policy that is not here says nothing, and then the stricter reading holds.
        Ok(policy.is_none_or(|policy| policy.report_rules().audit.is_some()))
    }
}

// Who said that an agent is done.
//
// `merge --all` lands what is done, and the caller names none of it. Of an agent that is in this clone only this clone, which ran
// it, can know that: another one that can push the ledger can add a line that says so of work that is half finished.

impl Ledger<'_> {
    /// Those of agents that are done which are so by what this clone, or a run in it, said; of one that has nothing here every row is
    /// believed.
    ///
    /// # Errors
    /// `repo-corrupt`, `io`.
    pub fn done_by_own_word(&self, agents: &[Agent]) -> Result<HashSet<AgentId>> {
        let own_lines = OwnLines::load(self.repo.common_dir())?;
        let mut done = HashSet::new();
        for agent in agents {
            if self.is_done_by_own_word(agent, &own_lines)? {
                done.insert(agent.id);
            }
        }
        Ok(done)
    }

    /// Whether this clone made an agent, by the lines that it wrote: a stamp with the number of this clone proves nothing.
    ///
    /// # Errors
    /// `repo-corrupt`, `io`.
    pub fn is_made_here(&self, agent: &Agent) -> Result<bool> {
        Ok(!self.made_here(std::slice::from_ref(agent))?.is_empty())
    }

    /// Those of the agents of which [`Ledger::is_made_here`] is true.
    ///
    /// # Errors
    /// As [`Ledger::is_made_here`].
    pub(in crate::store) fn made_here(&self, agents: &[Agent]) -> Result<HashSet<AgentId>> {
        let own_lines = OwnLines::load(self.repo.common_dir())?;
        let mut made = HashSet::new();
        for agent in agents {
            let body = self.lines(agent.spawn_commit)?;
            if Row::read(&body, agent.id).is_made_by(&own_lines) {
                made.insert(agent.id);
            }
        }
        Ok(made)
    }

    /// As [`Ledger::events`], without what another clone says of an agent of this one: that work of it was kept, given back or let go of,
    /// and what was achieved.
    ///
    /// # Errors
    /// `repo-corrupt`, `io`.
    pub fn own_events(&self, spawn_commit: Oid) -> Result<Vec<Event>> {
        let own_lines = OwnLines::load(self.repo.common_dir())?;
        let body = self.lines(spawn_commit)?;
        let row = Row::read(&body, AgentId::from_spawn_commit(spawn_commit));
        let is_made_here = row.is_made_by(&own_lines);
        let counts = |(line, event): &(&[u8], &Event)| {
            let is_claim = matches!(
                event.what,
                What::Salvaged { .. }
                    | What::Discarded { .. }
                    | What::Rescued { .. }
                    | What::Undone { .. }
                    | What::Expired { .. }
                    | What::Done { .. }
            );
            !is_claim || !is_made_here || own_lines.has(line)
        };
        Ok(row.pairs().filter(counts).map(|(_, event)| event.clone()).collect())
    }

    fn is_done_by_own_word(&self, agent: &Agent, own_lines: &OwnLines) -> Result<bool> {
        let common_dir = self.repo.common_dir();
        let own = self.clone_number()?;
        let admin_dir = common_dir.join("worktrees").join(layout::worktree_name(agent.id));
        if !admin_dir.exists() && !place::is_of_this_clone(common_dir, own, agent) {
            return Ok(true);
        }
        let body = self.lines(agent.spawn_commit)?;
        let row = Row::read(&body, agent.id);
        // The row as a whole says that it is done; of that, what this clone knows is asked.
        let is_beginning = |what: &What| matches!(what, What::Spawning(_) | What::Spawned(_));
        // Where it was spawned by a program that noted no lines, the number of this clone has to do.
        let is_noted = row.is_made_by(own_lines) || !admin_dir.exists();
        let counts = |(line, event): &(&[u8], &Event)| {
            let is_own =
                || own_lines.has(line) || !is_noted && Some(event.at.clone_number()) == own;
            is_beginning(&event.what) || is_own()
        };
        let events: Vec<Event> =
            row.pairs().filter(counts).map(|(_, event)| event.clone()).collect();
        let told = Agent::fold(agent.spawn_commit, &events);
        Ok(told.is_some_and(|told| told.state == State::Done && !told.deferred))
    }
}
