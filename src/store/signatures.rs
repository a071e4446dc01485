//! Signed events: whether this clone signs (`agent.sign`), and who signed what the ledger holds.
//!
//! An event is signed by the signature of the commit that brought it. Commits that only unite or repair histories are
//! never signed: every clone has to make the same union, and they bring no event of their own.

use super::chain::{self, Chain};
use crate::domain::event::Event;
use crate::domain::oid::Oid;
use crate::error::Result;
use crate::git::Repo;
use crate::git::notes::{self, lines, union};
use crate::git::objects::Commit;
use crate::git::program::signing::CommitSignature;
use crate::wire::event_line;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// An event and who signed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventSignature {
    /// The event.
    pub event: Event,
    /// The commit that brought it, and what git says of its signature; `None` where no commit here did, as in a
    /// shallow clone.
    pub commit: Option<(Oid, CommitSignature)>,
}

/// The commits that brought each line of a note.
type Origins = BTreeMap<(Oid, Vec<u8>), Vec<Oid>>;

/// Whether this clone signs its events. An agent's worktree has no say.
///
/// # Errors
/// `usage` where the setting is neither true nor false; `git-failed`.
pub fn are_wanted(repo: &Repo) -> Result<bool> {
    Ok(repo.shared_flag("agent.sign")? == Some(true))
}

/// Who signed each event of the ledger. Where several commits brought an event, a good signature counts.
///
/// # Errors
/// `repo-corrupt`, `git-missing`, `git-failed`.
pub fn signatures(repo: &Repo) -> Result<Vec<EventSignature>> {
    let Some(tip) = chain::tip(repo, Chain::Ledger)? else {
        return Ok(Vec::new());
    };
    // 1. The events that there are.
    let mut origins = Origins::new();
    for (note, blob) in notes::all(repo, tip.tree)? {
        let body = repo.read_blob(blob)?;
        origins.extend(lines::split(&body).map(|line| ((note, line.to_vec()), Vec::new())));
    }
    // 2. Where they came from.
    find_origins(repo, &tip, &mut origins)?;
    // 3. Who signed that.
    let commits: BTreeSet<Oid> = origins.values().flatten().copied().collect();
    let signatures = repo.commit_signatures(&Vec::from_iter(commits))?;
    let decoded = origins.iter().filter_map(|((_, line), commits)| {
        Some(EventSignature {
            event: event_line::decode(line)?,
            commit: best(commits, &signatures),
        })
    });
    Ok(decoded.collect())
}

fn best(
    commits: &[Oid],
    signatures: &HashMap<Oid, CommitSignature>,
) -> Option<(Oid, CommitSignature)> {
    let is_good = |oid: &&Oid| matches!(signatures.get(oid), Some(CommitSignature::Good(_)));
    let oid = { commits.iter() }.find(is_good).or(commits.first())?;
    Some((*oid, signatures.get(oid)?.clone()))
}

/// Searches the ledger's history, also as far as the reflog alone leads to it: `doctor` restores lines from there.
fn find_origins(repo: &Repo, tip: &Commit, origins: &mut Origins) -> Result<()> {
    let mut waiting = repo.reflog_oids(Chain::Ledger.refname())?;
    waiting.push(tip.oid);
    let mut seen = HashSet::new();
    while let Some(oid) = waiting.pop() {
        if !seen.insert(oid) {
            continue;
        }
        // What is not here, as in a shallow clone, tells nothing.
        let (Ok(commit), Ok(raw)) = (repo.read_commit(oid), repo.read_raw_commit(oid)) else {
            continue;
        };
        let parents = raw.parents();
        waiting.extend(&parents);
        // Without its parents a commit would seem to have brought everything that it holds.
        let parents = parents.into_iter().map(|parent| repo.read_commit(parent));
        let Ok(parents) = parents.collect::<Result<Vec<Commit>>>() else {
            continue;
        };
        for line in brought(repo, commit.tree, &parents).unwrap_or_default() {
            if let Some(commits) = origins.get_mut(&line) {
                commits.push(oid);
            }
        }
    }
    Ok(())
}

/// The lines of a notes tree that no parent has.
fn brought(repo: &Repo, tree: Oid, parents: &[Commit]) -> Result<Vec<(Oid, Vec<u8>)>> {
    let before = parents
        .first()
        .map_or(Oid::EMPTY_TREE, |parent| parent.tree);
    let mut brought = Vec::new();
    let changed = union::added(repo, before, tree)?;
    for note in BTreeSet::from_iter(changed.into_iter().map(|(note, _)| note)) {
        let body = notes::body(repo, tree, note)?;
        let mut lines: BTreeSet<&[u8]> = lines::split(&body).collect();
        for parent in parents {
            let body = notes::body(repo, parent.tree, note)?;
            for line in lines::split(&body) {
                lines.remove(line);
            }
        }
        brought.extend(lines.into_iter().map(|line| (note, line.to_vec())));
    }
    Ok(brought)
}
