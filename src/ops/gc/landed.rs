//! Which agents' work the branch they started from has already, asked for all of them at once.
//!
//! Work has landed when every path that it changed is there as it left it, or when merging it would
//! change nothing, or when merging it conflicts and one commit on the branch itself, since the agent
//! started, makes exactly the same change: squashed and then built upon. The last is looked for among the
//! newest commits only, and white space counts. Whatever is not known is taken for not landed.

use crate::domain::agent::Agent;
use crate::domain::change::{Change, ChangeKind};
use crate::domain::id::AgentId;
use crate::domain::oid::Oid;
use crate::error::{Error, Result};
use crate::git::refs::Tip;
use crate::ops::Ctx;
use crate::store::agent_branch;
use std::collections::{BTreeSet, HashMap};

/// How many of a branch's newest commits are searched for one that makes the same change.
const SEARCHED: usize = 1000;

/// What is known of each agent, or why nothing is.
pub(super) type Answers = HashMap<AgentId, Result<bool>>;

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

/// A commit of a branch.
struct Line {
    parent: Oid,
    /// The trees before and after it.
    trees: (Oid, Oid),
    paths: BTreeSet<Vec<u8>>,
}

/// Asks for all agents; those with nothing to ask about are not in the answer.
pub(super) fn landed<'a>(ctx: &Ctx, agents: impl Iterator<Item = &'a Agent>) -> Answers {
    let mut answers = Answers::new();
    let mut open: HashMap<String, Vec<Work>> = HashMap::new();
    for agent in agents {
        match first_look(ctx, agent) {
            Ok(Look::Answer(landed)) => drop(answers.insert(agent.id, Ok(landed))),
            Ok(Look::Open(target, work)) => open.entry(target).or_default().push(work),
            Err(error) => drop(answers.insert(agent.id, Err(error))),
        }
    }
    for (target, works) in open {
        // What is in doubt for all of them is not said of any: they are kept.
        let found = look_closer(ctx, &target, &works).unwrap_or_else(|_| vec![false; works.len()]);
        let found = works.iter().zip(found);
        answers.extend(found.map(|(work, landed)| (work.agent, Ok(landed))));
    }
    answers
}

enum Look {
    Answer(bool),
    /// The branch to look at, and the work.
    Open(String, Work),
}

/// What trees alone can tell.
fn first_look(ctx: &Ctx, agent: &Agent) -> Result<Look> {
    let repo = &ctx.repo;
    let not = Ok(Look::Answer(false));
    let Some(began) = &agent.base else {
        return not;
    };
    let Some(target) = &began.refname else {
        return not;
    };
    let tips = (agent_branch::local(repo, agent)?, repo.tip(target)?);
    let (Tip::At(tip), Tip::At(base)) = tips else {
        return not;
    };
    let objects = [tip, base, began.oid];
    if objects.iter().any(|oid| !repo.has_object(*oid)) {
        return not;
    }
    // A target that has not moved since cannot have taken anything, nor one that the work contains.
    if base == began.oid || repo.merge_base(base, tip)? == Some(base) && base != tip {
        return not;
    }
    let tree_of = |commit| Ok::<_, Error>(repo.read_commit(commit)?.tree);
    let (tree, now, then) = (tree_of(tip)?, tree_of(base)?, tree_of(began.oid)?);
    let changes = repo.tree_changes(&[then], tree)?;
    if changes.is_empty() {
        return not;
    }
    let differing = paths(repo.tree_changes(&[now], tree)?);
    if changes.iter().all(|one| !differing.contains(&one.path)) {
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
    Ok(Look::Open(target.clone(), work))
}

/// What merges and the branch's own commits tell.
fn look_closer(ctx: &Ctx, target: &str, works: &[Work]) -> Result<Vec<bool>> {
    let Tip::At(tip) = ctx.repo.tip(target)? else {
        return Ok(vec![false; works.len()]);
    };
    let tree = ctx.repo.read_commit(tip)?.tree;
    let tips: Vec<Oid> = works.iter().map(|work| work.tip).collect();
    let merged = ctx.repo.clean_merges(tip, &tips)?;
    let conflicting = works.iter().zip(&merged).filter(|(_, tree)| tree.is_none());
    let beginnings = conflicting.map(|(work, _)| work.started.0).collect();
    let line = line(ctx, tip, beginnings)?;
    let answer = |(work, merged): (&Work, &Option<Oid>)| match merged {
        // What merges cleanly and would change something is not there, or was taken back.
        Some(merged) => Ok(*merged == tree),
        None => was_made(ctx, &line, work),
    };
    works.iter().zip(&merged).map(answer).collect()
}

/// The newest commits of a branch along first parents, the newest first, back to the oldest beginning.
fn line(ctx: &Ctx, tip: Oid, mut beginnings: BTreeSet<Oid>) -> Result<Vec<Line>> {
    let repo = &ctx.repo;
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
fn was_made(ctx: &Ctx, line: &[Line], work: &Work) -> Result<bool> {
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
    let wanted = ctx.repo.patch_id(then, work.tree)?;
    for one in alike {
        if ctx.repo.patch_id(one.trees.0, one.trees.1)? == wanted {
            return Ok(true);
        }
    }
    Ok(false)
}

fn paths(changes: Vec<Change>) -> BTreeSet<Vec<u8>> {
    changes.into_iter().map(|change| change.path).collect()
}
