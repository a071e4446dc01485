//! What several agents may touch, and what they have.

use crate::agents::context::histories::Histories;
use crate::agents::who::scope_guard::scope_of;
use crate::agents::work::uncommitted::without_baseline;
use crate::agents::{Ctx, Work, context::parallel};
use crate::domain::boundary::scope::Intersection;
use crate::domain::{Change, ChangeKind, Oid, RepoPath, Scope, ScopeLanguage, paths::path};
use crate::error::{Code, Error, Result};
use crate::git::Repo;
use crate::git::changes::Glance;
use crate::git::objects::Visitor;
use crate::git::uncommitted::glance;
use crate::ops::overlap::Scene;
use crate::wire::row::policy::Policy;
use std::collections::btree_map::{BTreeMap, Entry};
use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;

/// How many tracked paths are named for a pair.
const EXAMPLES: usize = 5;

/// The comparison of all scopes.
pub(super) struct ScopeComparison {
    /// The number of the scope that each agent has; none for one that may change nothing.
    of: HashMap<usize, usize>,
    /// For two scopes, the lower one first, what they have in common; nothing for two that never meet.
    common: HashMap<(usize, usize), CommonScope>,
}

/// What two scopes have in common.
pub(super) struct CommonScope {
    /// How many tracked paths both allow.
    pub tracked: usize,
    /// The first of these.
    pub examples: Vec<RepoPath>,
    /// A path that both allow, tracked or not; absent where it only could not be ruled out.
    pub example: Option<RepoPath>,
}

/// A scope that one or more agents have.
struct Distinct {
    number: usize,
    scope: Scope,
    language: ScopeLanguage,
}

impl ScopeComparison {
    pub(super) fn compare(ctx: &Ctx, scene: &Scene) -> Result<ScopeComparison> {
        let of = distinct(&ctx.repo, scene)?;
        let mut asked = BTreeMap::new();
        // Agents of one fleet mostly share few scopes, and each pair of those is compared once.
        for (one, two) in &scene.pairs {
            if let (Some(one), Some(two)) = (of.get(one), of.get(two)) {
                let mut pair = [one, two];
                pair.sort_unstable_by_key(|scope| scope.number);
                asked.insert(pair.map(|scope| scope.number), pair);
            }
        }
        let asked: Vec<_> = asked.into_values().collect();
        let meetings = parallel::map(&asked, |[one, two]| one.language.intersection(&two.language));
        let met: Vec<_> = asked
            .into_iter()
            .zip(meetings)
            .filter(|(_, meeting)| *meeting != Intersection::Empty)
            .collect();
        let wanted: Vec<_> = met
            .iter()
            .flat_map(|(pair, _)| pair)
            .map(|scope| (scope.number, *scope))
            .collect::<BTreeMap<_, _>>()
            .into_values()
            .collect();
        let scopes = wanted.iter().map(|distinct| &distinct.scope);
        // Only the scopes that meet are looked up: walking the trees is what takes time.
        let tracked = tracked_paths(ctx, scene, scopes.collect())?;
        let allowed = parallel::map(&wanted, |distinct| allowed(&distinct.scope, &tracked));
        let numbers = wanted.iter().map(|distinct| distinct.number);
        let allowed: HashMap<usize, _> = numbers.zip(allowed).collect();
        let allowed = |scope: &Distinct| allowed.get(&scope.number).map_or(&[][..], Vec::as_slice);
        let common = met.into_iter().map(|([one, two], meeting)| {
            let both = intersection(allowed(one), allowed(two));
            let examples: Vec<RepoPath> =
                both.iter().take(EXAMPLES).map(|(_, path)| (*path).clone()).collect();
            let example = match meeting {
                Intersection::Witness(path) => Some(path),
                Intersection::Empty | Intersection::Unknown => None,
            };
            let common = CommonScope {
                tracked: both.len(),
                example: examples.first().cloned().or(example),
                examples,
            };
            ((one.number, two.number), common)
        });
        Ok(ScopeComparison {
            common: common.collect(),
            of: { of.iter() }.map(|(agent, scope)| (*agent, scope.number)).collect(),
        })
    }

    /// What two agents may both touch.
    pub(super) fn common(&self, one: usize, two: usize) -> Option<&CommonScope> {
        let (one, two) = (self.of.get(&one)?, self.of.get(&two)?);
        self.common.get(&(*one.min(two), *one.max(two)))
    }
}

impl Distinct {
    fn new(repo: &Repo, number: usize, policy: &Policy) -> Result<Distinct, String> {
        Ok(Distinct { number, scope: scope_of(repo, policy)?, language: policy.language()? })
    }
}

/// The scope that each agent has. A fleet often shares a few.
fn distinct(repo: &Repo, scene: &Scene) -> Result<HashMap<usize, Arc<Distinct>>> {
    let mut known = BTreeMap::<_, Arc<Distinct>>::new();
    let mut of = HashMap::new();
    for (index, live) in scene.agents.iter().enumerate() {
        // One that may change nothing meets no other.
        let Some(policy) = live.policy.as_ref().filter(|policy| policy.edits) else {
            continue;
        };
        let number = known.len();
        let scope = match known.entry((&policy.whitelist, &policy.denylist, &policy.opened)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                new.insert(Arc::new(Distinct::new(repo, number, policy).map_err(|why| {
                    let what = format!("the policy of agent {} cannot be used", live.agent.id);
                    Error::new(Code::RepoCorrupt, what).because(why)
                })?))
            }
        };
        of.insert(index, scope.clone());
    }
    Ok(of)
}

/// The paths of every branch that some agent lands on, ordered by comparison form, but for those in
/// directories where none of the scopes allows anything.
fn tracked_paths(ctx: &Ctx, scene: &Scene, scopes: Vec<&Scope>) -> Result<Vec<RepoPath>> {
    let bases = scene.agents.iter().filter_map(|live| {
        let started = live.agent.base.as_ref().map(|base| base.oid);
        // Paths are those of the branch that the work lands on, as far as it is here.
        live.target_tip.or(started)
    });
    // An agent of another clone may have started from what is not here.
    let bases = bases.filter(|commit| ctx.repo.has_object(*commit));
    let trees: BTreeSet<Oid> = bases
        .collect::<BTreeSet<Oid>>()
        .into_iter()
        .map(|commit| ctx.repo.tree_of(commit))
        .collect::<Result<_>>()?;
    let mut gathered = Gathered { scopes, paths: Vec::new() };
    for tree in trees {
        ctx.repo.walk_tracked(tree, &mut gathered)?;
    }
    let mut paths = gathered.paths;
    // In the order in which `allowed` searches.
    paths.sort_unstable_by(|one, two| one.comparison_form().cmp(two.comparison_form()));
    paths.dedup();
    Ok(paths)
}

struct Gathered<'s> {
    scopes: Vec<&'s Scope>,
    paths: Vec<RepoPath>,
}

impl Visitor for Gathered<'_> {
    fn enters(&mut self, directory: &RepoPath) -> bool {
        let mut scopes = self.scopes.iter();
        scopes.any(|scope| scope.beginnings().may_allow_below(directory))
    }

    fn visit(&mut self, path: &RepoPath) -> ControlFlow<()> {
        self.paths.push(path.clone());
        ControlFlow::Continue(())
    }
}

/// A tracked path with its place among all of them.
type Tracked<'t> = (usize, &'t RepoPath);

/// The paths that a scope allows, ascending. Only what begins as its globs do is looked at.
fn allowed<'t>(scope: &Scope, tracked: &'t [RepoPath]) -> Vec<Tracked<'t>> {
    let mut allowed = Vec::new();
    for beginning in scope.beginnings().iter() {
        let beginning = beginning.as_bytes();
        let start = tracked.partition_point(|path| path.comparison_form() < beginning);
        let here = tracked.iter().enumerate().skip(start);
        allowed.extend(
            here.take_while(|(_, path)| path.comparison_form().starts_with(beginning))
                .filter(|(_, path)| scope.decide(path).is_allowed()),
        );
    }
    allowed
}

/// What two ascending lists have in common.
fn intersection<'t>(one: &[Tracked<'t>], two: &[Tracked<'t>]) -> Vec<Tracked<'t>> {
    let (mut one, mut two) = (one.iter().peekable(), two.iter().peekable());
    let mut both = Vec::new();
    while let (Some(first), Some(second)) = (one.peek(), two.peek()) {
        match first.0.cmp(&second.0) {
            std::cmp::Ordering::Less => one.next(),
            std::cmp::Ordering::Greater => two.next(),
            std::cmp::Ordering::Equal => {
                both.push(**first);
                one.next();
                two.next()
            }
        };
    }
    both
}

// What agents have touched since their bases.

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
    let Scene { agents, changes, problems, .. } = scene;
    let rules = ctx.ignore_rules()?;
    let scratch = ctx.temporary_place();
    // Looking at the files is nearly all of the work.
    let seed = ctx.seed();
    // Without one of its own a thread opens every worktree as a repository, which is slower.
    let open = || seed.open().ok();
    let asked = |own: &Option<Ctx>, live: &Work| match &live.place {
        Some(place) => glance(&Glance {
            repo: own.as_ref().map(|own| &own.repo),
            top: &place.path,
            admin_dir: &place.admin_dir,
            rules: &rules.without(live.bundle_dir()),
            scratch: &scratch,
        }),
        None => Ok(Vec::new()),
    };
    let uncommitted = parallel::map_with(agents, open, asked);
    let histories = Histories::of(agents.iter().map(|live| &live.agent));
    for (index, (live, uncommitted)) in agents.iter().zip(uncommitted).enumerate() {
        if live.tip.is_none() && live.agent.branch.is_some() {
            let branch = live.agent.branch.as_deref().unwrap_or_default();
            let problem = format!("its branch {branch} is not here");
            problems.push((live.agent.id, problem));
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
                changes.insert(index, Changes::of(live.tip, &committed, &uncommitted));
            }
            Err(error) => {
                let problem = format!("its work could not be read: {error}");
                problems.push((live.agent.id, problem));
            }
        }
    }
    Ok(())
}

impl Changes {
    fn of(tip: Option<Oid>, committed: &[Change], uncommitted: &[Change]) -> Changes {
        let mut changes = Changes {
            tip,
            uncommitted: uncommitted.iter().map(|change| change.path.clone()).collect(),
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
    let is_at_top = !path.contains(&b'/');
    path::directories(path).chain(is_at_top.then_some(&b""[..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(list: &[(&str, ChangeKind)]) -> Changes {
        let list: Vec<Change> = list
            .iter()
            .map(|(path, kind)| Change { kind: *kind, ..Change::named(*path) })
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
        check(&[("old/a", Deleted), ("new/a", Added)], &[("old/b/c", Added)], true);
        check(&[("old/a", Deleted)], &[("new/b", Added)], false);
        check(&[("a", Deleted), ("sub/a", Added)], &[("b", Added)], true);
    }
}
