//! With how many others of those that are looked at an agent shares touched paths: the `changes` question of
//! `overlap`, from what looking has read anyway. No merge is tried.

use crate::agents::work;
use crate::agents::work::is_live;
use crate::domain::change::Change;
use crate::ops::status::{Fact, Look, WorkStatus};
use serde::Serialize;
use std::collections::{BTreeSet, HashMap};

/// The paths that an agent has touched since its base, committed or not; unknown where they cannot be read.
pub(super) type Touched = Fact<BTreeSet<Vec<u8>>>;

/// Others that touch what this agent touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct OverlapCount {
    /// How many live agents.
    pub agents: usize,
    /// How many of this agent's paths any of them has touched too.
    pub paths: usize,
}

/// What an agent whose work may still land has touched.
pub(super) fn touched(look: &Look<'_>) -> Touched {
    if is_live(look.agent) {
        Fact::of(paths(look).ok_or(()))
    } else {
        Fact::NotApplicable
    }
}

fn paths(look: &Look<'_>) -> Option<BTreeSet<Vec<u8>>> {
    let uncommitted = match (look.changes.known(), look.worktree) {
        (Some(changes), _) => changes.as_slice(),
        // It is somewhere else, and what it has committed is here.
        (None, None) => &[],
        (None, Some(_)) => return None,
    };
    let (repo, tip) = (&look.ctx.repo, look.tip?);
    let known = look.apart.as_ref().and_then(|apart| apart.fork);
    let known = known.filter(|fork| *fork != tip);
    let fork = match known {
        Some(fork) => fork,
        None => work::fork(repo, look.agent, look.target, Some(tip)).ok()?,
    };
    let trees = (
        repo.read_commit(fork).ok()?.tree,
        repo.read_commit(tip).ok()?.tree,
    );
    let committed = repo.tree_changes(&[trees.0], trees.1).ok()?;
    let policy = look.fence.as_ref().map(|fence| fence.policy());
    let bundle = policy.and_then(|policy| policy.bundle_dir.as_deref());
    let all = committed.iter().chain(uncommitted);
    let own = all.filter(|change| !is_in(change, bundle));
    Some(own.map(|change| change.path.clone()).collect())
}

fn is_in(change: &Change, bundle: Option<&str>) -> bool {
    let rest = bundle.and_then(|bundle| change.path.strip_prefix(bundle.as_bytes()));
    rest.is_some_and(|rest| rest.starts_with(b"/"))
}

/// What many agents have touched, one after the other.
#[derive(Default)]
pub(in crate::ops) struct OverlapSet(Vec<Touched>);

impl OverlapSet {
    /// Takes what the next one has touched.
    pub(in crate::ops) fn add(&mut self, standing: &mut WorkStatus) {
        self.0.push(std::mem::take(&mut standing.touched));
    }

    /// Counts for all of these among each other.
    pub(in crate::ops) fn fill<T>(rows: &mut [T], standing: impl Fn(&mut T) -> &mut WorkStatus) {
        let mut crowd = OverlapSet::default();
        rows.iter_mut().for_each(|row| crowd.add(standing(row)));
        for (row, count) in rows.iter_mut().zip(crowd.count()) {
            standing(row).overlap = count;
        }
    }

    /// Counts for each, in the order in which they were added: not applicable for an agent without overlap.
    pub(in crate::ops) fn count(&self) -> Vec<Fact<OverlapCount>> {
        let mut owners: HashMap<&[u8], Vec<usize>> = HashMap::new();
        for (index, touched) in self.0.iter().enumerate() {
            for path in touched.known().into_iter().flatten() {
                owners.entry(path).or_default().push(index);
            }
        }
        // For each agent the last one that was found to meet it, so that none is counted twice.
        let mut met_by = vec![usize::MAX; self.0.len()];
        let count = |(index, touched): (usize, &Touched)| {
            let Fact::Known(touched) = touched else {
                return if touched.is_absent() {
                    Fact::NotApplicable
                } else {
                    Fact::Unknown
                };
            };
            let (mut agents, mut paths) = (0, 0);
            for path in touched {
                let others = owners[path.as_slice()]
                    .iter()
                    .filter(|other| **other != index);
                let before = paths;
                for other in others {
                    paths = before + 1;
                    agents += usize::from(std::mem::replace(&mut met_by[*other], index) != index);
                }
            }
            match agents {
                0 => Fact::NotApplicable,
                _ => Fact::Known(OverlapCount { agents, paths }),
            }
        };
        self.0.iter().enumerate().map(count).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_are_counted_once_and_paths_by_whom_they_belong_to() {
        let mut crowd = OverlapSet::default();
        let known = |paths: &[&str]| {
            Fact::Known(paths.iter().map(|path| path.as_bytes().to_vec()).collect())
        };
        for touched in [
            known(&["a", "b", "c"]),
            known(&["a", "b", "d"]),
            known(&["c", "e"]),
            known(&["f"]),
            known(&[]),
            Fact::Unknown,
            Fact::NotApplicable,
        ] {
            crowd.add(&mut WorkStatus {
                touched,
                ..WorkStatus::default()
            });
        }
        let count = |agents, paths| Fact::Known(OverlapCount { agents, paths });
        let no_one = Fact::NotApplicable;
        let expected = [
            count(2, 3),
            count(1, 2),
            count(1, 1),
            no_one,
            no_one,
            Fact::Unknown,
            no_one,
        ];
        assert_eq!(crowd.count(), expected);
    }
}
