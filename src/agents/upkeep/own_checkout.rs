//! The worktree of an agent as something that a commit or a merge can be made in.

use crate::agents::context::ctx::Ctx;
use crate::agents::place::worktree;
use crate::agents::upkeep::{clone, publish};
use crate::domain::{Agent, Oid, branch_name, value::shell};
use crate::error::{Code, Error, Remedy, Result};
use crate::git::files::admin_dir::belongs_to;
use crate::git::{Checkout, Repo, Tip, landing};
use crate::store::{files::layout, ledger::agent_branch};

/// The agent's worktree, on the agent's branch and in the middle of nothing.
///
/// # Errors
/// `agent-state`, `worktree-foreign`, `worktree-busy`, each naming the worktree; those of git.
pub(crate) fn own_checkout(ctx: &Ctx, agent: &Agent) -> Result<Checkout> {
    publish::require_caught_up(ctx, agent)?;
    let place = checkout_on_branch(ctx, agent)?;
    if !place.is_busy() {
        return Ok(place);
    }
    let busy = place.busy();
    if place.merge_head().is_none() {
        return Err(busy);
    }
    let what = "to commit the merge once its conflicts are resolved";
    Err(busy.remedy(what, Remedy::CommitMerge(agent.id.short())))
}

/// As [`own_checkout`], whatever is unfinished there.
///
/// # Errors
/// As [`own_checkout`].
pub(crate) fn checkout_on_branch(ctx: &Ctx, agent: &Agent) -> Result<Checkout> {
    let (Some(top), Some(branch)) = (worktree::find(&ctx.repo, agent), &agent.branch) else {
        let what = format!("agent {} is shared and has nothing to commit", agent.id);
        return Err(Error::new(Code::AgentState, what));
    };
    require_no_clone(ctx, agent, "to commit there", "commit")?;
    // A commit there moves the branch. A row alone does not make it the agent's.
    require_own_branch(ctx, agent)?;
    let admin_dir = worktree::admin_dir(&ctx.repo, agent.id);
    if !top.is_dir() {
        return Err(worktree::gone(agent));
    }
    if !belongs_to(&top, &admin_dir) {
        return Err(Error::new(
            Code::WorktreeForeign,
            format!("the worktree of agent {} is not at {}", agent.id, top.display()),
        )
        .hint("to see where the worktrees are, run git worktree list"));
    }
    if !admin_dir.is_dir() {
        return Err(worktree::unlinked(&top, &admin_dir, Code::AgentState));
    }
    let name = layout::worktree_name(agent.id);
    let place = landing::linked_at(&ctx.repo, &name, &top, &ctx.temporary_place())?;
    let head = place.head();
    if head != format!("ref: {branch}") {
        // In the middle of a rebase git refuses to switch.
        if place.is_busy() {
            return Err(place.busy());
        }
        let what = format!("HEAD of {} is not on {branch}", top.display());
        let on = head.strip_prefix("ref: ").unwrap_or(&head);
        let back = Remedy::GitIn(place.git_place(), way_back(&ctx.repo, agent, on)?);
        return Err(Error::new(Code::WorktreeBusy, what).remedy("to put it back", back));
    }
    Ok(place)
}

/// Refuses an agent whose files and branch are in a clone of its own, where git does what is wanted: `way` is what it is called with. What is made
/// here would be made of what was taken in last.
///
/// # Errors
/// `agent-state`.
pub(crate) fn require_no_clone(ctx: &Ctx, agent: &Agent, wish: &str, way: &str) -> Result<()> {
    if !clone::is_one(ctx, agent.id) {
        return Ok(());
    }
    let place = worktree::find(&ctx.repo, agent).unwrap_or_default();
    let id = agent.id.short();
    let what = format!("agent {id} works in a clone of its own, and so are its commits made");
    let hint = format!("{wish}, run git -C {} {way}", shell::path(&place));
    Err(Error::new(Code::AgentState, what).hint(hint))
}

/// What git is to be called with, in turn, to lead HEAD back to an agent's branch from what it names, a ref or a commit, so that no
/// commit of the agent's is left behind. Those of others, on whose branch it may be, stay where they are.
///
/// # Errors
/// Those of refs and of reading history.
pub(crate) fn way_back(repo: &Repo, agent: &Agent, on: &str) -> Result<Vec<String>> {
    let branch = agent.branch.as_deref().unwrap_or_default();
    let name = shell::word(branch_name(branch).as_bytes());
    let at = Oid::from_hex(on).or(repo.tip(on).ok().and_then(|tip| tip.oid()));
    let at = at.filter(|at| repo.has_object(*at));
    let (Some(at), Tip::At(tip)) = (at, repo.tip(branch)?) else {
        return Ok(vec![format!("switch {name}")]);
    };
    let ahead = repo.divergence(tip, at, Some(tip))?.ahead;
    let ahead: Vec<Oid> = ahead.into_iter().map(|lineage| lineage.oid).collect();
    let mut branches = repo.refs_below("refs/heads/")?;
    branches.extend(repo.refs_below("refs/remotes/")?);
    branches.retain(|(name, tip)| name != branch && repo.has_object(*tip));
    let tips: Vec<Oid> = branches.into_iter().map(|(_, tip)| tip).collect();
    let unnamed = repo.unreachable(&ahead, &tips)?;
    let id = agent.id.to_string();
    let has_id = |oid: Oid| {
        let commit = repo.read_commit(oid);
        commit.is_ok_and(|commit| commit.trailer("Agent-Id") == Some(id.as_str()))
    };
    let is_own = |oid: &Oid| unnamed.contains(oid) || has_id(*oid);
    let own: Vec<Oid> = ahead.iter().copied().filter(is_own).collect();
    let switch = format!("switch {name}");
    let is_all = own.len() == ahead.len();
    if is_all && !own.is_empty() && repo.is_ancestor(tip, at)? {
        return Ok(vec![format!("switch -C {name}")]);
    }
    // Git picks no merge.
    let is_merge = |oid: &Oid| repo.read_commit(*oid).is_ok_and(|commit| commit.parents.len() > 1);
    let (merges, own): (Vec<Oid>, Vec<Oid>) = own.into_iter().partition(is_merge);
    Ok(if own.is_empty() {
        vec![switch]
    } else if !is_all || !merges.is_empty() {
        let own: Vec<_> = own.iter().map(|oid| oid.short()).collect();
        vec![switch, format!("cherry-pick {}", own.join(" "))]
    } else {
        vec![switch, format!("cherry-pick ..{}", at.short())]
    })
}

/// Refuses a branch that only a row calls the agent's: it is not moved, pushed or made again.
///
/// # Errors
/// `branch-foreign`; `io`.
pub(crate) fn require_own_branch(ctx: &Ctx, agent: &Agent) -> Result<()> {
    let Some(branch) = agent.branch.as_deref() else {
        return Ok(());
    };
    if agent_branch::own_name(&ctx.repo, agent)?.is_some() {
        return Ok(());
    }
    let what = format!("nothing in this clone proves that {branch} is this agent's branch");
    Err(Error::new(Code::BranchForeign, what)
        .hint(format!("to see where it comes from, run git reflog show {branch}")))
}
