//! Worktrees of agents whose admin directory is gone, as after `rm -r .git/worktrees/agent-…`: git knows
//! nothing of them any more, and the files in them belong to no agent.
//!
//! The cure makes the admin directory anew, with an index that says what the branch's tip says; no file of the
//! worktree is touched, so whatever was written is modified or untracked again. What was only staged went with the
//! old index. The git hooks that were set there are put back by their own family.

use crate::agents::ctx::Ctx;
use crate::agents::worktree;
use crate::domain::agent::{Agent, State};
use crate::domain::diagnosis::Sign;
use crate::domain::oid::Oid;
use crate::error::Result;
use crate::git::command;
use crate::git::files::admin_dir::belongs_to;
use crate::git::worktree::NewWorktree;
use crate::ops::doctor::Finding;
use crate::ops::doctor::survey::Survey;
use crate::ops::doctor::worktrees::{TAKEN_CARE_OF, alone};
use crate::store::agent_branch::OwnBranch;
use crate::store::{fsx, layout, lock};
use std::path::{Path, PathBuf};

pub(super) fn look<'a>(ctx: &'a Ctx, survey: &'a Survey) -> impl Iterator<Item = Finding> + 'a {
    // Discarding what has landed needs the admin directory too.
    let made = |agent: &&Agent| agent.state != State::Spawning;
    survey.rows().iter().filter(made).filter_map(|agent| {
        let path = survey.places.as_ref()?.of(agent)?;
        let admin = worktree::admin_dir(&ctx.repo, agent.id);
        let is_unlinked = is_unlinked(&path, &admin) && survey.is_at_rest(ctx, agent);
        is_unlinked.then(|| finding(ctx, agent, path, admin))
    })
}

fn is_unlinked(path: &Path, admin: &Path) -> bool {
    admin.symlink_metadata().is_err() && belongs_to(path, admin)
}

fn finding(ctx: &Ctx, agent: &Agent, path: PathBuf, admin: PathBuf) -> Finding {
    let what = format!(
        "the admin directory of {}, where agent {} works, is gone: {}",
        path.display(),
        agent.id.short(),
        admin.display()
    );
    match free_tip(ctx, agent) {
        Some(_) => {
            let agent = agent.clone();
            Finding::curable(Sign::AdminGone, what, move |ctx| {
                make_again(ctx, &agent, &path, &admin)
            })
        }
        None => Finding::report(
            Sign::AdminGone,
            what,
            format!("mv '{}' <elsewhere>", path.display()),
        ),
    }
}

/// Where the agent's branch is, unless it is gone or checked out in another worktree.
fn free_tip(ctx: &Ctx, agent: &Agent) -> Option<Oid> {
    let own = OwnBranch::of(&ctx.repo, agent).ok()??;
    let is_free = ctx
        .repo
        .checkouts(own.name())
        .is_ok_and(|all| all.is_empty());
    own.tip().oid().filter(|_| is_free)
}

fn make_again(ctx: &Ctx, agent: &Agent, path: &Path, admin: &Path) -> Result<String> {
    let common = ctx.repo.common_dir();
    let _alone = alone(ctx, agent.id)?;
    let _spawns = lock::hold(common, layout::SPAWN_LOCK)?;
    let branch = agent.branch.as_deref().unwrap_or_default();
    let (Some(tip), true) = (free_tip(ctx, agent), is_unlinked(path, admin)) else {
        return Ok(TAKEN_CARE_OF.to_owned());
    };
    let scratch = layout::tmp_dir(common);
    let new = NewWorktree {
        name: &layout::worktree_name(agent.id),
        path,
        branch: Some(branch),
        commit: tip,
        scratch: &fsx::unique_name(&scratch.join("admin")),
        lock_reason: &layout::lock_reason(agent.id),
        identity: &ctx.identities()?.committer,
    };
    ctx.repo.add_admin_dir(&new, |half_made| {
        let mut git = command::git(common);
        git.env("GIT_DIR", common)
            .env("GIT_INDEX_FILE", half_made.join("index"))
            .args(["read-tree", &tip.to_hex()]);
        command::successful(git).map(|_| ())
    })?;
    // Nothing is in it any more.
    let _ = std::fs::remove_dir(new.scratch);
    Ok(format!(
        "made {} again; what was only staged is not in its index",
        admin.display()
    ))
}
