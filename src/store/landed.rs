//! Which agents' work a branch has already, proved from objects and asked for all of them at once.
//!
//! Work has landed when its tip is an ancestor of the branch; when every path that it changed is there as it left it; when
//! merging it would change nothing; when the commit that its row names is on the branch, and merging the work into that
//! commit's parent makes just that commit's tree; or when merging it conflicts and one commit on the branch itself, since
//! the agent started, makes exactly the same change: squashed and then built upon. The last is looked for among the
//! newest commits only, and white space counts. What is not known counts as not landed, and so does an agent that has
//! committed nothing.

use crate::domain::agent::Agent;
use crate::domain::change::{Change, ChangeKind};
use crate::domain::id::AgentId;
use crate::domain::oid::Oid;
use crate::error::{Error, Result};
use crate::git::Repo;
use crate::git::history::gained::Gained;
use crate::git::refs::Tip;
use std::collections::{BTreeSet, HashMap};

/// How many of a branch's newest commits are searched for one that makes the same change.
const SEARCHED: usize = 1000;

/// What is known of each agent, or why nothing is.
pub type Answers = HashMap<AgentId, Result<bool>>;

/// Committed work whose landing is in question.
struct Work {
    agent: AgentId,
    tip: Oid,
    /// Where it began, and the tree there.
    started: (Oid, Oid),
    /// The tree it led to.
    tree: Oid,
    paths: BTreeSet<Vec<u8>>,
}

/// A branch that may have taken work.
struct Target {
    tip: Oid,
    /// Its history beside those of all work in question; `None` where one pass cannot tell.
    gained: Option<Gained>,
}

/// A commit of a branch.
struct Line {
    parent: Oid,
    /// The trees before and after it.
    trees: (Oid, Oid),
    paths: BTreeSet<Vec<u8>>,
}

/// Whether the branch that an agent's row says it was merged into has its work, whose `tip` is given: here, or as it was fetched from a remote.
/// A row `from_elsewhere` does not choose that branch: it could name one that merely holds the work, such as the agent's
/// own. It has to be the branch that the agent started from.
///
/// # Errors
/// `repo-corrupt`, `git-failed`.
pub fn as_claimed(
    repo: &Repo,
    agent: &Agent,
    tip: Option<Oid>,
    from_elsewhere: bool,
) -> Result<bool> {
    let (Some((_, into)), Some(tip)) = (&agent.landed, tip) else {
        return Ok(false);
    };
    let base = agent.base.as_ref().and_then(|base| base.refname.as_ref());
    if agent.branch.as_ref() == Some(into) || from_elsewhere && base != Some(into) {
        return Ok(false);
    }
    let copies = repo.fetched_branches(into)?.into_iter();
    let targets = std::iter::once(into.clone()).chain(copies.map(|(name, _)| name));
    for target in targets {
        let answer = landed(repo, vec![(agent, tip, target)]);
        if answer.into_values().next().unwrap_or(Ok(false))? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Asks whether a branch has an agent's work, given its tip and the full name of the branch.
pub fn landed(repo: &Repo, questions: Vec<(&Agent, Oid, String)>) -> Answers {
    let mut answers = Answers::new();
    let mut open: HashMap<String, Vec<Work>> = HashMap::new();
    let targets = targets(repo, &questions);
    for (agent, tip, target) in questions {
        let known = targets.get(&target);
        match first_look(repo, agent, tip, &target, known) {
            Ok(Look::Answer(landed)) => drop(answers.insert(agent.id, Ok(landed))),
            Ok(Look::Open(work)) => open.entry(target).or_default().push(work),
            Err(error) => drop(answers.insert(agent.id, Err(error))),
        }
    }
    for (target, works) in open {
        // What is in doubt for all of them is not said of any: they are kept.
        let found = look_closer(repo, &target, &works).unwrap_or_else(|_| vec![false; works.len()]);
        let found = works.iter().zip(found);
        answers.extend(found.map(|(work, landed)| (work.agent, Ok(landed))));
    }
    answers
}

/// The branches that exist among those that are asked about, each read once.
fn targets(repo: &Repo, questions: &[(&Agent, Oid, String)]) -> HashMap<String, Target> {
    let mut tips: HashMap<&String, Vec<Oid>> = HashMap::new();
    for (_, tip, target) in questions {
        tips.entry(target).or_default().push(*tip);
    }
    let mut targets = HashMap::new();
    for (name, tips) in tips {
        if let Ok(Tip::At(tip)) = repo.tip(name) {
            let gained = repo.gained(tip, &tips).ok().flatten();
            targets.insert(name.clone(), Target { tip, gained });
        }
    }
    targets
}

enum Look {
    Answer(bool),
    /// Merging has to tell.
    Open(Work),
}

/// What trees alone can tell.
fn first_look(
    repo: &Repo,
    agent: &Agent,
    tip: Oid,
    name: &str,
    target: Option<&Target>,
) -> Result<Look> {
    let not = Ok(Look::Answer(false));
    let Some(began) = &agent.base else {
        return not;
    };
    let Some(target) = target else {
        // Absent, or unreadable, which is told.
        return repo.tip(name).and(not);
    };
    let base = target.tip;
    let objects = [tip, base, began.oid];
    if objects.iter().any(|oid| !repo.has_object(*oid)) {
        return not;
    }
    // A target that has not moved since cannot have taken anything, nor one that the work contains.
    let (holds_target, is_held) = holding(repo, target, tip)?;
    if base == began.oid || holds_target && base != tip {
        return not;
    }
    let tree_of = |commit| Ok::<_, Error>(repo.read_commit(commit)?.tree);
    let (tree, now, then) = (tree_of(tip)?, tree_of(base)?, tree_of(began.oid)?);
    let changes = repo.tree_changes(&[then], tree)?;
    if changes.is_empty() {
        return not;
    }
    let differing = paths(repo.tree_changes(&[now], tree)?);
    let is_there = changes.iter().all(|one| !differing.contains(&one.path));
    if is_there || is_held || is_brought(repo, agent, tip, base)? {
        return Ok(Look::Answer(true));
    }
    // What was there and is as it was: merging would change it.
    let moved = paths(repo.tree_changes(&[then], now)?);
    let is_untouched = |one: &Change| one.kind != ChangeKind::Added && !moved.contains(&one.path);
    if changes.iter().any(is_untouched) {
        return not;
    }
    let work = Work {
        agent: agent.id,
        tip,
        started: (began.oid, then),
        tree,
        paths: paths(changes),
    };
    Ok(Look::Open(work))
}

/// Whether the work holds the branch, and whether the branch holds the work.
fn holding(repo: &Repo, target: &Target, tip: Oid) -> Result<(bool, bool)> {
    if let Some(gained) = &target.gained
        && let Some(since) = gained.since(tip)
    {
        return Ok((since == 0, gained.holds(tip)));
    }
    let fork = repo.merge_base(target.tip, tip)?;
    // Only in a shallow clone the history between them may be missing.
    let is_held = fork == Some(tip) || repo.is_shallow() && repo.is_ancestor(tip, target.tip)?;
    Ok((fork == Some(target.tip), is_held))
}

/// Whether the commit that the row names as the landing is on the branch and brought exactly this work.
fn is_brought(repo: &Repo, agent: &Agent, tip: Oid, base: Oid) -> Result<bool> {
    let Some((commit, _)) = agent
        .landed
        .as_ref()
        .filter(|(commit, _)| repo.has_object(*commit))
    else {
        return Ok(false);
    };
    let landing = repo.read_commit(*commit)?;
    let Some(parent) = landing.parents.first().filter(|oid| repo.has_object(**oid)) else {
        return Ok(false);
    };
    if repo.read_commit(*parent)?.tree == landing.tree || !repo.is_ancestor(*commit, base)? {
        return Ok(false);
    }
    Ok(repo.clean_merges(*parent, &[tip])? == [Some(landing.tree)])
}

/// What merges and the branch's own commits tell.
fn look_closer(repo: &Repo, target: &str, works: &[Work]) -> Result<Vec<bool>> {
    let Tip::At(tip) = repo.tip(target)? else {
        return Ok(vec![false; works.len()]);
    };
    let tree = repo.read_commit(tip)?.tree;
    let tips: Vec<Oid> = works.iter().map(|work| work.tip).collect();
    let merged = repo.clean_merges(tip, &tips)?;
    let conflicting = works.iter().zip(&merged).filter(|(_, tree)| tree.is_none());
    let beginnings = conflicting.map(|(work, _)| work.started.0).collect();
    let line = line(repo, tip, beginnings)?;
    let answer = |(work, merged): (&Work, &Option<Oid>)| match merged {
        // What merges cleanly and would change something is not there, or was taken back.
        Some(merged) => Ok(*merged == tree),
        None => was_made(repo, &line, work),
    };
    works.iter().zip(&merged).map(answer).collect()
}

/// The newest commits of a branch along first parents, the newest first, back to the oldest beginning.
fn line(repo: &Repo, tip: Oid, mut beginnings: BTreeSet<Oid>) -> Result<Vec<Line>> {
    let mut line = Vec::new();
    let (mut commit, mut after) = (tip, repo.read_commit(tip)?);
    while line.len() < SEARCHED {
        beginnings.remove(&commit);
        // A shallow clone ends somewhere.
        let parent = after.parents.first().filter(|oid| repo.has_object(**oid));
        let Some(parent) = parent.copied().filter(|_| !beginnings.is_empty()) else {
            break;
        };
        let before = repo.read_commit(parent)?;
        line.push(Line {
            parent,
            trees: (before.tree, after.tree),
            paths: paths(repo.tree_changes(&[before.tree], after.tree)?),
        });
        (commit, after) = (parent, before);
    }
    Ok(line)
}

/// Whether one commit since the work began makes the same change. Where the line does not lead to the
/// beginning, nothing is known to be since.
fn was_made(repo: &Repo, line: &[Line], work: &Work) -> Result<bool> {
    let (started, then) = work.started;
    let Some(first) = line.iter().position(|one| one.parent == started) else {
        return Ok(false);
    };
    let mut alike = line[..=first]
        .iter()
        .filter(|one| one.paths == work.paths)
        .peekable();
    if alike.peek().is_none() {
        return Ok(false);
    }
    let wanted = repo.patch_id(then, work.tree)?;
    for one in alike {
        if repo.patch_id(one.trees.0, one.trees.1)? == wanted {
            return Ok(true);
        }
    }
    Ok(false)
}

fn paths(changes: Vec<Change>) -> BTreeSet<Vec<u8>> {
    changes.into_iter().map(|change| change.path).collect()
}
