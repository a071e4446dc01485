//! Which agents are provably finished.

use crate::agents::ctx::Ctx;
use crate::agents::work::uncommitted::without_baseline;
use crate::agents::worktree::AgentWorktree;
use crate::agents::{at_work, liveness, worktree};
use crate::domain::agent::{Agent, State};
use crate::error::Result;
use crate::git::changes::Glance;
use crate::git::uncommitted::glance;
use crate::ops::gc::GcOptions;
use crate::store::belief::Closed;
use crate::store::{agent_branch, landed, spawn_commit};

/// Why an agent is finished, or else why it is kept. `landed` is the branch that has its work, `closed` is what this clone has merged or discarded itself.
pub(super) fn why(
    ctx: &Ctx,
    agent: &Agent,
    landed: Option<&str>,
    closed: &Closed,
    options: &GcOptions,
) -> Result<Result<String, String>> {
    // A row that came from elsewhere can claim an end that no object here proves.
    if let Some(claimed) = agent.claimed {
        return Ok(Err(format!(
            "it is {}; its row says {claimed}, which nothing here proves",
            agent.state
        )));
    }
    if liveness::unrecorded_end(ctx.repo.common_dir(), agent).is_some() {
        // Its command may have led git to settings of its own, which are put back when the end is recorded.
        return Ok(Err(format!(
            "its last run died; to record that, run git agent wait {}",
            agent.id.short()
        )));
    }
    if at_work::at_work(ctx, agent).is_some() {
        return Ok(Err("something is at work in it".to_owned()));
    }
    Ok(match agent.state {
        State::Merged | State::Discarded if closed.says(agent.id, State::Discarded) => {
            Ok("it was discarded and left something behind".to_owned())
        }
        State::Merged => is_over(ctx, agent, closed)?,
        State::Discarded => {
            Err("its row says discarded, which was not done in this clone".to_owned())
        }
        State::Spawning => Err("it is being made".to_owned()),
        State::Running | State::Waiting => Err(format!("it is {}", agent.state)),
        State::Rejected if !closed.says(agent.id, State::Rejected) => {
            Err("it was rejected, which was not done in this clone".to_owned())
        }
        State::Rejected => {
            // A row from a clock that is ahead counts as new.
            let age = (ctx.now() - agent.updated).to_std().unwrap_or_default();
            match options.older_than {
                Some(limit) if age >= limit => Ok("it was rejected that long ago".to_owned()),
                Some(_) => Err("it was rejected not long enough ago".to_owned()),
                None => Err("it was rejected; --older-than says when that is over".to_owned()),
            }
        }
        State::Ready | State::Idle | State::Done | State::Failed if agent.deferred => {
            Err("the decision about it was put off".to_owned())
        }
        State::Ready | State::Idle | State::Done | State::Failed => match landed {
            None if agent.state == State::Ready => Err("it is ready".to_owned()),
            None => Err(format!("it is {} and has not landed", agent.state)),
            Some(target) if is_clean(ctx, agent)? => Ok(format!(
                "{} has all of its work",
                target
                    .trim_start_matches("refs/heads/")
                    .trim_start_matches("refs/remotes/")
            )),
            Some(_) => Err(format!(
                "it is {}, its commits have landed, and its worktree holds uncommitted work",
                agent.state
            )),
        },
    })
}

/// What objects say about an agent whose row says that it was merged.
fn is_over(ctx: &Ctx, agent: &Agent, closed: &Closed) -> Result<Result<String, String>> {
    let is_ours = closed.says(agent.id, State::Merged);
    let tip = agent_branch::local(&ctx.repo, agent)?.oid();
    Ok(if !landed::as_claimed(&ctx.repo, agent, tip, !is_ours)? {
        let into = agent.landed.as_ref().map_or("the target", |(_, into)| into);
        Err(format!(
            "it was merged, and {into} does not hold what its branch holds now"
        ))
    } else if is_clean(ctx, agent)? {
        Ok("it was merged".to_owned())
    } else {
        Err("it was merged, and its worktree holds uncommitted work".to_owned())
    })
}

/// Whether nothing in the worktree is uncommitted.
fn is_clean(ctx: &Ctx, agent: &Agent) -> Result<bool> {
    let worktree = worktree::find(&ctx.repo, agent);
    let Some(top) = worktree.filter(|worktree| worktree.exists()) else {
        return Ok(true);
    };
    let policy = spawn_commit::if_here(&ctx.repo, agent)?;
    let bundle_dir = policy.and_then(|policy| policy.bundle_dir);
    let place = AgentWorktree::new(top, worktree::admin_dir(&ctx.repo, agent.id));
    let changes = glance(&Glance {
        repo: Some(&ctx.repo),
        top: &place.path,
        admin_dir: &place.admin_dir,
        rules: &ctx.ignore_rules()?.without(bundle_dir.as_deref()),
        scratch: &ctx.temporary_place(),
    })?;
    let changes = without_baseline(ctx, agent, &place, bundle_dir.as_deref(), changes)?;
    Ok(changes.is_empty())
}
