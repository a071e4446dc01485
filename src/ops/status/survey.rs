//! Looking at many agents at once, in order, on a few threads; what is asked once for all of them, and the
//! questions that are asked about each.

use crate::agents::context::histories::Histories;
use crate::agents::context::parallel::Queue;
use crate::agents::who::scope_guard::Scopes;
use crate::agents::work::{AsItLands, as_it_lands, is_live, simulated};
use crate::agents::{Ctx, ScopeGuard, Scratch, Work, context::parallel, work};
use crate::domain::judge::evidence::Artefact;
use crate::domain::life::event::Verified;
use crate::domain::{Agent, BundleRule, Change, Isolation, Oid, State};
use crate::error::Result;
use crate::git::changes::ignore::Rules;
use crate::git::{MergeResult, Repo};
use crate::ops::status::{Fact, Look, WorkStatus, landings, standing};
use crate::store::files::layout;
use serde::Serialize;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender};

/// Where the worktrees of agents are, read once for all of them.
pub(in crate::ops) struct Places(HashMap<String, PathBuf>);

impl Places {
    /// Every linked worktree whose directory is there.
    ///
    /// # Errors
    /// Those of [`Repo::worktrees`].
    pub(in crate::ops) fn load(repo: &Repo) -> Result<Places> {
        let worktrees = repo.worktrees()?.into_iter();
        let there = worktrees.filter(|worktree| worktree.path.is_dir());
        Ok(Places(there.map(|worktree| (worktree.name, worktree.path)).collect()))
    }

    /// An agent's worktree, when it is in this clone.
    pub(in crate::ops) fn of(&self, agent: &Agent) -> Option<&Path> {
        let name = layout::worktree_name(agent.id);
        self.0.get(&name).map(PathBuf::as_path)
    }
}

/// Looks at every agent and hands each on as soon as it and all before it are known.
///
/// # Errors
/// Those of opening the repository again; what `on` fails with ends it early.
pub(in crate::ops) fn survey<'a>(
    ctx: &Ctx,
    agents: &[&'a Agent],
    places: &Places,
    mut on: impl FnMut(&'a Agent, WorkStatus) -> Result<()>,
) -> Result<()> {
    let seed = ctx.seed();
    // For all of them at once: the branch's history is read once.
    let landings = landings(ctx, agents);
    let histories = Histories::of(agents.iter().copied());
    let work = |queue: &Queue<(usize, &'a Agent)>, found: Sender<Result<Surveyed<'a>>>| {
        // A handle on a repository belongs to one thread.
        let own = match seed.open() {
            Ok(own) => own,
            Err(error) => {
                // The listener is gone only when another error came first.
                let _ = found.send(Err(error));
                return;
            }
        };
        let common = Surroundings::new(&own, &histories);
        while let Some((index, agent)) = queue.next() {
            let mut status = standing(&common, agent, places.of(agent));
            status.note_landing(&own, agent, &landings);
            // After an error the rest is not needed.
            if found.send(Ok((index, agent, status))).is_err() {
                return;
            }
        }
    };
    let numbered = agents.iter().copied().enumerate().collect();
    let threads = parallel::threads(agents.len());
    parallel::share(numbered, threads, work, |found| in_order(found, &mut on))
}

/// The place of an agent among all, and what is known of it now.
type Surveyed<'a> = (usize, &'a Agent, WorkStatus);

fn in_order<'a>(
    found: Receiver<Result<Surveyed<'a>>>,
    on: &mut impl FnMut(&'a Agent, WorkStatus) -> Result<()>,
) -> Result<()> {
    let mut early = BTreeMap::new();
    let mut due = 0;
    for status in found {
        let (index, agent, standing) = status?;
        early.insert(index, (agent, standing));
        while let Some((agent, standing)) = early.remove(&due) {
            on(agent, standing)?;
            due += 1;
        }
    }
    Ok(())
}

// What the agents of one repository have in common, so that looking at many of them asks for it once.

/// A branch, and where it is.
type BranchAndTip = (Option<String>, Option<Oid>);

/// The surroundings of a look, and what was found out in them before.
pub(super) struct Surroundings<'a> {
    pub(super) ctx: &'a Ctx,
    pub(super) histories: &'a Histories,
    /// Where the branches are that work lands on, by name.
    targets: RefCell<HashMap<String, BranchAndTip>>,
    scopes: Scopes,
    rules: RefCell<Option<Rules>>,
}

impl<'a> Surroundings<'a> {
    pub(super) fn new(ctx: &'a Ctx, histories: &'a Histories) -> Surroundings<'a> {
        Surroundings {
            ctx,
            histories,
            // Each thread has one of these, so nothing in it is locked.
            targets: RefCell::default(),
            scopes: Scopes::default(),
            rules: RefCell::default(),
        }
    }

    /// What decides which untracked files of an agent's worktree count.
    ///
    /// # Errors
    /// Those of [`Ctx::ignore_rules`].
    pub(super) fn rules(&self, bundle_dir: Option<&str>) -> Result<Rules> {
        let mut known = self.rules.borrow_mut();
        let rules = match &*known {
            Some(rules) => rules,
            None => &*known.insert(self.ctx.ignore_rules()?),
        };
        Ok(rules.without(bundle_dir))
    }

    /// The branch that an agent's work would land on, and the commit.
    pub(super) fn target(&self, agent: &Agent) -> BranchAndTip {
        let find = || work::base_of(self.ctx, agent, None).unwrap_or_default();
        let name = agent.base.as_ref().and_then(|base| base.refname.as_ref());
        match name {
            None => find(),
            Some(name) => {
                let mut targets = self.targets.borrow_mut();
                targets.entry(name.clone()).or_insert_with(find).clone()
            }
        }
    }

    /// What binds an agent; `None` where that cannot be read. For one that has nothing `here`, neither
    /// branch nor worktree, a missing policy is not looked for again among packs that have come since
    /// the repository was opened: in a clone that fetched many rows, that is most of the work.
    pub(super) fn fence(&self, agent: &Agent, here: bool) -> Option<ScopeGuard<'a>> {
        let is_known = |oid| self.ctx.repo.is_at_hand(oid);
        if !here && !is_known(agent.policy?) && !is_known(agent.spawn_commit) {
            return None;
        }
        ScopeGuard::among(&self.ctx.repo, agent.clone(), &self.scopes).ok()
    }
}

// Whether finished work still merges with what it would land on.
//
// Everyone who lands something may take that away from others, who learn of it when they land. It costs a merge in the
// object database, so no listing asks: the board and the report do, for finished work whose target has moved on.

/// What the answer depends on besides the agent's row; `None` where the work cannot conflict with what has landed.
pub(in crate::ops) type MergeKey = (Fact<String>, Option<String>, Fact<usize>, Fact<String>);

pub(in crate::ops) fn merge_key(agent: &Agent, status: &WorkStatus) -> Option<MergeKey> {
    let is_asked = agent.state == State::Done
        && !agent.deferred
        && status.verdict_word.known() != Some(&"landed")
        && status.behind.known().is_some_and(|behind| *behind > 0);
    let target = status.target.known().and_then(|target| target.oid.clone());
    let (tip, active_at) = (status.tip.clone(), status.active_at.clone());
    is_asked.then_some((tip, target, status.uncommitted, active_at))
}

/// Merges the work, committed or not, with its target. Everything that this writes goes away with a directory of its own.
///
/// # Errors
/// Those of reading the worktree and of git.
pub(in crate::ops) fn conflicts(ctx: &Ctx, agent: &Agent, status: &WorkStatus) -> Result<bool> {
    let work = Work::look_up(ctx, agent.clone())?;
    let (Some(tip), Some(target)) = (work.tip, work.target_tip) else {
        return Ok(false);
    };
    let scratch = Scratch::make(ctx, "conflict")?;
    let ctx = ctx.with_scratch_objects(scratch.path())?;
    let commit = match status.uncommitted.known() {
        None | Some(0) => tip,
        Some(_) => simulated(&ctx.repo, work.tree(&ctx)?, &[tip])?,
    };
    let merge = match as_it_lands(&ctx, agent, target, commit)? {
        AsItLands::Merged(merge) => merge,
        AsItLands::Commit(ours) => ctx.repo.merge(ours, target)?,
    };
    Ok(matches!(merge.result, MergeResult::Conflicts { .. }))
}

// How many paths an agent touched that it may not.

/// A branch with more commits of its own is for `verify` to look through.
const MOST_COMMITS: usize = 500;

/// The paths out of scope in any commit of the branch or in the worktree; `None` when that is not cheap to
/// say for certain.
pub(super) fn paths_out(look: &Look<'_>) -> Option<usize> {
    let (fence, commits) = (look.fence.as_ref()?, &look.apart.as_ref()?.own);
    if commits.len() > MOST_COMMITS {
        return None;
    }
    let mut out = BTreeSet::new();
    for commit in commits {
        let repo = &look.ctx.repo;
        let changes = repo.commit_changes(*commit).ok()?;
        let violations = fence.judge(&changes, BundleRule::NeverCommitted).ok()?;
        // A merge may differ from all its parents only because git put their changes together.
        if !violations.is_empty() && repo.read_commit(*commit).ok()?.parents.len() > 1 {
            return None;
        }
        out.extend(violations.into_iter().map(|violation| violation.path));
    }
    let changes = look.changes.known()?;
    let violations = fence.judge(changes, BundleRule::Writable).ok()?;
    out.extend(violations.into_iter().map(|violation| violation.path));
    Some(out.len())
}

// Whether the last verdict is still about what there is.

pub(super) const ACCEPTED: &str = "accepted";
const REJECTED: &str = "rejected";
pub(super) const STALE: &str = "stale";
const NONE: &str = "none";

/// How the last verdict came out, whatever happened since.
pub(super) fn recorded_verdict(agent: &Agent) -> &'static str {
    match &agent.verdict {
        None => NONE,
        Some(verdict) if verdict.accepted => ACCEPTED,
        Some(_) => REJECTED,
    }
}

/// The verdict, `stale` when anything that it names has changed; `None` when that cannot be told. What is in the
/// worktree of another clone is left to that clone.
pub(super) fn verdict_now(look: &Look<'_>, artefacts: Option<&[Artefact]>) -> Option<&'static str> {
    let Some(verdict) = &look.agent.verdict else {
        return Some(NONE);
    };
    let tip = look.tip?;
    let target = match look.target {
        Some(target) => target,
        // Where the target is gone, it counts as it was when the agent began.
        None => look.agent.base.as_ref()?.oid,
    };
    let moved = !is_about(look, verdict, tip)?
        || verdict.base != target && is_about_target(verdict)
        || look.agent.binding_policy() != Some(verdict.policy)
        || !(look.is_elsewhere() || is_bundle(&look.ctx.repo, verdict, artefacts?));
    if moved || !is_tree(look, verdict, tip)? {
        return Some(STALE);
    }
    Some(recorded_verdict(look.agent))
}

/// Whether a verdict is about this tip: the one that it names, or the commit of just what was judged on top of that.
fn is_about(look: &Look<'_>, verdict: &Verified, tip: Oid) -> Option<bool> {
    if verdict.tip == tip {
        return Some(true);
    }
    let repo = &look.ctx.repo;
    let commit = repo.read_commit(tip).ok()?;
    // Of several commits only the last tree was judged, and an empty one is something new.
    let is_next = commit.parents == [verdict.tip] && commit.tree == verdict.tree;
    Some(is_next && repo.read_commit(verdict.tip).ok()?.tree != verdict.tree)
}

/// Whether nothing of a verdict is left once the target has moved: it rejects for how the work would land on it, and for
/// nothing else. What an accepting one says of the work itself stands.
fn is_about_target(verdict: &Verified) -> bool {
    let is_of_target = |code: &String| code.starts_with("merge.") || code.starts_with("commands.");
    !verdict.accepted && verdict.findings.iter().all(is_of_target)
}

/// Whether committing everything would still make the tree that was judged.
fn is_tree(look: &Look<'_>, verdict: &Verified, tip: Oid) -> Option<bool> {
    let of_tip = look.ctx.repo.read_commit(tip).ok()?.tree == verdict.tree;
    if look.agent.isolation == Some(Isolation::Shared) {
        return Some(of_tip);
    }
    match &look.changes {
        Fact::Known(changes) if changes.is_empty() || of_tip => Some(changes.is_empty() && of_tip),
        // The usual case: the agent committed nothing, and what it wrote was judged.
        Fact::Known(_) => {
            let fence = look.fence.as_ref()?;
            let tree = work::tree_to_judge(look.ctx, look.agent, look.worktree?, fence.policy());
            Some(tree.ok()? == verdict.tree)
        }
        _ if of_tip => Some(true),
        _ => None,
    }
}

/// Whether the bundle is the one that the verdict kept.
fn is_bundle(repo: &Repo, verdict: &Verified, artefacts: &[Artefact]) -> bool {
    let texts: BTreeMap<&[u8], &str> = artefacts
        .iter()
        .filter_map(|artefact| Some((artefact.name.as_bytes(), artefact.text.as_deref().ok()?)))
        .collect();
    let Some(tree) = verdict.bundle else {
        return texts.is_empty();
    };
    let Ok(kept) = repo.read_tree(tree) else {
        return false;
    };
    kept.len() == texts.len()
        && kept.iter().all(|entry| {
            let blob = repo.read_blob(entry.oid).ok();
            blob.as_deref() == texts.get(entry.name.as_slice()).map(|text| text.as_bytes())
        })
}

// With how many others of those that are looked at an agent shares touched paths: the `changes` question of
// `overlap`, from what looking has read anyway. No merge is tried.

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
    if is_live(look.agent) { Fact::of(paths(look).ok_or(())) } else { Fact::NotApplicable }
}

fn paths(look: &Look<'_>) -> Option<BTreeSet<Vec<u8>>> {
    let uncommitted = match (look.changes.known(), look.worktree) {
        (Some(changes), _) => changes.as_slice(),
        // It is somewhere else, and what it has committed is here.
        (None, None) => &[],
        (None, Some(_)) => return None,
    };
    let (repo, tip) = (&look.ctx.repo, look.tip?);
    let known = look.apart.as_ref().and_then(|apart| apart.fork).filter(|fork| *fork != tip);
    let fork = match known {
        Some(fork) => fork,
        None => work::fork(repo, look.agent, look.target, Some(tip)).ok()?,
    };
    let trees = (repo.read_commit(fork).ok()?.tree, repo.read_commit(tip).ok()?.tree);
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
                return if touched.is_absent() { Fact::NotApplicable } else { Fact::Unknown };
            };
            let (mut agents, mut paths) = (0, 0);
            for path in touched {
                let others = owners.get(path.as_slice()).into_iter().flatten();
                let before = paths;
                for other in others.filter(|other| **other != index) {
                    paths = before + 1;
                    let last = met_by.get_mut(*other);
                    let last = last.map(|last| std::mem::replace(last, index));
                    agents += usize::from(last != Some(index));
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
            crowd.add(&mut WorkStatus { touched, ..WorkStatus::default() });
        }
        let count = |agents, paths| Fact::Known(OverlapCount { agents, paths });
        let no_one = Fact::NotApplicable;
        let expected =
            [count(2, 3), count(1, 2), count(1, 1), no_one, no_one, Fact::Unknown, no_one];
        assert_eq!(crowd.count(), expected);
    }
}
