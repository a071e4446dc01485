//! A discarded agent back at its old places, so that work on it can go on.
//!
//! The branch comes first, then the files, filled beside their place, then git's record of the worktree with an
//! index that holds them, then the rename into place. What a kill leaves is what an interrupted discard leaves,
//! and the same command goes on. The row is told last: until then the agent is a discarded one.

use crate::agents::ctx::Ctx;
use crate::agents::own_checkout::require_own_branch;
use crate::agents::real_path::real_path;
use crate::agents::{half_made, hooks, worktree};
use crate::domain::agent::{Agent, Move};
use crate::domain::event::{Isolation, WORKTREE, What};
use crate::domain::oid::Oid;
use crate::error::{Code, Error, IoContext, Result};
use crate::git::files::admin_dir::belongs_to;
use crate::git::program;
use crate::git::refs::Tip;
use crate::git::salvage::{TRAILER, WORK};
use crate::git::worktree::{NewWorktree, set_lock};
use crate::ops::rescue::{RescuePlan, files};
use crate::store::place::RecordedPlaces;
use crate::store::{fsx, layout, lock};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The steps, in order, under the names given to [`crate::agents::ctx::Seams::reached`].
pub const REOPEN_STEPS: [&str; 6] = ["branch", "filled", "linked", "placed", "made", "told"];

/// Checks that the agent's places are known and free, or hold what an interrupted call left.
///
/// # Errors
/// `agent-state` for an agent that had no worktree; `branch-exists`, `path-exists`.
pub(super) fn require_places(ctx: &Ctx, plan: &RescuePlan) -> Result<()> {
    let agent = &plan.agent;
    let (branch, path) = places(ctx, agent)?;
    require_own_branch(ctx, agent)?;
    let tip = ctx.repo.tip(branch)?;
    if tip != Tip::Absent && (tip.oid().is_none() || tip.oid() != plan.tip(ctx)?) {
        return Err(
            Error::new(Code::BranchExists, format!("{branch} exists already")).hint(format!(
                "to have the work as another branch, run git agent rescue {}",
                agent.id.short()
            )),
        );
    }
    let admin = worktree::admin_dir(&ctx.repo, agent.id);
    if belongs_to(&path, &admin) {
        return Ok(());
    }
    files::require_empty(&path)
}

/// Makes branch, worktree and hooks again; gives the worktree and what the caller should know.
///
/// # Errors
/// As [`require_places`]; `lock-timeout` where a process works for the agent; `git-failed`, `io`, `disk-full`; what `record`
/// fails with, which tells the row while nothing can begin to work for the agent.
pub(super) fn execute(
    ctx: &Ctx,
    plan: &RescuePlan,
    record: impl FnOnce() -> Result<()>,
) -> Result<(PathBuf, Option<String>)> {
    let agent = &plan.agent;
    let common = ctx.repo.common_dir();
    fsx::create_dir(&layout::agent_dir(common, agent.id))?;
    let _alone = lock::hold_for(common, &layout::live_lock(agent.id), Duration::ZERO)?;
    // A rescue that was killed has filled a directory beside the place, under a name that is found
    // in no other way.
    half_made::sweep_left_over(ctx)?;
    let (branch, path) = places(ctx, agent)?;
    let tip = plan.tip(ctx)?.ok_or_else(|| plan.only_bundle())?;

    // The branch, created and never moved.
    if ctx.repo.tip(branch)?.oid() != Some(tip) {
        let reason = format!("agent: rescue {}", agent.id.short());
        let who = ctx.identities()?.committer;
        if !ctx.repo.create_branch(branch, tip, &who, &reason)? {
            return Err(Error::new(
                Code::LostRace,
                format!("{branch} was made meanwhile"),
            ));
        }
    }
    ctx.reached("branch");

    // The files, and git's record of them.
    let admin = worktree::admin_dir(&ctx.repo, agent.id);
    let mut warning = None;
    if !belongs_to(&path, &admin) {
        let half_made = fsx::unique_name(&path);
        let placed = place(ctx, plan, &half_made, &path, (branch, tip));
        if placed.is_err() && half_made.exists() {
            fsx::remove_by_trash(common, &half_made)?;
        }
        warning = placed?;
    }
    ctx.reached("placed");

    // What binds it there, and the row.
    let git = program::ask_version(&path)
        .ok()
        .and_then(program::Question::answer);
    hooks::install(ctx, agent.id, &path, git)?;
    set_lock(&admin, &layout::lock_reason(agent.id))?;
    ctx.reached("made");
    record()?;
    ctx.reached("told");
    Ok((path, warning))
}

/// Tells the row that the agent is back.
pub(super) fn record(ctx: &Ctx, agent: &Agent) -> Result<()> {
    let actor = ctx.actor()?;
    ctx.ledger()
        .append_if(agent.spawn_commit, &actor, ctx.now(), |row| {
            row.unwrap_or(agent).may(Move::BringBack)?;
            Ok(What::Rescued {
                to: WORKTREE.to_owned(),
            })
        })?;
    Ok(())
}

fn place(
    ctx: &Ctx,
    plan: &RescuePlan,
    half_made: &Path,
    path: &Path,
    (branch, tip): (&str, Oid),
) -> Result<Option<String>> {
    let above = path.parent().unwrap_or(path);
    fs::create_dir_all(above).at("could not make", above)?;
    let warning = files::fill(ctx, &plan.agent, (plan.commit, plan.bundle), half_made)?;
    ctx.reached("filled");
    let common = ctx.repo.common_dir();
    let admin = worktree::admin_dir(&ctx.repo, plan.agent.id);
    let _spawns = lock::hold(common, layout::SPAWN_LOCK)?;
    // A call that was killed may have come this far, and its admin directory serves.
    if !admin.is_dir() {
        let work = ctx.repo.read_commit(plan.commit.unwrap_or(tip))?;
        let new = NewWorktree {
            name: &layout::worktree_name(plan.agent.id),
            path,
            branch: Some(branch),
            commit: tip,
            scratch: &layout::tmp_dir(common),
            lock_reason: &layout::lock_reason(plan.agent.id),
            identity: &ctx.identities()?.committer,
        };
        // The index holds the salvaged tree, so what was not committed comes back as staged
        // changes.
        let fill = |admin: &Path| ctx.repo.write_index(work.tree, &admin.join("index"));
        ctx.repo.add_admin_dir(&new, fill)?;
    }
    ctx.reached("linked");
    // The way to the admin directory before the name: what appears at the place is a whole
    // worktree.
    ctx.repo.point_worktree(half_made, &admin)?;
    fs::rename(half_made, path).at("could not make", path)?;
    Ok(warning)
}

/// The branch and the worktree that the agent had.
fn places<'a>(ctx: &Ctx, agent: &'a Agent) -> Result<(&'a str, PathBuf)> {
    let path = RecordedPlaces::new(&ctx.repo)?.of(agent);
    // A row names the place: what is written there must not go through a link to somewhere else.
    let path = path.filter(|path| real_path(path).as_deref() == Some(path));
    let path = path.filter(|_| agent.isolation == Some(Isolation::Worktree));
    let id = agent.id.short();
    agent.branch.as_deref().zip(path).ok_or_else(|| {
        let message = format!("agent {id} had no worktree in this clone");
        Error::new(Code::AgentState, message).hint(format!(
            "to have its files, run git agent rescue {id} --to <directory>"
        ))
    })
}

impl RescuePlan {
    /// Where the agent's branch was.
    fn tip(&self, ctx: &Ctx) -> Result<Option<Oid>> {
        let Some(commit) = self.commit else {
            return Ok(None);
        };
        let commit = ctx.repo.read_commit(commit)?;
        let is_work = commit.trailer(TRAILER) == Some(WORK);
        let below = commit.parents.first().filter(|_| is_work);
        Ok(Some(*below.unwrap_or(&commit.oid)))
    }
}
