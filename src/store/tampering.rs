//! What is no longer in the ledger although it was, and which commit of the ledger took it away.
//!
//! Events only accumulate, so a version of a note that lacks a line of the version before it was not written by this
//! program. The commit that holds it says who wrote it, as far as such a commit can be believed: a user who may write the
//! ref may write any name.

use super::chain::{self, Chain, foreign};
use super::ledger::Ledger;
use crate::domain::oid::Oid;
use crate::error::Result;
use crate::git::Repo;
use crate::git::notes::{self, lines};
use std::collections::{HashSet, VecDeque};

/// How many commits of the ledger are searched.
const SEARCHED: usize = 10_000;

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
pub fn removals(repo: &Repo) -> Result<Vec<LostEvents>> {
    let dropped = foreign::foreign_writes(repo)?.dropped;
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
    lines::split(body).map(<[u8]>::to_vec).collect()
}

/// The commits that took lines of a note away which are not `left` now.
fn of_note(repo: &Repo, note: Oid, left: &HashSet<Vec<u8>>) -> Result<Vec<LostEvents>> {
    let mut removals = Vec::new();
    let mut waiting: VecDeque<Oid> = chain::tip(repo, Chain::Ledger)?
        .into_iter()
        .map(|tip| tip.oid)
        .collect();
    let mut seen = HashSet::new();
    while let Some(oid) = waiting.pop_front() {
        // What is not here, as in a shallow clone, tells nothing.
        let Ok(commit) = repo.read_commit(oid) else {
            continue;
        };
        if seen.len() >= SEARCHED || !seen.insert(oid) {
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
        removals.push(LostEvents {
            note,
            lines: 0,
            commit: None,
            by: None,
        });
    }
    Ok(removals)
}
