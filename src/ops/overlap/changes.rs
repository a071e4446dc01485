//! What agents have touched since their bases.

use crate::agents::ctx::Ctx;
use crate::agents::histories::Histories;
use crate::agents::parallel;
use crate::agents::work::uncommitted::without_baseline;
use crate::domain::change::{Change, ChangeKind};
use crate::domain::oid::Oid;
use crate::error::Result;
use crate::git::changes::Glance;
use crate::git::uncommitted::glance;
use crate::ops::overlap::Scene;
use std::collections::BTreeSet;

/// The paths that one agent touched.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// All of them, ordered.
    pub paths: BTreeSet<Vec<u8>>,
    /// Those that were not there before.
    added: Vec<Vec<u8>>,
    /// The directories that something was removed from, and those above them.
    thinned: BTreeSet<Vec<u8>>,
    /// Those that are not committed.
    pub uncommitted: Vec<Vec<u8>>,
    /// The tip; absent for an agent whose branch is not here.
    pub tip: Option<Oid>,
}

/// Finds out what every agent touched. One whose worktree cannot be read is left without an answer, and
/// the scene's problems say why.
pub(super) fn gather(ctx: &Ctx, scene: &mut Scene) -> Result<()> {
    let places: Vec<_> = (0..scene.agents.len()).collect();
    let agents = &scene.agents;
    let rules = ctx.ignore_rules()?;
    let scratch = ctx.temporary_place();
    // Looking at the files is nearly all of the work.
    let seed = ctx.seed();
    // Without one of its own a thread opens every worktree as a repository, which is slower.
    let open = || seed.open().ok();
    let asked = |own: &Option<Ctx>, index: &usize| match &agents[*index].place {
        Some(place) => glance(&Glance {
            repo: own.as_ref().map(|own| &own.repo),
            top: &place.path,
            admin_dir: &place.admin_dir,
            rules: &rules.without(agents[*index].bundle_dir()),
            scratch: &scratch,
        }),
        None => Ok(Vec::new()),
    };
    let uncommitted = parallel::map_with(&places, open, asked);
    let histories = Histories::of({ agents.iter() }.map(|live| &live.agent));
    for (index, uncommitted) in uncommitted.into_iter().enumerate() {
        let live = &scene.agents[index];
        if live.tip.is_none() && live.agent.branch.is_some() {
            let branch = live.agent.branch.as_deref().unwrap_or_default();
            let problem = format!("its branch {branch} is not here");
            scene.problems.push((index, problem));
            continue;
        }
        let uncommitted = uncommitted.and_then(|changes| match &live.place {
            Some(place) => without_baseline(ctx, &live.agent, place, live.bundle_dir(), changes),
            None => Ok(changes),
        });
        // Commits that cannot be read are this agent's problem as well.
        let both =
            uncommitted.and_then(|files| Ok((files, live.committed(&ctx.repo, &histories)?)));
        match both {
            Ok((uncommitted, committed)) => {
                let uncommitted = live.without_bundle(uncommitted);
                scene.changes[index] = Some(Changes::of(live.tip, &committed, &uncommitted));
            }
            Err(error) => {
                let problem = format!("its work could not be read: {error}");
                scene.problems.push((index, problem));
            }
        }
    }
    Ok(())
}

impl Changes {
    fn of(tip: Option<Oid>, committed: &[Change], uncommitted: &[Change]) -> Changes {
        let mut changes = Changes {
            tip,
            uncommitted: uncommitted
                .iter()
                .map(|change| change.path.clone())
                .collect(),
            ..Changes::default()
        };
        for change in committed.iter().chain(uncommitted) {
            changes.paths.insert(change.path.clone());
            match change.kind {
                ChangeKind::Added | ChangeKind::Untracked => {
                    changes.added.push(change.path.clone())
                }
                ChangeKind::Deleted => changes
                    .thinned
                    // git takes a directory of which files were removed for renamed, and moves what
                    // others add there.
                    .extend(directories(&change.path).map(<[u8]>::to_owned)),
                _ => {}
            }
        }
        changes
    }

    /// The paths that both touched.
    pub(super) fn common(&self, other: &Changes) -> Vec<Vec<u8>> {
        self.paths.intersection(&other.paths).cloned().collect()
    }

    /// Whether merging the two could end in a conflict: the same path, a file where the other has a
    /// directory, or a new file in a directory that the other may have renamed.
    pub(super) fn is_near(&self, other: &Changes) -> bool {
        !self.paths.is_disjoint(&other.paths)
            || self.reaches_into(other)
            || other.reaches_into(self)
    }

    fn reaches_into(&self, other: &Changes) -> bool {
        let in_place_of_file =
            |path: &Vec<u8>| directories(path).any(|above| other.paths.contains(above));
        let in_thinned =
            |path: &Vec<u8>| directories(path).any(|above| other.thinned.contains(above));
        self.paths.iter().any(in_place_of_file) || self.added.iter().any(in_thinned)
    }
}

/// The directories above a path, the nearest first; for a path at the top, the top.
fn directories(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let above = |path: &[u8]| path.iter().rposition(|&byte| byte == b'/');
    let first = above(path).map_or(&path[..0], |slash| &path[..slash]);
    std::iter::successors(Some(first), move |path| Some(&path[..above(path)?]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(list: &[(&str, ChangeKind)]) -> Changes {
        let list: Vec<Change> = list
            .iter()
            .map(|(path, kind)| Change {
                kind: *kind,
                ..Change::named(*path)
            })
            .collect();
        Changes::of(None, &list, &[])
    }

    #[test]
    fn near_is_more_than_the_same_path() {
        use ChangeKind::{Added, Deleted, Modified};
        let check = |one: &[(&str, ChangeKind)], two: &[(&str, ChangeKind)], expected: bool| {
            let (one, two) = (changes(one), changes(two));
            assert_eq!(one.is_near(&two), expected);
            assert_eq!(two.is_near(&one), expected);
        };
        check(&[("a", Modified)], &[("a", Deleted)], true);
        check(&[("a", Modified)], &[("b", Modified)], false);
        check(&[("lib", Added)], &[("lib/x", Added)], true);
        check(
            &[("old/a", Deleted), ("new/a", Added)],
            &[("old/b/c", Added)],
            true,
        );
        check(&[("old/a", Deleted)], &[("new/b", Added)], false);
        check(&[("a", Deleted), ("sub/a", Added)], &[("b", Added)], true);
    }
}
