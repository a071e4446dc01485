//! How the work would land on the base branch as it is now.

use crate::domain::agent::Agent;
use crate::domain::evidence::{Conflict, DependencyChange, Landed, Landing, Outcome, Place, Touch};
use crate::domain::oid::Oid;
use crate::error::Result;
use crate::git::Repo;
use crate::git::history::ancestry::Divergence;
use crate::git::merge::{Merge, MergeResult};
use crate::ops::verify::work::Trees;
use crate::store::landed::{self, Line};
use crate::store::{replay, spawn_commit};
use crate::wire::dependencies;

/// How many of the base's newest commits are searched for those that make the same change.
const SEARCHED: usize = 200;

/// What would land, and where.
pub(super) struct Lands<'a> {
    /// The commit.
    pub tip: Oid,
    /// The agent, whose spawn commit holds no work; absent where no agent is judged.
    pub agent: Option<&'a Agent>,
    /// The full name of the branch to land on, when there is one.
    pub base_ref: Option<&'a str>,
    /// Where that is; `None` when it is gone.
    pub base: Option<Oid>,
    /// Whether it may exist, and is not in this clone.
    pub base_out_of_reach: bool,
    /// Whether the branch holds uncommitted changes of its owner, which do not land with it.
    pub leaves_changes: bool,
}

/// Works out the landing. `touched` says whether the agent changed anything at all; `merge` asks git, or what
/// is remembered of its answers.
pub(super) fn work_out(
    repo: &Repo,
    lands: &Lands<'_>,
    work: &Trees,
    divergence: &Divergence,
    touched: bool,
    merge: impl Fn(Oid, Oid) -> Result<Merge>,
) -> Result<Landing> {
    let uncommitted = usize::from(work.tree != work.tip_tree);
    let ahead = divergence.ahead.iter().map(|lineage| lineage.oid);
    let ahead: Vec<Oid> = ahead.collect();
    let work_commits = match lands.agent {
        Some(agent) => spawn_commit::without(repo, agent.spawn_commit, &ahead),
        None => ahead.len(),
    };
    let mut landing = Landing {
        refname: lands.base_ref.map(str::to_owned),
        // What is not committed lands as one commit.
        ahead: work_commits + uncommitted,
        behind: divergence.behind.len(),
        outcome: Outcome::BaseGone,
        approximate: false,
    };
    let Some(base) = lands.base else {
        if lands.base_out_of_reach {
            landing.outcome = Outcome::OutOfReach { tree: work.tree };
        }
        return Ok(landing);
    };
    let base_tree = repo.read_commit(base)?.tree;
    let landed = |how| Outcome::Landed {
        tree: base_tree,
        how,
    };
    let tree = work.tree;
    let is_replayed = match lands.agent {
        // Nothing that is not committed is in any commit.
        Some(agent) if uncommitted == 0 && landing.behind > 0 && touched => {
            replay::is_held(repo, agent, base, lands.tip)?
        }
        _ => false,
    };
    landing.outcome = if ahead.len() + uncommitted == 0 || is_replayed {
        landed(Landed::Ancestor)
    // Changes of the owner that the branch holds must not land, so the target cannot simply be
    // moved to it.
    } else if landing.behind == 0 && !lands.leaves_changes {
        if touched {
            Outcome::FastForward { tree }
        } else {
            Outcome::Nothing { tree }
        }
    } else {
        let tip = work.commit(repo, lands.tip)?;
        let Merge {
            result,
            approximate,
        } = merge(base, tip)?;
        landing.approximate = approximate;
        match result {
            MergeResult::Unrelated => Outcome::Unrelated,
            MergeResult::Clean { tree } if !touched => Outcome::Nothing { tree },
            // The target has all of it, whichever commits brought it.
            MergeResult::Clean { tree } if tree == base_tree => landed(Landed::Tree),
            MergeResult::Clean { tree } => Outcome::Clean { tree },
            // Squashed and then built upon: merging it again conflicts with what came after.
            MergeResult::Conflicts { conflicts, .. } => {
                if was_squashed(repo, base, tip, divergence)? {
                    landed(Landed::PatchId)
                } else {
                    Outcome::Conflicts(sorted(conflicts))
                }
            }
        }
    };
    Ok(landing)
}

/// What landing on `base` would change. It is judged like a commit: git applies the agent's change of a file to where that file
/// is on the target, and can move new files along with a directory.
pub(super) fn touches(repo: &Repo, landing: &Landing, base: Oid) -> Result<Vec<Touch>> {
    let Some(merged) = landing.outcome.tree() else {
        return Ok(Vec::new());
    };
    let changes = repo.tree_changes(&[repo.read_commit(base)?.tree], merged)?;
    let place = Place::Landing;
    let touches = changes.into_iter().map(|change| Touch { change, place });
    Ok(touches.collect())
}

/// The dependencies that landing on `base` would change, by what `touches` says of it. A file that only moved names the same ones.
pub(super) fn dependencies(
    repo: &Repo,
    landing: &Landing,
    base: Oid,
    touches: &[Touch],
) -> Result<Vec<DependencyChange>> {
    let Some(merged) = landing.outcome.tree() else {
        return Ok(Vec::new());
    };
    let before = repo.read_commit(base)?.tree;
    let manifests = { touches.iter() }
        .filter(|touch| touch.place == Place::Landing)
        .map(|touch| &touch.change.path)
        .filter(|path| dependencies::is_manifest(path));
    let mut changed = Vec::new();
    for path in manifests {
        let name = String::from_utf8_lossy(path);
        let entry = |tree| repo.entry_at(tree, &name);
        changed.push((
            path,
            [entry(before)?, entry(merged)?].map(|entry| entry.map(|entry| entry.oid)),
        ));
    }
    let mut found = Vec::new();
    for (path, [was, is]) in &changed {
        // A manifest that moved with its content brings no other version.
        let has_moved = changed.iter().any(|(_, [gone, new])| match (was, is) {
            (None, Some(is)) => (gone.as_ref(), new) == (Some(is), &None),
            (Some(was), None) => (gone, new.as_ref()) == (&None, Some(was)),
            _ => false,
        });
        if has_moved {
            continue;
        }
        // What stands there and is no file, such as a submodule, has no content that could be read.
        let read =
            |oid: Option<Oid>| oid.map(|oid| repo.read_blob(oid).unwrap_or_else(|_| vec![0xff]));
        let (before, after) = (read(*was), read(*is));
        let what = dependencies::changes(path, before.as_deref(), after.as_deref());
        let changes = what.into_iter().map(|what| DependencyChange {
            path: (*path).clone(),
            what,
        });
        found.extend(changes);
    }
    Ok(found)
}

/// The files that landing on `base` would give conflict markers, each with the line of the first.
pub(super) fn added_markers(
    repo: &Repo,
    landing: &Landing,
    base: Oid,
) -> Result<Vec<(Vec<u8>, usize)>> {
    match landing.outcome.tree() {
        Some(merged) => repo.added_conflict_markers(repo.read_commit(base)?.tree, merged, base),
        None => Ok(Vec::new()),
    }
}

fn sorted(mut conflicts: Vec<Conflict>) -> Vec<Conflict> {
    conflicts.sort();
    conflicts
}

/// Whether the base's newest commits make the same change as the whole branch.
fn was_squashed(repo: &Repo, base: Oid, tip: Oid, divergence: &Divergence) -> Result<bool> {
    let Some(fork) = repo.merge_base(base, tip)? else {
        return Ok(false);
    };
    // The newest first: a squash is rarely far below, and each commit is compared.
    let newest = divergence.behind.iter().rev().take(SEARCHED);
    let line = newest.filter_map(|commit| match commit.parents[..] {
        [parent] => Some(Line::of(repo, parent, commit.oid)),
        _ => None,
    });
    let line = line.collect::<Result<Vec<_>>>()?;
    landed::makes_the_same(repo, &line, fork, tip)
}
