//! Work that was built upon another agent's, once that has landed in another form than its commits, as a squash is.
//!
//! ```text
//! main ── squash of A                     main ── squash of A ── b'   what is offered of B
//!    └─ spawn A ── a ── spawn B ── b
//! ```
//!
//! The commits below are A's then, and are on the branch in another form; what is B's is what came on top of them.

use crate::agents::context::{ctx::Ctx, histories::landed_there};
use crate::agents::who::lookup;
use crate::agents::work::{merged_trees, simulated, tip_of};
use crate::domain::{Agent, AgentId, Oid, State, What};
use crate::error::{Code, Result};
use crate::git::Repo;
use crate::git::refs::remote::RemoteRefs;
use crate::git::repo::Resolved;
use crate::store::landing::replay::Replay;
use crate::store::landing::spawn_commit::AGENTS_BRANCHES;
use crate::store::landing::{landed, replay};
use std::borrow::Cow;
use std::collections::HashSet;
use std::time::Instant;

/// Where work that was built upon another agent's lands.
pub(crate) struct Aim<'a> {
    /// The full name of the branch.
    pub target: String,
    /// The agent whose branch that is.
    pub below: Option<&'a Agent>,
    /// Whether that is another branch than the one where the agent began.
    pub is_anew: bool,
}

/// Where work lands that began on the branch `began`: there, or, where that is the branch of an agent whose work has landed, where that
/// landed. A stack may have landed in part; each agent below that has landed is passed over. `is_on` says of one whose row does not
/// tell so whether a branch has its work.
///
/// # Errors
/// Those of `is_on`.
pub(crate) fn aim(
    began: String,
    agents: &[Agent],
    is_on: impl Fn(&Agent, &str) -> Result<bool>,
) -> Result<Aim<'_>> {
    aim_within(began, agents, &is_on, agents.len())
}

/// As [`aim`], of a stack of so many at most: a row that names its own branch as its base would never end this.
fn aim_within<'a>(
    began: String,
    agents: &'a [Agent],
    is_on: &dyn Fn(&Agent, &str) -> Result<bool>,
    most: usize,
) -> Result<Aim<'a>> {
    let below = agents.iter().find(|other| other.branch.as_ref() == Some(&began));
    let here = |target| Aim { target, below, is_anew: false };
    let (Some(below), Some(most)) = (below, most.checked_sub(1)) else {
        return Ok(here(began));
    };
    let landed = below.landed.as_ref().filter(|_| below.state == State::Merged);
    let base = below.base.as_ref().and_then(|base| base.refname.as_ref());
    let next = match (landed, base) {
        (Some((_, into)), _) => into.clone(),
        // What it was built upon may have landed, too, and its branch be gone since.
        (None, Some(base)) => aim_within(base.clone(), agents, is_on, most)?.target,
        (None, None) => return Ok(here(began)),
    };
    if next == began || landed.is_none() && !is_on(below, &next)? {
        return Ok(here(began));
    }
    Ok(Aim { is_anew: true, ..aim_within(next, agents, is_on, most)? })
}

/// The full name of the branch that an agent's work lands on, as far as this clone knows; `None` for one that began at a commit.
///
/// # Errors
/// Those of the ledger and of reading objects.
pub(crate) fn target_of(ctx: &Ctx, agent: &Agent) -> Result<Option<String>> {
    let Some(began) = agents_branch(agent) else {
        // Nearly all begin on a branch that is no agent's, and need no look at others.
        let name = agent.base.as_ref().and_then(|base| base.refname.as_deref());
        return Ok(name.map(|name| ctx.repo.branch_behind(name)));
    };
    Ok(Some(target_among(ctx, began.to_owned(), &lookup::agents(ctx)?)?))
}

/// The agent's branch that an agent began on.
fn agents_branch(agent: &Agent) -> Option<&str> {
    let name = agent.base.as_ref()?.refname.as_deref()?;
    name.starts_with(AGENTS_BRANCHES).then_some(name)
}

fn target_among(ctx: &Ctx, began: String, agents: &[Agent]) -> Result<String> {
    let is_on = |below: &Agent, branch: &str| -> Result<bool> {
        let Some(target) = ctx.repo.branch_tip(branch)?.oid() else {
            return Ok(false);
        };
        let tip = last_tips(ctx, below)?.into_iter().next();
        tip.map_or(Ok(false), |tip| has_landed(&ctx.repo, below, tip, target))
    };
    Ok(ctx.repo.branch_behind(&aim(began, agents, is_on)?.target))
}

/// The same agents, those of a stack as if they had begun on the branch that they land on by now. Where that cannot be told they are as
/// they were.
pub(crate) fn aimed<'a>(
    ctx: &Ctx,
    agents: impl IntoIterator<Item = &'a Agent>,
) -> Vec<Cow<'a, Agent>> {
    let mut all = None;
    let mut aim_at = |agent: &Agent| -> Option<Agent> {
        let began = agents_branch(agent)?;
        let all = all.get_or_insert_with(|| lookup::agents(ctx).unwrap_or_default());
        Some(aimed_at(agent, target_among(ctx, began.to_owned(), all).ok()?))
    };
    let each = agents.into_iter();
    each.map(|agent| aim_at(agent).map_or(Cow::Borrowed(agent), Cow::Owned)).collect()
}

/// As [`aimed`], of one agent.
pub(crate) fn aimed_one<'a>(ctx: &Ctx, agent: &'a Agent) -> Cow<'a, Agent> {
    let target = agents_branch(agent).and_then(|_| target_of(ctx, agent).ok()?);
    target.map_or(Cow::Borrowed(agent), |target| Cow::Owned(aimed_at(agent, target)))
}

/// The same agent as if it had begun on that branch.
pub(crate) fn aimed_at(agent: &Agent, branch: String) -> Agent {
    let mut aimed = agent.clone();
    if let Some(base) = &mut aimed.base {
        base.refname = Some(branch);
    }
    aimed
}

/// As [`landed_there`], of agents that may be of a stack.
///
/// # Errors
/// As [`landed_there`].
pub(crate) fn have_landed_there(
    ctx: &Ctx,
    remote: &str,
    listed: &RemoteRefs,
    works: &[(&Agent, Oid)],
    end: Instant,
) -> Result<HashSet<AgentId>> {
    let aimed = aimed(ctx, works.iter().map(|(agent, _)| *agent));
    let tips = works.iter().map(|(_, tip)| *tip);
    let works: Vec<_> = aimed.iter().map(AsRef::as_ref).zip(tips).collect();
    landed_there(ctx, remote, listed, &works, end)
}

/// The revision that a caller names to land on. A clone that never had the branch knows the remote's.
///
/// # Errors
/// Those of [`Repo::resolve_commit`].
pub(crate) fn landing_revision(repo: &Repo, revision: &str) -> Result<Resolved> {
    repo.resolve_commit(revision).or_else(|error| {
        let copy = format!("refs/remotes/origin/{revision}");
        match error.code() {
            Code::BaseNotCommit => repo.resolve_commit(&copy).map_err(|_| error),
            _ => Err(error),
        }
    })
}

/// The branch to land on and where it is. A clone that never had the branch knows the remote's.
pub(crate) fn base_of(
    ctx: &Ctx,
    agent: &Agent,
    wanted: Option<&str>,
) -> Result<(Option<String>, Option<Oid>)> {
    if let Some(revision) = wanted {
        let resolved = landing_revision(&ctx.repo, revision)?;
        return Ok((resolved.refname, Some(resolved.commit)));
    }
    let Some(name) = target_of(ctx, agent)? else {
        return Ok((None, agent.base.as_ref().map(|base| base.oid)));
    };
    if let Some(oid) = ctx.repo.tip(&name)?.oid() {
        // Work that began at what was fetched is judged against that as long as the branch here has not got so far.
        let ahead = ahead_there(&ctx.repo, agent, (&name, oid))?;
        return Ok(ahead.map_or((Some(name), Some(oid)), |(copy, oid)| (Some(copy), Some(oid))));
    }
    // A clone has the branches of others only as copies.
    let copy = ctx.repo.fetched_branches(&name)?.into_iter().next();
    Ok(match copy {
        Some((copy, oid)) => (Some(copy), Some(oid)),
        None => (Some(name), None),
    })
}

/// The copy of a branch that has the commit where an agent started, and goes on from the branch itself, which has not got there yet.
fn ahead_there(
    repo: &Repo,
    agent: &Agent,
    (name, own): (&str, Oid),
) -> Result<Option<(String, Oid)>> {
    let Some(base) = agent.base.as_ref().filter(|base| base.oid != own) else {
        return Ok(None);
    };
    if base.refname.as_deref() != Some(name) || !repo.has_object(base.oid) {
        return Ok(None);
    }
    if repo.is_ancestor(base.oid, own)? || !repo.is_ancestor(own, base.oid)? {
        return Ok(None);
    }
    for (copy, oid) in repo.fetched_branches(name)? {
        if repo.is_ancestor(base.oid, oid)? {
            return Ok(Some((copy, oid)));
        }
    }
    Ok(None)
}

fn has_landed(repo: &Repo, agent: &Agent, tip: Oid, target: Oid) -> Result<bool> {
    let answers = landed::landed_at(repo, vec![(agent, tip, target)]);
    answers.into_values().next().unwrap_or(Ok(false))
}

/// Where an agent's branch is, or, where it is gone, was when it was removed: a landing by hand or by a forge has no row, and then nothing
/// else tells. Only what is here counts.
fn last_tips(ctx: &Ctx, agent: &Agent) -> Result<Vec<Oid>> {
    if let Ok(tip) = tip_of(ctx, agent) {
        return Ok(vec![tip]);
    }
    let events = ctx.ledger().events(agent.spawn_commit)?.into_iter().rev();
    let removed = events.filter_map(|event| match event.what {
        What::Discarded { tip } => tip,
        _ => None,
    });
    Ok(removed.filter(|tip| ctx.repo.has_object(*tip)).collect())
}

/// The tip of the branch that an agent's was built upon, where `target` has its work and not its commits.
///
/// # Errors
/// Those of the ledger and of reading objects.
pub(crate) fn landed_below(ctx: &Ctx, agent: &Agent, target: Oid) -> Result<Option<Oid>> {
    let Some(base) = &agent.base else {
        return Ok(None);
    };
    let Some(name) = agents_branch(agent) else {
        return Ok(None);
    };
    let repo = &ctx.repo;
    // As it is mostly: the branch that it was built upon is the target, or has landed as it is.
    if repo.is_ancestor(base.oid, target)? {
        return Ok(None);
    }
    let agents = lookup::agents(ctx)?;
    let Some(below) = agents.iter().find(|one| one.branch.as_deref() == Some(name)) else {
        return Ok(None);
    };
    let landed = below.landed_tip.filter(|tip| repo.has_object(*tip));
    for tip in landed.into_iter().chain(last_tips(ctx, below)?) {
        if repo.is_ancestor(base.oid, tip)? {
            let is_there = has_landed(repo, below, tip, target).unwrap_or(false);
            return Ok(is_there.then_some(tip));
        }
    }
    Ok(None)
}

/// The commit that stands for work when git merges it with `target`, where the work that it was built upon is there in another form:
/// what the branch has on top of that, on top of `target`. `None` where git finds the right base itself, and where these conflict.
///
/// # Errors
/// Those of [`landed_below`]; `repo-corrupt`, `git-failed`.
pub(super) fn on_top(ctx: &Ctx, agent: &Agent, target: Oid, work: Oid) -> Result<Option<Oid>> {
    let Some(below) = landed_below(ctx, agent, target)? else {
        return Ok(None);
    };
    // Where the branch was brought up to date since, both sides hold that other form.
    let shared = ctx.repo.merge_base(work, target)?;
    if shared.map_or(Ok(None), |shared| landed_below(ctx, agent, shared))?.is_some() {
        return Ok(None);
    }
    let tree = merged_onto(&ctx.repo, below, target, work)?;
    tree.map(|tree| simulated(&ctx.repo, tree, &[target])).transpose()
}

/// The tree of `target` with what a branch has on top of `below`; `None` where these conflict. The branch may have left `below` before
/// its end, and what came there since is nothing that the branch took away.
fn merged_onto(repo: &Repo, below: Oid, target: Oid, tip: Oid) -> Result<Option<Oid>> {
    let left = repo.merge_base(below, tip)?.unwrap_or(below);
    merged_trees(repo, repo.tree_of(left)?, [repo.tree_of(target)?, repo.tree_of(tip)?])
}

/// What is pushed of a branch onto `target`: its commits without the empty one by which the agent was spawned. Where its beginning, as `begins` gives it
/// for a commit of the target, is there in another form, it is what comes after that. A remote that has this on an earlier commit of the target keeps it
/// there: a target that moves is no reason to push again.
///
/// # Errors
/// Those of `begins`, of reading and of writing objects.
pub(crate) fn offered(
    repo: &Repo,
    agent: &Agent,
    begins: impl Fn(Oid) -> Result<Option<Oid>>,
    (there, target): (Option<Oid>, Oid),
    tip: Oid,
) -> Result<Replay> {
    let Some(below) = begins(target)? else {
        return Replay::to_land(repo, agent, target, tip);
    };
    if let Some(there) = there.filter(|there| repo.has_object(*there))
        && let Some(ground) = replay::ground(repo, agent, there)?
        && repo.is_ancestor(ground, target)?
        && begins(ground)? == Some(below)
    {
        let earlier = rebased(repo, agent, below, ground, tip)?;
        if earlier.holds(there) {
            return Ok(earlier);
        }
    }
    rebased(repo, agent, below, target, tip)
}

/// The agent's own commits one after the other on top of `target`; where they do not apply so, one commit with all that they change.
fn rebased(repo: &Repo, agent: &Agent, below: Oid, target: Oid, tip: Oid) -> Result<Replay> {
    let own = replay::own_commits(repo, agent, &[below, target], tip)?;
    let mut line = replay::ReplayLine::on(repo, target, &own)?;
    for (oid, commit) in &own.commits {
        if commit.is_signed() {
            return Ok(Replay::signed(tip));
        }
        let [parent] = commit.parents()[..] else {
            continue;
        };
        match merged_trees(repo, repo.tree_of(parent)?, [line.tree, repo.tree_of(*oid)?])? {
            Some(tree) => line.push(*oid, commit, tree)?,
            None => break,
        }
    }
    let whole = merged_onto(repo, below, target, tip)?;
    match (whole, own.commits.last()) {
        (Some(whole), Some((oid, last))) if line.tree != whole => {
            let mut line = replay::ReplayLine::on(repo, target, &own)?;
            line.push(*oid, last, whole)?;
            Ok(line.replay())
        }
        _ => Ok(line.replay()),
    }
}
