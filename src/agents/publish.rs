//! What a fenced command did in its run repository becomes part of the repository.
//!
//! ```text
//! heads (data) ─> objects and those of git-lfs, by hash ─> branch, by compare-and-swap ─> admin directory ─> [end] .git, run repo removed
//! ```
//!
//! Each step may be repeated, so a publication that was killed is done again from the start by the next command that
//! looks. Where a step is refused, the run repository stays and nothing of it is lost.

use crate::agents::branch_swap;
use crate::agents::ctx::Ctx;
use crate::agents::run_repo::{Heads, RunRepo};
use crate::agents::untrusted;
use crate::domain::{Agent, Isolation, Oid};
use crate::error::Result;
use crate::git::Tip;
use crate::git::objects::quarantine::TakenObjects;
use crate::store::{agent_branch, fsx, keep, layout};
use std::path::PathBuf;

/// What came of a publication.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Published {
    /// Files that the command had changed to lead git elsewhere; they were put back.
    pub restored: Vec<PathBuf>,
    /// What the caller should know, one sentence each.
    pub warnings: Vec<String>,
}

/// The run repository of an agent with a worktree here; `None` for any other.
pub(crate) fn run_repo(ctx: &Ctx, agent: &Agent) -> Option<RunRepo> {
    let branch = agent.branch.as_deref()?;
    if agent.isolation == Some(Isolation::Shared) {
        return None;
    }
    let worktree = ctx.repo.worktree(&layout::worktree_name(agent.id))?;
    Some(RunRepo::of(&ctx.repo, agent.id, &worktree.path, branch))
}

/// Publishes what is there while the command goes on.
///
/// # Errors
/// `git-failed` for commits that are not complete or not well formed; those of the ledger's keep chain and the file
/// system.
pub fn publish(ctx: &Ctx, agent: &Agent, run_repo: &RunRepo) -> Result<Vec<String>> {
    run_repo.settle(|| publish_all(ctx, agent, run_repo))
}

fn publish_all(ctx: &Ctx, agent: &Agent, run_repo: &RunRepo) -> Result<Vec<String>> {
    let mut warnings = Vec::new();
    let heads = run_repo.heads();
    // Known before the objects come in; afterwards all of them are there, and new ones look like
    // old ones.
    let before: Vec<Oid> = others(&heads)
        .filter(|oid| ctx.repo.has_object(*oid))
        .collect();
    // 1. The objects.
    let tips: Vec<Oid> = { [heads.branch, heads.detached].into_iter().flatten() }
        // Of a clone, an earlier attempt may have brought the commit and not all that it leads to.
        .filter(|oid| run_repo.is_clone() || !ctx.repo.has_object(*oid))
        .collect();
    let staging = layout::tmp_dir(ctx.repo.common_dir());
    fsx::create_dir(&staging)?;
    let staging = fsx::unique_name(&staging.join("objects"));
    let taken = if run_repo.is_clone() {
        let known = run_repo.known_packs()?;
        ctx.repo
            .take_missing(&run_repo.objects(), &staging, &known, &tips)?
    } else {
        ctx.repo.take_in(&run_repo.objects(), &staging, &tips)?
    };
    run_repo.take_lfs()?;
    ctx.reached("objects-taken");
    // 2. The branch.
    if let Some(tip) = heads.branch {
        warnings.extend(move_branch(ctx, agent, run_repo, tip)?);
    }
    ctx.reached("branch-moved");
    // 3. Commits that no branch of the repository's has: a stash, a tag, a detached HEAD.
    let detached = heads.detached.filter(|oid| heads.branch != Some(*oid));
    let fresh: Vec<Oid> = { others(&heads).chain(detached) }
        .filter(|oid| !before.contains(oid) && ctx.repo.read_commit(*oid).is_ok())
        .collect();
    // No branch will name them, so without the keep chain the next `git gc` would remove them.
    if !fresh.is_empty() {
        keep::keep(
            &ctx.repo,
            &fresh,
            &format!("run {}", agent.id.short()),
            ctx.now(),
        )?;
        let named = heads.others.iter().filter(|(_, oid)| fresh.contains(oid));
        warnings.extend(named.map(|(name, oid)| {
            format!("the command made {name}, which only its run had; to have it, run git branch <name> {oid}")
        }));
    }
    // 4. Index, HEAD, reflog. Without all objects they would name some that are missing.
    if taken == TakenObjects::All {
        let left = run_repo.carry_back()?;
        warnings.extend(left.iter().map(|file| {
            format!(
                "the command left a {} that git cannot use; it was not taken over",
                file.display()
            )
        }));
    } else {
        warnings.push(
            "some objects that the command left are damaged; what its commits hold was taken over"
                .into(),
        );
    }
    ctx.reached("admin-carried");
    Ok(warnings)
}

/// Publishes what a command left, leads its worktree back and removes the run repository. What cannot be published
/// stays in the run repository, and a warning says so.
///
/// # Errors
/// `io`, `disk-full` when the worktree cannot be led back.
pub fn finish(ctx: &Ctx, agent: &Agent, run_repo: &RunRepo) -> Result<Published> {
    let published = publish(ctx, agent, run_repo);
    // Also where nothing could be published: git in the worktree is to work again, and the run
    // repository stays for the next attempt.
    let restored = run_repo.lead_back()?.into_iter().collect();
    ctx.reached("led-back");
    let warnings = match published {
        Ok(mut warnings) => {
            let seen = run_repo.tip();
            run_repo.remove()?;
            warnings.extend(
                seen.and_then(|seen| catch_up(ctx, agent, seen).err())
                    .map(|error| {
                        format!("what landed on the agent's branch is not in its worktree: {error}")
                    }),
            );
            warnings
        }
        Err(error) => vec![format!(
            "what the command committed could not be taken over ({error}); it is kept in {}",
            run_repo.path().display()
        )],
    };
    Ok(Published { restored, warnings })
}

/// Brings what landed on the branch while the command worked to the worktree, if the command has not taken it over itself.
fn catch_up(ctx: &Ctx, agent: &Agent, seen: Oid) -> Result<()> {
    let Some(branch) = agent.branch.as_deref() else {
        return Ok(());
    };
    let Tip::At(now) = ctx.repo.tip(branch)? else {
        return Ok(());
    };
    if now == seen || !ctx.repo.is_ancestor(seen, now)? {
        return Ok(());
    }
    for checkout in untrusted::checkouts(&ctx.repo, branch, &ctx.temporary_place())? {
        let scratch = branch_swap::index_scratch(&ctx.repo)?;
        drop(checkout.carry(&ctx.repo, (seen, now), &scratch, &|_| {})?);
    }
    Ok(())
}

fn others(heads: &Heads) -> impl Iterator<Item = Oid> {
    heads.others.values().copied()
}

/// Moves the agent's branch to where the command has it.
fn move_branch(ctx: &Ctx, agent: &Agent, run_repo: &RunRepo, tip: Oid) -> Result<Option<String>> {
    let Some(branch) = agent.branch.as_deref() else {
        return Ok(None);
    };
    let (now, known) = (ctx.repo.tip(branch)?, run_repo.known_tip());
    // `known == tip` means that the command has not moved its branch. What others have done with
    // the branch meanwhile then stays.
    if now == Tip::At(tip) || known == Some(tip) {
        run_repo.set_known_tip(tip)?;
        return Ok(None);
    }
    // Where the command has taken over what landed on its branch meanwhile, nothing is lost by going on from there.
    let known = match now {
        Tip::At(now) if ctx.repo.is_ancestor(now, tip)? => Some(now),
        _ => known,
    };
    let who = ctx.identities()?.committer;
    let message = format!("agent: run {}", agent.id.short());
    if agent_branch::advance(&ctx.repo, agent, known, tip, (&who, &message))? {
        run_repo.set_known_tip(tip)?;
        return Ok(None);
    }
    // The compare-and-swap was refused, so no branch holds these commits.
    keep::keep(
        &ctx.repo,
        &[tip],
        &format!("run {}", agent.id.short()),
        ctx.now(),
    )?;
    Ok(Some(format!(
        "{branch} was moved by another process while the command ran, so it stays where it is; to have the command's commits, run git branch <name> {tip}"
    )))
}
